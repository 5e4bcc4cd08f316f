// Results: text and Markdown, tables, pictures, sound, links, JSON.

import { button, clip, h, longText, newId, roving, say, visible } from "./dom.js";
import { isContainer, parseExact } from "./exact.js";
import { jsonView } from "./json.js";
import { isMarkdown, markdownView, MAX_CHARACTERS } from "./markdown.js";
import { fromBase64, mediaView, uriView } from "./media.js";
import { pager, tableView, uniformRows } from "./tables.js";

export { fromBase64, tableView, uniformRows, uriView };

const PAGE_BLOCKS = 50;

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
  const show = (first, last) => box.replaceChildren(...blocks.slice(first, last).map((block) => blockView(block, onread)));
  if (blocks.length <= PAGE_BLOCKS) { show(0, blocks.length); return box; }
  return h("div", { class: "blocks" }, box, pager(blocks.length, PAGE_BLOCKS, "block", show));
}

export function blockView(block, onread) {
  if (!isContainer(block)) return jsonView(block);
  switch (block.type) {
    case "text": return textView(String(block.text ?? ""));
    case "image":
    case "audio": return mediaView(block.data, block.mimeType, block.type);
    case "resource_link": return linkView(block, onread);
    case "resource": return resourceView(block.resource || {});
    default: return jsonView(block);
  }
}

let prefersPlain = false;
try { prefersPlain = localStorage.getItem("ferrule-plain-text") === "yes"; } catch { /* not kept, then */ }

/** A text; Markdown as Markdown, with a button for the text as it is. The choice is kept for the texts that come later. */
export function textView(text, { isProse = false, isMarked = isMarkdown(text) } = {}) {
  const asText = () => longText(text, isProse ? { class: "text prose" } : {});
  if (!isMarked) return asText();
  const place = h("div", { class: "either" });
  const toggle = button("Plain text", () => {
    prefersPlain = toggle.getAttribute("aria-pressed") !== "true";
    try { localStorage.setItem("ferrule-plain-text", prefersPlain ? "yes" : "no"); } catch { /* not kept, then */ }
    show();
  }, { class: "small plain-toggle" });
  const show = () => {
    toggle.setAttribute("aria-pressed", String(prefersPlain));
    place.replaceChildren(prefersPlain ? asText() : markdownView(text),
      text.length > MAX_CHARACTERS && !prefersPlain ? h("p", { class: "dim" }, `The first ${MAX_CHARACTERS.toLocaleString("en")} of ${text.length.toLocaleString("en")} characters: the rest as plain text`) : "");
  };
  show();
  return h("div", { class: "marked" }, h("div", { class: "row marked-bar" }, toggle), place);
}

export function resourceView(resource) {
  const head = h("p", { class: "dim" }, uriView(resource.uri), resource.mimeType ? [" · ", visible(clip(String(resource.mimeType), 80))] : null);
  if (typeof resource.text === "string") {
    let parsed;
    if (/json/.test(resource.mimeType || "") || /^\s*[[{]/.test(resource.text)) {
      try { parsed = parseExact(resource.text); } catch { /* text, then */ }
    }
    if (isContainer(parsed)) {
      const views = [["Text", () => longText(resource.text)], ["JSON", () => jsonView(parsed)]];
      const rows = uniformRows(parsed);
      if (rows) views.push(["Table", () => tableView(rows)]);
      return h("div", { class: "block" }, head, switcher("Contents", views));
    }
    const isMarked = /markdown/.test(resource.mimeType || "") || (!resource.mimeType && isMarkdown(resource.text));
    return h("div", { class: "block" }, head, textView(resource.text, { isMarked }));
  }
  if (typeof resource.blob === "string") {
    const kind = String(resource.mimeType || "").startsWith("audio/") ? "audio" : "image";
    return h("div", { class: "block" }, head, mediaView(resource.blob, resource.mimeType, kind));
  }
  return h("div", { class: "block" }, head, jsonView(resource));
}

function linkView(link, onread) {
  return h("div", { class: "block link" },
    h("p", {}, h("strong", {}, say(link.title || link.name || "Resource")), link.mimeType ? h("span", { class: "dim" }, " · ", visible(clip(String(link.mimeType), 80))) : null),
    link.description ? h("p", {}, say(link.description)) : null,
    h("p", { class: "row" }, uriView(link.uri), onread ? button("Read", () => onread(String(link.uri)), { class: "small" }) : null));
}
