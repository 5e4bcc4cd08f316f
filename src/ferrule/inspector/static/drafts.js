// What was typed into the form of a tool, a prompt or a resource, so that it is there again when one comes back.
//
// While the page is open everything is in memory, secrets too. For a reload it goes to the storage of this tab alone:
// within a bound, and without fields that are secrets. The controls are kept as they are, invalid input included, and
// the value beside them: it is used where the schema has changed meanwhile.

import { parseExact } from "./exact.js";
import { withoutSecrets } from "./secrets.js";
import { serverName } from "./routes.js";

const MAX_DRAFT_CHARS = 64 * 1024;
const MAX_ALL_CHARS = 512 * 1024;
const PAUSE_MS = 150;

const KEY = `ferrule-drafts ${serverName}`;
const memory = new Map(stored());
const following = new Set();

/** Take what was typed in the last moments; forget forms that are no longer on the page. */
function flushAll() {
  for (const each of following) {
    each.flush();
    each.wasThere ||= each.element.isConnected;
    if (each.wasThere && !each.element.isConnected) following.delete(each);
  }
}
addEventListener("pagehide", flushAll);

function stored() {
  try {
    const found = parseExact(sessionStorage.getItem(KEY) || "[]");
    return Array.isArray(found) ? found.filter((each) => Array.isArray(each) && typeof each[0] === "string" && each[1] && typeof each[1] === "object") : [];
  } catch {
    return [];
  }
}

function keep() {
  const chosen = [];
  let left = MAX_ALL_CHARS;
  for (const [place, draft] of [...memory].reverse()) {
    const text = JSON.stringify([place, draft.kept]);
    if (draft.kept === null || text.length > MAX_DRAFT_CHARS) continue;
    left -= text.length;
    if (left < 0) break;
    chosen.unshift([place, draft.kept]);
  }
  try { sessionStorage.setItem(KEY, JSON.stringify(chosen)); } catch { /* storage may be full or switched off: memory remains */ }
}

const controlsOf = (element) => [...element.querySelectorAll("input, select, textarea")].filter((each) => each.type !== "search" && each.type !== "button");

const stateOf = (control) => (control.type === "checkbox" || control.type === "radio" ? control.checked : control.value);

/** Remember a value for a place, as if it had been typed. It is stored once its form, which knows its secrets, is made. */
export function setDraft(place, value) {
  flushAll();
  memory.delete(place);
  memory.set(place, { value, kept: null });
}

export function dropDraft(place) {
  flushAll();
  memory.delete(place);
  keep();
}

export function dropAllDrafts() {
  flushAll();
  memory.clear();
  keep();
}

/** The remembered value of a place; undefined without one. */
export function draftOf(place) {
  flushAll();
  const draft = memory.get(place);
  return draft ? draft.value ?? draft.kept?.value : undefined;
}

/** Whether a place is shown as JSON. */
const wasJson = (draft) => Boolean(draft?.isJson ?? draft?.kept?.isJson);

/**
 * Remember what is typed into `form`, and fill in what was typed before.
 *
 * @param place names the form: "tools/add"
 * @param form has `element`, `peek()`, and for forms with a JSON side `isJson` and `showJson()`
 * @param options.schema of the value; tells which fields are secrets
 * @param options.onJson called with true where the form is shown as JSON again
 */
export function followDraft(place, form, { schema = {}, onJson = () => {} } = {}) {
  flushAll();
  const draft = memory.get(place);
  if (draft) restore(draft, form, onJson);
  let timer = 0;
  const take = () => {
    clearTimeout(timer);
    timer = 0;
    const found = { any: false };
    const value = form.peek();
    const controls = controlsOf(form.element).map(stateOf);
    const isJson = Boolean(form.isJson);
    const safe = withoutSecrets(value, schema, found);
    // With a secret among them the controls are not kept: which of them shows it is not known here.
    const kept = value === undefined || (isJson && typeof value === "string") ? null : { value: safe, isJson, ...(found.any ? {} : { controls }) };
    memory.delete(place);
    memory.set(place, { value, controls, isJson, kept });
    keep();
  };
  const later = () => { clearTimeout(timer); timer = setTimeout(take, PAUSE_MS); };
  for (const kind of ["input", "change", "click"]) form.element.addEventListener(kind, later);
  const made = { take, element: form.element, wasThere: false, flush: () => { if (timer) take(); } };
  following.add(made);
  if (draft && draft.kept === null) take(); // from a link or from the history: its secrets are known only now
  return made;
}

function restore(draft, form, onJson) {
  if (wasJson(draft) && form.showJson) {
    form.showJson(true);
    onJson(true);
  }
  const given = draft.controls ?? draft.kept?.controls;
  if (!Array.isArray(given)) return;
  const controls = controlsOf(form.element);
  if (controls.length !== given.length) return;
  const isSame = (control, value) => typeof value === (control.type === "checkbox" || control.type === "radio" ? "boolean" : "string")
    && (control.tagName !== "SELECT" || [...control.options].some((option) => option.value === value));
  if (!controls.every((control, at) => isSame(control, given[at]))) return;
  controls.forEach((control, at) => {
    if (stateOf(control) === given[at]) return;
    if (control.type === "checkbox" || control.type === "radio") control.checked = given[at];
    else control.value = given[at];
    control.dispatchEvent(new Event("input", { bubbles: true }));
    control.dispatchEvent(new Event("change", { bubbles: true }));
  });
}
