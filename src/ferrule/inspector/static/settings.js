// Era, credentials and roots. The program or URL is named on the command line only.

import { call } from "./api.js";
import { announce, button, h, newId } from "./dom.js";
import { loadSettings, state } from "./store.js";

export async function openSettings() {
  await loadSettings();
  const now = state.settings;
  const mode = h("select", { id: newId("mode") }, now.modes.map((name) => h("option", { value: name }, name === "auto" ? "auto: the newest both speak" : name === "legacy" ? "legacy: with a handshake" : name)));
  mode.value = now.mode;
  const headers = h("textarea", { id: newId("headers"), rows: 3, class: "mono", spellcheck: "false", placeholder: "Name: value" });
  headers.value = now.headers;
  const token = h("input", { id: newId("token"), type: "password", autocomplete: "off", placeholder: now.has_token ? "kept as it is" : "" });
  const oauth = h("input", { id: newId("oauth"), type: "checkbox", checked: now.oauth });
  const roots = h("textarea", { id: newId("roots"), rows: 3, class: "mono", spellcheck: "false", placeholder: "file:///folder" });
  roots.value = now.roots.map((root) => (root.name ? `${root.uri} ${root.name}` : root.uri)).join("\n");
  const problem = h("p", { class: "problem", role: "alert" });
  const title = newId("settings");
  const labelled = (label, control, note) => h("div", { class: "field" }, h("label", { for: control.id }, label), control, note ? h("p", { class: "note" }, note) : null);
  const end = () => { dialog.close(); dialog.remove(); };

  async function saveRoots() {
    const list = roots.value.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
      const [uri, ...name] = line.split(/\s+/);
      return { uri, name: name.join(" ") };
    });
    if (JSON.stringify(list) !== JSON.stringify(now.roots.map((root) => ({ uri: root.uri, name: root.name || "" })))) await call("roots", { roots: list });
  }

  async function apply(event) {
    event.preventDefault();
    try {
      await saveRoots();
      const body = { mode: mode.value };
      if (now.is_http) {
        body.headers = headers.value;
        body.oauth = oauth.checked;
        if (token.value) body.token = token.value;
      }
      const isSame = mode.value === now.mode && (!now.is_http || (headers.value === now.headers && oauth.checked === now.oauth && !token.value));
      if (!isSame) await call("connect", body);
      await loadSettings();
      end();
      announce("Settings are kept");
    } catch (error) {
      problem.textContent = error.message;
    }
  }

  const dialog = h("dialog", { "aria-labelledby": title }, h("form", { class: "dialog-form", novalidate: true, onsubmit: apply },
    h("p", { class: "eyebrow" }, now.target), h("h2", { id: title }, "Settings"),
    h("div", { class: "dialog-body" },
      labelled("Era", mode, "Another era opens a new connection."),
      now.is_http ? [labelled("Bearer token", token, now.has_token ? "A token is set. Type another one to replace it." : "Kept in memory only."),
        now.has_token ? button("Forget the token", async () => { await call("connect", { token: "" }); end(); }, { class: "small" }) : null,
        labelled("Headers", headers, "One a line, sent with each request."),
        h("div", { class: "field check" }, oauth, h("label", { for: oauth.id }, "Sign in (OAuth) where the server asks for it"))] : null,
      labelled("Roots", roots, "Folders that the server may know of: a file:// URI a line, a name behind it if you like.")),
    problem,
    h("div", { class: "row dialog-actions" }, h("button", { type: "submit", class: "primary" }, "Apply"), button("Close", end, { class: "quiet" }))));
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
}
