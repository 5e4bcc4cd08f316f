import { call } from "./api.js";
import { announce, button, clip, fill, h, newId, say } from "./dom.js";
import { loadSettings, main, on, state } from "./store.js";

const LISTS = [["tools", "tools/list"], ["resources", "resources/list"], ["prompts", "prompts/list"]];
const MAX_LINES = 400;

export function liveView() {
  return { element: h("div", { class: "page live" }, changesSection(), logSection()) };
}

function changesSection() {
  const boxes = h("div", { class: "choices" });
  const open = h("ul", { class: "plain" });
  const events = h("ol", { class: "lines", tabindex: 0, "data-empty": "Nothing has changed yet." });
  const uri = h("input", { id: newId("uri"), spellcheck: "false", autocomplete: "off" });
  const toggle = async (key, body, isOn) => {
    try {
      await call(isOn ? "subscribe" : "unsubscribe", { subscription: key, ...body });
    } catch (error) { announce(error.message); }
  };

  function show() {
    const capabilities = main()?.capabilities || {};
    fill(boxes, LISTS.map(([kind, title]) => {
      const isOffered = Boolean(capabilities[kind]?.listChanged);
      const isOn = state.subscriptions.has(`list ${kind}`);
      return h("label", { class: "check" }, h("input", { type: "checkbox", checked: isOn, disabled: !isOffered,
        onchange: (event) => toggle(`list ${kind}`, { [kind]: true }, event.target.checked) }), " ", title, isOffered ? null : h("span", { class: "dim" }, " (not offered)"));
    }));
    fill(open, [...state.subscriptions.values()].map((each) => h("li", { class: "row" },
      h("span", { class: `state ${each.state === "open" ? "done" : each.state}` }, each.state), h("span", {}, say(each.key)),
      each.error ? h("span", { class: "problem" }, say(each.error)) : null, h("span", { class: "grow" }),
      button("End", () => call("unsubscribe", { subscription: each.key }), { class: "small", "aria-label": `End the subscription to ${each.key}` }))));
  }

  let shown = 0;
  function showChanges() {
    if (shown > state.changes.length) { shown = 0; fill(events); }
    for (const event of state.changes.slice(shown)) events.append(h("li", {}, h("span", { class: "at" }, (event.at_ms / 1000).toFixed(3)), " ",
      h("span", { class: "chip" }, event.what), " ", say(event.uri || (event.what === "gap" ? "the connection broke; something may have been missed" : event.method))));
    shown = state.changes.length;
    while (events.children.length > MAX_LINES) events.firstChild.remove();
    events.scrollTop = events.scrollHeight;
  }

  on("subscription connection", show);
  on("change shown", showChanges);
  show();
  showChanges();
  return h("section", { "aria-label": "Subscriptions" }, h("h2", {}, "Subscriptions"),
    h("p", { class: "note" }, "Tell me when these change. A list that changed is loaded again."), boxes,
    h("form", { class: "row", "aria-label": "Watch a resource", onsubmit: (event) => {
      event.preventDefault();
      if (uri.value) toggle(`resource ${uri.value}`.slice(0, 64), { uris: [uri.value] }, true);
    } }, h("label", { for: uri.id }, "Resource URI"), uri, h("button", { type: "submit" }, "Watch")), open, h("div", { class: "log-box", role: "log", "aria-label": "Changes" }, events));
}

function logSection() {
  const level = h("select", { id: newId("level"), onchange: () => call("log_level", { level: level.value }).then(loadSettings, (error) => announce(error.message)) });
  const lines = h("ol", { class: "lines log", tabindex: 0, "data-empty": "Nothing was said yet." });
  let shown = 0;
  function show() {
    if (shown > state.logs.length || (shown && state.logs.length < shown)) { shown = 0; fill(lines); }
    for (const event of state.logs.slice(shown)) {
      const kind = event.kind === "log" ? event.level : event.kind;
      const before = lines.lastChild;
      if (kind === "stderr" && before?.className === "log-stderr") { // a traceback is one thing
        before.lastChild.append("\n", say(clip(event.text, 4000)));
        continue;
      }
      if (kind === "stderr") {
        lines.append(h("li", { class: "log-stderr" }, h("span", { class: "at" }, (event.at_ms / 1000).toFixed(3)), " ", h("span", { class: "chip" }, kind),
          h("pre", { class: "stderr" }, say(clip(event.text, 4000)))));
        continue;
      }
      lines.append(h("li", { class: `log-${kind}` }, h("span", { class: "at" }, (event.at_ms / 1000).toFixed(3)), " ", h("span", { class: `chip ${kind}` }, kind), " ",
        event.logger ? h("span", { class: "dim" }, say(event.logger), " ") : null, say(clip(event.text, 4000))));
    }
    shown = state.logs.length;
    while (lines.children.length > MAX_LINES) lines.firstChild.remove();
    lines.scrollTop = lines.scrollHeight;
  }
  on("log shown", show);
  on("settings", () => {
    fill(level, (state.settings?.log_levels || []).map((name) => h("option", {}, name)));
    level.value = state.settings?.log_level || "info";
  });
  show();
  return h("section", { "aria-label": "Log" }, h("div", { class: "row" }, h("h2", {}, "Log"), h("span", { class: "grow" }), h("label", { for: level.id }, "Level"), level),
    h("p", { class: "note" }, "Log messages of the server, and what its process writes to stderr."), h("div", { class: "log-box", role: "log", "aria-label": "Log" }, lines));
}
