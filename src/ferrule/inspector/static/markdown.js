// Markdown of a server as elements: headings, paragraphs, lists, quotes, code, tables, rules, emphasis, links.
//
// A subset of CommonMark and GitHub's tables, made from text by `h` only: HTML in it is text, a picture is a link, and
// only http, https and mailto can be opened, with the host beside a label that says something else. The work is bounded:
// by the length of the text, by the depth of lists and quotes, and each mark looks for its end within one block and
// `REACH` characters only.

import { clip, h, visible } from "./dom.js";

export const MAX_CHARACTERS = 100_000;
const MAX_NESTING = 6;
const MAX_BLOCKS = 2000;
const MAX_CELLS = 5000;
const MAX_SPANS = 5000;
const REACH = 2000;
const INLINE_DEPTH = 4;

const LIST = /^( {0,3})([-*+]|\d{1,9}[.)])(?: +|$)/;
const RULE = /^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$/;
const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const DELIMITER_CELL = /^ *:?-+:? *$/;

/** Whether a text has something that Markdown would show in another way. */
export function isMarkdown(text) {
  const lines = text.slice(0, 20_000).split("\n", 400);
  return lines.some((line, at) => line.length < 2000 && (HEADING.test(line) && /\S/.test(line.replace(/^ *#+/, "")) || FENCE.test(line) || /^ {0,3}(?:[-*+]|\d{1,3}[.)]) +\S/.test(line)
    || /^ {0,3}> ?\S/.test(line) || (at > 0 && isDelimiter(line) && lines[at - 1].includes("|"))
    || /\*\*[^\s*][^*]{0,200}\*\*|`[^`\n]{1,200}`|\[[^\]\n]{1,200}\]\([^)\s]{1,500}\)/.test(line)));
}

const isDelimiter = (line) => line.length < 2000 && line.includes("-") && line.includes("|") && cells(line).every((cell) => DELIMITER_CELL.test(cell));

/** An element with the Markdown of a text. */
export function markdownView(text) {
  const left = { blocks: MAX_BLOCKS, cells: MAX_CELLS, spans: MAX_SPANS };
  const lines = clip(text, MAX_CHARACTERS).replace(/\r\n?/g, "\n").split("\n");
  return h("div", { class: "markdown", dir: "auto" }, blocks(lines, 0, left));
}

// -- blocks -------------------------------------------------------------------------------------------------------------

function blocks(lines, depth, left) {
  const made = [];
  let paragraph = [];
  const close = () => {
    if (paragraph.length) made.push(h("p", { dir: "auto" }, inline(paragraph.join("\n"), left)));
    paragraph = [];
  };
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    if (!line.trim()) { close(); at += 1; continue; }
    left.blocks -= 1;
    if (left.blocks < 0) { // the rest as it is
      close();
      made.push(h("pre", { class: "text" }, visible(lines.slice(at).join("\n"))));
      return made;
    }
    const start = blockAt(lines, at, depth, left, paragraph.length > 0);
    if (start) {
      close();
      made.push(start.element);
      at = start.next;
    } else {
      paragraph.push(line.trim());
      at += 1;
    }
  }
  close();
  return made;
}

/** The block that begins at a line, and the line after it; null in a paragraph. */
function blockAt(lines, at, depth, left, isInParagraph) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return code(lines, at, fence);
  const heading = HEADING.exec(line);
  // Headings of a server begin below those of the page.
  if (heading) return { element: h(`h${Math.min(6, heading[1].length + 2)}`, { dir: "auto" }, inline((heading[2] || "").replace(/[ \t]+#+[ \t]*$/, ""), left)), next: at + 1 };
  if (RULE.test(line)) return { element: h("hr"), next: at + 1 };
  if (depth < MAX_NESTING && /^ {0,3}>/.test(line)) return quote(lines, at, depth, left);
  const item = LIST.exec(line);
  if (item && depth < MAX_NESTING && !(isInParagraph && /^\d/.test(item[2]) && parseInt(item[2], 10) !== 1)) return list(lines, at, item, depth, left);
  if (left.cells > 0 && line.includes("|") && at + 1 < lines.length && isDelimiter(lines[at + 1]) && cells(line).length === cells(lines[at + 1]).length) return table(lines, at, left);
  if (!isInParagraph && /^(?: {4}|\t)/.test(line)) {
    let next = at;
    while (next < lines.length && (/^(?: {4}|\t)/.test(lines[next]) || !lines[next].trim())) next += 1;
    while (!lines[next - 1].trim()) next -= 1;
    return { element: h("pre", { class: "text code" }, visible(lines.slice(at, next).map((each) => each.replace(/^(?: {4}|\t)/, "")).join("\n"))), next };
  }
  return null;
}

function code(lines, at, fence) {
  const mark = fence[1];
  let next = at + 1;
  const isEnd = (line) => { const found = FENCE.exec(line); return found !== null && found[1][0] === mark[0] && found[1].length >= mark.length && !found[2].trim(); };
  while (next < lines.length && !isEnd(lines[next])) next += 1;
  return { element: h("pre", { class: "text code", tabindex: 0 }, visible(lines.slice(at + 1, next).join("\n"))), next: next + 1 };
}

function quote(lines, at, depth, left) {
  let next = at;
  const inside = [];
  while (next < lines.length && (/^ {0,3}>/.test(lines[next]) || (lines[next].trim() && inside.at(-1)?.trim() && !startsBlock(lines[next])))) {
    inside.push(lines[next].replace(/^ {0,3}> ?/, ""));
    next += 1;
  }
  return { element: h("blockquote", {}, blocks(inside, depth + 1, left)), next };
}

const startsBlock = (line) => LIST.test(line) || FENCE.test(line) || HEADING.test(line) || RULE.test(line);

function list(lines, at, first, depth, left) {
  const isOrdered = /^\d/.test(first[2]);
  const sign = first[2].at(-1);
  const items = [];
  let next = at;
  while (next < lines.length) {
    const found = LIST.exec(lines[next]);
    if (!found || found[2].at(-1) !== sign || /^\d/.test(found[2]) !== isOrdered || (RULE.test(lines[next]) && next > at)) break;
    const width = Math.min(found[0].length, found[1].length + found[2].length + 1);
    const inside = [lines[next].slice(width)];
    next += 1;
    while (next < lines.length) {
      const line = lines[next];
      const indent = /^ */.exec(line)[0].length;
      if (!line.trim()) {
        const following = lines[next + 1];
        if (following === undefined || !following.trim() || /^ */.exec(following)[0].length < width) break;
      } else if (indent < width && (startsBlock(line) || !inside.at(-1).trim())) break;
      inside.push(line.slice(Math.min(indent, width)));
      next += 1;
    }
    items.push(inside);
    left.blocks -= 1;
    if (left.blocks < 0) break;
    if (next + 1 < lines.length && !lines[next].trim() && LIST.test(lines[next + 1])) next += 1;
  }
  const start = isOrdered ? parseInt(first[2], 10) : 1;
  return { element: h(isOrdered ? "ol" : "ul", start === 1 ? {} : { start }, items.map((inside) => listItem(inside, depth, left))), next };
}

function listItem(inside, depth, left) {
  const task = /^\[([ xX])\] +/.exec(inside[0]);
  const rest = task ? [inside[0].slice(task[0].length), ...inside.slice(1)] : inside;
  const made = blocks(rest, depth + 1, left);
  // A paragraph alone is the text of its item.
  const flat = made[0]?.tagName === "P" ? [...made[0].childNodes, ...made.slice(1)] : made;
  return h("li", { dir: "auto" }, task ? h("span", { role: "img", "aria-label": task[1] === " " ? "not done" : "done" }, task[1] === " " ? "☐ " : "☑ ") : null, flat);
}

/** The cells of a line of a table; "\|" is a sign, not a border. */
function cells(line) {
  const found = [];
  let cell = "";
  const text = line.trim().replace(/^\|/, "");
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === "\\" && text[at + 1] === "|") { cell += "|"; at += 1; } else if (text[at] === "|") { found.push(cell); cell = ""; } else cell += text[at];
  }
  if (cell.trim() || !text.endsWith("|")) found.push(cell);
  return found;
}

function table(lines, at, left) {
  const names = cells(lines[at]);
  const sides = cells(lines[at + 1]).map((cell) => (/^ *:-+: *$/.test(cell) ? "center" : /-: *$/.test(cell) ? "number" : undefined));
  const rows = [];
  let next = at + 2;
  while (next < lines.length && lines[next].includes("|") && left.cells > 0) {
    left.cells -= names.length;
    rows.push(cells(lines[next]));
    next += 1;
  }
  const row = (tag, found) => h("tr", {}, names.map((_, column) => h(tag, { class: sides[column], scope: tag === "th" ? "col" : undefined, dir: "auto" }, inline((found[column] || "").trim(), left))));
  return { element: h("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": "Table" }, h("table", {}, h("thead", {}, row("th", names)), h("tbody", {}, rows.map((found) => row("td", found))))), next };
}

// -- inside a block -----------------------------------------------------------------------------------------------------

const MARKS = [["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];
const isWord = (character) => character !== undefined && /[\p{L}\p{N}]/u.test(character);

/** The elements of a text; `place` has the depth, and whether it is the label of a link, which has no links inside. */
function inline(text, left, place = { depth: 0, isLabel: false }) {
  const made = [];
  let plain = "";
  const flush = () => { if (plain) made.push(visible(plain)); plain = ""; };
  for (let at = 0; at < text.length;) {
    const found = left.spans > 0 && place.depth <= INLINE_DEPTH ? special(text, at, left, place) : null;
    if (found) {
      left.spans -= 1;
      flush();
      made.push(found.element);
      at = found.next;
      continue;
    }
    if (text[at] === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] || "")) { plain += text[at + 1]; at += 2; continue; }
    // A run of marks that mean nothing is passed at once: each of them would look for its end again.
    const run = /^(?:\*+|_+|~+|`+)/.exec(text.slice(at, at + 200));
    plain += run ? run[0] : text[at];
    at += run ? run[0].length : 1;
  }
  flush();
  return made;
}

/** What a mark at a place begins; null if it is only a character. */
function special(text, at, left, place) {
  const sign = text[at];
  if (sign === "`") return codeSpan(text, at);
  const isLink = sign === "[" || (sign === "!" && text[at + 1] === "[");
  if (isLink) return place.isLabel ? null : link(text, at, left, place);
  if (sign === "<") return place.isLabel ? null : autolink(text, at, /^<((?:https?:\/\/|mailto:)[^\s<>]{1,1000})>/);
  if (sign === "h" && !place.isLabel && text.startsWith("http", at) && !isWord(text[at - 1])) return autolink(text, at, /^(https?:\/\/[^\s<>"'`|\\^{}\p{C}]{1,1000})/u);
  if (sign !== "*" && sign !== "_" && sign !== "~") return null;
  for (const [mark, tag] of MARKS) {
    if (!text.startsWith(mark, at) || /\s/.test(text[at + mark.length] || " ") || (sign === "_" && isWord(text[at - 1]))) continue;
    const end = endOf(text, at + mark.length, mark);
    if (end > 0) return { element: h(tag, {}, inline(text.slice(at + mark.length, end), left, { ...place, depth: place.depth + 1 })), next: end + mark.length };
  }
  return null;
}

/** Where a mark ends; -1 if it does not within reach. */
function endOf(text, from, mark) {
  const limit = Math.min(text.length, from + REACH);
  for (let at = text.indexOf(mark, from + 1); at >= 0 && at < limit; at = text.indexOf(mark, at + mark.length)) {
    const isLonger = mark.length === 1 && (text[at + 1] === mark || text[at - 1] === mark);
    if (!/\s/.test(text[at - 1]) && text[at - 1] !== "\\" && !isLonger && !(mark[0] === "_" && isWord(text[at + mark.length]))) return at;
  }
  return -1;
}

function codeSpan(text, at) {
  const mark = /^`+/.exec(text.slice(at, at + 20))[0];
  const limit = Math.min(text.length, at + REACH);
  for (let end = text.indexOf(mark, at + mark.length); end >= 0 && end < limit; end = text.indexOf(mark, end + mark.length)) {
    if (text[end + mark.length] !== "`" && text[end - 1] !== "`") {
      const inside = text.slice(at + mark.length, end).replace(/^ (.*\S.*) $/s, "$1");
      return { element: h("code", {}, visible(inside)), next: end + mark.length };
    }
  }
  return null;
}

function link(text, at, left, place) {
  const isPicture = text[at] === "!";
  const start = at + (isPicture ? 2 : 1);
  const middle = text.indexOf("](", start);
  if (middle < 0 || middle - start > REACH || text.slice(start, middle).includes("\n\n")) return null;
  const inside = text.slice(start, middle);
  if (inside.includes("[") && !isPicture && !inside.includes("![")) return null;
  const found = /^\]\(\s*<?([^\s<>()]{0,1500}(?:\([^\s<>()]{0,500}\)[^\s<>()]{0,500}){0,3})>?(?:\s+(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'))?\s*\)/.exec(text.slice(middle, middle + 3000));
  if (!found) return null;
  const shown = isPicture ? ["picture: ", visible(inside || "without a text")] : inline(inside, left, { depth: place.depth + 1, isLabel: true });
  return { element: target(found[1], shown, inside), next: middle + found[0].length };
}

function autolink(text, at, form) {
  const found = form.exec(text.slice(at, at + 1100));
  if (!found) return null;
  const address = found[0][0] === "<" ? found[1] : found[1].replace(/[.,;:!?)\]*_~]+$/, "");
  const isWhole = found[0][0] === "<";
  return { element: target(address, visible(address), address), next: at + (isWhole ? found[0].length : address.length) };
}

/** A link, with its host where its text does not begin with it; the address as text if it cannot be opened. */
function target(address, shown, label) {
  let url = null;
  try { url = new URL(address); } catch { /* no address that stands alone */ }
  if (!url || !["http:", "https:", "mailto:"].includes(url.protocol) || url.username || url.password) {
    return h("span", { class: "no-link" }, shown, " ", h("code", { class: "uri" }, visible(clip(address, 300))));
  }
  const made = h("a", { href: url.href, title: clip(url.href, 500), target: "_blank", rel: "noopener noreferrer nofollow", referrerpolicy: "no-referrer" }, shown);
  const place = url.protocol === "mailto:" ? url.pathname : url.host;
  return label === address || label === place ? made : h("span", {}, made, h("span", { class: "dim" }, ` (${clip(place, 100)})`));
}
