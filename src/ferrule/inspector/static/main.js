// The page: its frame, its views, and the event feed that updates it.

import { call, follow as listen, hasToken, useToken } from "./api.js";
import { announce, button, fill, h, newId, roving, say } from "./dom.js";
import { erasView } from "./eras.js";
import { liveView } from "./live.js";
import { messagesPanel } from "./messages.js";
import { setDraft } from "./drafts.js";
import { promptsView } from "./prompts.js";
import { watchQuestions } from "./questions.js";
import { resourcesView } from "./resources.js";
import { readRoute, showRoute } from "./routes.js";
import { divider, paneToggle, startPanes } from "./panes.js";
import { serverView } from "./server.js";
import { serversBar } from "./servers.js";
import { sessionActions, sessionView } from "./session.js";
import { openSettings } from "./settings.js";
import { skillsView } from "./skills.js";
import { changed, loadSettings, main, on, state, take } from "./store.js";
import { tasksView } from "./tasks.js";
import { toolsView } from "./tools.js";

const byId = (id) => document.getElementById(id);
const work = byId("work");
const views = new Map();

const VIEWS = [
  ["tools", "Tools", () => toolsView(go, chose("tools"))],
  ["resources", "Resources", () => resourcesView(chose("resources"))],
  ["prompts", "Prompts", () => promptsView(chose("prompts"))],
  ["skills", "Skills", () => skillsView()],
  ["tasks", "Tasks", () => tasksView()],
  ["live", "Live", () => liveView()],
  ["eras", "Two eras", () => erasView()],
  ["server", "Server", () => serverView()],
  ["session", "Session", () => sessionView(() => { byId("tab-session").hidden = true; show("tools"); })],
  ["messages", "Messages", null],
];

// -- views --------------------------------------------------------------------------------------------------------------

function view(name) {
  if (!views.has(name)) {
    const made = VIEWS.find(([each]) => each === name)[2]();
    const panel = h("div", { class: "view", role: "tabpanel", id: `view-${name}`, "aria-labelledby": `tab-${name}` }, made.element);
    made.panel = panel; // not a copy of `made`: what is chosen is a getter
    views.set(name, made);
    work.append(panel);
    changed("settings");
  }
  return views.get(name);
}

const chose = (name) => (key) => { if (current === name) showRoute(name, key); };

let current = "";
function show(name) {
  if (!VIEWS.some(([each]) => each === name) || (name === "session" && byId("tab-session").hidden)) name = "tools";
  current = name;
  document.body.dataset.view = name;
  for (const tab of byId("tabs").children) {
    const isChosen = tab.dataset.view === name;
    tab.setAttribute("aria-selected", String(isChosen));
    tab.tabIndex = isChosen ? 0 : -1;
    if (isChosen) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  if (name !== "messages") view(name);
  for (const [each, { panel }] of views) panel.hidden = each !== name;
  showRoute(name, views.get(name)?.chosen);
  changed("shown");
}

/** Show what the address names, and fill in its arguments. Nothing is called. */
function follow(route) {
  show(route.view);
  byId("from-link")?.remove();
  const target = views.get(current);
  let text = route.problem ? `${route.problem}.` : "";
  if (route.key !== undefined && target?.choose) {
    if (route.args !== undefined && (current === "tools" || current === "prompts")) {
      setDraft(`${current}/${route.key}`, route.args);
      text = "Filled in from a link. Nothing was called.";
    }
    (target.show || target.choose)(route.key);
    if (text && target.chosen === route.key) target.refresh();
  }
  if (!text) return;
  byId("banners").append(h("div", { id: "from-link", class: `banner ${route.problem ? "bad" : "ask"}`, role: "status" }, text, " ",
    button("Close", () => byId("from-link").remove(), { class: "small" })));
}

/** Go to a view, with something for it to do. */
function go(name, what) {
  show(name);
  const target = view(name);
  if (name === "resources") target.choose(what);
  if (name === "eras") target.start(what);
}

function makeTabs() {
  const tabs = byId("tabs");
  for (const [name, title] of VIEWS) {
    const count = h("span", { class: "count" });
    tabs.append(h("button", { type: "button", role: "tab", id: `tab-${name}`, "data-view": name, onclick: () => show(name),
      "aria-controls": name === "messages" ? "messages" : `view-${name}` }, title, count));
  }
  roving(tabs, "[role=tab]:not([hidden])", { horizontal: true, onmove: (tab) => tab.click() });
  const skills = byId("tab-skills");
  skills.hidden = byId("tab-session").hidden = true;
  on("connection", () => { // shown for servers that declare skills; it is not known before the connection is open
    if (main()?.state !== "open") return;
    skills.hidden = !main().has_skills;
    if (skills.hidden && current === "skills") show("tools");
  });
  const number = (name, value) => { byId(`tab-${name}`).querySelector(".count").textContent = value ? ` ${value}` : ""; };
  on("lists job change message", () => {
    number("tools", state.lists.tools && state.lists.tools.length + (state.lists.behind?.length || 0));
    number("resources", (state.lists.resources?.length || 0) + (state.lists.templates?.length || 0));
    number("prompts", state.lists.prompts?.length);
    number("skills", state.lists.skills?.length);
    number("tasks", [...state.jobs.values()].filter((job) => job.state === "running" && job.task_id).length);
    number("live", state.changes.length);
    number("messages", state.messages.length);
  });
}

// -- the bar ------------------------------------------------------------------------------------------------------------

let said = "";
function showConnection() {
  const connection = main();
  const line = byId("connection");
  const name = connection?.server?.title || connection?.server?.name || state.settings?.target || "inspector";
  fill(byId("server-name"), say(name), connection?.server?.version ? h("span", { class: "dim" }, " ", say(connection.server.version)) : null);
  document.title = `${name} · Ferrule inspector`;
  const status = state.feed === "lost" ? "lost" : connection?.state || "connecting";
  const words = { lost: "ferrule dev does not answer", connecting: "connecting…", open: "connected", failed: "not connected", closed: "closed" }[status];
  const key = `${status} ${connection?.version}`;
  if (key !== said) {
    said = key;
    fill(line, h("span", { class: `dot ${status}`, "aria-hidden": "true" }), words,
      connection?.version ? h("span", { class: `era ${connection.is_modern ? "modern" : "legacy"}` }, `${connection.version} ${connection.is_modern ? "modern" : "legacy"}`) : null);
  }
  const failed = byId("failed");
  if (connection?.state === "failed") {
    if (!failed) byId("banners").prepend(h("div", { id: "failed", class: "banner bad", role: "alert" }, h("strong", {}, "No connection. "), say(connection.error), " ", h("span", { class: "row" }, button("Try again", reconnect, { class: "small" }), button("Settings", settings, { class: "small" }))));
  } else failed?.remove();
}

const settings = () => openSettings().catch((error) => announce(error.message));
const reconnect = () => call("connect").catch((error) => announce(error.message));

const THEMES = [["", "as the system", "◐"], ["light", "light", "☀"], ["dark", "dark", "☾"]];
function makeTheme() {
  const control = byId("theme");
  let at = 0;
  try { at = Math.max(0, THEMES.findIndex(([name]) => name === localStorage.getItem("ferrule-theme"))); } catch { /* not kept, then */ }
  const apply = () => {
    const [name, title, sign] = THEMES[at];
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
    control.textContent = sign;
    control.setAttribute("aria-label", `Colour theme: ${title}`);
    control.title = `Colour theme: ${title}`;
  };
  control.addEventListener("click", () => {
    at = (at + 1) % THEMES.length;
    try { localStorage.setItem("ferrule-theme", THEMES[at][0]); } catch { /* not kept, then */ }
    apply();
  });
  apply();
}

/** For someone who followed a link to this page: the address that was printed, pasted here, keeps the link. */
function tokenForm() {
  const field = h("input", { type: "password", id: newId("token"), autocomplete: "off", "aria-required": "true" });
  return h("form", { class: "row", "aria-label": "Token", onsubmit: (event) => {
    event.preventDefault();
    const given = field.value.trim();
    const token = given.includes("token=") ? given.split("token=")[1].split(/[&#]/)[0] : given;
    if (token) useToken(token);
  } }, h("label", { for: field.id }, "Or paste it here"), field, h("button", { type: "submit" }, "Open"));
}

function refuse() {
  document.body.classList.add("refused");
  fill(work, h("div", { class: "page" }, h("h2", { tabindex: -1 }, "This page needs its token"),
    h("p", {}, "Open the whole address that ", h("code", {}, "ferrule dev"), " printed. It ends with ", h("code", {}, "?token=…"), ", and a new one is made each time."),
    tokenForm()));
}

/** Ctrl+Enter runs what one is at: the form around the focus, that of an open dialog, or that of the view. */
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.defaultPrevented || event.repeat) return;
  const open = document.querySelector("dialog[open]");
  const panel = views.get(current)?.panel;
  const form = open ? open.querySelector("form") : document.activeElement?.closest("form") || panel?.querySelector(".detail form.call") || panel?.querySelector("form.call");
  const main = open || form ? null : panel?.querySelector(".detail .primary");
  if (!form && !main) return;
  event.preventDefault();
  if (form) form.requestSubmit();
  else main.click();
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName || "")) return;
  const filter = views.get(current)?.panel.querySelector(".filter");
  if (filter) { event.preventDefault(); filter.focus(); }
});

makeTheme();
if (!hasToken()) {
  refuse();
} else {
  makeTabs();
  messagesPanel(byId("messages"), sessionActions(() => { byId("tab-session").hidden = false; show("session"); }));
  // In a landmark of its own, since it stands between two of them.
  byId("messages").before(h("section", { class: "between", "aria-label": "Width of the panes" }, divider("messages", { isAfter: true })));
  byId("reconnect").before(paneToggle("list", "List"), paneToggle("messages", "Messages"));
  startPanes();
  serversBar(byId("servers"));
  watchQuestions(byId("banners"));
  on("connection feed settings", showConnection);
  byId("reconnect").addEventListener("click", reconnect);
  byId("settings-open").addEventListener("click", settings);
  follow(readRoute());
  addEventListener("hashchange", () => follow(readRoute()));
  loadSettings().catch(() => {});
  listen(take, (now) => {
    if (now === "refused") refuse();
    else { state.feed = now === "open" ? "opening" : now; changed("feed"); }
  });
}
