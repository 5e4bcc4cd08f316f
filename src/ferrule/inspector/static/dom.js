// Makes elements from text. Nothing from a server is parsed as HTML: there is no innerHTML in this page, and its
// policy (trusted-types 'none') would refuse one.

let ids = 0;
export const newId = (prefix = "x") => `${prefix}-${++ids}`;

/** h("button", {class: "quiet", onclick: f}, "Call") */
export function h(tag, props, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "max") made[name] = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  put(made, children);
  return made;
}

export function put(into, children) {
  for (const child of [children].flat(4)) {
    if (child === undefined || child === null || child === false) continue;
    into.append(child instanceof Node ? child : String(child));
  }
  return into;
}

export function fill(into, ...children) {
  into.replaceChildren();
  return put(into, children);
}

export const button = (label, onclick, props = {}) => h("button", { type: "button", onclick, ...props }, label);

export function announce(text) {
  const line = document.getElementById("announce");
  line.textContent = "";
  setTimeout(() => { line.textContent = text; }, 50);
}

/** Arrow keys, Home and End move among the items of a list; only one of them is in the tab order. */
export function roving(list, selector, { horizontal = false, onmove } = {}) {
  list.addEventListener("keydown", (event) => {
    const items = [...list.querySelectorAll(selector)].filter((item) => item.checkVisibility()); // not inside what is folded
    const at = items.indexOf(document.activeElement);
    if (at < 0) return;
    const keys = horizontal ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
    let next = -1;
    if (event.key === keys[0]) next = (at - 1 + items.length) % items.length;
    else if (event.key === keys[1]) next = (at + 1) % items.length;
    else if (event.key === "Home") next = 0;
    else if (event.key === "End") next = items.length - 1;
    if (next < 0) return;
    event.preventDefault();
    for (const item of items) item.tabIndex = -1;
    items[next].tabIndex = 0;
    items[next].focus();
    if (onmove) onmove(items[next]);
  });
}

// -- text that may be hostile ------------------------------------------------------------------------------------

const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;
const JOINS_EMOJI = /[\p{Extended_Pictographic}\ufe0f\u{1f3fb}-\u{1f3ff}]$/u;

/** Return text in which every character that hides text or changes its direction is replaced by a visible label. */
export function visible(text) {
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found[0] === "\u200d" && JOINS_EMOJI.test(text.slice(Math.max(0, found.index - 2), found.index))) continue;
    if (parts.length > 4000) break; // a text made of such characters: the rest is shown as it is, isolated
    parts.push(text.slice(last, found.index));
    const code = found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.push(h("span", { class: "hidden-character", title: "a character that is not seen" }, `U+${code}`));
    last = found.index + found[0].length;
  }
  parts.push(text.slice(last));
  return parts;
}

/** Return a short text of a server for use in a sentence. */
export const say = (text, props = {}) => h("bdi", props, visible(clip(String(text ?? ""), 4000)));

export const hasHidden = (text) => text.search(HIDDEN) >= 0;

/** JSON in which such characters are escapes: a control shows them as they are, and they would turn its text around. */
export const withEscapes = (json) => json.replace(HIDDEN, (found) => Array.from({ length: found.length }, (_, at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""));

export const clip = (text, length) => (text.length > length ? `${text.slice(0, length)}…` : text);

const FIRST_CHARACTERS = 20000;
const MORE_CHARACTERS = 200000;

/** Return a text of any length: its beginning, and a button for the rest. */
export function longText(text, props = {}) {
  const pre = h("pre", { class: "text", dir: "auto", tabindex: text.length > 600 ? 0 : undefined, ...props });
  let shown = 0;
  const box = h("div", { class: "long-text" }, pre);
  const more = (count) => {
    let until = Math.min(text.length, shown + count);
    if (/[\ud800-\udbff]/.test(text[until - 1])) until += 1; // do not split a surrogate pair
    put(pre, visible(text.slice(shown, until)));
    shown = until;
    bar.hidden = shown >= text.length;
    status.textContent = `${shown.toLocaleString("en")} of ${text.length.toLocaleString("en")} characters`;
  };
  const status = h("span", { class: "dim" });
  const bar = h("div", { class: "row" }, status,
    button("Show more", () => more(MORE_CHARACTERS), { class: "small" }),
    button("Save", () => save("text.txt", new Blob([text], { type: "text/plain" })), { class: "small" }));
  box.append(bar);
  more(FIRST_CHARACTERS);
  return box;
}

export function save(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name.replace(/[^\w.-]+/g, "_").slice(0, 80) || "file" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export async function copy(text, what = "Copied") {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce(what);
}

// -- numbers -------------------------------------------------------------------------------------------------------

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 10) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms.toFixed(0)} ms`;
  return `${(ms / 1000).toFixed(2)} s`;
}

export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(1)} kB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
