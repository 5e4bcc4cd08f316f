import { announce, button, clip, copy, fill, h, say } from "./dom.js";
import { dropDraft, draftOf, followDraft, setDraft } from "./drafts.js";
import { schemaForm } from "./form.js";
import { historyView, lastCall } from "./history.js";
import { jsonView } from "./json.js";
import { chipView, listView } from "./lists.js";
import { outcomeView } from "./outcome.js";
import { resultViews, textView } from "./result.js";
import { linkTo } from "./routes.js";
import { withoutSecrets } from "./secrets.js";
import { describeTool, main, on } from "./store.js";
import { hintChips, rowChips, titleOf } from "./toolfacts.js";
import { leaveView, pageUri, viewPanel, withoutPageUri } from "./views.js";

const BEHIND = "behind search";
const CALLS = ["call", "task"];

export function toolsView(go, onchoose) {
  return listView({
    label: "Tools",
    view: "tools",
    onchoose,
    kinds: ["tools", "behind"],
    keyOf: ({ item }) => item.name,
    describe: ({ kind, item }) => ({ title: item.name, subtitle: titleOf(item), note: clip((item.description || "").split("\n")[0], 140),
      chips: [...(kind === "behind" ? [BEHIND] : pageUri(item) ? ["view"] : []), ...rowChips(item)] }),
    detail: ({ kind, item }) => kind === "behind" ? hiddenDetail(item, go) : toolDetail(item, go),
    empty: "This server offers no tools.",
    identity: ({ kind, item }) => ({ kind, item: withoutPageUri(item) }),
    leave: leaveView,
  });
}

/** A tool behind the search: its definition is asked for when it is chosen. */
function hiddenDetail(item, go) {
  const place = h("div", { class: "detail-behind" }, h("h2", { tabindex: -1 }, say(item.name)), h("p", { class: "dim" }, "…"));
  describeTool(item.name).then(
    (tool) => fill(place, toolDetail(tool, go, [BEHIND])),
    (error) => fill(place, h("h2", { tabindex: -1 }, say(item.name)), h("p", { class: "flag bad", role: "alert" }, say(error.message))));
  return place;
}

function toolDetail(tool, go, marks = []) {
  const place = `tools/${tool.name}`;
  const formPlace = h("div", { class: "form-place" });
  let form;
  let draft = null;
  const outcome = outcomeView();
  const view = pageUri(tool) ? viewPanel(tool) : null;
  const support = tool.execution?.taskSupport;
  const render = ({ result, problem }) => resultViews(result, { problem, onread: (uri) => go("resources", uri) });
  const collect = () => {
    const { value, problems } = form.read();
    if (problems.length) {
      form.firstProblem()?.focus();
      return null;
    }
    return value;
  };
  const start = (op) => {
    const value = collect();
    draft.take();
    if (value === null) return;
    const done = outcome.start(op, { tool: tool.name, arguments: value }, render);
    view?.show(value, done);
  };
  const isJson = h("input", { type: "checkbox", onchange: (event) => { event.target.checked = form.showJson(event.target.checked); } });
  // In 2025-11-25 a tool says whether it can be a task; in the modern era the server decides at the call.
  const hasTasks = main()?.has_tasks && support !== "forbidden" && (support !== undefined || main().is_modern);
  const element = h("form", { class: "call", novalidate: true, "aria-label": `Call ${tool.name}`,
    onsubmit: (event) => { event.preventDefault(); start(support === "required" ? "task" : "call"); },
    onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); start(support === "required" ? "task" : "call"); } } },
  formPlace,
  h("div", { class: "row call-actions" },
    h("button", { type: "submit", class: "primary" }, support === "required" ? "Call as task" : "Call"),
    hasTasks && support !== "required" ? button("Call as task", () => start("task")) : null,
    button("In both eras", () => { const value = collect(); if (value !== null) go("eras", { tool: tool.name, arguments: value }); }),
    h("span", { class: "grow" }),
    button("Copy link", copyLink, { class: "quiet", title: "an address that fills in this form" }),
    button("Reset", () => { dropDraft(place); makeForm(); announce("The form is as it was at first"); }, { class: "quiet" }),
    h("label", { class: "check" }, isJson, " JSON"),
    h("kbd", { class: "dim", title: "calls" }, "Ctrl Enter")));
  function makeForm() {
    isJson.checked = false;
    form = schemaForm(tool.inputSchema, draftOf(place));
    fill(formPlace, form.isEmpty ? h("p", { class: "dim" }, "No arguments.") : form.element);
    draft = followDraft(place, form, { schema: tool.inputSchema, onJson: () => { isJson.checked = true; } });
  }
  async function copyLink() {
    const found = { any: false };
    const address = linkTo("tools", tool.name, withoutSecrets(form.peek(), tool.inputSchema, found));
    if (address === null) announce("The arguments are too long for a link");
    else await copy(address, found.any ? "Link copied, without the secrets" : "Link copied");
  }
  const attach = () => {
    const last = outcome.current === null ? lastCall(CALLS, tool.name) : undefined;
    if (last) outcome.attach(last.key, render);
  };
  makeForm();
  attach();
  on("job", attach, outcome.element);
  const history = historyView({ ops: CALLS, title: tool.name, outcome, render, onedit: (given) => {
    setDraft(place, given);
    makeForm();
    form.element.querySelector("input, select, textarea")?.focus();
  } });
  return [
    h("header", { class: "detail-head" },
      h("h2", { tabindex: -1 }, say(tool.name)),
      titleOf(tool) ? h("span", { class: "detail-title" }, say(titleOf(tool))) : null,
      [...marks, ...hintChips(tool)].map(chipView),
      support && support !== "forbidden" ? h("span", { class: "chip" }, `task ${support}`) : null),
    tool.description ? h("div", { class: "description" }, textView(String(tool.description), { isProse: true })) : null,
    element, view?.element, outcome.element, history,
    h("details", { class: "schemas" }, h("summary", {}, "Definition"), jsonView(tool, { name: tool.name })),
  ];
}
