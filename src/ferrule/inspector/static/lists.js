// A list with a filter on one side, the chosen thing on the other.

import { fill, h, roving, say } from "./dom.js";
import { lastChosen, noteChosen } from "./routes.js";
import { isOpen, on, state } from "./store.js";

const MAX_SHOWN = 1000;

/**
 * @param kinds which lists of the store; their items get `kind`
 * @param keyOf names an item
 * @param describe gives {title, note, chips}
 * @param detail makes the chosen item's side
 * @param identity what of an item makes its side another one
 * @param view names the section; what was chosen in it is chosen again after a reload
 * @param onchoose is called with the key of what is shown, each time it is another one
 * @param leave is called before the side is replaced; it may return a promise to wait for
 */
export function listView({ label, kinds, keyOf, describe, detail, empty, identity = (each) => each, leave = () => null, view = "", onchoose = () => {} }) {
  const filter = h("input", { type: "search", class: "filter", placeholder: `Filter ${label.toLowerCase()}`, "aria-label": `Filter ${label.toLowerCase()}` });
  const count = h("span", { class: "dim" });
  const list = h("ul", { class: "items", "aria-label": label });
  const side = h("div", { class: "detail", tabindex: -1 });
  const element = h("div", { class: "split" },
    h("section", { class: "list-side", "aria-label": label }, h("div", { class: "list-head" }, h("h2", {}, label), count), filter, list), side);
  let chosen = null;
  let wanted = lastChosen(view) ?? null; // it may be in a list that is not loaded yet
  let shownAs = "";
  let shownKey;

  const items = () => kinds.flatMap((kind) => (state.lists[kind] || []).map((item) => ({ kind, item })));

  function choose(key, { focus = false } = {}) {
    chosen = wanted = key;
    show();
    if (focus) side.querySelector("h2")?.focus();
  }

  function show() {
    const all = items();
    const words = filter.value.trim().toLowerCase();
    const found = all.filter((each) => !words || JSON.stringify([keyOf(each), each.item.title, each.item.description]).toLowerCase().includes(words));
    count.textContent = String(all.length);
    if (wanted !== null && wanted !== chosen && all.some((each) => keyOf(each) === wanted)) chosen = wanted;
    if (!all.some((each) => keyOf(each) === chosen)) chosen = all.length ? keyOf(all[0]) : null;
    if (chosen !== shownKey) {
      shownKey = chosen;
      if (chosen !== null && (wanted === null || chosen === wanted)) noteChosen(view, chosen);
      onchoose(chosen);
    }
    const hadFocus = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    fill(list, found.slice(0, MAX_SHOWN).map((each) => {
      const key = keyOf(each);
      const { title, note, chips } = describe(each);
      const row = h("button", { type: "button", class: "item", "aria-current": key === chosen ? "true" : undefined, "data-key": key,
        tabindex: key === chosen || (found.every((other) => keyOf(other) !== chosen) && each === found[0]) ? 0 : -1, onclick: () => choose(key, { focus: false }) },
      h("span", { class: "item-title" }, say(title), chips?.map((chip) => h("span", { class: "chip" }, chip))),
      note ? h("span", { class: "item-note" }, say(note)) : null);
      return h("li", {}, row);
    }));
    if (found.length > MAX_SHOWN) list.append(h("li", { class: "dim pad" }, `${found.length - MAX_SHOWN} more: filter them`));
    if (hadFocus) [...list.querySelectorAll(".item")].find((row) => row.dataset.key === hadFocus)?.focus();
    const problems = kinds.map((kind) => state.listErrors[kind]).filter(Boolean);
    if (problems.length) list.prepend(h("li", { class: "flag bad" }, say(problems.join("; "))));
    if (!all.length && !problems.length) list.append(h("li", { class: "dim pad" }, !isOpen() ? "Not connected." : kinds.every((kind) => state.lists[kind] === null) ? "…" : empty));
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
    const first = list.querySelector(".item");
    if (!first || !["Enter", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
    if (event.key === "Enter") choose(first.dataset.key, { focus: true });
    else first.focus();
  });
  roving(list, ".item", { onmove: (row) => choose(row.dataset.key) });
  on("lists connection", show);
  show();
  return { element, choose, filter, get chosen() { return chosen; },
    /** Make the side of what is chosen anew. */
    refresh() { shownAs = ""; show(); } };
}
