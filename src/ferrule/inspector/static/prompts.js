import { clip, h, longText, say } from "./dom.js";
import { completing } from "./completing.js";
import { draftOf, followDraft, setDraft } from "./drafts.js";
import { historyView, lastCall } from "./history.js";
import { jsonView } from "./json.js";
import { listView } from "./lists.js";
import { outcomeView } from "./outcome.js";
import { blockView } from "./result.js";
import { on } from "./store.js";

export function promptsView(onchoose) {
  return listView({
    label: "Prompts",
    view: "prompts",
    onchoose,
    kinds: ["prompts"],
    keyOf: ({ item }) => item.name,
    describe: ({ item }) => ({ title: item.name, note: clip(item.description || "", 140), chips: [] }),
    detail: ({ item }) => promptDetail(item),
    empty: "This server offers no prompts.",
  });
}

function promptDetail(prompt) {
  const values = Object.create(null);
  const outcome = outcomeView();
  const fields = (prompt.arguments || []).slice(0, 100).map((argument) => [argument, completing({
    name: argument.name, description: argument.description, required: argument.required,
    ref: { type: "ref/prompt", name: prompt.name }, others: () => values, oninput: (value) => { values[argument.name] = value; },
  })]);
  const render = (found) => h("div", { class: "blocks" }, found.description ? h("p", { class: "dim" }, say(found.description)) : null,
    (found.messages || []).slice(0, 200).map((message) => h("div", { class: `turn ${message.role === "assistant" ? "assistant" : "user"}` },
      h("p", { class: "eyebrow" }, say(message.role)), (Array.isArray(message.content) ? message.content.slice(0, 50) : [message.content]).map((block) => blockView(block)))));
  const place = `prompts/${prompt.name}`;
  const fieldsElement = h("div", { class: "fields" }, fields.map(([, field]) => field.element));
  const fillIn = () => {
    const given = draftOf(place) || {};
    for (const [argument, field] of fields) {
      const value = Object.hasOwn(given, argument.name) ? String(given[argument.name]) : "";
      field.input.value = value;
      values[argument.name] = value;
    }
  };
  fillIn();
  followDraft(place, { element: fieldsElement, peek: () => ({ ...values }) });
  const attach = () => {
    const last = outcome.current === null ? lastCall(["prompt"], prompt.name) : undefined;
    if (last) outcome.attach(last.key, render);
  };
  attach();
  on("job", attach, outcome.element);
  const history = historyView({ ops: ["prompt"], title: prompt.name, outcome, render, onedit: (given) => { setDraft(place, given); fillIn(); fields[0]?.[1].input.focus(); } });
  return [
    h("header", { class: "detail-head" }, h("h2", { tabindex: -1 }, say(prompt.name)), prompt.title ? h("span", { class: "dim" }, say(prompt.title)) : null),
    prompt.description ? longText(prompt.description, { class: "text prose" }) : null,
    h("form", { class: "call", novalidate: true, "aria-label": `Fill in ${prompt.name}`, onsubmit: (event) => {
      event.preventDefault();
      const missing = fields.find(([argument]) => argument.required && !values[argument.name]);
      for (const [argument, field] of fields) field.input.toggleAttribute("aria-invalid", false);
      if (missing) { missing[1].input.setAttribute("aria-invalid", "true"); missing[1].input.focus(); return; }
      outcome.start("prompt", { name: prompt.name, arguments: Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "")) }, render);
    } },
    fields.length ? fieldsElement : h("p", { class: "dim" }, "No arguments."),
    h("div", { class: "row call-actions" }, h("button", { type: "submit", class: "primary" }, "Fill in"))),
    outcome.element, history, h("details", { class: "schemas" }, h("summary", {}, "Definition"), jsonView(prompt, { name: prompt.name })),
  ];
}
