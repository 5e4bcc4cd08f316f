// The view of a tool (MCP Apps) beside its form: the view itself, the controls of its host, findings and messages.

import { call } from "./api.js";
import { announce, button, clip, fill, h, newId, save, say, visible } from "./dom.js";
import { jsonView } from "./json.js";
import { blockView, fromBase64 } from "./result.js";
import { ask, main, on, state } from "./store.js";
import { CAPABILITIES, ViewHost } from "./viewhost.js";
import { STYLES } from "./viewlook.js";

const MODES = ["inline", "fullscreen", "pip"];
const MAX_HEIGHT = 2000;
const MOBILE = { width: 390, maxHeight: 700 };
const PIP = { width: 360, height: 260 };
const MAX_SHOWN = 300;
const MAX_QUESTIONS = 20;

/** What is chosen, for every view of this page. */
const chosen = {
  theme: "light", mode: "inline", size: "desktop", profile: "specification", partial: false, cancels: false, denies: false, grants: true,
  capabilities: new Set(Object.keys(CAPABILITIES)),
};
let shown = null;

/** The URI of a tool's page, also under the key of servers before 2026-01-26; undefined without one. */
export function pageUri(tool) {
  const given = tool._meta?.ui?.resourceUri ?? tool._meta?.["ui/resourceUri"];
  return typeof given === "string" ? given : undefined;
}

/** A tool without the URI of its page, which changes with the page's content. */
export function withoutPageUri(tool) {
  if (!pageUri(tool)) return tool;
  const { resourceUri, ...ui } = tool._meta.ui || {};
  return { ...tool, _meta: { ...tool._meta, "ui/resourceUri": undefined, ui } };
}

/** Close the view that is shown, if there is one; returns a promise then. */
export const leaveView = () => shown?.close("another tool was chosen") ?? null;

/** Subscribe to changes of the tools, which load the lists again; not with a server that does not announce them. */
function follow() {
  if (!main()?.capabilities?.tools?.listChanged || state.subscriptions.has("pages")) return;
  call("subscribe", { subscription: "pages", tools: true }).catch(() => {});
}

/** Growing parts of a call's arguments, as a host sends them while a model writes. */
function partsOf(given) {
  const names = Object.keys(given);
  return names.map((name, at) => {
    const part = Object.fromEntries(names.slice(0, at + 1).map((each) => [each, given[each]]));
    if (typeof part[name] === "string") part[name] = part[name].slice(0, Math.ceil(part[name].length / 2));
    return part;
  });
}

export function viewPanel(tool) {
  const status = h("span", { class: "dim", role: "status" });
  const stage = h("div", { class: "view-stage" });
  const asked = h("div", { class: "view-asked", "aria-live": "polite" });
  const findings = h("ul", { class: "view-findings", "aria-label": "Findings" });
  const said = h("div", { class: "view-said" });
  const log = h("ol", { class: "messages view-log", "aria-label": "Messages of the view" });
  const count = h("span", { class: "count" });
  const back = button("Back to inline", () => host?.setMode("inline"), { class: "small view-back", hidden: true });
  const found = new Map();
  let host = null;
  let last = null; // the input and the outcome of the last call
  let openUri = "";
  let opening = 0;

  // -- what the host does with a view ------------------------------------------------------------------------------------

  function addFinding(kind, text) {
    const key = `${kind}: ${text}`;
    const known = found.get(key);
    if (known) {
      known.count += 1;
      known.mark.textContent = ` ×${known.count}`;
      return;
    }
    if (found.size >= MAX_SHOWN) return;
    const mark = h("span", { class: "dim" });
    found.set(key, { count: 1, mark });
    findings.append(h("li", { class: "flag bad", "data-kind": kind }, h("strong", {}, `${kind} `), say(clip(text, 1000)), mark));
    count.textContent = ` ${found.size}`;
  }

  function addMessage(sender, message) {
    const place = h("div", { class: "message-body" });
    const details = h("details", { class: `message ${sender === "host" ? "out" : "in"}` },
      h("summary", {}, h("span", { class: "arrow", role: "img", "aria-label": sender === "host" ? "to the view" : "from the view" }, sender === "host" ? "→" : "←"),
        h("span", { class: "what" }, say(clip(String(message.method ?? (message.error ? "error" : "result")), 80)),
          message.id === undefined ? null : h("span", { class: "subject" }, " ", say(clip(String(message.id), 30))))), place);
    details.addEventListener("toggle", () => { if (details.open && !place.firstChild) place.append(jsonView(message, { name: "message" })); });
    log.append(h("li", {}, details));
    while (log.children.length > MAX_SHOWN) log.firstChild.remove();
  }

  function askUser(title, detail) {
    if (asked.children.length >= MAX_QUESTIONS) return Promise.resolve(false);
    return new Promise((resolve) => {
      const end = (answer) => { box.remove(); resolve(answer); };
      const box = h("div", { class: "banner", role: "group", "aria-label": title }, h("strong", {}, title), h("code", { class: "uri" }, visible(clip(detail, 1000))),
        h("span", { class: "row" }, button("Allow", () => end(true), { class: "small" }), button("Deny", () => end(false), { class: "small" })));
      asked.append(box);
      announce(title);
    });
  }

  function saveContents(contents) {
    for (const { resource, uri } of contents) {
      if (!resource) {
        window.open(uri, "_blank", "noopener,noreferrer");
        continue;
      }
      const data = resource.blob === undefined ? resource.text : fromBase64(resource.blob);
      save(resource.uri.split("/").pop() || "file", new Blob([data], { type: "application/octet-stream" }));
    }
  }

  function hear(kind, params) {
    if (kind === "context") for (const old of said.querySelectorAll("[data-kind=context]")) old.remove();
    const title = { message: "To the conversation", context: "Context for the model", log: `Log, ${params.level}` }[kind];
    const content = kind === "log" ? jsonView(params.data) : [(params.content || []).map((block) => blockView(block)),
      params.structuredContent === undefined ? null : jsonView(params.structuredContent)];
    said.append(h("div", { class: "block", "data-kind": kind }, h("strong", { class: "dim" }, title), content));
    while (said.children.length > MAX_SHOWN) said.firstChild.remove();
  }

  // -- size and mode -------------------------------------------------------------------------------------------------------

  function dimensions(mode) {
    if (mode === "fullscreen") return { width: innerWidth, height: innerHeight - 40 };
    if (mode === "pip") return PIP;
    return chosen.size === "mobile" ? MOBILE : { width: Math.max(200, stage.clientWidth || 600), maxHeight: MAX_HEIGHT };
  }

  /** Give the frame its place for a display mode; returns the dimensions for the host context of the view. */
  function place(mode) {
    stage.dataset.mode = mode;
    stage.dataset.size = chosen.size;
    stage.style.colorScheme = chosen.theme;
    back.hidden = mode === "inline";
    controls.mode.value = chosen.mode = mode;
    const box = dimensions(mode);
    if (host) {
      host.frame.style.width = mode === "inline" && chosen.size === "desktop" ? "100%" : `${box.width}px`;
      host.frame.style.height = "height" in box ? `${box.height}px` : `${host.frame.dataset.height || 240}px`;
    }
    return box;
  }

  function resize({ height }) {
    if (!Number.isFinite(height) || height <= 0) return;
    const box = dimensions(host.context.displayMode);
    host.frame.dataset.height = Math.min(Math.ceil(height), box.maxHeight ?? MAX_HEIGHT);
    if (!("height" in box)) host.frame.style.height = `${host.frame.dataset.height}px`;
  }

  function contextNow() {
    const isMobile = chosen.size === "mobile";
    return {
      toolInfo: { tool: current() }, theme: chosen.theme, styles: STYLES, displayMode: chosen.mode, availableDisplayModes: MODES,
      containerDimensions: dimensions(chosen.mode), locale: navigator.language, timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      userAgent: "ferrule-inspector", platform: isMobile ? "mobile" : "web", deviceCapabilities: { touch: isMobile, hover: !isMobile },
      safeAreaInsets: { top: 0, right: 0, bottom: 0, left: 0 },
    };
  }

  // -- opening and closing -------------------------------------------------------------------------------------------------

  const current = () => (state.lists.tools || []).find((each) => each.name === tool.name) || tool;

  async function close(reason) {
    const closing = host;
    host = null;
    if (shown === self) shown = null;
    await closing?.close(reason);
  }

  async function open() {
    const mine = ++opening;
    await close("it is opened again");
    if (mine !== opening) return;
    shown = self;
    found.clear();
    for (const each of [findings, said, log, asked]) fill(each);
    count.textContent = "";
    status.textContent = "reading the page";
    element.dataset.state = "opening";
    element.dataset.opened = String(mine);
    openUri = pageUri(current());
    let page;
    try {
      page = await ask("page", { tool: tool.name, meta: current()._meta, profile: chosen.profile });
    } catch (error) {
      status.textContent = "not opened";
      addFinding("resource", error.message);
      return;
    }
    if (mine !== opening || shown !== self) return; // opened again, or left, meanwhile
    for (const { kind, text } of page.findings) addFinding(kind, text);
    if (!chosen.grants) Object.assign(page, { permissions: {}, allow: "" });
    await start(page, last);
  }

  async function start(page, called) {
    const frame = h("iframe", { class: `view-frame ${page.border === false ? "" : "bordered"}`, title: `View of ${tool.name}`, referrerpolicy: "origin",
      sandbox: "allow-scripts allow-same-origin allow-forms", allow: page.allow || undefined });
    fill(stage, frame);
    const context = contextNow();
    host = new ViewHost({
      frame, page, context, denies: chosen.denies,
      capabilities: Object.fromEntries(Object.entries(CAPABILITIES).filter(([name]) => chosen.capabilities.has(name))),
      on: {
        message: addMessage, finding: addFinding, size: resize, mode: place, ask: askUser, save: saveContents, said: hear,
        status(word) { status.textContent = word; element.dataset.state = word; },
        over() { frame.remove(); back.hidden = true; },
      },
    });
    const mine = host;
    place(chosen.mode);
    try {
      await mine.open();
    } catch (error) {
      addFinding("resource", error.message);
      return;
    }
    showReports();
    follow();
    await mine.ready;
    if (chosen.partial) for (const part of partsOf(called.input)) mine.notify("tool-input-partial", { arguments: part });
    mine.notify("tool-input", { arguments: called.input });
    const outcome = chosen.cancels ? { reason: "cancelled by the user" } : await called.outcome;
    if (mine.isOver) return;
    if (outcome.result) {
      mine.checkResult(tool.name, outcome.result);
      mine.notify("tool-result", outcome.result);
    } else mine.notify("tool-cancelled", { reason: outcome.reason });
  }

  const reported = new Set();
  function showReports() {
    for (const report of state.viewReports.get(host?.key) || []) {
      if (reported.has(report)) continue;
      reported.add(report);
      const where = report.line ? ` (line ${report.line})` : "";
      addFinding("policy", `${report.directive} refused ${report.blocked || "something"}${where}${report.sample ? `: ${report.sample}` : ""}`);
    }
  }
  on("view_report", showReports, stage);
  on("lists", () => { if (host && last && pageUri(current()) !== openUri) open(); }, stage);

  // -- controls ------------------------------------------------------------------------------------------------------------

  const again = () => { if (last) open(); };
  const select = (label, name, options, changed) => {
    const control = h("select", { id: newId(name), onchange: () => { chosen[name] = control.value; changed(control.value); } },
      options.map(([value, title]) => h("option", { value }, title)));
    control.value = chosen[name];
    controls[name] = control;
    return h("div", { class: "view-control" }, h("label", { for: control.id }, label), control);
  };
  const check = (label, name, changed = again) => h("label", { class: "check" },
    h("input", { type: "checkbox", checked: chosen[name], onchange: (event) => { chosen[name] = event.target.checked; changed(event.target.checked); } }), ` ${label}`);
  const offer = (name) => h("label", { class: "check" }, h("input", { type: "checkbox", checked: chosen.capabilities.has(name), onchange: (event) => {
    if (event.target.checked) chosen.capabilities.add(name);
    else chosen.capabilities.delete(name);
    again();
  } }), ` ${name}`);
  const controls = {};
  const profiles = (state.settings?.view_profiles || [{ name: "specification", title: "as the specification says" }]).map(({ name, title }) => [name, title]);

  const element = h("section", { class: "outcome view-panel", "aria-label": "View", hidden: true },
    h("div", { class: "row job-head" }, h("strong", {}, "View"), status, h("span", { class: "grow" }),
      button("Open again", again, { class: "small" }), button("Close", () => close("closed by the user"), { class: "small", "aria-label": "Close the view" })),
    h("div", { class: "row view-controls" },
      select("Theme", "theme", [["light", "light"], ["dark", "dark"]], (theme) => {
        stage.style.colorScheme = theme;
        host?.changeContext({ theme });
      }),
      select("Mode", "mode", MODES.map((mode) => [mode, mode]), (mode) => {
        if (host && !host.setMode(mode)) {
          controls.mode.value = chosen.mode = host.context.displayMode;
          announce(`This view has no mode ${mode}`);
        }
      }),
      select("Size", "size", [["desktop", "desktop"], ["mobile", "mobile"]], () => {
        if (!host) return;
        const { platform, deviceCapabilities } = contextNow();
        host.changeContext({ containerDimensions: place(host.context.displayMode), platform, deviceCapabilities });
      }),
      select("Host", "profile", profiles, again)),
    h("details", { class: "view-more" }, h("summary", {}, "What the host does"),
      h("fieldset", { class: "group" }, h("legend", {}, "Offers to the view"), h("div", { class: "choices" }, Object.keys(CAPABILITIES).map(offer))),
      h("div", { class: "choices" }, check("send partial input first", "partial"), check("cancel the call", "cancels"),
        check("deny what needs consent", "denies", (denies) => { if (host) host.denies = denies; }), check("grant camera, microphone, location, clipboard", "grants"))),
    asked, h("div", { class: "view-place" }, back, stage), said,
    h("details", { class: "view-more", open: true }, h("summary", {}, "Findings", count), findings),
    h("details", { class: "view-more" }, h("summary", {}, "Messages with the view"), log));

  const self = {
    element,
    close,
    /** Open the view for a call; `done` resolves to the last event of its job. */
    show(input, done) {
      element.hidden = false;
      const outcome = done.then(async (job) => {
        if (job?.state !== "done") return { reason: job?.error || job?.state || "not called" };
        return { result: (await call("outcome", { job: job.key })).outcome.result };
      }).catch((error) => ({ reason: error.message }));
      last = { input, outcome };
      open();
    },
  };
  return self;
}
