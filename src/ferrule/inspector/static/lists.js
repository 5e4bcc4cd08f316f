// A list with a filter on one side, the chosen thing on the other. Of a long list, the rows that were scrolled to.

import { button, fill, h, roving, say } from "./dom.js";
import { lastChosen, noteChosen } from "./routes.js";
import { divider } from "./panes.js";
import { isOpen, on, state } from "./store.js";

const FIRST_ROWS = 100;
const MORE_ROWS = 200;
const narrow = matchMedia("(max-width: 700px)"); // the list is above what is chosen, and not beside it

/** The text in which the filter looks; made once for each item. */
const texts = new WeakMap();
function textOf(each, key) {
  if (!texts.has(each.item)) texts.set(each.item, [key, each.item.title, each.item.annotations?.title, each.item.description].filter((part) => typeof part === "string").join("\n").slice(0, 20000).toLowerCase());
  return texts.get(each.item);
}

/**
 * @param kinds which lists of the store; their items get `kind`
 * @param keyOf names an item
 * @param describe gives {title, subtitle, note, chips}; a chip is a text or {text, about, kind}
 * @param detail makes the chosen item's side
 * @param identity what of an item makes its side another one
 * @param view names the section; what was chosen in it is chosen again after a reload
 * @param onchoose is called with the key of what is shown, each time it is another one
 * @param leave is called before the side is replaced; it may return a promise to wait for
 */
export function listView({ label, kinds, keyOf, describe, detail, empty, identity = (each) => each, leave = () => null, view = "", onchoose = () => {} }) {
  const noun = label.toLowerCase();
  const filter = h("input", { type: "search", class: "filter", placeholder: `Filter ${noun}`, "aria-label": `Filter ${noun}`, spellcheck: "false", autocomplete: "off" });
  const count = h("span", { class: "dim", role: "status" });
  const list = h("ul", { class: "items", "aria-label": label });
  const side = h("div", { class: "detail", tabindex: -1 });
  const element = h("div", { class: "split" },
    h("section", { class: "list-side", "aria-label": label }, h("div", { class: "list-head" }, h("h2", {}, label), count), filter, list), divider("list"), side);
  const rest = h("li", { class: "rest" }, button("", () => more(true), { class: "small" }));
  let chosen = null;
  let wanted = lastChosen(view) ?? null; // it may be in a list that is not loaded yet
  let shownAs = "";
  let shownKey;
  let found = [];
  let shown = 0;

  const items = () => kinds.flatMap((kind) => (state.lists[kind] || []).map((item) => ({ kind, item })));

  function choose(key, { focus = false } = {}) {
    chosen = wanted = key;
    show();
    if (focus) side.querySelector("h2")?.focus();
  }

  function row(each) {
    const key = keyOf(each);
    const { title, subtitle, note, chips } = describe(each);
    return h("li", {}, h("button", { type: "button", class: "item", "aria-current": key === chosen ? "true" : undefined, "data-key": key,
      tabindex: key === chosen || (each === found[0] && !found.some((other) => keyOf(other) === chosen)) ? 0 : -1, onclick: () => { choose(key); if (narrow.matches) side.scrollIntoView(); } },
    h("span", { class: "item-title" }, say(title), chips?.map(chipView)),
    subtitle ? h("span", { class: "item-subtitle" }, say(subtitle)) : null,
    note ? h("span", { class: "item-note" }, say(note)) : null));
  }

  /** Append further rows; with `moves`, the focus goes on to the first of them. */
  function more(moves = false, rows = MORE_ROWS) {
    const before = shown;
    shown = Math.min(found.length, shown + rows);
    rest.remove();
    list.append(...found.slice(before, shown).map(row));
    if (shown < found.length) {
      rest.firstChild.textContent = `Show ${Math.min(MORE_ROWS, found.length - shown)} more of ${(found.length - shown).toLocaleString("en")}`;
      list.append(rest);
    }
    if (moves) list.querySelectorAll(".item")[before]?.focus();
  }

  function show() {
    const all = items();
    const words = filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    found = words.length ? all.filter((each) => { const text = textOf(each, keyOf(each)); return words.every((word) => text.includes(word)); }) : all;
    const total = all.length.toLocaleString("en");
    count.textContent = words.length ? `${found.length ? found.length.toLocaleString("en") : "none"} of ${total}` : total;
    if (wanted !== null && wanted !== chosen && all.some((each) => keyOf(each) === wanted)) chosen = wanted;
    if (!all.some((each) => keyOf(each) === chosen)) chosen = all.length ? keyOf(all[0]) : null;
    if (chosen !== shownKey) {
      shownKey = chosen;
      if (chosen !== null && (wanted === null || chosen === wanted)) noteChosen(view, chosen);
      onchoose(chosen);
    }
    const hadFocus = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const at = found.findIndex((each) => keyOf(each) === chosen);
    const rows = Math.max(FIRST_ROWS, at + 1, hadFocus ? shown : 0);
    fill(list);
    shown = 0;
    more(false, rows);
    if (hadFocus) [...list.querySelectorAll(".item")].find((each) => each.dataset.key === hadFocus)?.focus();
    const problems = kinds.map((kind) => state.listErrors[kind]).filter(Boolean);
    if (problems.length) list.prepend(h("li", { class: "flag bad" }, say(problems.join("; "))));
    if (!all.length && !problems.length) list.append(h("li", { class: "dim pad" }, !isOpen() ? "Not connected." : kinds.every((kind) => state.lists[kind] === null) ? "…" : empty));
    else if (all.length && !found.length) {
      list.append(h("li", { class: "dim pad" }, `None of ${total} ${noun} fits “`, say(filter.value.trim()), "”. ", button("Clear the filter", () => { filter.value = ""; show(); filter.focus(); }, { class: "small" })));
    }
    const each = all.find((candidate) => keyOf(candidate) === chosen);
    const text = each ? JSON.stringify(identity(each)) : "";
    if (text !== shownAs) { // a form that is being filled in is not made anew for a list that says the same
      shownAs = text;
      const replace = () => { if (shownAs === text) fill(side, each ? detail(each) : h("p", { class: "dim pad" }, empty)); };
      const leaving = leave();
      if (leaving) leaving.then(replace);
      else replace();
    }
  }

  filter.addEventListener("input", show);
  filter.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && filter.value) { event.preventDefault(); filter.value = ""; show(); return; }
    const first = list.querySelector(".item");
    if (!first || !["Enter", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
    if (event.key === "Enter") choose(first.dataset.key, { focus: true });
    else first.focus();
  });
  list.addEventListener("keydown", (event) => { // before `roving`, which would go back to the first row
    const rows = list.querySelectorAll(".item");
    if (shown < found.length && (event.key === "End" || (event.key === "ArrowDown" && document.activeElement === rows[rows.length - 1]))) more(false, event.key === "End" ? found.length : MORE_ROWS);
  });
  roving(list, ".item", { onmove: (each) => choose(each.dataset.key) });
  if (typeof IntersectionObserver === "function") new IntersectionObserver((seen) => { if (seen.some((each) => each.isIntersecting)) more(); }).observe(rest);
  on("lists connection", show);
  show();
  return { element, choose, filter, get chosen() { return chosen; },
    /** Make the side of what is chosen anew. */
    refresh() { shownAs = ""; show(); } };
}

export const chipView = (chip) => (typeof chip === "string" ? h("span", { class: "chip" }, chip)
  : h("span", { class: `chip ${chip.kind || ""}`, title: chip.about }, chip.text));
