// A JSON value as a tree that is built as it is opened.

import { button, clip, copy, h, longText, save, size, visible } from "./dom.js";

const CHILDREN = 100;
const OPEN_CHARACTERS = 1200;

export function jsonView(value, { open = true, name = "json" } = {}) {
  const text = JSON.stringify(value) ?? "null"; // indented only when asked for: deep values would grow a thousandfold
  const indented = () => {
    try { return JSON.stringify(value, null, 2) ?? "null"; } catch { return text; }
  };
  const box = h("div", { class: "json" });
  const bar = h("div", { class: "row json-bar" },
    h("span", { class: "dim" }, size(text.length)),
    button("Copy JSON", () => copy(indented(), "JSON copied"), { class: "small" }),
    text.length > 20000 ? button("Save", () => save(`${name}.json`, new Blob([indented()])), { class: "small" }) : null);
  const isSmall = text.length < OPEN_CHARACTERS;
  box.append(bar, h("div", { class: "json-tree", tabindex: 0, role: "group", "aria-label": "JSON" },
    node(null, value, open ? (isSmall ? 12 : 2) : 0)));
  return box;
}

function node(key, value, depth) {
  const label = key === null ? null : h("span", { class: "json-key" }, visible(clip(String(key), 200)), ": ");
  if (value === null || typeof value !== "object") return h("div", { class: "json-line" }, label, scalar(value));
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
      const rest = button(`${entries.length - shown} more`, () => { rest.remove(); more(); }, { class: "small" });
      inside.append(rest);
    }
  };
  const count = `${entries.length} ${isList ? "item" : "key"}${entries.length === 1 ? "" : "s"}`;
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
    if (value.length > 2000) return h("span", { class: "json-string" }, longText(value));
    return h("span", { class: "json-string", dir: "ltr" }, "\"", h("bdi", {}, visible(value)), "\"");
  }
  return h("span", { class: typeof value === "number" ? "json-number" : "json-word" }, String(value));
}
