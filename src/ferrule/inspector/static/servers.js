// The servers of a configuration, each with its state, and a switch between them. Another server is another page of the
// same inspector: what was typed there, its calls and its messages are there again.

import { button, clip, fill, h, roving, say } from "./dom.js";
import { serverName } from "./routes.js";
import { on, state } from "./store.js";

const WORDS = { open: "connected", connecting: "connecting…", failed: "down", closed: "closed" };

const addressOf = (server) => `${location.pathname}${server.is_first ? "" : `?server=${encodeURIComponent(server.key)}`}#${document.body.dataset.view || "tools"}`;
const isShown = (server) => (serverName ? server.key === serverName : server.is_first);

export function serversBar(place) {
  const list = h("ul", { class: "servers", "aria-label": "Servers" });
  const why = h("div", { class: "server-why banner bad", role: "status", hidden: true });
  let asked = null; // the unusable server whose reason is shown
  roving(list, ".server", { horizontal: true });

  function show() {
    const servers = [...state.servers.values()].sort((a, b) => a.key.localeCompare(b.key));
    place.hidden = servers.length < 2;
    if (place.hidden) return;
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    fill(list, servers.map((server) => {
      const current = isShown(server);
      return h("li", {}, h("button", { type: "button", class: "server", "data-key": server.key, "aria-current": current ? "true" : undefined, tabindex: current ? 0 : -1,
        title: server.error || undefined, onclick: () => go(server) },
      h("span", { class: `dot ${server.state}`, "aria-hidden": "true" }), say(clip(server.key, 60)), " ", h("span", { class: "server-state" }, WORDS[server.state] || server.state)));
    }));
    list.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (focused !== null) [...list.querySelectorAll(".server")].find((each) => each.dataset.key === focused)?.focus();
    const server = asked === null ? undefined : state.servers.get(asked);
    why.hidden = !server || !server.error;
    if (!why.hidden) fill(why, h("strong", {}, say(server.key), ": "), say(clip(server.error, 1000)), " ", button("Close", () => { asked = null; show(); }, { class: "small" }));
  }

  function go(server) {
    if (isShown(server)) return;
    if (!server.is_usable) { asked = server.key; show(); return; }
    location.assign(addressOf(server));
  }

  fill(place, list, why);
  on("server", show);
  show();
}

