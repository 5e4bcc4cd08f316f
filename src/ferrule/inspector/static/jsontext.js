// Places in a JSON text: the first one at which it is no JSON, and the line of a value.

const TOKEN = /\s*(?:("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)(?!\w))|([{}[\],:])|$)/y;

/** Where a text stops being JSON, as {line, column, text}; null for JSON. Browsers say it each in its own words, or not. */
export function firstError(text) {
  const inside = [];
  let wanted = "value"; // or: value or ], name, name or }, :, comma, end
  const after = () => (inside.length ? "comma" : "end");
  TOKEN.lastIndex = 0;
  for (;;) {
    const start = TOKEN.lastIndex;
    const found = TOKEN.exec(text);
    const [all, string, word, sign] = found || [""];
    const at = found ? start + all.length - (string || word || sign || "").length : start + /^\s*/.exec(text.slice(start))[0].length;
    const closes = sign === "}" || sign === "]" ? (inside.at(-1) === (sign === "}" ? "{" : "[")) && (wanted === "comma" || wanted === `${sign === "}" ? "name" : "value"} or ${sign}`) : false;
    if (found && !string && !word && !sign) return wanted === "end" ? null : error(text, text.trimEnd().length, "the text ends too early");
    if (closes) { inside.pop(); wanted = after(); } else if (string && wanted.startsWith("name")) wanted = ":";
    else if ((string || word) && wanted.startsWith("value")) wanted = after();
    else if (sign === ":" && wanted === ":") wanted = "value";
    else if (sign === "," && wanted === "comma") wanted = inside.at(-1) === "{" ? "name" : "value";
    else if (sign === "{" && wanted.startsWith("value")) { inside.push("{"); wanted = "name or }"; } else if (sign === "[" && wanted.startsWith("value")) { inside.push("["); wanted = "value or ]"; } else {
      if (text[at] === "\"" && !string) return error(text, at, "this text has no end, a line break or an unknown escape");
      const words = { ":": "a colon", comma: `a comma or ${inside.at(-1) === "{" ? "}" : "]"}`, end: "nothing more", name: "a name in double quotes", "name or }": "a name in double quotes or }", value: "a value", "value or ]": "a value or ]" };
      return error(text, at, `${words[wanted]} is expected here`);
    }
  }
}

function error(text, at, why) {
  const before = text.slice(0, at).split("\n");
  return { line: before.length, column: before.at(-1).length + 1, text: why };
}

/** The line on which a value of a JSON text begins; the line of what holds it if there is no such value. */
export function lineOfPath(text, path) {
  let at = 0;
  const space = () => { while (/[\s,:]/.test(text[at] ?? "")) at += 1; };
  const string = () => {
    const start = at;
    for (at += 1; at < text.length && text[at] !== "\""; at += 1) if (text[at] === "\\") at += 1;
    at += 1;
    return text.slice(start, at);
  };
  const skip = () => { // one value, without recursion: it may be nested deeply
    let depth = 0;
    do {
      space();
      if (at >= text.length) return;
      const sign = text[at];
      if (sign === "\"") string();
      else if (sign === "{" || sign === "[") { depth += 1; at += 1; } else if (sign === "}" || sign === "]") { depth -= 1; at += 1; } else while (at < text.length && !/[\s,:\]}]/.test(text[at])) at += 1;
    } while (depth > 0);
  };
  const enter = (step) => { // to the value of one member; whether it is there
    space();
    const opening = text[at];
    if (opening !== "{" && opening !== "[") return false;
    at += 1;
    for (let index = 0; ; index += 1) {
      space();
      if (at >= text.length || text[at] === "}" || text[at] === "]") return false;
      const key = opening === "{" ? JSON.parse(string()) : index;
      space();
      if (key === step) return true;
      skip();
    }
  };
  space();
  let found = at;
  for (const step of path) {
    if (!enter(step)) break;
    found = at;
  }
  return text.slice(0, found).split("\n").length;
}
