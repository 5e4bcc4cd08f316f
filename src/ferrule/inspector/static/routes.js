// The address of what is shown: #tools/NAME, and #tools/NAME?args={…} to fill in a form. Opening an address never calls
// anything. It may come from anywhere: its length is bounded, and its arguments are an object or nothing.

import { parseExact } from "./exact.js";

export const MAX_LINK_CHARS = 16 * 1024;

const given = new URL(location.href).searchParams.get("server") || "";
/** The server of a configuration that this page shows; empty for the first one. */
export const serverName = given.slice(0, 200);

/** Return {view, key, args, problem} of an address; key and args are undefined where there are none. */
export function readRoute(hash = location.hash) {
  if (hash.length > MAX_LINK_CHARS) return { view: "tools", problem: `The address is longer than ${MAX_LINK_CHARS} characters` };
  const [path, query] = split(hash.replace(/^#/, ""), "?");
  const [view, rest] = split(path, "/");
  const made = { view: view || "tools" };
  try {
    if (rest !== undefined) made.key = decodeURIComponent(rest);
  } catch {
    return { ...made, problem: "The address is malformed" };
  }
  const text = query === undefined ? null : new URLSearchParams(query).get("args");
  if (text === null) return made;
  try {
    const args = parseExact(text);
    if (args === null || typeof args !== "object" || Array.isArray(args)) throw new Error("no object");
    return { ...made, args };
  } catch {
    return { ...made, problem: "The arguments in the address are no JSON object" };
  }
}

function split(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

/** The address of an item, with arguments if given; null if it would be too long. */
export function linkTo(view, key, args) {
  const query = args === undefined ? "" : `?args=${encodeURIComponent(JSON.stringify(args))}`;
  const hash = `#${view}/${encodeURIComponent(key)}${query}`;
  return hash.length > MAX_LINK_CHARS ? null : `${location.origin}${location.pathname}${location.search}${hash}`;
}

/** Show an address without a new entry in the history. */
export function showRoute(view, key) {
  const hash = key === undefined || key === null ? `#${view}` : `#${view}/${encodeURIComponent(key)}`;
  if (hash.length <= MAX_LINK_CHARS) history.replaceState(null, "", hash);
}

// -- what was chosen last in each section ----------------------------------------------------------------------------

const KEY = `ferrule-chosen ${serverName}`;
const chosen = new Map();
try { for (const [view, key] of JSON.parse(sessionStorage.getItem(KEY) || "[]")) chosen.set(String(view), String(key)); } catch { /* nothing was kept */ }

export const lastChosen = (view) => chosen.get(view);

export function noteChosen(view, key) {
  if (key === null || key.length > 4000 || chosen.get(view) === key) return;
  chosen.set(view, key);
  try { sessionStorage.setItem(KEY, JSON.stringify([...chosen])); } catch { /* not kept, then */ }
}
