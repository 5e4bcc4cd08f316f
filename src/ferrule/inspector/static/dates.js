// Dates and times with the browser's pickers. What is sent is RFC 3339: a time of day and a moment have an offset, which
// comes from a time zone (its offset at that moment, so summer time counts) or is written as one.

import { button, h, newId, say } from "./dom.js";
import { framed, initialOf } from "./fields.js";

const MOMENT = /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?)\d*([Zz]|[+-]\d{2}:\d{2})?$/;
const TIME = /^(\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?)\d*([Zz]|[+-]\d{2}:\d{2})?$/;
const DATE = /^\d{4}-\d{2}-\d{2}$/;
const OFFSET = /^[+-](?:[01]\d|2[0-3]):[0-5]\d$/;
const KINDS = { date: "date", time: "time", "date-time": "datetime-local" };

export const isDateFormat = (format) => typeof format === "string" && Object.hasOwn(KINDS, format);

/** Whether the pickers can hold a text. */
export const isPickable = (format, text) => typeof text === "string" && ({ date: DATE, time: TIME, "date-time": MOMENT }[format].test(text) || text === "");

const here = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** The offset of a zone in minutes at a moment; an exception for a name that is none. */
function offsetAt(zone, ms) {
  const parts = new Intl.DateTimeFormat("en-US", { timeZone: zone, timeZoneName: "longOffset" }).formatToParts(ms);
  const found = /GMT(?:([+-])(\d{1,2})(?::?(\d{2}))?)?/.exec(parts.find((part) => part.type === "timeZoneName").value);
  return found[1] ? (found[1] === "-" ? -1 : 1) * (Number(found[2]) * 60 + Number(found[3] || 0)) : 0;
}

const written = (minutes) => `${minutes < 0 ? "-" : "+"}${String(Math.floor(Math.abs(minutes) / 60)).padStart(2, "0")}:${String(Math.abs(minutes) % 60).padStart(2, "0")}`;

/** "+02:00" for a zone or an offset at a wall clock time ("2026-07-01T12:00:00"); null if the zone is not known. */
export function offsetFor(zone, wall) {
  const name = zone.trim();
  if (/^(z|utc|gmt)$/i.test(name)) return "Z";
  if (OFFSET.test(name)) return name;
  const asUtc = Date.parse(`${wall}Z`);
  if (Number.isNaN(asUtc)) return null;
  try {
    const first = offsetAt(name, asUtc);
    return written(offsetAt(name, asUtc - first * 60000));
  } catch {
    return null;
  }
}

/** One list of zones for all fields of the page. */
function zones() {
  const id = "time-zones";
  if (!document.getElementById(id)) {
    const names = typeof Intl.supportedValuesOf === "function" ? Intl.supportedValuesOf("timeZone") : [];
    document.body.append(h("datalist", { id }, ["UTC", here(), ...names].map((name) => h("option", { value: name }))));
  }
  return id;
}

const pad = (number) => String(number).padStart(2, "0");

function nowIn(zone, kind) {
  const now = new Date();
  let shift = 0;
  try { shift = OFFSET.test(zone) ? (zone[0] === "-" ? -1 : 1) * (Number(zone.slice(1, 3)) * 60 + Number(zone.slice(4))) : offsetAt(zone, now.getTime()); } catch { /* the problem is shown when it is read */ }
  const wall = new Date(now.getTime() + shift * 60000);
  const date = `${wall.getUTCFullYear()}-${pad(wall.getUTCMonth() + 1)}-${pad(wall.getUTCDate())}`;
  const time = `${pad(wall.getUTCHours())}:${pad(wall.getUTCMinutes())}:${pad(wall.getUTCSeconds())}`;
  return kind === "date" ? date : kind === "time" ? time : `${date}T${time}`;
}

export function dateField(schema, context) {
  const kind = schema.format;
  const initial = initialOf(schema, context);
  const input = h("input", { type: KINDS[kind], step: kind === "date" ? undefined : "any" });
  const zone = kind === "date" ? null : h("input", { type: "text", class: "zone", list: zones(), autocomplete: "off", spellcheck: "false", id: newId("zone"), "aria-label": `Time zone of ${context.name || "the value"}` });
  if (zone) zone.value = here();
  let kept = null; // a value that was there is sent as it is until one of the controls is changed
  if (typeof initial === "string" && initial) {
    kept = initial;
    const found = (kind === "time" ? TIME : MOMENT).exec(initial);
    input.value = kind === "date" ? initial : kind === "time" ? found[1] : `${found[1]}T${found[2]}`;
    if (zone) zone.value = /^z$/i.test(found.at(-1) || "") ? "UTC" : found.at(-1) || here();
  }
  const note = h("span", { class: "dim" });

  function current() {
    if (kept !== null) return { value: kept };
    if (input.validity?.badInput) return { problem: "This is not finished." };
    const text = input.value;
    if (text === "") return { value: undefined };
    if (!/^\d{4}\b/.test(text) && kind !== "time") return { problem: "A year has four digits." };
    if (kind === "date") return { value: text };
    const wall = /:\d{2}:\d{2}/.test(text) || /^\d{2}:\d{2}:\d{2}/.test(text) ? text : `${text}:00`;
    // A time of day has no date: its offset is that of today.
    const offset = offsetFor(zone.value || "UTC", kind === "time" ? `${nowIn("UTC", "date")}T${wall}` : wall);
    return offset === null ? { problem: "This time zone is not known." } : { value: `${wall}${offset}` };
  }

  const row = h("div", { class: "row moment" }, input, zone,
    button("Now", () => { input.value = nowIn(zone?.value || here(), kind); changed(); input.focus(); }, { class: "small", "aria-label": `Now, for ${context.name || "this value"}` }));
  const frame = framed(schema, { ...context, around: () => row }, input, context.nullable ? "empty: none" : "");
  row.after(h("p", { class: "note" }, note));
  const show = () => { const { value } = current(); note.replaceChildren(...(value ? ["sent as ", h("code", {}, say(value))] : [zone ? "sent with the offset of the time zone" : ""])); };
  function changed() { kept = null; frame.complain(""); show(); }
  for (const each of [input, zone].filter(Boolean)) { each.addEventListener("input", changed); each.addEventListener("change", changed); }
  show();
  return {
    element: frame.element,
    peek: () => { const { value, problem } = current(); return problem ? input.value : value ?? (context.nullable && context.value === null ? null : undefined); },
    read() {
      const { value, problem } = current();
      const why = problem || (value === undefined && context.required && !context.nullable ? "This is required." : "");
      frame.complain(why);
      if (why) return { value: undefined, problems: [`${context.name || "value"}: ${why}`] };
      return { value: value ?? (context.nullable ? null : undefined), problems: [] };
    },
  };
}
