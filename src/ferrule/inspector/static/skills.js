// Skills: what their entries say, and their files, which are shown after they were compared with the entry.

import { button, clip, h, longText, say, size } from "./dom.js";
import { jsonView } from "./json.js";
import { listView } from "./lists.js";
import { outcomeView } from "./outcome.js";
import { resourceView } from "./result.js";
import { loadList } from "./store.js";

const MAX_FILES = 512;

export function skillsView() {
  return listView({
    label: "Skills",
    kinds: ["skills"],
    keyOf: ({ item }) => item.uri,
    describe: ({ item }) => ({ title: item.name, note: clip(item.description, 140), chips: [amount(item)] }),
    detail: ({ item }) => skillDetail(item),
    empty: "This server lists no skills.",
  });
}

function amount({ files }) {
  if (!files) return "dynamic";
  return `${files.length} file${files.length === 1 ? "" : "s"}, ${size(files.reduce((sum, file) => sum + file.size, 0))}`;
}

function skillDetail(skill) {
  const outcome = outcomeView({ label: "File" });
  const read = (uri, digest) => outcome.start("skill_file", { skill: skill.uri, uri, digest }, fileView);
  return [
    h("header", { class: "detail-head" }, h("h2", { tabindex: -1 }, say(skill.name)), h("span", { class: "chip" }, amount(skill))),
    h("p", { class: "uri-line" }, h("code", { class: "uri" }, say(skill.uri))),
    longText(skill.description, { class: "text prose" }),
    skill.declined ? h("p", { class: "flag bad" }, "This skill cannot be loaded: it ", say(skill.declined), ".") : null,
    h("h3", {}, "Frontmatter"), jsonView(skill.frontmatter, { name: "frontmatter" }),
    h("div", { class: "row" }, h("h3", {}, "Files"), button("Reload list", () => loadList("skills"), { class: "small" })),
    skill.files ? filesView(skill.files, read) : [
      h("p", { class: "flag" }, "Its files are made at each read, so that they cannot be verified."),
      h("div", { class: "row call-actions" }, button("Read SKILL.md", () => read(skill.uri, null), { class: "primary" }))],
    outcome.element,
  ];
}

function filesView(files, read) {
  const head = (title, kind) => h("th", { scope: "col", class: kind }, title);
  const row = (file) => h("tr", {}, h("td", {}, say(clip(file.path, 300))), h("td", { class: "number" }, size(file.size).replace(" ", "\u00a0")),
    h("td", {}, h("code", { class: "uri" }, say(file.digest))),
    h("td", {}, button("Read", () => read(file.uri, file.digest), { class: "small", "aria-label": `Read ${clip(file.path, 300)}` })));
  return h("div", { class: "table-box", tabindex: 0, role: "region", "aria-label": "Files" },
    h("table", {}, h("thead", {}, h("tr", {}, head("path"), head("size", "number"), head("digest"), head("read"))),
      h("tbody", {}, files.slice(0, MAX_FILES).map(row))),
    files.length > MAX_FILES ? h("p", { class: "dim" }, `${files.length} files, the first ${MAX_FILES} shown`) : null);
}

function fileView(file) {
  const checked = file.isVerified ? h("span", { class: "state done" }, "Verified") : h("span", { class: "flag" }, "Not verified: the skill is dynamic");
  return h("div", { class: "blocks" }, h("p", {}, checked, h("span", { class: "dim" }, ` ${file.size} bytes, `, h("code", { class: "uri" }, file.digest))), resourceView(file));
}
