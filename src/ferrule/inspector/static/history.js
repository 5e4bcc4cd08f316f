// The calls of one tool, prompt or resource: when, with what, with which outcome, how long; and what to do with one.
//
// The calls are kept by the inspector's process, within its bounds, and not by the browser: they survive a reload of the
// page, and go with the process.

import { call } from "./api.js";
import { announce, button, clip, duration, fill, h, say } from "./dom.js";
import { diffView } from "./diff.js";
import { showCode } from "./outcome.js";
import { jobState, on, state } from "./store.js";

const MAX_ROWS = 50;
const WORDS = { running: "Running", done: "Done", failed: "Failed", cancelled: "Cancelled" };
const opened = new Set(); // names whose history was opened; it stays so when one comes back

/** The calls of one thing, the newest first, pinned ones before them. */
export function callsOf(ops, title) {
  const found = [...state.jobs.values()].filter((job) => ops.includes(job.op) && job.title === title && job.connection === "main");
  return found.sort((a, b) => Number(b.is_pinned) - Number(a.is_pinned) || b.started_ms - a.started_ms);
}

/** The newest call of one thing; undefined without one. */
export const lastCall = (ops, title) => callsOf(ops, title).reduce((last, job) => (!last || job.started_ms > last.started_ms ? job : last), undefined);

/**
 * @param ops, title which calls
 * @param outcome shows a call, and runs one again
 * @param render renders an outcome
 * @param onedit is called with the arguments of a call, to fill in the form; null where there is none
 */
export function historyView({ ops, title, outcome, render, onedit = null }) {
  const list = h("ol", { class: "history-rows", "aria-label": "Calls" });
  const difference = h("div", { class: "history-difference" });
  const count = h("span", { class: "count" });
  const chosen = [];
  const element = h("details", { class: "history", hidden: true }, h("summary", {}, "History", count), list, difference);
  element.open = opened.has(title);
  element.addEventListener("toggle", () => { if (element.open) opened.add(title); else opened.delete(title); });
  const rows = new Map();

  function show() {
    const calls = callsOf(ops, title);
    element.hidden = !calls.length;
    count.textContent = ` ${calls.length}`;
    const wanted = calls.slice(0, MAX_ROWS);
    for (const [key, row] of rows) if (!wanted.some((job) => job.key === key)) { row.element.remove(); rows.delete(key); }
    wanted.forEach((job, at) => {
      let row = rows.get(job.key);
      if (!row) rows.set(job.key, row = makeRow(job));
      row.update(job);
      if (list.children[at] !== row.element) list.insertBefore(row.element, list.children[at] || null);
    });
  }

  function makeRow(job) {
    const head = h("span", { class: "history-head row" });
    const arguments_ = h("code", { class: "history-arguments" });
    const when = new Date(job.begun_ms).toLocaleTimeString();
    const named = (verb) => `${verb} the call of ${when}`;
    const pin = button("Pin", () => doing(call("pin", { job: job.key, pinned: !state.jobs.get(job.key)?.is_pinned })), { class: "small" });
    const compare = button("Compare", () => choose(job.key), { class: "small", "aria-pressed": "false", "aria-label": named("Compare") });
    const row = h("li", { class: "history-row", "data-key": job.key }, head, arguments_,
      h("span", { class: "row history-actions" },
        button("Show", () => outcome.attach(job.key, render), { class: "small", "aria-label": named("Show") }),
        button("Run again", () => again(job.key), { class: "small", "aria-label": named("Run again") }),
        onedit ? button("Edit", () => edit(job.key), { class: "small", "aria-label": named("Edit") }) : null,
        pin, compare,
        button("Test", () => { outcome.attach(job.key, render); return showCode(state.jobs.get(job.key), "Test", "test", outcome.codePlace); },
          { class: "small", "aria-label": named("Save as test") })));
    let shownAs = "";
    return {
      element: row,
      compare,
      update(now) {
        const seen = jobState(now);
        const text = `${seen} ${now.took_ms} ${now.is_pinned}`;
        if (text === shownAs) return;
        shownAs = text;
        row.dataset.state = seen;
        fill(head, h("time", { class: "at", datetime: new Date(now.begun_ms).toISOString() }, when), h("span", { class: `state ${seen}` }, WORDS[seen]),
          h("span", { class: "took" }, seen === "running" ? "" : duration(now.took_ms)), now.op === "task" ? h("span", { class: "chip" }, "task") : null, now.is_pinned ? h("span", { class: "chip" }, "pinned") : null);
        fill(arguments_, say(clip(now.arguments || "no arguments", 300)));
        pin.textContent = now.is_pinned ? "Unpin" : "Pin";
        pin.setAttribute("aria-label", named(now.is_pinned ? "Unpin" : "Pin"));
      },
    };
  }

  const doing = (promise) => promise.catch((error) => announce(error.message));

  async function again(key) {
    await doing(call("job", { job: key }).then(({ op, params }) => outcome.start(op, params, render)));
  }

  async function edit(key) {
    await doing(call("job", { job: key }).then(({ params }) => onedit(params.arguments || {})));
  }

  async function choose(key) {
    const at = chosen.indexOf(key);
    if (at >= 0) chosen.splice(at, 1);
    else chosen.push(key);
    if (chosen.length > 2) chosen.shift();
    for (const [each, row] of rows) row.compare.setAttribute("aria-pressed", String(chosen.includes(each)));
    if (chosen.length < 2) {
      fill(difference, chosen.length ? h("p", { class: "dim", role: "status" }, "Choose a second call to compare it with.") : null);
      return;
    }
    const pair = [...chosen].sort((a, b) => (state.jobs.get(a)?.started_ms ?? 0) - (state.jobs.get(b)?.started_ms ?? 0));
    try {
      const found = await Promise.all(pair.map(async (each) => ({ ...await call("job", { job: each }), ...await call("outcome", { job: each }) })));
      const [before, after] = pair.map((each) => state.jobs.get(each));
      const name = (job) => `${new Date(job.begun_ms).toLocaleTimeString()} ${WORDS[jobState(job)]} ${duration(job.took_ms)}`;
      fill(difference, h("div", { class: "row" }, h("h3", {}, "Difference"), h("span", { class: "diff-removed" }, `- ${name(before)}`), h("span", { class: "diff-added" }, `+ ${name(after)}`),
        h("span", { class: "grow" }), button("Close", () => { chosen.length = 0; for (const row of rows.values()) row.compare.setAttribute("aria-pressed", "false"); fill(difference); }, { class: "small", "aria-label": "Close the comparison" })),
        diffView("Arguments", found[0].params.arguments ?? {}, found[1].params.arguments ?? {}),
        diffView("Outcome", shownPart(found[0]), shownPart(found[1])));
      difference.scrollIntoView({ block: "nearest" });
    } catch (error) {
      fill(difference, h("p", { class: "flag bad" }, say(error.message)));
    }
  }

  on("job", show, element);
  show();
  return element;
}

const shownPart = (found) => (found.state === "failed" ? { error: found.error, code: found.code } : found.state === "cancelled" ? { cancelled: true } : found.outcome?.result ?? found.outcome);
