// Sessions: the messages of this one as a file, and those of another one, which is only shown.

import { call } from "./api.js";
import { announce, button, clip, duration, fill, h, say, save, size } from "./dom.js";
import { exchangesOf, hasFailed, isPolling, textOf } from "./exchanges.js";
import { moving, row } from "./messages.js";
import { readRecording } from "./recording.js";

const MAX_ROWS = 1000;
let imported = null;
let shown = () => {};

async function exportSession() {
  try {
    const { text, left_out } = await call("session", { connection: "main" });
    if (!text) { announce("There are no messages"); return; }
    save(`session-${new Date().toISOString().slice(0, 19).replaceAll(":", "-")}.jsonl`, new Blob([text], { type: "application/jsonl" }));
    announce(left_out ? `Session saved, without its ${left_out} oldest messages` : "Session saved");
  } catch (error) {
    announce(error.message);
  }
}

/** The buttons of the messages: save this session, open another one. `open` shows the view of it. */
export function sessionActions(open) {
  const file = h("input", { type: "file", accept: ".jsonl,application/jsonl", class: "unseen", tabindex: -1, "aria-hidden": "true", onchange: async () => {
    const [chosen] = file.files;
    file.value = "";
    if (!chosen) return;
    try {
      imported = { name: chosen.name, bytes: chosen.size, events: readRecording(chosen.size > 64e6 ? "x".repeat(64e6 + 1) : await chosen.text()) };
    } catch (error) {
      imported = { name: chosen.name, bytes: chosen.size, error: error.message };
    }
    open();
    shown();
  } });
  return [file, button("Export", exportSession, { class: "small", "aria-label": "Export the session", title: "a recording, as ferrule trace writes it; secrets are masked" }),
    button("Import", () => file.click(), { class: "small", "aria-label": "Import a session", title: "a recording; it is only shown" })];
}

export function sessionView(leave) {
  const place = h("div", { class: "page session" });
  shown = () => {
    if (!imported) { fill(place, h("p", { class: "dim" }, "No session was imported.")); return; }
    const close = button("Close", () => { imported = null; leave(); }, { class: "small" });
    const head = h("div", { class: "row" }, h("h2", { tabindex: -1 }, say(imported.name)), h("span", { class: "chip" }, "read only"), h("span", { class: "grow" }), close);
    if (imported.error) { fill(place, head, h("p", { class: "flag bad", role: "alert" }, say(imported.error))); return; }
    fill(place, head, aboutOf(imported), listOf(imported.events));
    place.querySelector("h2").focus();
  };
  shown();
  return { element: place };
}

function aboutOf({ events, bytes }) {
  const answers = events.map((event) => event.message?.result).filter(Boolean);
  const info = answers.map((result) => result.serverInfo ?? result._meta?.["io.modelcontextprotocol/serverInfo"]).find((each) => typeof each?.name === "string");
  const words = info ? [info.title ?? info.name, info.version].filter((each) => typeof each === "string").join(" ") : "";
  const took = events[events.length - 1].at_ms - events[0].at_ms;
  return h("p", { class: "dim" }, words ? [say(clip(words, 200)), " · "] : null,
    `${events.length} messages, ${size(bytes)}, ${duration(took)}. Nothing here is connected.`);
}

function listOf(events) {
  const entries = exchangesOf(events);
  const filter = h("input", { type: "search", class: "filter", placeholder: "Filter", "aria-label": "Filter the session" });
  const count = h("span", { class: "dim", role: "status" });
  const list = h("ol", { class: "messages" });
  const box = h("div", { class: "session-messages", tabindex: 0, role: "region", "aria-label": "Messages of the session; the arrow keys move among them" }, list);
  moving(box);
  const show = () => {
    const words = filter.value.trim().toLowerCase();
    const found = entries.filter((entry) => (words ? textOf(entry).includes(words) : !isPolling(entry)));
    const failed = found.filter(hasFailed).length;
    count.textContent = `${found.length ? found.length : `none of ${entries.length}`}${failed ? `, ${failed} failed` : ""}${found.length > MAX_ROWS ? `; the first ${MAX_ROWS} are shown` : ""}`;
    fill(list, found.slice(0, MAX_ROWS).map((entry) => row(entry).element));
  };
  filter.addEventListener("input", show);
  show();
  return [h("div", { class: "row" }, filter, count), box];
}
