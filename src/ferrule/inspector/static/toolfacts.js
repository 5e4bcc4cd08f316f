// What a tool says about itself besides its schema: its title, and the hints of its annotations.

import { clip } from "./dom.js";

const text = (value) => (typeof value === "string" ? value.trim() : "");

/** The title of a tool where it differs from its name; empty without one. */
export function titleOf(tool) {
  const found = text(tool.title) || text(tool.annotations?.title);
  return found === tool.name ? "" : clip(found, 300);
}

// [hint, words if it is true, words if it is false, kind if true]; a hint that is missing says nothing.
const HINTS = [
  ["readOnlyHint", "read-only", "changes things", ""],
  ["destructiveHint", "destructive", "not destructive", "warning"],
  ["idempotentHint", "idempotent", "not idempotent", ""],
  ["openWorldHint", "open world", "closed world", ""],
];

/** The hints of a tool as chips, as the server states them: they are no promise. */
export function hintChips(tool) {
  return HINTS.filter(([name]) => typeof tool.annotations?.[name] === "boolean").map(([name, yes, no, kind]) => {
    const value = tool.annotations[name];
    return { text: value ? yes : no, kind: value ? kind : "", about: `The server says: ${name} is ${value}` };
  });
}

/** The hints that a row of a list has room for. */
export const rowChips = (tool) => hintChips(tool).filter((chip) => chip.text === "destructive" || chip.text === "read-only");
