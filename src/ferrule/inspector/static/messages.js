// Every message with its time, a request and its answer in one line; the messages themselves when a line is opened.

import { call } from "./api.js";
import { button, clip, copy, duration, fill, h, roving, say, size } from "./dom.js";
import { exchangesOf, foldedOf, hasFailed, isPolling, openOf, textOf } from "./exchanges.js";
import { jsonView } from "./json.js";
import { changed, on, state } from "./store.js";

const MAX_ROWS = 400;
const MAX_INNER = 200;
const MAX_BYTES = 2e6; // a larger message is loaded only if one asks for it

/** A list of messages, each of which opens. */
export function messageList(events) {
  if (!events.length) return h("p", { class: "dim" }, "No messages.");
  const list = h("ol", { class: "messages", tabindex: 0, "aria-label": "Messages; the arrow keys move among them" }, exchangesOf(events).map((entry) => row(entry).element));
  moving(list);
  return list;
}

/** One stop of Tab for a list of any length; inside, the arrow keys. */
export function moving(box) {
  box.addEventListener("keydown", (event) => {
    if (event.target !== box || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
    const heads = [...box.querySelectorAll(".message > summary")].filter((head) => head.checkVisibility());
    if (!heads.length) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    heads[event.key === "ArrowDown" ? 0 : heads.length - 1].focus();
  });
  roving(box, ".message > summary");
}

const KINDS = { raw: "not a message", batch: "batch", http: "http" };

/** The line of an entry: {element, update}. */
export function row(entry, marksConnections = false) {
  const head = h("summary", { tabindex: -1 });
  const body = h("div", { class: "message-body" });
  const details = h("details", { class: `message ${entry.event.what} ${entry.event.direction}`, "data-connection": entry.event.connection }, head, body);
  const inner = h("ol", { class: "message-inner", hidden: true });
  const element = h("li", {}, details, inner);
  const rows = new Map(); // of entries inside
  const parts = new Map(); // of messages that were loaded
  const folded = h("details", { class: "message-folded", hidden: true }, h("summary", {}), h("ol", { class: "message-list" }));
  let now = entry;
  let shownAs = "";

  function update(latest) {
    now = latest;
    const inside = foldedOf(now);
    const open = openOf(now);
    const text = [now.answer?.number, inside.length, open.map((each) => `${each.event.number} ${each.answer?.number} ${each.inner.length}`)].join();
    if (text === shownAs) return;
    shownAs = text;
    drawHead(inside);
    inner.hidden = !open.length;
    for (const each of open.slice(0, MAX_INNER)) {
      const known = rows.get(each.event.number);
      if (known) known.update(each);
      else {
        const made = row(each);
        rows.set(each.event.number, made);
        inner.append(made.element);
      }
    }
    if (details.open) drawBody();
  }

  function drawHead(inside) {
    const { event, answer } = now;
    const isOut = event.direction === "out";
    const side = `${isOut ? "to the server" : "from the server"}${answer ? ", answered" : ""}`;
    const isBad = hasFailed(now);
    const kind = KINDS[event.what];
    details.classList.toggle("error", isBad);
    fill(head, h("span", { class: "at" }, (event.at_ms / 1000).toFixed(3)),
      h("span", { class: "arrow", title: side, "aria-label": side, role: "img" }, answer ? "⇄" : isOut ? "→" : "←"),
      h("span", { class: "what" }, say(event.method || event.what), event.subject ? h("span", { class: "subject" }, " ", say(clip(event.subject, 60))) : null),
      event.connection !== "main" && marksConnections ? h("span", { class: `era ${event.connection}` }, say(event.connection)) : null,
      inside.length ? h("span", { class: "chip", title: `${inside.length} more messages inside` }, `+${inside.length}`) : null,
      kind ? h("span", { class: `chip ${event.what}` }, kind) : null,
      isBad ? h("span", { class: "chip error" }, "failed") : null,
      event.what === "request" && !answer ? h("span", { class: "chip" }, "no answer yet") : null,
      h("span", { class: "took" }, answer?.took_ms !== undefined ? duration(answer.took_ms) : event.took_ms !== undefined ? duration(event.took_ms) : ""),
      h("span", { class: "bytes", title: answer ? `request ${size(event.bytes)}, answer ${size(answer.bytes)}` : undefined }, event.what === "http" ? "" : size(event.bytes + (answer?.bytes || 0))));
  }

  function drawBody() {
    for (const [event, title] of [[now.event, now.answer ? "Request" : ""], [now.answer, "Answer"]]) {
      if (!event || parts.has(event.number)) continue;
      const place = h("div", { class: "message-part" });
      parts.set(event.number, place);
      if (title) body.insertBefore(h("h4", {}, title), folded.parentNode ? folded : null);
      body.insertBefore(place, folded.parentNode ? folded : null);
      load(event, place);
    }
    const inside = foldedOf(now);
    if (!inside.length) return;
    if (!folded.parentNode) body.append(folded);
    folded.hidden = false;
    const notes = inside.filter((each) => each.event.what === "notification").length;
    const words = [notes ? `${notes} notification${notes === 1 ? "" : "s"}` : "", inside.length > notes ? `${inside.length - notes} request${inside.length - notes === 1 ? "" : "s"} for the state` : ""];
    fill(folded.firstChild, words.filter(Boolean).join(", "));
    if (folded.open) drawFolded();
  }

  function drawFolded() {
    const list = folded.lastChild;
    const inside = foldedOf(now).slice(0, MAX_INNER);
    for (const each of inside.slice(list.children.length)) list.append(row(each).element);
  }
  folded.addEventListener("toggle", () => { if (folded.open) drawFolded(); });

  details.addEventListener("toggle", () => {
    if (!details.open) return;
    drawBody();
    requestAnimationFrame(() => details.scrollIntoView({ block: "nearest" }));
  });
  update(entry);
  return { element, update };
}

async function load(event, place, isAsked = false) {
  if (event.bytes > MAX_BYTES && !isAsked) {
    fill(place, h("p", { class: "row dim" }, `${size(event.bytes)} are not shown at once.`, button("Show", () => load(event, place, true), { class: "small" })));
    return;
  }
  try {
    const found = "message" in event ? { message: event.message } : await call("message", { number: event.number });
    fill(place, found.http ? httpView(found.http) : null, event.what === "http" ? null : jsonView(found.message, { name: "message" }));
  } catch (error) {
    fill(place, h("p", { class: "row dim" }, error.message, button("Try again", () => load(event, place, isAsked), { class: "small" })));
  }
}

function httpView(http) {
  const head = http.status ? `HTTP ${http.status}` : `${http.method} ${http.url}`;
  return h("details", { class: "http-facts" }, h("summary", {}, say(head)),
    h("dl", { class: "facts" }, Object.entries(http.headers || {}).map(([name, value]) => [h("dt", {}, say(name)), h("dd", {}, say(clip(value, 500)))])));
}

/** The panel beside every view. `actions` are further buttons in its head. */
export function messagesPanel(place, actions = []) {
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the messages", class: "filter" });
  const connection = h("select", { "aria-label": "Connection" }, h("option", { value: "" }, "all"), ["main", "legacy", "modern"].map((name) => h("option", { value: name }, name)));
  const polling = button("Polling", () => { polling.setAttribute("aria-pressed", String(polling.getAttribute("aria-pressed") !== "true")); show(); },
    { class: "small", "aria-pressed": "false", title: "pings, states of tasks, streams that are kept open" });
  const count = h("span", { class: "dim" });
  const list = h("ol", { class: "messages" });
  const rows = new Map();
  const older = h("p", { class: "dim", hidden: true });
  const scroll = h("div", { class: "panel-scroll", tabindex: 0, role: "region", "aria-label": "Messages; the arrow keys move among them" }, older, list);
  moving(scroll);
  const exporter = button("Copy", () => copy(JSON.stringify(chosen().map((entry) => entry.event), null, 1), "List of messages copied"), { class: "small", "aria-label": "Copy the list of messages" });
  fill(place, h("div", { class: "panel-head" }, h("h2", {}, "Messages"), count,
    h("span", { class: "grow" }), actions, exporter, button("Clear", () => call("clear"), { class: "small", "aria-label": "Clear the messages" })),
    h("div", { class: "panel-tools" }, filter, connection, polling), scroll);

  const entries = () => exchangesOf(state.messages.filter((event) => !connection.value || event.connection === connection.value));

  function chosen(all = entries()) {
    const words = filter.value.trim().toLowerCase();
    const isShown = polling.getAttribute("aria-pressed") === "true" || words;
    return all.filter((entry) => (isShown || !isPolling(entry)) && (!words || textOf(entry).includes(words)));
  }

  function show() {
    const all = entries();
    const found = chosen(all);
    const wanted = found.slice(-MAX_ROWS);
    const isAtEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 40;
    const idle = all.filter(isPolling).length;
    polling.hidden = !idle;
    polling.textContent = `Polling ${idle}`;
    count.textContent = filter.value.trim() && !found.length ? `none of ${all.length}` : String(found.length);
    older.hidden = wanted.length === found.length;
    older.textContent = `${found.length - wanted.length} older ones are not shown`;
    const keep = new Set(wanted.map((entry) => entry.event.number));
    for (const [number, made] of rows) if (!keep.has(number)) { made.element.remove(); rows.delete(number); }
    wanted.forEach((entry, at) => {
      let made = rows.get(entry.event.number);
      if (made) made.update(entry);
      else rows.set(entry.event.number, made = row(entry, true));
      if (list.children[at] !== made.element) list.insertBefore(made.element, list.children[at] || null);
    });
    if (isAtEnd) scroll.scrollTop = scroll.scrollHeight;
  }

  const anew = () => { rows.clear(); fill(list); show(); };
  filter.addEventListener("input", anew);
  connection.addEventListener("change", anew);
  on("message", () => { if (!state.messages.length) { rows.clear(); fill(list); } show(); });
  show();
  changed("message");
}
