// The widths of the list and of the messages, and whether they are shown: changed with the pointer or the keyboard, and
// remembered in this browser.

import { announce, h } from "./dom.js";

const KEY = "ferrule-panes";
const STEP = 16;
const PANES = {
  list: { label: "Width of the list", property: "--list-width", least: 160, most: 600, start: 280 },
  messages: { label: "Width of the messages", property: "--messages-width", least: 260, most: 1200, start: 400 },
};
const kept = { list: {}, messages: {} };
try {
  const found = JSON.parse(localStorage.getItem(KEY) || "{}");
  for (const name of Object.keys(PANES)) {
    if (Number.isFinite(found[name]?.width)) kept[name].width = clamp(name, found[name].width);
    if (found[name]?.isHidden === true) kept[name].isHidden = true;
  }
} catch { /* nothing was kept */ }

function clamp(name, width) {
  return Math.round(Math.min(PANES[name].most, Math.max(PANES[name].least, width)));
}

function keep() {
  try { localStorage.setItem(KEY, JSON.stringify(kept)); } catch { /* not kept, then */ }
}

const widthOf = (name) => kept[name].width ?? PANES[name].start;

function apply(name) {
  const { property } = PANES[name];
  if (kept[name].width === undefined) document.body.style.removeProperty(property);
  else document.body.style.setProperty(property, `${kept[name].width}px`);
  document.body.classList.toggle(`no-${name}`, kept[name].isHidden === true);
  for (const each of document.querySelectorAll(`.divider[data-pane=${name}]`)) each.setAttribute("aria-valuenow", String(widthOf(name)));
  for (const each of document.querySelectorAll(`.pane-toggle[data-pane=${name}]`)) each.setAttribute("aria-pressed", String(!kept[name].isHidden));
}

export function resize(name, width) {
  kept[name].width = clamp(name, width);
  kept[name].isHidden = false;
  apply(name);
  keep();
}

export function toggle(name) {
  kept[name].isHidden = !kept[name].isHidden;
  apply(name);
  keep();
  announce(`${name === "list" ? "The list is" : "The messages are"} ${kept[name].isHidden ? "hidden" : "shown"}`);
}

/** A divider beside a pane (the ARIA window splitter): drag it, or use the arrow keys; Enter hides the pane. */
export function divider(name, { isAfter = false } = {}) {
  const { label, least, most } = PANES[name];
  const made = h("div", { class: "divider", "data-pane": name, role: "separator", tabindex: 0, "aria-orientation": "vertical", "aria-label": label,
    "aria-valuemin": least, "aria-valuemax": most, "aria-valuenow": widthOf(name), title: "drag; double-click for the width at first" });
  const sign = isAfter ? -1 : 1; // a pane after the divider grows to the left
  const pane = () => (isAfter ? made.parentElement.nextElementSibling : made.previousElementSibling);
  made.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    made.setPointerCapture(event.pointerId);
    const from = event.clientX;
    const width = pane().getBoundingClientRect().width;
    const move = (now) => resize(name, width + sign * (now.clientX - from));
    made.addEventListener("pointermove", move);
    made.addEventListener("lostpointercapture", () => made.removeEventListener("pointermove", move), { once: true });
  });
  made.addEventListener("dblclick", () => { kept[name] = {}; apply(name); keep(); });
  made.addEventListener("keydown", (event) => {
    const now = pane().getBoundingClientRect().width || widthOf(name);
    const step = { ArrowLeft: -STEP * sign, ArrowRight: STEP * sign }[event.key];
    if (step !== undefined) resize(name, now + step);
    else if (event.key === "Home") resize(name, least);
    else if (event.key === "End") resize(name, most);
    else if (event.key === "Enter") toggle(name);
    else return;
    event.preventDefault();
  });
  return made;
}

/** A button that hides and shows a pane. */
export function paneToggle(name, label) {
  return h("button", { type: "button", class: "quiet pane-toggle", "data-pane": name, "aria-pressed": String(!kept[name].isHidden), onclick: () => toggle(name), title: `${label}: show or hide` }, label);
}

export function startPanes() {
  for (const name of Object.keys(PANES)) apply(name);
}
