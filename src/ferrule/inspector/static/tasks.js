import { call } from "./api.js";
import { button, duration, fill, h, newId, say } from "./dom.js";
import { outcomeOf, outcomeView } from "./outcome.js";
import { resultViews } from "./result.js";
import { jobState, main, on, state } from "./store.js";

const render = ({ result, problem }) => resultViews(result, { problem });

export function tasksView() {
  const id = h("input", { id: newId("task"), spellcheck: "false", autocomplete: "off" });
  const found = outcomeView();
  const list = h("div", { class: "task-list" });
  const about = h("p", { class: "dim" });
  const rows = new Map();

  function show() {
    about.textContent = main()?.has_tasks ? "Calls that run as tasks. Start one with “Call as task” at a tool that offers it."
      : "This server offers no tasks in this revision.";
    const jobs = [...state.jobs.values()].filter((job) => job.op === "task" || job.op === "found_task").reverse();
    for (const [key, made] of rows) if (!jobs.some((job) => job.key === key)) { made.element.remove(); rows.delete(key); }
    jobs.forEach((job, at) => {
      let made = rows.get(job.key);
      if (!made) rows.set(job.key, made = row(job));
      made.update(job);
      if (list.children[at] !== made.element) list.insertBefore(made.element, list.children[at] || null);
    });
    if (!jobs.length && !list.children.length) fill(list);
  }

  on("job connection", show);
  show();
  return { element: h("div", { class: "page" }, h("h2", {}, "Tasks"), about, list,
    h("form", { class: "row", "aria-label": "Find a task", onsubmit: (event) => { event.preventDefault(); if (id.value) found.start("found_task", { task_id: id.value.trim() }, render); } },
      h("label", { for: id.id }, "Task id"), id, h("button", { type: "submit" }, "Find")), found.element) };
}

function row(job) {
  const head = h("div", { class: "row" });
  const words = h("p", { class: "task-message", role: "status" });
  const bar = h("progress", { "aria-label": "Progress", hidden: true });
  const stop = button("Cancel", () => call("cancel", { job: job.key }), { class: "small danger" });
  const place = h("div");
  const opener = button("Show result", async () => fill(place, await outcomeOf(state.jobs.get(job.key), render)), { class: "small" });
  const element = h("article", { class: "card task", "aria-label": `Task of ${job.title}` }, head, words, bar, h("div", { class: "row" }, stop, opener), place);
  return {
    element,
    update(now) {
      const isRunning = now.state === "running";
      const status = now.is_error ? "failed" : now.task?.status || (isRunning ? "starting" : now.state);
      fill(head, h("strong", {}, say(now.title)), h("span", { class: `state ${isRunning ? status : jobState(now)}` }, status.replace("_", " ")),
        h("span", { class: "dim mono" }, now.task_id || ""), h("span", { class: "grow" }), h("span", { class: "dim" }, isRunning ? "" : duration(now.took_ms)));
      const at = now.progress;
      words.textContent = now.task?.message || now.error || "";
      bar.hidden = !isRunning;
      if (at?.total) { bar.max = at.total; bar.value = at.progress; }
      stop.hidden = !isRunning;
      opener.hidden = isRunning;
    },
  };
}
