// One job on the page: its progress, a button to cancel it, its outcome, the same call as code.

import { call } from "./api.js";
import { announce, button, copy, duration, fill, h, longText, save, say, size } from "./dom.js";
import { crashView } from "./crash.js";
import { jsonView } from "./json.js";
import { messageList } from "./messages.js";
import { switcher } from "./result.js";
import { jobState, on, run, state } from "./store.js";

const WORDS = { running: "Running…", done: "Done", failed: "Failed", cancelled: "Cancelled" };
const AS_CODE = ["call", "task", "read", "prompt", "request"];

/** An area for jobs, one at a time. `render(outcome)` returns an element, or views as `resultViews` does. */
export function outcomeView({ label = "Result" } = {}) {
  const line = h("div", { class: "job-line", role: "status" });
  const bar = h("progress", { hidden: true, "aria-label": "Progress" });
  const words = h("span", { class: "dim" });
  const stop = button("Cancel", cancel, { class: "small danger", hidden: true });
  const place = h("div", { class: "job-outcome" });
  const crash = h("div", { class: "job-crash" });
  const code = h("div", { class: "row job-code", hidden: true });
  const codePlace = h("div");
  const element = h("section", { class: "outcome", "aria-label": label, hidden: true },
    h("div", { class: "row job-head" }, line, bar, words, stop), place, crash, code, codePlace);
  let current = null; // the key of the job
  let rendered = null; // the key of the job whose outcome is shown
  let attached = null; // renders a job that ends while one looks at it
  let crashed = ""; // the state of the crash that is shown

  async function cancel() {
    if (current) await call("cancel", { job: current }).catch((error) => announce(error.message));
  }

  function clear() {
    rendered = attached = null;
    crashed = "";
    fill(place);
    fill(crash);
    fill(codePlace);
    code.hidden = true;
    element.hidden = false;
    element.dataset.state = "running";
    fill(line, h("span", { class: "state running" }, WORDS.running));
  }

  function show() {
    const job = state.jobs.get(current);
    if (!job) return;
    const seen = jobState(job);
    const isRunning = seen === "running";
    element.dataset.state = seen;
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
    fill(line, h("span", { class: `state ${seen}` }, WORDS[seen]),
      isRunning ? null : h("span", { class: "dim" }, ` ${duration(job.took_ms)} · ${size(job.bytes)}`));
    if (!isRunning && attached && rendered !== current) finish(job, attached).catch((error) => fail(error));
    if (job.has_crash && crashed !== `${job.key} ${job.n}`) showCrash(job);
  }

  async function showCrash(job) {
    crashed = `${job.key} ${job.n}`;
    try {
      const found = await call("job", { job: job.key });
      if (current === job.key && found.crash) fill(crash, crashView(found.crash));
    } catch { /* the job is no longer kept */ }
  }

  async function finish(job, render) {
    rendered = job.key;
    const shown = await outcomeOf(job, render);
    if (current !== job.key) return;
    fill(place, shown);
    if (AS_CODE.includes(job.op)) {
      code.hidden = false;
      fill(code, h("span", { class: "dim" }, "Copy as"), copyButtons(job, codePlace));
    }
  }

  function fail(error) {
    stop.hidden = true;
    element.dataset.state = "failed";
    fill(line, h("span", { class: "state failed" }, WORDS.failed));
    fill(place, h("p", { class: "flag bad", role: "alert" }, say(error.message)));
  }

  on("job", () => { if (current) show(); }, element);

  return {
    element,
    codePlace,
    get current() { return current; },
    clear() { current = null; element.hidden = true; },
    /** Show a job that was started elsewhere or earlier; its outcome follows when it ends. */
    attach(key, render) {
      if (!state.jobs.has(key)) return;
      current = key;
      clear();
      attached = render;
      show();
    },
    /** Run a job and show its outcome; resolves to its last event, or to nothing if it did not start or another did. */
    async start(op, params, render, connection = "main") {
      clear();
      try {
        const started = run(op, params, connection);
        current = started.key;
        const job = await started.done;
        if (current !== job.key) return null;
        show();
        await finish(job, render);
        announce(`${job.title || op}: ${jobState(job)}`);
        return job;
      } catch (error) {
        fail(error);
        return null;
      }
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

const FILES = { python: (name) => `${name}.py`, curl: (name) => `${name}.sh`, test: (name) => `test_${name}.py` };

/** Put the code of a call into `place`, copied already, with a button that saves it as a file. */
export async function showCode(job, name, form, place) {
  try {
    const { text } = await call("snippet", { job: job.key, form, connection: job.connection });
    await copy(text, `${name} copied`);
    const file = FILES[form]((job.title || job.op).toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_+|_+$/g, "").slice(0, 60) || job.op);
    fill(place, h("div", { class: "snippet" },
      h("div", { class: "row" }, h("strong", {}, name), h("span", { class: "dim" }, "copied"),
        button("Save", () => save(file, new Blob([text], { type: "text/plain" })), { class: "small", "aria-label": `Save as ${file}` }),
        button("Close", () => fill(place), { class: "small" })), longText(text, { class: "text mono code", "data-form": form })));
  } catch (error) {
    fill(place, h("p", { class: "flag bad" }, say(error.message)));
  }
}

function copyButtons(job, place) {
  return [["Python", "python"], ["curl", "curl"], ["Test", "test"]].map(([name, form]) =>
    button(name, () => showCode(job, name, form, place), { class: "small", "aria-label": `Copy as ${name}` }));
}
