// Results: text, table, picture, sound, links, JSON. Only media types that a browser shows without running code are
// shown; others can be saved.

import { button, clip, h, longText, newId, roving, save, say, size, visible } from "./dom.js";
import { jsonView } from "./json.js";

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);
const SOUNDS = new Set(["audio/wav", "audio/x-wav", "audio/wave", "audio/mpeg", "audio/mp3", "audio/ogg", "audio/webm", "audio/mp4", "audio/aac", "audio/flac"]);
const MAX_ROWS = 500;

/** Return the views of a tool's result: {before: always visible, views: the tabs, first: the tab that is open}. */
export function resultViews(result, { problem = "", onread } = {}) {
  const views = [];
  const content = Array.isArray(result.content) ? result.content : [];
  if (content.length) views.push(["Content", () => contentView(content, { onread })]);
  const rows = uniformRows(result.structuredContent);
  if (rows) views.push(["Table", () => tableView(rows)]);
  if ("structuredContent" in result) views.push(["Structured", () => jsonView(result.structuredContent, { name: "structured" })]);
  views.push(["Raw", () => jsonView(result, { name: "result" })]);
  const before = [
    result.isError ? h("p", { class: "flag bad" }, "The tool says that it failed.") : null,
    problem ? h("p", { class: "flag bad" }, say(problem)) : null,
  ];
  return { before, views, first: rows ? views.findIndex(([name]) => name === "Table") : 0 };
}

/** Tabs whose views are made when they are opened. */
export function switcher(label, views, first = 0) {
  const panel = h("div", { class: "panel", role: "tabpanel", id: newId("panel"), tabindex: -1 });
  const list = h("div", { role: "tablist", "aria-label": label, class: "subtabs" });
  const show = (at) => {
    tabs.forEach((tab, index) => {
      tab.setAttribute("aria-selected", String(index === at));
      tab.tabIndex = index === at ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", tabs[at].id);
    panel.replaceChildren(views[at][1]());
  };
  const tabs = views.map(([name], at) => button(name, () => show(at), { role: "tab", id: newId("tab"), "aria-controls": panel.id }));
  list.append(...tabs);
  roving(list, "[role=tab]", { horizontal: true, onmove: (tab) => tab.click() });
  show(first);
  return h("div", { class: "switcher" }, list, panel);
}

export function contentView(blocks, { onread } = {}) {
  const box = h("div", { class: "blocks" });
  const shown = blocks.slice(0, 200);
  for (const block of shown) box.append(blockView(block, onread));
  if (blocks.length > shown.length) box.append(h("p", { class: "dim" }, `${blocks.length - shown.length} more blocks: see Raw`));
  return box;
}

export function blockView(block, onread) {
  if (!block || typeof block !== "object") return jsonView(block);
  switch (block.type) {
    case "text": return longText(String(block.text ?? ""));
    case "image":
    case "audio": return mediaView(block.data, block.mimeType, block.type);
    case "resource_link": return linkView(block, onread);
    case "resource": return resourceView(block.resource || {});
    default: return jsonView(block);
  }
}

export function resourceView(resource) {
  const head = h("p", { class: "dim" }, uriView(resource.uri), resource.mimeType ? ` · ${clip(String(resource.mimeType), 80)}` : null);
  if (typeof resource.text === "string") {
    let parsed;
    if (/json/.test(resource.mimeType || "") || /^\s*[[{]/.test(resource.text)) {
      try { parsed = JSON.parse(resource.text); } catch { /* text, then */ }
    }
    if (parsed !== undefined && typeof parsed === "object" && parsed !== null) {
      const views = [["Text", () => longText(resource.text)], ["JSON", () => jsonView(parsed)]];
      const rows = uniformRows(parsed);
      if (rows) views.push(["Table", () => tableView(rows)]);
      return h("div", { class: "block" }, head, switcher("Contents", views));
    }
    return h("div", { class: "block" }, head, longText(resource.text));
  }
  if (typeof resource.blob === "string") {
    const kind = String(resource.mimeType || "").startsWith("audio/") ? "audio" : "image";
    return h("div", { class: "block" }, head, mediaView(resource.blob, resource.mimeType, kind));
  }
  return h("div", { class: "block" }, head, jsonView(resource));
}

/** The bytes of base64; an exception if the text is not base64. */
export const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

function mediaView(data, mimeType, kind) {
  const mime = String(mimeType || "").split(";")[0].trim().toLowerCase();
  let bytes;
  try {
    bytes = fromBase64(String(data ?? "").replace(/\s+/g, ""));
  } catch {
    return h("p", { class: "flag bad" }, `This ${kind} is not base64.`);
  }
  const about = `${clip(mime || "unknown type", 60)}, ${size(bytes.length)}`;
  const isShown = kind === "image" ? PICTURES.has(mime) : SOUNDS.has(mime);
  const blob = new Blob([bytes], { type: isShown ? mime : "application/octet-stream" });
  const saver = button("Save", () => save(`${kind}.${mime.split("/")[1] || "bin"}`, blob), { class: "small" });
  const caption = h("figcaption", { class: "row dim" }, about, saver);
  if (!isShown) return h("figure", { class: "media" }, h("p", { class: "dim" }, `Not shown: this kind of ${kind} can be saved only.`), caption);
  const url = URL.createObjectURL(blob);
  const figure = h("figure", { class: "media" }, caption);
  const broken = () => figure.prepend(h("p", { class: "flag bad" }, `This ${kind} is broken: the browser cannot show it.`));
  const media = kind === "image"
    ? h("img", { src: url, alt: `Image from the server, ${about}`, onerror: () => { media.remove(); broken(); } })
    : h("audio", { src: url, controls: true, "aria-label": `Sound from the server, ${about}`, onerror: () => { media.remove(); broken(); } });
  figure.prepend(media);
  return figure;
}

/** A URI as text; an http or https one can be opened and shows its host. */
export function uriView(uri, length = 600) {
  const text = String(uri ?? "");
  let isWeb = false;
  try { isWeb = ["http:", "https:"].includes(new URL(text).protocol); } catch { /* no URL */ }
  const shown = h("code", { class: "uri" }, visible(clip(text, length)));
  return isWeb ? h("a", { href: text, target: "_blank", rel: "noopener noreferrer", referrerpolicy: "no-referrer" }, shown) : shown;
}

function linkView(link, onread) {
  return h("div", { class: "block link" },
    h("p", {}, h("strong", {}, say(link.title || link.name || "Resource")), link.mimeType ? h("span", { class: "dim" }, ` · ${clip(String(link.mimeType), 80)}`) : null),
    link.description ? h("p", {}, say(link.description)) : null,
    h("p", { class: "row" }, uriView(link.uri), onread ? button("Read", () => onread(String(link.uri)), { class: "small" }) : null));
}

// -- tables ----------------------------------------------------------------------------------------------------------

/** Return the rows of a value (or of its only list) if all have the same members, else null. */
export function uniformRows(value) {
  let rows = value;
  if (rows && typeof rows === "object" && !Array.isArray(rows)) {
    const lists = Object.values(rows).filter(Array.isArray);
    if (lists.length !== 1) return null;
    rows = lists[0];
  }
  if (!Array.isArray(rows) || rows.length < 1) return null;
  const isRow = (row) => row && typeof row === "object" && !Array.isArray(row);
  if (!rows.every(isRow)) return null;
  const columns = Object.keys(rows[0]);
  if (!columns.length || columns.length > 40) return null;
  return rows.every((row) => Object.keys(row).every((key) => columns.includes(key))) ? { columns, rows } : null;
}

export function tableView({ columns, rows }) {
  const isNumber = columns.map((name) => rows.every((row) => row[name] === null || row[name] === undefined || typeof row[name] === "number"));
  const cell = (value) => (value === undefined ? "" : value !== null && typeof value === "object" ? clip(JSON.stringify(value), 300) : clip(String(value), 300));
  const body = h("tbody", {}, rows.slice(0, MAX_ROWS).map((row) => h("tr", {},
    columns.map((name, at) => h("td", isNumber[at] ? { class: "number" } : {}, say(cell(row[name])))))));
  return h("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": "Table" },
    h("table", {}, h("thead", {}, h("tr", {}, columns.map((name, at) => h("th", { scope: "col", class: isNumber[at] ? "number" : undefined }, say(name))))), body),
    h("p", { class: "dim" }, `${rows.length} row${rows.length === 1 ? "" : "s"}${rows.length > MAX_ROWS ? `, the first ${MAX_ROWS} shown` : ""}`));
}
