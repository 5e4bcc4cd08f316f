// The host of one view (MCP Apps 2026-01-26): the messages between its script, the proxy page around it and the server.

import { plain } from "./exact.js";
import { call } from "./api.js";
import { clip } from "./dom.js";
import { run, state } from "./store.js";

const PROTOCOL = "2026-01-26";
const MAX_MESSAGE_BYTES = 8_000_000; // what the API takes, less what is written around it
const MAX_WAITING = 500;
const MAX_JOBS = 32;
const TEARDOWN_MS = 5000;
const DENIED = -32000;
const NOTICE = "ui/notifications/";

/** What a host can offer to views, and the requests that need it. */
export const CAPABILITIES = {
  serverTools: {}, serverResources: {}, openLinks: {}, downloadFile: {}, logging: {},
  message: { text: {} }, updateModelContext: { text: {}, structuredContent: {} },
};
const NEEDED = {
  "tools/call": "serverTools", "resources/read": "serverResources", "ui/open-link": "openLinks", "ui/download-file": "downloadFile",
  "ui/message": "message", "ui/update-model-context": "updateModelContext", "notifications/message": "logging",
};
const ASKED = ["ui/open-link", "ui/download-file", "ui/message", "ui/update-model-context", "ui/request-display-mode"];

const bytesOf = (text) => (text.length * 3 <= MAX_MESSAGE_BYTES ? text.length : new TextEncoder().encode(text).length);
const failure = (code, message) => Object.assign(new Error(message), { code });

function linkOf(url, schemes) {
  try {
    const target = new URL(url);
    return schemes.includes(target.protocol) ? target : null;
  } catch {
    return null;
  }
}

/** Whether a file that a view offers can be saved: text, base64, or a link that can be opened. */
function isSaveable({ resource, uri }) {
  if (!resource) return linkOf(uri, ["http:", "https:"]) !== null;
  try { return resource.blob === undefined || atob(resource.blob) !== null; } catch { return false; }
}

export function visibilityOf(tool) {
  const given = tool._meta?.ui?.visibility;
  return Array.isArray(given) ? given : ["model", "app"];
}

/** Run an operation for a view; `started` gets its key. */
async function operate(op, params, started) {
  const { key, done } = run(op, params);
  started?.(key);
  const job = await done;
  if (job.state === "cancelled") return null;
  const { outcome, error, code } = await call("outcome", { job: key });
  if (job.state !== "done") throw failure(code ?? -32603, error || job.state);
  return outcome;
}

export class ViewHost {
  /**
   * @param frame an iframe that is in the document
   * @param page what the operation "page" found
   * @param context the host's context; it is changed
   * @param capabilities what the host offers
   * @param denies whether the user denies what needs consent
   * @param on callbacks: message(sender, message), finding(kind, text), status(word), size({width, height}), mode(word),
   *   ask(title, detail) which resolves to whether it is allowed, save(contents), said(kind, params), over()
   */
  constructor({ frame, page, context, capabilities, denies, on }) {
    Object.assign(this, { frame, page, context, capabilities, denies, on });
    this.key = "";
    this.origin = "";
    this.app = null;
    this.isReady = false;
    this.isOver = false;
    this.waiting = 0;
    this.queue = Promise.resolve();
    this.requests = new Map();
    this.jobs = new Map();
    this.lastId = 0;
    this.hasProxy = false;
    this.ready = new Promise((resolve) => { this.becomeReady = resolve; });
    this.listen = (event) => {
      if (event.source !== this.frame.contentWindow || event.origin !== this.origin) return;
      if (this.waiting >= MAX_WAITING) {
        this.on.finding("message", `more than ${MAX_WAITING} messages wait: further ones are dropped`);
        return;
      }
      this.waiting += 1;
      this.queue = this.queue.then(() => this.take(event.data)).catch((error) => this.on.finding("message", error.message))
        .finally(() => { this.waiting -= 1; });
    };
  }

  /** Load the proxy page; it asks for the document. */
  async open() {
    const { path, port, view } = await call("view", { policy: this.page.policy });
    this.key = view;
    this.origin = `http://${location.hostname}:${port}`;
    addEventListener("message", this.listen);
    this.on.status("loading");
    this.frame.src = this.origin + path;
  }

  // -- messages to the view ------------------------------------------------------------------------------------------

  post(body) {
    const message = plain({ jsonrpc: "2.0", ...body }); // a view knows the numbers of JavaScript only
    this.frame.contentWindow?.postMessage(message, this.origin);
    if (message.method?.startsWith(`${NOTICE}sandbox-`)) return;
    this.on.message("host", message);
    if (message.method) this.check({ sender: "host", message });
  }

  notify(name, params) {
    this.post({ method: NOTICE + name, params });
  }

  request(method, params) {
    const id = `host-${++this.lastId}`;
    return new Promise((resolve, reject) => {
      this.requests.set(id, { method, resolve, reject });
      this.post({ id, method, params });
    });
  }

  /** Change the host's context, and notify the view. */
  changeContext(changes) {
    Object.assign(this.context, changes);
    if (this.isReady) this.notify("host-context-changed", changes);
  }

  /** Whether the view was switched to a display mode; a view that names its modes gets no other. */
  setMode(mode) {
    const own = this.app?.appCapabilities?.availableDisplayModes;
    if (!this.context.availableDisplayModes.includes(mode) || (Array.isArray(own) && !own.includes(mode))) return false;
    if (mode !== this.context.displayMode) this.changeContext({ displayMode: mode, containerDimensions: this.on.mode(mode) });
    return true;
  }

  /** Ask the view to finish, wait a moment for its answer, and end. */
  async close(reason) {
    if (this.isOver) return;
    this.isOver = true;
    if (this.isReady) {
      // A view with nothing to save may not know the request, as those made with the official package.
      const answered = this.request("ui/resource-teardown", { reason }).catch((error) => {
        if (error.code !== -32601) this.on.finding("message", `view: ui/resource-teardown: ${error.message}`);
      });
      await Promise.race([answered, new Promise((done) => setTimeout(done, TEARDOWN_MS))]);
    }
    removeEventListener("message", this.listen);
    this.on.status("closed");
    this.on.over();
  }

  // -- messages from the view ------------------------------------------------------------------------------------------

  async take(message) {
    let text;
    try { text = JSON.stringify(message); } catch { /* reported below */ }
    if (text === undefined || message === null || typeof message !== "object") {
      this.on.finding("message", "the view posted something that is not a message");
      return;
    }
    const { id, method } = message;
    if (method === `${NOTICE}sandbox-proxy-ready`) { this.sendDocument(); return; }
    if (method === `${NOTICE}sandbox-error`) {
      this.on.finding("script", `${message.params.line ? `line ${message.params.line}: ` : ""}${message.params.message}`);
      return;
    }
    if (bytesOf(text) > MAX_MESSAGE_BYTES) {
      this.on.finding("message", `a message of ${bytesOf(text)} bytes: more than ${MAX_MESSAGE_BYTES}`);
      if (id !== undefined && method) this.post({ id, error: { code: -32600, message: "Too large" } });
      return;
    }
    this.on.message("view", message);
    if (method === undefined) { await this.takeAnswer(message); return; }
    const problems = await this.check({ sender: "view", message });
    this.serve(message, problems).catch((error) => this.on.finding("message", error.message));
  }

  sendDocument() {
    if (this.hasProxy) return;
    this.hasProxy = true;
    const { html, sandbox, allow, csp, permissions } = this.page;
    this.post({ method: `${NOTICE}sandbox-resource-ready`, params: { html, sandbox, allow, csp, permissions } });
    this.on.status("document sent");
  }

  async takeAnswer({ id, result, error }) {
    const asked = this.requests.get(id);
    if (!asked) {
      this.on.finding("message", `the view answered a request ${clip(JSON.stringify(id) ?? "", 80)} that was not made`);
      return;
    }
    this.requests.delete(id);
    if (error) asked.reject(failure(error.code, String(error.message)));
    else {
      asked.resolve(result);
      await this.check({ method: asked.method, result: result ?? null });
    }
  }

  /** Report what is wrong with a message; returns it. */
  async check(body) {
    let text = "";
    try { text = JSON.stringify(body); } catch { /* too deep */ }
    if (!text || bytesOf(text) > MAX_MESSAGE_BYTES) return [];
    const { problems } = await call("view_check", body).catch((error) => ({ problems: [error.message] }));
    const who = body.sender === "view" || body.message === undefined && body.method === "ui/resource-teardown" ? "view" : "host";
    for (const problem of problems) this.on.finding("message", `${who}: ${problem}`);
    return problems;
  }

  async serve({ id, method, params = {} }, problems) {
    const isRequest = id !== undefined && id !== null;
    try {
      const serve = SERVE[method];
      if (!serve) throw failure(-32601, `Method not found: ${method}`);
      if (problems.length) throw failure(-32602, problems.join("; "));
      const needed = NEEDED[method];
      if (needed && !this.capabilities[needed]) throw failure(-32601, `The host does not offer ${needed}`);
      if (!this.isReady && !["ui/initialize", `${NOTICE}initialized`, "ping"].includes(method)) {
        this.on.finding("message", `view: ${method} came before ${NOTICE}initialized`);
      }
      if (this.denies && ASKED.includes(method)) throw failure(DENIED, `${method} was denied by the user`);
      const result = await serve.call(this, params, id);
      if (!isRequest || result === undefined) return; // a request that the view cancelled has no answer
      if (method === "tools/call" || method === "resources/read") this.check({ method, result });
      this.post({ id, result });
    } catch (error) {
      if (isRequest) this.post({ id, error: { code: error.code ?? -32603, message: error.message } });
      else if (SERVE[method] && !problems.length) this.on.finding("message", `view: ${error.message}`);
    }
  }

  // -- what views ask for ------------------------------------------------------------------------------------------------

  async callTool({ name, arguments: given }, id) {
    const tool = (state.lists.tools || []).find((each) => each.name === name) || state.described.get(name);
    if (!tool) throw failure(-32602, `Unknown tool: ${name}`);
    if (!visibilityOf(tool).includes("app")) {
      this.on.finding("visibility", `the view called ${name}, whose visibility does not include "app"`);
      throw failure(DENIED, `${name} is not for views`);
    }
    const op = tool.execution?.taskSupport === "required" ? "task" : "call";
    const found = (await this.work(op, { tool: name, arguments: given || {} }, id))?.result;
    if (found) this.checkResult(name, found);
    return found;
  }

  /** Report what hosts without views, or pages of the official package, do not understand. */
  checkResult(name, { content = [], structuredContent }) {
    if (!content.some((block) => block.type === "text" && block.text)) this.on.finding("text", `the result of ${name} has no text for hosts without views`);
    if (structuredContent !== undefined && (structuredContent === null || typeof structuredContent !== "object" || Array.isArray(structuredContent))) {
      this.on.finding("data", `the structured content of ${name} is no object, which pages made with the official package refuse`);
    }
  }

  async work(op, params, id) {
    if (this.jobs.size >= MAX_JOBS) throw failure(-32603, "Too many requests are in flight");
    try {
      return await operate(op, params, (key) => this.jobs.set(id, key)) ?? undefined;
    } finally {
      this.jobs.delete(id);
    }
  }

  async openLink({ url }) {
    const target = linkOf(url, ["http:", "https:", "mailto:"]);
    if (!target) throw failure(DENIED, "Invalid URL");
    if (!await this.on.ask("The view wants to open a link", target.href)) throw failure(DENIED, "Link opening denied by user");
    window.open(target.href, "_blank", "noopener,noreferrer");
    return {};
  }

  async download({ contents }) {
    if (!contents.every(isSaveable)) throw failure(DENIED, "Invalid content");
    const names = contents.map((block) => block.resource?.uri ?? block.uri).join(", ");
    if (!await this.on.ask("The view wants to save files", names)) throw failure(DENIED, "Download denied by user");
    this.on.save(contents);
    return {};
  }

  say(kind, params) {
    this.on.said(kind, params);
    return {};
  }
}

const SERVE = {
  "ui/initialize"(params) {
    this.app = params;
    this.on.status("initializing");
    const sandbox = { permissions: this.page.permissions, csp: this.page.csp };
    return {
      protocolVersion: PROTOCOL,
      hostInfo: { name: "ferrule-inspector", version: state.settings?.version || "0" },
      hostCapabilities: { ...this.capabilities, sandbox },
      hostContext: this.context,
    };
  },
  [`${NOTICE}initialized`]() {
    this.isReady = true;
    this.on.status("running");
    this.becomeReady();
  },
  [`${NOTICE}size-changed`](params) { this.on.size(params); },
  [`${NOTICE}request-teardown`]() { this.close("the view asked for it"); },
  "notifications/message"(params) { this.say("log", params); },
  "notifications/cancelled"({ requestId }) {
    const job = this.jobs.get(requestId);
    if (job) call("cancel", { job }).catch(() => {});
  },
  "notifications/progress"() {},
  "notifications/tools/list_changed"() {},
  ping: () => ({}),
  "tools/call"(params, id) { return this.callTool(params, id); },
  "resources/read"({ uri }, id) { return this.work("read", { uri }, id); },
  "ui/open-link"(params) { return this.openLink(params); },
  "ui/download-file"(params) { return this.download(params); },
  "ui/message"(params) { return this.say("message", params); },
  "ui/update-model-context"(params) { return this.say("context", params); },
  "ui/request-display-mode"({ mode }) {
    this.setMode(mode);
    return { mode: this.context.displayMode };
  },
};
