// One call in the handshake era and in the modern era, side by side.

import { call } from "./api.js";
import { announce, duration, fill, h, newId, say, size } from "./dom.js";
import { schemaForm } from "./form.js";
import { outcomeOf } from "./outcome.js";
import { messageList } from "./messages.js";
import { blockView, resourceView, resultViews } from "./result.js";
import { jsonView } from "./json.js";
import { jobState, on, run, state } from "./store.js";

const CONNECTIONS = [["legacy", "Handshake era"], ["modern", "Modern era"]];

const RENDER = {
  call: ({ result, problem }) => resultViews(result, { problem }),
  read: (found) => h("div", {}, (found.contents || []).map(resourceView)),
  prompt: (found) => h("div", {}, (found.messages || []).map((message) => blockView(message.content))),
  list: (found) => jsonView(found),
};

export function erasView() {
  const what = h("select", { id: newId("what") });
  const formPlace = h("div");
  const columns = h("div", { class: "eras" });
  const summary = h("div", { role: "status" });
  const fresh = h("input", { type: "checkbox", checked: true, id: newId("fresh") });
  let form = null;
  let given = null;

  function options() {
    const made = [];
    for (const tool of [...(state.lists.tools || []), ...state.described.values()]) made.push([`call ${tool.name}`, { op: "call", tool }]);
    for (const resource of state.lists.resources || []) made.push([`read ${resource.uri}`, { op: "read", params: { uri: resource.uri } }]);
    for (const kind of ["tools", "resources", "templates", "prompts"]) made.push([`list ${kind}`, { op: "list", params: { list: kind } }]);
    return made;
  }

  let choices = [];
  let shownAs = "";
  function show() {
    choices = options();
    const text = JSON.stringify(choices);
    if (text === shownAs) return;
    shownAs = text;
    const before = what.value;
    fill(what, choices.map(([name]) => h("option", { value: name }, name)));
    if (choices.some(([name]) => name === before)) what.value = before;
    choose();
  }

  function choose() {
    const choice = choices.find(([name]) => name === what.value)?.[1];
    form = choice?.tool ? schemaForm(choice.tool.inputSchema, given || {}) : null;
    given = null;
    fill(formPlace, form && !form.isEmpty ? form.element : null);
  }
  what.addEventListener("change", choose);

  async function start() {
    const choice = choices.find(([name]) => name === what.value)?.[1];
    if (!choice) return;
    let params = choice.params;
    if (form) {
      const { value, problems } = form.read();
      if (problems.length) { form.firstProblem()?.focus(); return; }
      params = { tool: choice.tool.name, arguments: value };
    }
    fill(summary);
    try {
      if (fresh.checked) for (const [connection] of CONNECTIONS) await call("disconnect", { connection });
    } catch (error) {
      announce(error.message);
    }
    const jobs = CONNECTIONS.map(([connection, title]) => [connection, title, startIn(connection, choice.op, params)]);
    fill(columns, jobs.map(([, , column]) => column.element));
    const done = await Promise.all(jobs.map(([, , column]) => column.done));
    if (done.every(Boolean)) fill(summary, compare(done));
  }

  on("lists", show);
  show();
  const element = h("div", { class: "page" }, h("h2", {}, "The two eras"),
    h("p", { class: "note" }, "The same call over a connection with a handshake (2024-11-05 to 2025-11-25) and over one where each request stands alone (2026-07-28). Each has its own connection, or process."),
    h("form", { class: "call", novalidate: true, "aria-label": "Call in both eras", onsubmit: (event) => { event.preventDefault(); start(); } },
      h("div", { class: "field" }, h("label", { for: what.id }, "What"), what), formPlace,
      h("div", { class: "row call-actions" }, h("button", { type: "submit", class: "primary" }, "Run in both eras"),
        h("label", { class: "check", for: fresh.id }, fresh, " over new connections, so that their beginning is seen too"))),
    summary, columns);
  return {
    element,
    start(wanted) {
      show();
      given = wanted.arguments;
      what.value = `call ${wanted.tool}`;
      choose();
      start();
    },
  };
}

function startIn(connection, op, params) {
  const title = CONNECTIONS.find(([name]) => name === connection)[1];
  const from = state.messages.length ? state.messages[state.messages.length - 1].number : 0;
  const status = h("p", { class: "row" }, h("span", { class: "state running" }, "Running…"));
  const outcome = h("div");
  const list = h("div");
  const version = h("span", { class: `era ${connection}` }, connection);
  const element = h("section", { class: "card era-column", "aria-label": title }, h("div", { class: "row" }, h("h3", {}, title), version), status, outcome,
    h("h4", {}, "Messages"), list);
  let last = Infinity;
  let shown = -1;
  const mine = () => state.messages.filter((event) => event.connection === connection && event.number > from && event.number <= last);
  const show = () => {
    const messages = mine();
    if (messages.length === shown) return;
    shown = messages.length;
    fill(list, messageList(messages));
  };
  on("message connection", () => {
    show();
    const known = state.connections.get(connection);
    if (known?.version) version.textContent = known.version;
  }, element);
  const work = async () => {
    try {
      const job = await run(op, params, connection).done;
      last = job.last || Infinity;
      show();
      fill(status, h("span", { class: `state ${jobState(job)}` }, jobState(job)), h("span", { class: "dim" }, duration(job.took_ms)));
      fill(outcome, await outcomeOf(job, RENDER[op]));
      return { connection, job, messages: mine() };
    } catch (error) {
      fill(status, h("span", { class: "state failed" }, "failed"));
      fill(outcome, h("p", { class: "flag bad" }, say(error.message)));
      return null;
    }
  };
  return { element, done: work() };
}

function compare(done) {
  const cells = (words, pick) => h("tr", {}, h("th", { scope: "row" }, words), done.map((each) => h("td", { class: "number" }, pick(each))));
  const onWire = (each) => each.messages.filter((event) => event.what !== "http");
  return h("table", { class: "compare" }, h("thead", {}, h("tr", {}, h("td", {}), done.map(({ connection }) => h("th", { scope: "col", class: "number" }, connection)))),
    h("tbody", {}, cells("messages", (each) => String(onWire(each).length)), cells("bytes", (each) => size(onWire(each).reduce((sum, event) => sum + event.bytes, 0))),
      cells("time", (each) => duration(each.job.took_ms))));
}
