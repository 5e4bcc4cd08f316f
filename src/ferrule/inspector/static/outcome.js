// One job on the page: its progress, a button to cancel it, its outcome, the same call as code.

import { call } from "./api.js";
import { announce, button, copy, duration, fill, h, longText, say, size } from "./dom.js";
import { jsonView } from "./json.js";
import { messageList } from "./messages.js";
import { switcher } from "./result.js";
import { on, run, state } from "./store.js";

/** An area for jobs, one at a time. `render(outcome)` returns an element, or views as `resultViews` does. */
export function outcomeView({ label = "Result" } = {}) {
  const line = h("div", { class: "job-line", role: "status" });
  const bar = h("progress", { hidden: true, "aria-label": "Progress" });
  const words = h("span", { class: "dim" });
  const stop = button("Cancel", cancel, { class: "small danger", hidden: true });
  const place = h("div", { class: "job-outcome" });
  const code = h("div", { class: "row job-code", hidden: true });
  const codePlace = h("div");
  const element = h("section", { class: "outcome", "aria-label": label, hidden: true },
    h("div", { class: "row job-head" }, line, bar, words, stop), place, code, codePlace);
  let current = null;

  async function cancel() {
    if (current) await call("cancel", { job: current }).catch((error) => announce(error.message));
  }

  function show() {
    const job = state.jobs.get(current);
    if (!job) return;
    const isRunning = job.state === "running";
    element.dataset.state = job.state;
    element.setAttribute("aria-busy", String(isRunning));
    stop.hidden = !isRunning;
    const at = job.progress;
    bar.hidden = !isRunning || !at;
    if (at) {
      if (at.total) { bar.max = at.total; bar.value = at.progress; } else bar.removeAttribute("value");
    }
    const task = job.task ? `task ${job.task.status}${job.task.message ? `: ${job.task.message}` : ""}` : "";
    const steps = at ? `${at.progress}${at.total ? ` of ${at.total}` : ""} ${at.message}` : "";
    words.textContent = isRunning ? [task, steps].filter(Boolean).join(" · ") : "";
    const label = { running: "Running…", done: "Done", failed: "Failed", cancelled: "Cancelled" }[job.state];
    fill(line, h("span", { class: `state ${job.state}` }, label),
      isRunning ? null : h("span", { class: "dim" }, ` ${duration(job.took_ms)} · ${size(job.bytes)}`));
  }

  on("job", () => { if (current) show(); }, element);

  return {
    element,
    clear() { current = null; element.hidden = true; },
    /** Run a job and show its outcome; resolves to its last event, or to nothing if it did not start or another did. */
    async start(op, params, render, connection = "main") {
      element.hidden = false;
      fill(place);
      fill(codePlace);
      code.hidden = true;
      fill(line, h("span", { class: "state running" }, "Running…"));
      let job;
      try {
        const started = run(op, params, connection);
        current = started.key;
        const mine = current;
        job = await started.done;
        if (mine !== current) return null;
        show();
        fill(place, await outcomeOf(job, render));
        announce(`${job.title || op}: ${job.state}`);
      } catch (error) {
        stop.hidden = true;
        fill(line, h("span", { class: "state failed" }, "Failed"));
        fill(place, h("p", { class: "flag bad", role: "alert" }, say(error.message)));
        return null;
      }
      if (["call", "task", "read", "prompt", "request"].includes(op)) {
        code.hidden = false;
        fill(code, h("span", { class: "dim" }, "Copy as"), copyButtons(job, codePlace));
      }
      return job;
    },
  };
}

/** The outcome of a finished job, with its messages in a second tab. */
export async function outcomeOf(job, render) {
  const messages = () => messageList(state.messages.filter((each) => each.connection === job.connection && each.number > job.first && each.number <= job.last));
  if (job.state === "cancelled") return h("p", { class: "flag" }, "Cancelled.");
  const found = await call("outcome", { job: job.key });
  if (job.state === "failed") {
    const code = job.code === null || job.code === undefined ? "" : ` (${job.code})`;
    const views = [["Error", () => h("p", { class: "flag bad", role: "alert" }, say(job.error), code)]];
    if (found.outcome) views.push(["Raw", () => jsonView(found.outcome)]);
    views.push(["Messages", messages]);
    return switcher("Outcome", views);
  }
  const shown = render(found.outcome);
  if (shown instanceof Node) return switcher("Outcome", [["Result", () => shown], ["Raw", () => jsonView(found.outcome)], ["Messages", messages]]);
  return h("div", { class: "views" }, shown.before, switcher("Outcome", [...shown.views, ["Messages", messages]], shown.first));
}

function copyButtons(job, place) {
  return [["Python", "python"], ["curl", "curl"], ["Test", "test"]].map(([name, form]) => button(name, async () => {
    try {
      const { text } = await call("snippet", { job: job.key, form, connection: job.connection });
      await copy(text, `${name} copied`);
      fill(place, h("div", { class: "snippet" },
        h("div", { class: "row" }, h("strong", {}, name), h("span", { class: "dim" }, "copied"),
          button("Close", () => fill(place), { class: "small" })), longText(text, { class: "text mono code", "data-form": form })));
    } catch (error) {
      fill(place, h("p", { class: "flag bad" }, say(error.message)));
    }
  }, { class: "small", "aria-label": `Copy as ${name}` }));
}
