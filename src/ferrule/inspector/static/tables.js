// Rows of one shape as a table, a page of it at a time. A cell breaks between words; what is long opens at a press.

import { button, clip, h, longText, newId, say } from "./dom.js";
import { isContainer, isNumber } from "./exact.js";

const PAGE_ROWS = 100;
const MAX_COLUMNS = 40;
const CELL_CHARACTERS = 300;

/** Return the rows of a value (or of its only list) if all have the same members, else null. */
export function uniformRows(value) {
  let rows = value;
  if (isContainer(rows) && !Array.isArray(rows)) {
    const lists = Object.values(rows).filter(Array.isArray);
    if (lists.length !== 1) return null;
    rows = lists[0];
  }
  if (!Array.isArray(rows) || rows.length < 1) return null;
  if (!rows.every((row) => isContainer(row) && !Array.isArray(row))) return null;
  const columns = Object.keys(rows[0]);
  if (!columns.length || columns.length > MAX_COLUMNS) return null;
  return rows.every((row) => Object.keys(row).every((key) => columns.includes(key))) ? { columns, rows } : null;
}

export function tableView({ columns, rows }) {
  const own = (row, name) => (Object.hasOwn(row, name) ? row[name] : undefined);
  const areNumbers = columns.map((name) => rows.every((row) => { const value = own(row, name); return value === null || value === undefined || isNumber(value); }));
  const body = h("tbody");
  const box = h("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": "Table" },
    h("table", {}, h("thead", {}, h("tr", {}, columns.map((name, at) => h("th", { scope: "col", class: areNumbers[at] ? "number" : undefined }, say(clip(name, 200)))))), body));
  const pages = pager(rows.length, PAGE_ROWS, "row", (first, last) => {
    body.replaceChildren(...rows.slice(first, last).map((row) => h("tr", {},
      columns.map((name, at) => h("td", areNumbers[at] ? { class: "number" } : {}, cell(own(row, name)))))));
    box.scrollTop = 0;
  });
  return h("div", { class: "table-view" }, box, pages);
}

function cell(value) {
  if (value === undefined) return null;
  const text = isContainer(value) ? JSON.stringify(value) : String(value);
  if (text.length <= CELL_CHARACTERS) return h("div", { class: "cell" }, say(text));
  const place = h("div", { class: "cell" }, say(clip(text, CELL_CHARACTERS)), " ");
  place.append(button("All of it", () => place.replaceChildren(longText(text)), { class: "small" }));
  return place;
}

/** Buttons for the pages of a list, and which part of it is shown; `show(first, last)` shows a page. */
export function pager(count, perPage, noun, show) {
  const pages = Math.ceil(count / perPage);
  const amount = `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
  let page = 0;
  const status = h("span", { class: "dim", role: "status", id: newId("pages") });
  const move = (to) => {
    page = Math.min(pages - 1, Math.max(0, to));
    show(page * perPage, Math.min(count, (page + 1) * perPage));
    status.textContent = pages < 2 ? amount : `${(page * perPage + 1).toLocaleString("en")}–${Math.min(count, (page + 1) * perPage).toLocaleString("en")} of ${amount}`;
    for (const [each, isOff] of steps) each.setAttribute("aria-disabled", String(isOff()));
  };
  const step = (label, words, to, isOff) => [button(label, () => { if (!isOff()) move(to()); }, { class: "small", "aria-label": words }), isOff];
  const isFirst = () => page === 0;
  const isLast = () => page >= pages - 1;
  const steps = pages < 2 ? [] : [
    step("«", `First ${noun}s`, () => 0, isFirst), step("‹", `Previous ${noun}s`, () => page - 1, isFirst),
    step("›", `Next ${noun}s`, () => page + 1, isLast), step("»", `Last ${noun}s`, () => pages - 1, isLast)];
  move(0);
  return h("div", { class: "row pager" }, steps.slice(0, 2).map(([each]) => each), status, steps.slice(2).map(([each]) => each));
}
