// The traceback that the server's process wrote to its stderr: the developer's own files first, each with a link that
// an editor opens. It comes from the process that this inspector started; a peer never gets it.

import { button, clip, copy, h, longText, say } from "./dom.js";

const EDITORS = [
  ["vscode", "VS Code", (file, line) => `vscode://file/${inPath(file)}:${line}`],
  ["cursor", "Cursor", (file, line) => `cursor://file/${inPath(file)}:${line}`],
  ["zed", "Zed", (file, line) => `zed://file/${inPath(file)}:${line}`],
  ["pycharm", "PyCharm", (file, line) => `pycharm://open?file=${encodeURIComponent(file)}&line=${line}`],
];

const inPath = (file) => encodeURI(file.replaceAll("\\", "/").replace(/^\//, "")).replace(/[?#]/g, encodeURIComponent);

function editor() {
  let name = "";
  try { name = localStorage.getItem("ferrule-editor") || ""; } catch { /* not kept, then */ }
  return EDITORS.find(([each]) => each === name) || EDITORS[0];
}

export function crashView(crash) {
  const places = [];
  const chooser = h("select", { "aria-label": "Editor that opens files", onchange: () => {
    try { localStorage.setItem("ferrule-editor", chooser.value); } catch { /* not kept, then */ }
    for (const update of places) update();
  } }, EDITORS.map(([name, title]) => h("option", { value: name }, title)));
  chooser.value = editor()[0];
  const body = crash.exceptions.slice(0, 20).map((raised, at) => {
    const own = raised.frames.filter((frame) => frame.is_own);
    const others = raised.frames.filter((frame) => !frame.is_own);
    return h("div", { class: "raised" },
      h("p", { class: "raised-line" }, at > 0 ? h("span", { class: "dim" }, "caused by ") : null, h("strong", {}, say(clip(raised.type, 200))), raised.message ? [": ", say(clip(raised.message, 2000))] : null),
      own.length ? h("ol", { class: "frames" }, own.map((frame) => frameView(frame, places))) : null,
      others.length ? h("details", { class: "frames-of-libraries" }, h("summary", {}, `${others.length} frame${others.length === 1 ? "" : "s"} of libraries`),
        h("ol", { class: "frames" }, others.map((frame) => frameView(frame, places)))) : null);
  });
  return h("section", { class: "crash", "aria-label": "Traceback" },
    h("div", { class: "row" }, h("h3", {}, "Traceback"), h("span", { class: "dim" }, "from stderr; clients do not get it"), h("span", { class: "grow" }),
      h("label", { class: "row dim" }, "open in ", chooser),
      button("Copy", () => copy(crash.text, "Traceback copied"), { class: "small", "aria-label": "Copy the traceback" })),
    body, h("details", {}, h("summary", { class: "dim" }, "As it was written"), longText(crash.text, { class: "text mono" })));
}

function frameView(frame, places) {
  const where = `${frame.file}:${frame.line}`;
  const link = h("a", { class: "uri frame-place", title: "open in the editor" }, say(clip(where, 400)));
  const update = () => link.setAttribute("href", editor()[2](frame.file, frame.line));
  if (/^(\/|[A-Za-z]:[\\/])/.test(frame.file)) { places.push(update); update(); }
  return h("li", { class: frame.is_own ? "frame own" : "frame" },
    h("div", { class: "row" }, link, frame.function ? h("span", { class: "dim" }, "in ", say(clip(frame.function, 200))) : null,
      button("Copy", () => copy(where, `${where} copied`), { class: "small", "aria-label": `Copy ${where}` })),
    frame.source ? h("pre", { class: "frame-source" }, say(clip(frame.source, 400))) : null);
}
