// A text field that asks the server for suggestions while one types (the ARIA combobox pattern).

import { call } from "./api.js";
import { clip, fill, h, newId, say, visible } from "./dom.js";
import { main } from "./store.js";

const PAUSE_MS = 120;

export function completing({ name, description, required, ref, others, oninput }) {
  const id = newId("complete");
  const list = h("ul", { class: "suggestions", role: "listbox", id: `${id}-list`, hidden: true, "aria-label": `Suggestions for ${name}` });
  const input = h("input", { id, autocomplete: "off", spellcheck: "false", role: "combobox", "aria-expanded": "false", "aria-controls": list.id,
    "aria-autocomplete": "list", "aria-required": required ? "true" : undefined });
  const note = h("p", { class: "note" });
  let timer = 0;
  let asked = 0;
  let at = -1;
  const canComplete = "completions" in (main()?.capabilities || {});

  function close() {
    list.hidden = true;
    at = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }
  function pick(value) {
    input.value = value;
    oninput(value);
    close();
  }
  function mark(next) {
    const rows = [...list.children];
    at = (next + rows.length) % rows.length;
    rows.forEach((row, index) => row.setAttribute("aria-selected", String(index === at)));
    input.setAttribute("aria-activedescendant", rows[at].id);
    rows[at].scrollIntoView({ block: "nearest" });
  }
  async function suggest() {
    const mine = ++asked;
    const context = Object.fromEntries(Object.entries(others()).filter(([key, value]) => key !== name && value));
    try {
      const found = await call("complete", { ref, argument: name, value: input.value, context });
      if (mine !== asked || document.activeElement !== input) return;
      const values = (found.values || []).slice(0, 100);
      fill(list, values.map((value, index) => h("li", { role: "option", id: `${id}-${index}`, "aria-selected": "false",
        onpointerdown: (event) => { event.preventDefault(); pick(value); } }, visible(clip(value, 200)))));
      list.hidden = !values.length;
      input.setAttribute("aria-expanded", String(values.length > 0));
      note.textContent = found.hasMore ? `${values.length} of ${found.total ?? "more"}` : "";
    } catch (error) {
      note.textContent = error.message;
      close();
    }
  }
  const later = () => { clearTimeout(timer); timer = setTimeout(suggest, PAUSE_MS); };
  input.addEventListener("input", () => { oninput(input.value); if (canComplete && document.activeElement === input) later(); });
  input.addEventListener("focus", () => { if (canComplete) later(); });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "ArrowDown") mark(at + 1);
    else if (event.key === "ArrowUp") mark(at - 1);
    else if (event.key === "Enter" && at >= 0) pick(list.children[at].textContent);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const element = h("div", { class: "field" },
    h("div", { class: "caption" }, h("label", { for: id, class: "field-name" }, say(name)), required ? h("span", { class: "required", "aria-hidden": "true" }, "required") : null),
    h("div", { class: "combo" }, input, list), description ? h("p", { class: "note" }, say(description)) : null, note);
  return { element, input };
}
