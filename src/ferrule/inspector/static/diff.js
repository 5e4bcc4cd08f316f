// Two values line by line, as JSON: what is only in the first, what is only in the second, and what is around it.

import { h, say, clip } from "./dom.js";

const MAX_LINES = 1500; // the table of the comparison grows with the product
const CONTEXT = 3;

// Without the commas at the ends: a member that is added after another one does not change that one.
const linesOf = (value) => (JSON.stringify(value, null, 2) ?? "null").split("\n").map((line) => line.replace(/,$/, ""));

/** Return [[sign, line]], sign being " ", "-" or "+", and whether lines were left out. */
export function compareLines(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  const a = before.slice(start, before.length - end);
  const b = after.slice(start, after.length - end);
  const isCut = a.length > MAX_LINES || b.length > MAX_LINES;
  const middle = isCut ? [...a.slice(0, MAX_LINES).map((line) => ["-", line]), ...b.slice(0, MAX_LINES).map((line) => ["+", line])] : longest(a, b);
  return { isCut, lines: [...before.slice(0, start).map((line) => [" ", line]), ...middle, ...before.slice(before.length - end).map((line) => [" ", line])] };
}

/** The longest common subsequence of two lists of lines. */
function longest(a, b) {
  const width = b.length + 1;
  const table = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i * width + j] = a[i] === b[j] ? table[(i + 1) * width + j + 1] + 1 : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
    }
  }
  const made = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { made.push([" ", a[i]]); i++; j++; }
    else if (i < a.length && (j === b.length || table[(i + 1) * width + j] >= table[i * width + j + 1])) { made.push(["-", a[i]]); i++; }
    else { made.push(["+", b[j]]); j++; }
  }
  return made;
}

/** A section with the difference of two values. */
export function diffView(title, before, after) {
  const { lines, isCut } = compareLines(linesOf(before), linesOf(after));
  const changed = lines.filter(([sign]) => sign !== " ").length;
  if (!changed) return h("section", { class: "diff", "aria-label": title }, h("h4", {}, title), h("p", { class: "dim" }, "The same."));
  const isNear = lines.map(() => false);
  lines.forEach(([sign], at) => {
    if (sign !== " ") for (let near = Math.max(0, at - CONTEXT); near <= Math.min(lines.length - 1, at + CONTEXT); near++) isNear[near] = true;
  });
  const list = h("ol", { class: "diff-lines", tabindex: 0, "aria-label": `${title}: lines that differ` });
  let left = 0;
  const gap = () => { if (left) list.append(h("li", { class: "diff-gap dim" }, `${left} equal line${left === 1 ? "" : "s"}`)); left = 0; };
  lines.forEach(([sign, line], at) => {
    if (!isNear[at]) { left++; return; }
    gap();
    const kind = { "-": "removed", "+": "added", " ": "equal" }[sign];
    list.append(h("li", { class: `diff-${kind}` }, h("span", { class: "diff-sign", "aria-label": kind === "equal" ? undefined : kind === "removed" ? "only in the first" : "only in the second", role: kind === "equal" ? undefined : "img" }, sign), h("code", {}, say(clip(line, 1000)))));
  });
  gap();
  return h("section", { class: "diff", "aria-label": title }, h("h4", {}, title), list,
    isCut ? h("p", { class: "dim" }, `More than ${MAX_LINES} lines differ: the first ones of each are shown`) : null);
}
