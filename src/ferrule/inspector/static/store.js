// The state of the page: the events of the feed by kind, and the listeners for each topic.

import { call } from "./api.js";

const MAX_MESSAGES = 4000;
const MAX_LINES = 2000;

export const state = {
  feed: "opening",
  settings: null,
  servers: new Map(),
  connections: new Map(),
  jobs: new Map(),
  questions: new Map(),
  signIns: new Map(),
  subscriptions: new Map(),
  messages: [],
  logs: [],
  changes: [],
  viewReports: new Map(),
  lists: { tools: null, behind: null, resources: null, templates: null, prompts: null, skills: null },
  described: new Map(),
  listErrors: {},
};

const listeners = new Map();
const waiting = new Map();
const dirty = new Set();
let isTelling = false;

/** Call `listener` in the next frame after a topic changed; with an `owner`, until that element is removed. */
export function on(topics, listener, owner = null) {
  let wasThere = false;
  const guarded = owner === null ? listener : () => {
    wasThere ||= owner.isConnected;
    if (wasThere && !owner.isConnected) for (const topic of topics.split(" ")) listeners.get(topic).delete(guarded);
    else listener();
  };
  for (const topic of topics.split(" ")) {
    if (!listeners.has(topic)) listeners.set(topic, new Set());
    listeners.get(topic).add(guarded);
  }
}

export function changed(topic) {
  dirty.add(topic);
  if (isTelling) return;
  isTelling = true;
  setTimeout(() => {
    isTelling = false;
    const topics = [...dirty];
    dirty.clear();
    const called = new Set();
    for (const each of topics) for (const listener of listeners.get(each) || []) called.add(listener);
    for (const listener of called) listener();
  }, 16);
}

export const main = () => state.connections.get("main");
/** The state of a job as a user sees it: a tool that says that it failed has failed. */
export const jobState = (job) => (job.state === "done" && job.is_error ? "failed" : job.state);
export const isOpen = () => main()?.state === "open";

function reset() {
  state.servers.clear();
  state.connections.clear();
  state.jobs.clear();
  state.questions.clear();
  state.signIns.clear();
  state.subscriptions.clear();
  state.messages = [];
  state.logs = [];
  state.changes = [];
  state.viewReports.clear();
}

function keep(list, event, max) {
  list.push(event);
  if (list.length > max) list.splice(0, list.length - max);
}

const TAKE = {
  hello: reset,
  caught_up() { state.feed = "open"; },
  connection(event) {
    const before = state.connections.get(event.name);
    state.connections.set(event.name, event);
    if (event.name === "main" && event.state === "open" && before?.n !== event.n) setTimeout(loadLists, 0);
  },
  server(event) { state.servers.set(event.key, event); },
  job(event) {
    if (event.state === "gone") { state.jobs.delete(event.key); return; }
    state.jobs.set(event.key, event);
    if (event.state !== "running" && waiting.has(event.key)) {
      waiting.get(event.key)(event);
      waiting.delete(event.key);
    }
  },
  question(event) {
    if (event.state === "open") state.questions.set(event.key, event);
    else state.questions.delete(event.key);
  },
  sign_in(event) {
    if (event.url) state.signIns.set(event.connection, event.url);
    else state.signIns.delete(event.connection);
  },
  subscription(event) {
    if (event.state === "closed") state.subscriptions.delete(event.key);
    else state.subscriptions.set(event.key, event);
  },
  message(event) { keep(state.messages, event, MAX_MESSAGES); },
  log(event) { keep(state.logs, event, MAX_LINES); },
  stderr(event) { keep(state.logs, event, MAX_LINES); },
  view_report(event) {
    if (!state.viewReports.has(event.view)) state.viewReports.set(event.view, []);
    keep(state.viewReports.get(event.view), event, MAX_LINES);
  },
  notice(event) { keep(state.logs, event, MAX_LINES); },
  change(event) {
    keep(state.changes, event, MAX_LINES);
    if (state.feed !== "open" || event.connection !== "main") return;
    if (event.what === "tools" || event.what === "prompts") loadList(event.what);
    if (event.what === "resources") for (const kind of ["resources", "templates", "skills"]) loadList(kind);
    if (event.what === "gap") loadLists();
  },
  cleared() { state.messages = []; state.logs = []; state.changes = []; },
};

const TOPIC = {
  caught_up: "feed", stderr: "log", notice: "log", hello: "feed", sign_in: "question", cleared: "message",
};

export function take(event) {
  TAKE[event.kind]?.(event);
  changed(TOPIC[event.kind] || event.kind);
  if (event.kind === "cleared" || event.kind === "hello") for (const topic of ["log", "change", "message", "connection", "job", "question", "subscription"]) changed(topic);
}

// -- requests ------------------------------------------------------------------------------------------------------

/** Start a job; `done` resolves to its last event. */
export function run(op, params, connection = "main") {
  const key = crypto.randomUUID();
  const done = new Promise((resolve, reject) => {
    waiting.set(key, resolve);
    call("run", { job: key, op, params, connection }).catch((error) => { waiting.delete(key); reject(error); });
  });
  return { key, done };
}

/** Start a job, wait for it and return its outcome; throws if it failed. */
export async function ask(op, params, connection = "main") {
  const job = await run(op, params, connection).done;
  if (job.state !== "done") throw new Error(job.error || job.state);
  return (await call("outcome", { job: job.key })).outcome;
}

const SEARCH = ["search_tools", "describe_tool", "call_tool"];

/** Whether the server lists a search in place of its tools. */
export const hasSearch = () => SEARCH.every((name) => (state.lists.tools || []).some((tool) => tool.name === name));

/** Load what is behind the search, if there is one. */
async function loadBehind() {
  state.described.clear();
  delete state.listErrors.behind;
  try {
    state.lists.behind = hasSearch() ? (await ask("behind", {})).filter((each) => !state.lists.tools.some((tool) => tool.name === each.name)) : [];
  } catch (error) {
    state.lists.behind = [];
    state.listErrors.behind = error.message;
  }
  changed("lists");
}

/** The definition of a tool behind the search. */
export async function describeTool(name) {
  if (!state.described.has(name)) state.described.set(name, await ask("describe", { tool: name }));
  changed("lists");
  return state.described.get(name);
}

export async function loadList(kind) {
  if (kind === "behind") return; // with the tools
  const capabilities = main()?.capabilities || {};
  const needed = kind === "templates" ? "resources" : kind;
  const isOffered = kind === "skills" ? main()?.has_skills : needed in capabilities;
  if (!isOffered) {
    state.lists[kind] = [];
  } else {
    try {
      state.lists[kind] = await (kind === "skills" ? ask("skills", {}) : ask("list", { list: kind }));
      delete state.listErrors[kind];
    } catch (error) {
      state.lists[kind] = [];
      state.listErrors[kind] = error.message;
    }
  }
  changed("lists");
  if (kind === "tools") await loadBehind();
}

export const loadLists = () => Promise.all(Object.keys(state.lists).map(loadList));

export async function loadSettings() {
  state.settings = await call("state");
  changed("settings");
}
