import { button, fill, h, longText, newId, say } from "./dom.js";
import { followDraft } from "./drafts.js";
import { parseExact } from "./exact.js";
import { jsonView } from "./json.js";
import { outcomeView } from "./outcome.js";
import { main, on, state } from "./store.js";

export function serverView() {
  const facts = h("div");
  let shownAs = "";
  function show() {
    const connection = main();
    const text = JSON.stringify([connection, state.settings]);
    if (text === shownAs) return;
    shownAs = text;
    if (!connection || connection.state !== "open") {
      fill(facts, h("p", { class: "dim" }, connection?.state === "failed" ? say(connection.error) : "Not connected."));
      return;
    }
    const server = connection.server || {};
    const rows = [["Name", server.title || server.name], ["Version", server.version], ["Revision", `${connection.version} (${connection.is_modern ? "modern era" : "handshake era"})`],
      ["Target", state.settings?.target], ["Website", server.websiteUrl]];
    fill(facts, h("dl", { class: "facts" }, rows.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, say(value))])),
      connection.instructions ? [h("h3", {}, "Instructions"), longText(connection.instructions, { class: "text prose" })] : null,
      h("h3", {}, "Capabilities"), jsonView(connection.capabilities, { name: "capabilities" }));
  }
  on("connection settings", show);
  show();

  const outcome = outcomeView();
  const method = h("input", { id: newId("method"), list: "methods", spellcheck: "false", autocomplete: "off", value: "" });
  const params = h("textarea", { id: newId("params"), rows: 4, class: "mono", spellcheck: "false" });
  const problem = h("p", { class: "problem", hidden: true, role: "alert" });
  const methods = h("datalist", { id: "methods" }, ["tools/list", "tools/call", "resources/list", "resources/read", "prompts/list", "prompts/get",
    "completion/complete", "tasks/get", "tasks/cancel", "ping", "server/discover"].map((name) => h("option", { value: name })));
  const send = (event) => {
    event.preventDefault();
    let given;
    try {
      given = params.value.trim() ? parseExact(params.value) : {};
      problem.hidden = true;
    } catch (error) {
      problem.hidden = false;
      problem.textContent = `No JSON: ${error.message}`;
      params.focus();
      return;
    }
    if (method.value) outcome.start("request", { method: method.value.trim(), params: given }, (found) => jsonView(found));
  };
  const form = h("form", { class: "call", novalidate: true, "aria-label": "Any request", onsubmit: send }, methods,
      h("div", { class: "field" }, h("label", { for: method.id }, "Method"), method),
      h("div", { class: "field" }, h("label", { for: params.id }, "Params as JSON"), params), problem,
      h("div", { class: "row call-actions" }, h("button", { type: "submit", class: "primary" }, "Send"), button("Ping", () => outcome.start("ping", {}, () => h("p", {}, "It answers.")))));
  followDraft("server/request", { element: form, peek: () => { try { return parseExact(params.value); } catch { return undefined; } } });
  return { element: h("div", { class: "page" }, h("h2", {}, "Server"), facts,
    h("h3", {}, "Any request"), h("p", { class: "note" }, "Sent as it stands; the envelope of the modern era is added."), form, outcome.element) };
}
