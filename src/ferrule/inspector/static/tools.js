import { button, clip, h, longText, say } from "./dom.js";
import { schemaForm } from "./form.js";
import { jsonView } from "./json.js";
import { listView } from "./lists.js";
import { outcomeView } from "./outcome.js";
import { resultViews } from "./result.js";
import { main } from "./store.js";

const HINTS = { readOnlyHint: "reads only", destructiveHint: "may destroy", idempotentHint: "idempotent", openWorldHint: "open world" };

export const hintsOf = (tool) => Object.entries(HINTS).filter(([name]) => tool.annotations?.[name] === true).map(([, words]) => words);

export function toolsView(go) {
  return listView({
    label: "Tools",
    kinds: ["tools"],
    keyOf: ({ item }) => item.name,
    describe: ({ item }) => ({ title: item.name, note: clip((item.description || "").split("\n")[0], 140), chips: [] }),
    detail: ({ item }) => toolDetail(item, go),
    empty: "This server offers no tools.",
  });
}

function toolDetail(tool, go) {
  const form = schemaForm(tool.inputSchema);
  const outcome = outcomeView();
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
    if (value !== null) outcome.start(op, { tool: tool.name, arguments: value }, render);
  };
  const isJson = h("input", { type: "checkbox", onchange: (event) => form.showJson(event.target.checked) });
  // In 2025-11-25 a tool says whether it can be a task; in the modern era the server decides at the call.
  const hasTasks = main()?.has_tasks && support !== "forbidden" && (support !== undefined || main().is_modern);
  const element = h("form", { class: "call", novalidate: true, "aria-label": `Call ${tool.name}`,
    onsubmit: (event) => { event.preventDefault(); start(support === "required" ? "task" : "call"); },
    onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); start(support === "required" ? "task" : "call"); } } },
  form.isEmpty ? h("p", { class: "dim" }, "No arguments.") : form.element,
  h("div", { class: "row call-actions" },
    h("button", { type: "submit", class: "primary" }, support === "required" ? "Call as task" : "Call"),
    hasTasks && support !== "required" ? button("Call as task", () => start("task")) : null,
    button("In both eras", () => { const value = collect(); if (value !== null) go("eras", { tool: tool.name, arguments: value }); }),
    h("span", { class: "grow" }),
    h("label", { class: "check" }, isJson, " JSON"),
    h("kbd", { class: "dim", title: "calls" }, "Ctrl Enter")));
  return [
    h("header", { class: "detail-head" },
      h("h2", { tabindex: -1 }, say(tool.name)),
      tool.title && tool.title !== tool.name ? h("span", { class: "dim" }, say(tool.title)) : null,
      hintsOf(tool).map((hint) => h("span", { class: "chip" }, hint)),
      support && support !== "forbidden" ? h("span", { class: "chip" }, `task ${support}`) : null),
    tool.description ? h("div", { class: "description" }, longText(tool.description, { class: "text prose" })) : null,
    element, outcome.element,
    h("details", { class: "schemas" }, h("summary", {}, "Definition"), jsonView(tool, { name: tool.name })),
  ];
}
