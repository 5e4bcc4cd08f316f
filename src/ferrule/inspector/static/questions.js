// Requests of the server to the user: a form, a URL to open, or an answer instead of a model's.

import { call } from "./api.js";
import { announce, button, clip, fill, h, longText, newId, say } from "./dom.js";
import { parseExact } from "./exact.js";
import { schemaForm } from "./form.js";
import { jsonView } from "./json.js";
import { blockView, uriView } from "./result.js";
import { changed, on, state } from "./store.js";

let shown = null;
let dialog = null;
let later = new Set();

export function watchQuestions(banners) {
  const place = h("div");
  banners.append(place);
  on("question", () => {
    if (shown && !state.questions.has(shown)) close();
    for (const key of later) if (!state.questions.has(key)) later.delete(key);
    const waiting = [...state.questions.values()];
    const next = waiting.find((question) => !later.has(question.key));
    if (!shown && next) open(next);
    const put = waiting.filter((question) => later.has(question.key));
    fill(place,
      put.map((question) => h("div", { class: "banner ask" }, h("span", {}, "The server waits for an answer: ", say(question.params?.message || question.method)),
        button("Answer", () => { later.delete(question.key); if (shown) close(); open(question); }))),
      [...state.signIns].map(([connection, url]) => h("div", { class: "banner ask" },
        h("span", {}, `The ${connection} connection needs a sign-in. Open this page: `, uriView(url, 120)))));
  });
}

function close() {
  const last = dialog;
  shown = null;
  dialog = null;
  if (last) { last.close(); last.remove(); }
}

function open(question) {
  shown = question.key;
  const asked = question.params || {};
  const title = newId("question");
  const problem = h("p", { class: "problem", role: "alert" });
  const answer = async (value) => {
    try {
      await call("answer", { question: question.key, answer: value });
      state.questions.delete(question.key);
      if (shown === question.key) close(); // the next question may be on show already: the feed can be first
      changed("question");
      announce("Answered");
    } catch (error) {
      problem.textContent = error.message;
    }
  };
  const part = question.method === "sampling/createMessage" ? sampling(asked, answer)
    : asked.mode === "url" ? page(asked, answer) : formOf(asked, answer);
  dialog = h("dialog", { class: "question", "aria-labelledby": title },
    h("form", { class: "dialog-form", novalidate: true, onsubmit: (event) => { event.preventDefault(); part.accept(); } },
      h("p", { class: "eyebrow" }, question.connection === "main" ? null : [h("span", { class: `era ${question.connection}` }, question.connection), " "],
        say(clip(question.server, 60)), ` · ${question.method}`),
      h("h2", { id: title }, part.title), part.element, problem,
      h("div", { class: "row dialog-actions" }, part.actions, h("span", { class: "grow" }),
        button("Later", () => { later.add(question.key); close(); changed("question"); }, { class: "quiet" }))));
  dialog.addEventListener("cancel", (event) => { event.preventDefault(); part.cancel(); });
  document.body.append(dialog);
  dialog.showModal();
  (dialog.querySelector(".dialog-body input, .dialog-body select, .dialog-body textarea") || dialog.querySelector("button"))?.focus();
}

const submit = (label) => h("button", { type: "submit", class: "primary" }, label);

function formOf(asked, answer) {
  const form = schemaForm(asked.requestedSchema || {});
  return {
    title: "The server asks",
    element: h("div", { class: "dialog-body" }, h("div", { class: "asked" }, longText(String(asked.message ?? ""))), form.element,
      h("p", { class: "note" }, "Do not send passwords or keys in such a form.")),
    actions: [submit("Send"), button("Decline", () => answer({ action: "decline" })), button("Cancel", () => answer({ action: "cancel" }))],
    accept() {
      const { value, problems } = form.read();
      if (problems.length) form.firstProblem()?.focus();
      else answer({ action: "accept", content: value });
    },
    cancel: () => answer({ action: "cancel" }),
  };
}

function page(asked, answer) {
  return {
    title: "The server asks you to open a page",
    element: h("div", { class: "dialog-body" }, h("div", { class: "asked" }, longText(String(asked.message ?? ""))),
      h("p", {}, "Look at the address before you open it: ", uriView(asked.url))),
    actions: [submit("I will"), button("Decline", () => answer({ action: "decline" })), button("Cancel", () => answer({ action: "cancel" }))],
    accept: () => answer({ action: "accept" }),
    cancel: () => answer({ action: "cancel" }),
  };
}

function sampling(asked, answer) {
  const text = h("textarea", { id: newId("answer"), rows: 5, "aria-required": "true" });
  const model = h("input", { id: newId("model"), value: "inspector", autocomplete: "off", spellcheck: "false" });
  const tools = Array.isArray(asked.tools) ? asked.tools.slice(0, 500) : [];
  const tool = h("select", { id: newId("tool") }, h("option", { value: "" }, "an answer in words"), tools.map((each, at) => h("option", { value: String(at) }, `use ${each.name}`)));
  const stop = h("select", { id: newId("stop") }, ["endTurn", "maxTokens", "stopSequence"].map((name) => h("option", {}, name)));
  const messages = Array.isArray(asked.messages) ? asked.messages : [];
  return {
    title: "The server asks a model",
    element: h("div", { class: "dialog-body" },
      asked.systemPrompt ? h("div", { class: "asked" }, h("p", { class: "eyebrow" }, "system"), longText(String(asked.systemPrompt))) : null,
      messages.slice(0, 50).map((message) => h("div", { class: "asked" }, h("p", { class: "eyebrow" }, say(message.role)),
        (Array.isArray(message.content) ? message.content.slice(0, 50) : [message.content]).map((block) => blockView(block)))),
      h("details", {}, h("summary", {}, `Everything it sent (at most ${asked.maxTokens ?? "?"} tokens)`), jsonView(asked)),
      tools.length ? h("div", { class: "field" }, h("label", { for: tool.id }, "The model gives"), tool) : null,
      h("div", { class: "field" }, h("label", { for: text.id }, "The model's answer"), text),
      h("div", { class: "pair" }, h("div", { class: "field" }, h("label", { for: model.id }, "Model"), model),
        h("div", { class: "field" }, h("label", { for: stop.id }, "Why it stopped"), stop))),
    actions: [submit("Answer"), button("Refuse", () => answer(null))],
    accept() {
      if (tool.value !== "") {
        let input = {};
        try { input = parseExact(text.value || "{}"); } catch { text.setAttribute("aria-invalid", "true"); text.focus(); return; }
        answer({ role: "assistant", model: model.value || "inspector", stopReason: "toolUse",
          content: { type: "tool_use", id: newId("use"), name: tools[Number(tool.value)].name, input } });
        return;
      }
      answer({ role: "assistant", model: model.value || "inspector", stopReason: stop.value, content: { type: "text", text: text.value } });
    },
    cancel: () => answer(null),
  };
}
