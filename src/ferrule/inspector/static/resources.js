import { call } from "./api.js";
import { button, clip, fill, h, longText, newId, say } from "./dom.js";
import { completing } from "./completing.js";
import { followDraft } from "./drafts.js";
import { historyView, lastCall } from "./history.js";
import { jsonView } from "./json.js";
import { listView } from "./lists.js";
import { outcomeView } from "./outcome.js";
import { resourceView } from "./result.js";
import { main, on, state } from "./store.js";

const MAX_VARIABLES = 50;

export function resourcesView(onchoose) {
  const view = listView({
    label: "Resources",
    view: "resources",
    onchoose,
    kinds: ["resources", "templates"],
    keyOf: ({ item }) => item.uri || item.uriTemplate,
    describe: ({ kind, item }) => ({ title: item.title || item.name || item.uri, note: clip(item.uri || item.uriTemplate || "", 200), chips: kind === "templates" ? ["template"] : [] }),
    detail: ({ kind, item }) => (kind === "templates" ? templateDetail(item) : resourceDetail(item)),
    empty: "This server offers no resources.",
  });
  const any = h("input", { id: newId("uri"), placeholder: "any URI", spellcheck: "false", autocomplete: "off" });
  const outcome = outcomeView();
  const place = h("form", { class: "any-uri", "aria-label": "Read any resource", onsubmit: (event) => { event.preventDefault(); if (any.value) read(outcome, any.value); } },
    h("label", { for: any.id }, "URI"), any, h("button", { type: "submit", class: "small" }, "Read"));
  const more = h("div", {}, place, outcome.element);
  view.element.querySelector(".list-side").append(more);
  return {
    ...view,
    get chosen() { return view.chosen; },
    show(key) { view.choose(key); },
    choose(uri) {
      if ((state.lists.resources || []).some((item) => item.uri === uri)) {
        view.choose(uri, { focus: true });
        view.element.querySelector(".detail .primary")?.click();
      } else { any.value = uri; read(outcome, uri); }
    },
  };
}

const render = (found) => h("div", { class: "blocks" }, (found.contents || []).slice(0, 200).map(resourceView));

function read(outcome, uri) {
  outcome.start("read", { uri }, render);
}

/** Show the newest call of a resource, once it is known, and follow it if it runs. */
function attachLast(outcome, uri) {
  const attach = () => {
    const last = outcome.current === null ? lastCall(["read"], uri) : undefined;
    if (last) outcome.attach(last.key, render);
  };
  attach();
  on("job", attach, outcome.element);
}

function head(item, extra) {
  return [
    h("header", { class: "detail-head" }, h("h2", { tabindex: -1 }, say(item.title || item.name)), extra),
    h("p", { class: "uri-line" }, h("code", { class: "uri" }, say(item.uri || item.uriTemplate)), item.mimeType ? h("span", { class: "dim" }, ` ${clip(item.mimeType, 80)}`) : null),
    item.description ? longText(item.description, { class: "text prose" }) : null,
  ];
}

function watchButton(uri) {
  const made = button("Watch", toggle, { "aria-pressed": "false" });
  const news = h("span", { class: "dim", role: "status" });
  const key = `resource ${uri}`.slice(0, 64);
  async function toggle() {
    made.disabled = true;
    try {
      await call(state.subscriptions.has(key) ? "unsubscribe" : "subscribe", { subscription: key, uris: [uri] });
    } catch (error) {
      news.textContent = error.message;
    }
    made.disabled = false;
  }
  const show = () => {
    const subscription = state.subscriptions.get(key);
    const isOn = Boolean(subscription) && subscription.state !== "failed";
    made.setAttribute("aria-pressed", String(isOn));
    made.textContent = isOn ? "Watching" : "Watch";
    const count = state.changes.filter((event) => event.subscription === key && event.what === "resource").length;
    news.textContent = subscription?.error || (count ? `changed ${count} time${count === 1 ? "" : "s"}` : isOn ? subscription.state : "");
  };
  on("subscription change", show, made);
  show();
  return [made, news];
}

function resourceDetail(item) {
  const outcome = outcomeView();
  const canWatch = main()?.capabilities?.resources?.subscribe;
  const reader = button("Read", () => read(outcome, item.uri), { class: "primary" });
  const key = `resource ${item.uri}`.slice(0, 64);
  let seen = state.changes.length;
  on("change", () => { // a watched resource that is on show is read again
    const news = state.changes.slice(seen).some((event) => event.subscription === key && event.what === "resource");
    seen = state.changes.length;
    if (news && outcome.element.isConnected && !outcome.element.hidden) read(outcome, item.uri);
  }, outcome.element);
  attachLast(outcome, item.uri);
  return [head(item), h("div", { class: "row call-actions" }, reader, canWatch ? watchButton(item.uri) : null), outcome.element,
    historyView({ ops: ["read"], title: item.uri, outcome, render }),
    h("details", { class: "schemas" }, h("summary", {}, "Definition"), jsonView(item, { name: item.name }))];
}

function templateDetail(item) {
  const outcome = outcomeView();
  const names = [...new Set([...item.uriTemplate.matchAll(/\{[+#./;?&]?([^{}]+)\}/g)].flatMap((found) => found[1].split(",").map((part) => part.replace(/[*:].*$/, ""))))].slice(0, MAX_VARIABLES);
  const values = Object.create(null);
  const uri = h("input", { id: newId("uri"), spellcheck: "false", autocomplete: "off" });
  const expanded = () => item.uriTemplate.replace(/\{([+#./;?&]?)([^{}]+)\}/g, (all, operator, list) => {
    const parts = list.split(",").map((part) => part.replace(/[*:].*$/, "")).filter((name) => values[name]);
    const plain = operator === "+" || operator === "#" ? encodeURI : encodeURIComponent;
    if (!parts.length) return "";
    const start = { "": "", "+": "", "#": "#", ".": ".", "/": "/", ";": ";", "?": "?", "&": "&" }[operator];
    const between = { "": ",", "+": ",", "#": ",", ".": ".", "/": "/", ";": ";", "?": "&", "&": "&" }[operator];
    return start + parts.map((name) => (";?&".includes(operator) && operator ? `${name}=${plain(values[name])}` : plain(values[name]))).join(between);
  });
  const update = () => { uri.value = expanded(); };
  const fields = names.map((name) => completing({ name, required: true, ref: { type: "ref/resource", uri: item.uriTemplate }, others: () => values,
    oninput: (value) => { values[name] = value; update(); } }));
  update();
  const fieldsElement = h("div", { class: "fields" }, fields.map((field) => field.element), h("div", { class: "field" }, h("label", { for: uri.id }, "URI"), uri));
  followDraft(`resources/${item.uriTemplate}`, { element: fieldsElement, peek: () => ({ ...values }) });
  if (uri.value) attachLast(outcome, uri.value);
  return [head(item, h("span", { class: "chip" }, "template")),
    h("form", { class: "call", novalidate: true, "aria-label": `Read from ${item.name}`, onsubmit: (event) => { event.preventDefault(); read(outcome, uri.value); } },
      fieldsElement,
      h("div", { class: "row call-actions" }, h("button", { type: "submit", class: "primary" }, "Read"))),
    outcome.element, h("details", { class: "schemas" }, h("summary", {}, "Definition"), jsonView(item, { name: item.name }))];
}
