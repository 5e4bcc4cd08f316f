// A JSON value as a tree that is built as it is opened. Numbers are shown as they were written.

import { button, clip, copy, h, longText, save, size, visible } from "./dom.js";
import { isContainer, isNumber } from "./exact.js";

const CHILDREN = 100;
const OPEN_CHARACTERS = 1200;
const LONG_STRING = 2000;

export function jsonView(value, { open = true, name = "json" } = {}) {
  const text = JSON.stringify(value) ?? "null"; // indented only when asked for: deep values would grow a thousandfold
  const indented = () => {
    try { return JSON.stringify(value, null, 2) ?? "null"; } catch { return text; }
  };
  const bar = h("div", { class: "row json-bar" },
    h("span", { class: "dim" }, size(text.length)),
    button("Copy JSON", () => copy(indented(), "JSON copied"), { class: "small" }),
    text.length > 20000 ? button("Save", () => save(`${name}.json`, new Blob([indented()])), { class: "small" }) : null);
  const isSmall = text.length < OPEN_CHARACTERS;
  return h("div", { class: "json" }, bar, h("div", { class: "json-tree", tabindex: 0, role: "group", "aria-label": "JSON" },
    node(null, value, open ? (isSmall ? 12 : 2) : 0)));
}

function node(key, value, depth) {
  const label = key === null ? null : h("span", { class: "json-key" }, visible(clip(String(key), 200)), ": ");
  if (!isContainer(value)) return h("div", { class: "json-line" }, label, scalar(value));
  const isList = Array.isArray(value);
  const entries = isList ? value : Object.keys(value);
  const [opening, closing] = isList ? "[]" : "{}";
  if (entries.length === 0) return h("div", { class: "json-line" }, label, `${opening}${closing}`);
  const inside = h("div", { class: "json-inside" });
  let shown = 0;
  const more = () => {
    const until = Math.min(entries.length, shown + CHILDREN);
    for (; shown < until; shown++) {
      inside.append(isList ? node(shown, value[shown], depth - 1) : node(entries[shown], value[entries[shown]], depth - 1));
    }
    if (shown < entries.length) {
      const rest = button(`Show ${Math.min(CHILDREN, entries.length - shown).toLocaleString("en")} more of ${(entries.length - shown).toLocaleString("en")}`, () => {
        const before = rest.previousElementSibling;
        rest.remove();
        more();
        (inside.querySelector(":scope > button") ?? before?.nextElementSibling?.querySelector("summary"))?.focus();
      }, { class: "small" });
      inside.append(rest);
    }
  };
  const count = `${entries.length.toLocaleString("en")} ${isList ? "item" : "key"}${entries.length === 1 ? "" : "s"}`;
  const details = h("details", { class: "json-node" },
    h("summary", {}, label, opening, h("span", { class: "dim" }, ` ${count} `), closing), inside);
  details.addEventListener("toggle", () => { if (details.open && shown === 0) more(); });
  if (depth > 0) {
    more();
    details.open = true;
  }
  return details;
}

function scalar(value) {
  if (typeof value === "string") {
    if (value.length > LONG_STRING) return h("span", { class: "json-string" }, longText(value));
    return h("span", { class: "json-string", dir: "ltr" }, "\"", h("bdi", {}, visible(value)), "\"");
  }
  return h("span", { class: isNumber(value) ? "json-number" : "json-word" }, String(value));
}
