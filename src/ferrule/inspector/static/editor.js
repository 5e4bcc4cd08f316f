// The arguments of a call as JSON: an editor with line numbers, and what is wrong with the text while it is written.
//
// The inspector's process judges the value by the schema (`POST /api/check`), with the library that servers use; here
// only the line of each path is found. A problem with the schema does not keep the text from being sent: a server's
// answer to wrong arguments is worth a look, too.

import { call } from "./api.js";
import { button, fill, h, newId, say, withEscapes } from "./dom.js";
import { isContainer, parseExact } from "./exact.js";
import { firstError, lineOfPath } from "./jsontext.js";

const PAUSE_MS = 250;
const LEAST_ROWS = 12;
const MOST_ROWS = 30;
const MAX_GUTTER_LINES = 20000;

export function jsonEditor(schema, value) {
  const id = newId("editor");
  const area = h("textarea", { id, class: "mono editor", spellcheck: "false", wrap: "off", autocapitalize: "off", autocomplete: "off",
    "aria-describedby": `${id}-problem ${id}-about` });
  area.value = withEscapes(JSON.stringify(value ?? {}, null, 2));
  area.rows = Math.min(MOST_ROWS, Math.max(LEAST_ROWS, area.value.split("\n").length + 1));
  const gutter = h("div", { class: "gutter", "aria-hidden": "true" });
  const problem = h("p", { class: "problem", id: `${id}-problem`, hidden: true });
  const about = h("div", { class: "editor-problems", id: `${id}-about`, role: "status" });
  let timer = 0;
  let asked = 0;

  function number() {
    const lines = Math.min(MAX_GUTTER_LINES, area.value.split("\n").length);
    if (gutter.childElementCount !== lines) fill(gutter, Array.from({ length: lines }, (_, at) => h("span", {}, String(at + 1))));
    gutter.scrollTop = area.scrollTop;
  }

  function mark(lines) {
    for (const [at, each] of [...gutter.children].entries()) each.classList.toggle("bad", lines.has(at + 1));
  }

  /** The value, or null after its problem was shown. */
  function parsed() {
    try {
      const found = area.value.trim() === "" ? {} : parseExact(area.value);
      const isObject = isContainer(found) && !Array.isArray(found);
      complain(isObject ? "" : "Arguments are a JSON object: {…}.");
      return isObject ? { found } : null;
    } catch (error) {
      const place = firstError(area.value);
      complain(place ? `No JSON, line ${place.line}, column ${place.column}: ${place.text}.` : `No JSON: ${error.message}`);
      mark(new Set(place ? [place.line] : []));
      return null;
    }
  }

  function complain(text) {
    problem.hidden = !text;
    problem.textContent = text;
    if (text) area.setAttribute("aria-invalid", "true");
    else area.removeAttribute("aria-invalid");
  }

  async function check() {
    const mine = ++asked;
    const now = parsed();
    if (now === null) { fill(about); return; }
    let problems;
    try {
      ({ problems } = await call("check", { schema, value: now.found }));
    } catch (error) {
      problems = [{ path: null, text: `The arguments were not checked: ${error.message}` }];
    }
    if (mine !== asked) return;
    const text = area.value;
    const shown = problems.map((each) => ({ ...each, line: each.path ? lineOfPath(text, each.path) : 0 }));
    fill(about, h("ul", {}, shown.length ? shown.map((each) => h("li", {}, each.line ? button(`Line ${each.line}`, () => goTo(each.line), { class: "small" }) : null, " ",
      each.path?.length ? h("code", {}, say(pathText(each.path))) : null, " ", say(each.text))) : h("li", { class: "dim" }, "The schema is satisfied.")));
    mark(new Set(shown.map((each) => each.line)));
  }

  function goTo(line) {
    const lines = area.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    area.focus();
    area.setSelectionRange(start, start + lines[line - 1].length);
    area.scrollTop = Math.max(0, (line - 4) * (area.scrollHeight / lines.length));
  }

  const indent = () => { const now = parsed(); if (now) { area.value = withEscapes(JSON.stringify(now.found, null, 2)); number(); check(); } };
  area.addEventListener("input", () => { complain(""); number(); clearTimeout(timer); timer = setTimeout(check, PAUSE_MS); });
  area.addEventListener("scroll", () => { gutter.scrollTop = area.scrollTop; });
  number();
  timer = setTimeout(check, 0);
  return {
    element: h("div", { class: "field json-editor" },
      h("div", { class: "caption" }, h("label", { for: id, class: "field-name" }, "Arguments as JSON"), h("span", { class: "grow" }), button("Indent", indent, { class: "small" })),
      h("div", { class: "editor-box" }, gutter, area), problem, about),
    focus: () => area.focus(),
    peek() { try { return parseExact(area.value.trim() || "{}"); } catch { return area.value; } },
    /** The text, which need not be JSON. */
    get text() { return area.value; },
    set text(text) { area.value = text; number(); check(); },
    read() {
      const now = parsed();
      return now === null ? { value: undefined, problems: [problem.textContent] } : { value: now.found, problems: [] };
    },
  };
}

const pathText = (path) => path.map((step) => (typeof step === "number" ? `[${step}]` : /^[\w$-]+$/.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`)).join("").replace(/^\./, "");
