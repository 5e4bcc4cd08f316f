// Every message with its time; the message itself when it is opened.

import { call } from "./api.js";
import { button, clip, copy, duration, fill, h, roving, say, size } from "./dom.js";
import { jsonView } from "./json.js";
import { changed, on, state } from "./store.js";

const MAX_ROWS = 400;

/** A list of messages, each of which opens. */
export function messageList(events) {
  if (!events.length) return h("p", { class: "dim" }, "No messages.");
  const list = h("ol", { class: "messages", tabindex: 0, "aria-label": "Messages; the arrow keys move among them" }, events.map((event) => row(event)));
  moving(list);
  return list;
}

/** One stop of Tab for a list of any length; inside, the arrow keys. */
function moving(box) {
  box.addEventListener("keydown", (event) => {
    if (event.target !== box || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
    const heads = box.querySelectorAll(".message > summary");
    if (!heads.length) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    heads[event.key === "ArrowDown" ? 0 : heads.length - 1].focus();
  });
  roving(box, ".message > summary");
}

function row(event, marksConnections = false) {
  const arrow = event.direction === "out" ? "→" : "←";
  const side = event.direction === "out" ? "to the server" : "from the server";
  const kind = { request: "", notification: "", result: "", error: "error", http: "http", raw: "not a message", batch: "batch" }[event.what] ?? "";
  const place = h("div", { class: "message-body" });
  let isLoaded = false;
  const details = h("details", { class: `message ${event.what} ${event.direction}`, "data-connection": event.connection },
    h("summary", { tabindex: -1 },
      h("span", { class: "at" }, (event.at_ms / 1000).toFixed(3)),
      h("span", { class: "arrow", title: side, "aria-label": side, role: "img" }, arrow),
      h("span", { class: "what" }, say(event.method || event.what), event.subject ? h("span", { class: "subject" }, " ", say(clip(event.subject, 60))) : null),
      event.connection !== "main" && marksConnections ? h("span", { class: `era ${event.connection}` }, event.connection) : null,
      kind ? h("span", { class: `chip ${event.what}` }, kind) : null,
      h("span", { class: "took" }, event.took_ms !== undefined ? duration(event.took_ms) : ""),
      h("span", { class: "bytes" }, event.what === "http" ? "" : size(event.bytes))), place);
  details.addEventListener("toggle", async () => {
    if (!details.open || isLoaded) return;
    isLoaded = true;
    try {
      const found = await call("message", { number: event.number });
      fill(place, found.http ? httpView(found.http) : null, event.what === "http" ? null : jsonView(found.message, { name: "message" }));
    } catch (error) {
      isLoaded = false;
      fill(place, h("p", { class: "dim" }, error.message));
    }
  });
  return h("li", {}, details);
}

function httpView(http) {
  const head = http.status ? `HTTP ${http.status}` : `${http.method} ${http.url}`;
  return h("details", { class: "http-facts" }, h("summary", {}, say(head)),
    h("dl", { class: "facts" }, Object.entries(http.headers || {}).map(([name, value]) => [h("dt", {}, say(name)), h("dd", {}, say(clip(value, 500)))])));
}

/** The panel beside every view. */
export function messagesPanel(place) {
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the messages", class: "filter" });
  const connection = h("select", { "aria-label": "Connection" }, h("option", { value: "" }, "all"), ["main", "legacy", "modern"].map((name) => h("option", { value: name }, name)));
  const count = h("span", { class: "dim" });
  const list = h("ol", { class: "messages" });
  const rows = new Map();
  const older = h("p", { class: "dim", hidden: true });
  const scroll = h("div", { class: "panel-scroll", tabindex: 0, role: "region", "aria-label": "Messages; the arrow keys move among them" }, older, list);
  moving(scroll);
  const exporter = button("Copy", () => copy(JSON.stringify(chosen(), null, 1), "List of messages copied"), { class: "small", "aria-label": "Copy the list of messages" });
  fill(place, h("div", { class: "panel-head" }, h("h2", {}, "Messages"), count,
    h("span", { class: "grow" }), exporter, button("Clear", () => call("clear"), { class: "small", "aria-label": "Clear the messages" })),
    h("div", { class: "panel-tools" }, filter, connection), scroll);

  function chosen() {
    const words = filter.value.trim().toLowerCase();
    return state.messages.filter((event) => (!connection.value || event.connection === connection.value)
      && (!words || `${event.method || ""} ${event.subject || ""} ${event.what}`.toLowerCase().includes(words)));
  }

  function show() {
    const all = chosen();
    const wanted = all.slice(-MAX_ROWS);
    const isAtEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 40;
    count.textContent = String(all.length);
    older.hidden = wanted.length === all.length;
    older.textContent = `${all.length - wanted.length} older ones are not shown`;
    const keep = new Set(wanted.map((event) => event.number));
    for (const [number, element] of rows) if (!keep.has(number)) { element.remove(); rows.delete(number); }
    for (const event of wanted) {
      let element = rows.get(event.number);
      if (!element) rows.set(event.number, element = row(event, true));
      if (!element.isConnected) list.append(element);
    }
    if (isAtEnd) scroll.scrollTop = scroll.scrollHeight;
  }

  const anew = () => { rows.clear(); fill(list); show(); };
  filter.addEventListener("input", anew);
  connection.addEventListener("change", anew);
  on("message", () => { if (!state.messages.length) { rows.clear(); fill(list); } show(); });
  show();
  changed("message");
}
