// Runs a Python program in Pyodide: node pyodide_run.mjs PYODIDE SOURCES SITE PROGRAM
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , folder, sources, site, program] = process.argv;
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`).href);
const pyodide = await loadPyodide({ indexURL: `${folder}/` });
for (const [mount, root] of [["/sources", sources], ["/site", site]]) {
  pyodide.FS.mkdir(mount);
  pyodide.FS.mount(pyodide.FS.filesystems.NODEFS, { root }, mount);
}
await pyodide.runPythonAsync("import sys; sys.path[:0] = ['/sources', '/site']; sys.dont_write_bytecode = True");
await pyodide.runPythonAsync(readFileSync(program, "utf8"));
