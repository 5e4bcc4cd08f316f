"""Tries published servers as they come from a fresh install, with the SDK that they were written for, and on Ferrule.

    python compat/published/published.py [PACKAGE]...        try these, or all of servers.toml
    python compat/published/published.py --table             print the table of the last results

Each server gets two environments below ``FERRULE_CACHE/published``: one as a fresh install makes it today, to which
Ferrule and ferrule-compat are added after the first try, and one with ``mcp<2``. The official clients (1.x and 2.x, in
environments of their own) list all that the server has and make one call; it must be the same in all. ``--remove``
removes the environments of a server after its try.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = Path(os.environ.get("FERRULE_CACHE") or ROOT / ".cache") / "published"
MODERN = "2026-07-28"
CLIENTS = {"legacy": "mcp<2", MODERN: "mcp>=2"}
LIMIT_S = 240
REPEATS = 3
OPENING = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "probe", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
]


# -- environments ------------------------------------------------------------------------------------------------------


def environment(name: str, wanted: Sequence[str], python: str = "") -> Path:
    """Return the folder of an environment with some packages; made once."""
    folder = CACHE / name
    stamp = folder / ".installed"
    if stamp.is_file() and stamp.read_text() == repr(wanted):
        return folder
    if not (folder / "bin" / "python").exists():
        base = interpreter(python)
        subprocess.run([base, "-m", "venv", str(folder)], check=True)
    install(folder, *wanted)
    stamp.write_text(repr(wanted))
    return folder


def interpreter(version: str) -> str:
    """Return the Python of a version; this one without."""
    if not version or f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        return sys.executable
    found = shutil.which(f"python{version}")
    places = [found] if found else []
    places += [str(each) for each in Path.home().glob(f".pyenv/versions/{version}*/bin/python")]
    for place in places:
        if subprocess.run([place, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return place
    raise SystemExit(f"There is no Python {version}")


def install(folder: Path, *wanted: str) -> None:
    """Install packages into an environment, by uv where it is on PATH."""
    python = str(folder / "bin" / "python")
    uv = shutil.which("uv")
    command = [uv, "pip", "install", "-q", "--python", python] if uv else [python, "-m", "pip", "install", "-q"]
    subprocess.run([*command, *wanted], check=True)


def with_compat(folder: Path) -> None:
    """Add Ferrule and ferrule-compat to an environment."""
    stamp = folder / ".compat"
    if not stamp.is_file() or stamp.read_text() != str(ROOT):
        install(folder, "-e", str(ROOT), "-e", str(ROOT / "compat"))
        stamp.write_text(str(ROOT))


# -- one server --------------------------------------------------------------------------------------------------------


def filled(value: Any, folder: str) -> Any:
    """Return a command or arguments with the place of the folder filled in."""
    if isinstance(value, str):
        return value.replace("{folder}", folder)
    if isinstance(value, list):
        return [filled(item, folder) for item in value]
    return {key: filled(item, folder) for key, item in value.items()} if isinstance(value, dict) else value


def command_in(folder: Path, server: dict[str, Any], work: str, *, compat: bool) -> list[str]:
    """Return the command that starts the server of an environment."""
    script, *arguments = filled(server.get("command") or [server["package"]], work)
    if compat:
        return [str(folder / "bin" / "ferrule-compat"), script, *arguments]
    return [str(folder / "bin" / script), *arguments]


def seen_by(client: str, server: dict[str, Any], work: str, command: list[str]) -> dict[str, Any]:
    """Return what the official client of an era sees; ``error`` if it cannot connect."""
    python = environment(f"client-{'1' if client == 'legacy' else '2'}", [CLIENTS[client]]) / "bin" / "python"
    call = json.dumps(filled(server.get("call"), work))
    arguments = [str(python), str(HERE / "client.py"), client, call, *command]
    try:
        done = subprocess.run(
            arguments, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=work, env=variables(work)
        )
    except subprocess.TimeoutExpired:
        return {"error": "no answer"}
    lines = done.stdout.strip().splitlines()
    return json.loads(lines[-1]) if done.returncode == 0 and lines else {"error": cause_of(done.stderr)}


def cause_of(log: str) -> str:
    """Return the line of a server's log that says why it ended."""
    wanted = ("ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "Error")
    lines = log.strip().splitlines()
    for mark in wanted:
        for line in lines:
            text = line.strip(" |+-")
            if text.startswith(mark) and ("mcp" in text or mark != "Error"):
                return text[:200]
    return (lines or ["no output"])[-1][:200]


def variables(work: str) -> dict[str, str]:
    """Return the environment of a server: its files go to the empty folder."""
    return {**os.environ, "HOME": work, "XDG_DATA_HOME": work, "XDG_CONFIG_HOME": work, "PYTHONUNBUFFERED": "1"}


def described(seen: dict[str, Any]) -> dict[str, Any]:
    """Return what must be the same everywhere: names, required arguments and types, the result."""
    return {
        "tools": {tool["name"]: signature(tool["inputSchema"]) for tool in seen["tools"]},
        "structured": sorted(tool["name"] for tool in seen["tools"] if tool.get("outputSchema")),
        "resources": sorted(each["uri"] for each in seen["resources"]),
        "templates": sorted(each["uriTemplate"] for each in seen["templates"]),
        "prompts": {
            each["name"]: sorted((part["name"], bool(part.get("required"))) for part in each.get("arguments") or ())
            for each in seen["prompts"]
        },
        "result": result_of(seen),
    }


def result_of(seen: dict[str, Any]) -> Any:
    """Return the result of the call, without what an empty field may be."""
    result = dict(seen.get("result") or {})
    result["isError"] = bool(result.get("isError"))
    return {key: value for key, value in result.items() if value is not None}


def signature(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the required names and the types of the arguments."""
    properties = schema.get("properties") or {}
    return {
        "required": sorted(schema.get("required") or ()),
        "types": {name: sorted(types_of(part, schema, 0)) for name, part in properties.items()},
    }


def types_of(part: Any, root: dict[str, Any], depth: int) -> set[str]:
    """Return the JSON types that a schema accepts."""
    if not isinstance(part, dict) or depth > 8:
        return set()
    reference = part.get("$ref")
    if isinstance(reference, str):
        return types_of((root.get("$defs") or {}).get(reference.rpartition("/")[2]), root, depth + 1)
    kind = part.get("type")
    found = set(kind if isinstance(kind, list) else [kind] if kind else [])
    for word in ("anyOf", "oneOf", "allOf"):
        for each in part.get(word) or ():
            found |= types_of(each, root, depth + 1)
    if not found and "enum" in part:
        found = {"string" if isinstance(value, str) else "number" for value in part["enum"]}
    return found


# -- figures -----------------------------------------------------------------------------------------------------------


def measured(command: list[str], work: str) -> dict[str, float] | None:
    """Return memory, CPU and time of a server at its first list: the best of some starts; Linux only."""
    best: dict[str, float] | None = None
    for _ in range(REPEATS):
        found = first_list(command, work)
        if found is None:
            return None
        best = found if best is None else {key: min(best[key], found[key]) for key in found}
    return best


def first_list(command: list[str], work: str) -> dict[str, float] | None:
    """Start a server, ask for its tools, and read its figures when they have come; ``None`` if they do not come."""
    begun = time.monotonic()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=work, env=variables(work)
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write("".join(json.dumps(message) + "\n" for message in OPENING).encode())
                process.stdin.flush()
            for line in process.stdout:
                if b'"id":2' in line.replace(b" ", b""):
                    return {**figures_of(process.pid), "start_ms": (time.monotonic() - begun) * 1000}
            return None
        finally:
            process.kill()


def figures_of(pid: int) -> dict[str, float]:
    """Return the memory and the CPU of a process and of those that it started."""
    memory = cpu = 0.0
    tick = os.sysconf("SC_CLK_TCK")
    for each in family(pid):
        status = Path(f"/proc/{each}/status").read_text()
        memory += int(status.partition("VmRSS:")[2].split()[0]) / 1024
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        cpu += (int(fields[11]) + int(fields[12])) * 1000 / tick
    return {"memory_mb": memory, "cpu_ms": cpu}


def family(pid: int) -> Iterator[int]:
    """Yield a process and its children, with their children."""
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            yield from family(int(child))


# -- the whole ---------------------------------------------------------------------------------------------------------


def tried(server: dict[str, Any], *, measures: bool = True) -> dict[str, Any]:
    """Return what a server shows fresh, with its SDK and on Ferrule."""
    package, python = server["package"], server.get("python", "")
    fresh = environment(package, [package], python)
    sdk = environment(f"{package}.sdk", [package, "mcp<2"], python)
    made: dict[str, Any] = {"package": package}
    with tempfile.TemporaryDirectory() as work:

        def look(client: str, folder: Path, *, compat: bool = False) -> dict[str, Any]:
            return seen_by(client, server, work, command_in(folder, server, work, compat=compat))

        today = look("legacy", fresh)
        expected = look("legacy", sdk)
        with_compat(fresh)
        found = {client: look(client, fresh, compat=True) for client in CLIENTS}
        made["fresh"] = today.get("error") or "starts"
        made["sdk"] = expected.get("error") or counts(expected)
        made["differences"] = {
            client: differences(expected, each, server.get("changing", "")) for client, each in found.items()
        }
        made["runner"] = next((each["error"] for each in found.values() if "error" in each), None) or counts(
            found["legacy"]
        )
    return {**made, **(figures(server) if measures else {})}


def figures(server: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a server whose environments are there, with its SDK and on Ferrule."""
    fresh, sdk = CACHE / server["package"], CACHE / f"{server['package']}.sdk"
    with tempfile.TemporaryDirectory() as work:
        return {
            "with_sdk": measured(command_in(sdk, server, work, compat=False), work),
            "on_ferrule": measured(command_in(fresh, server, work, compat=True), work),
        }


def counts(seen: dict[str, Any]) -> str:
    """Return the number of tools, of resources and templates, and of prompts."""
    return f"{len(seen['tools'])}/{len(seen['resources']) + len(seen['templates'])}/{len(seen['prompts'])}"


def differences(expected: dict[str, Any], found: dict[str, Any], changing: str = "") -> list[str]:
    """Return how a server differs from itself on its own SDK; empty if it is the same."""
    if "error" in expected or "error" in found:
        return [f"error: {expected.get('error')} / {found.get('error')}"]
    wanted, has = described(expected), described(found)
    if changing:  # such as the time of day
        wanted["result"], has["result"] = (re.sub(changing, "…", json.dumps(each["result"])) for each in (wanted, has))
    made: list[str] = []
    for key, value in wanted.items():
        if value == has[key]:
            continue
        if isinstance(value, dict) and key in ("tools", "prompts"):
            names = value.keys() | has[key].keys()
            made += [
                f"{key}.{name}: {value.get(name)} / {has[key].get(name)}"
                for name in sorted(names)
                if value.get(name) != has[key].get(name)
            ]
        else:
            made.append(f"{key}: {json.dumps(value)[:300]} / {json.dumps(has[key])[:300]}")
    return made


def table(results: list[dict[str, Any]]) -> str:
    """Return the results as a table of Markdown."""
    lines = [
        "| server | fresh today | on Ferrule | same | memory, MB | CPU to the first list, ms | start, ms |",
        "|---|---|---|---|---:|---:|---:|",
    ]
    for each in results:
        before, after = each.get("with_sdk"), each.get("on_ferrule")

        def pair(key: str, before: Any = before, after: Any = after) -> str:
            return f"{before[key]:.0f} → {after[key]:.0f}" if before and after else "–"

        same = "yes" if not any(each["differences"].values()) else "no"
        fresh = "starts" if each["fresh"] == "starts" else f"`{each['fresh'].split(':')[0]}`"
        figures = f"{pair('memory_mb')} | {pair('cpu_ms')} | {pair('start_ms')}"
        lines.append(f"| {each['package']} | {fresh} | {each['runner']} | {same} | {figures} |")
    return "\n".join(lines)


def main() -> int:
    """Try the servers; 1 if one is not the same on Ferrule."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*")
    parser.add_argument("--table", action="store_true", help="print the table of the last results")
    parser.add_argument("--remove", action="store_true", help="remove the environments of each server after its try")
    parser.add_argument("--no-figures", action="store_true", help="measure nothing")
    parser.add_argument("--only-figures", action="store_true", help="measure again what was tried before")
    given = parser.parse_args()
    servers = tomllib.loads((HERE / "servers.toml").read_text())["server"]
    kept = CACHE / "results.json"
    results: dict[str, Any] = json.loads(kept.read_text()) if kept.is_file() else {}
    if not given.table:
        known = {server["package"]: server for server in servers}
        chosen = [known.get(name, {"package": name}) for name in given.packages] or servers
        for server in chosen:
            if given.only_figures:
                made = results[server["package"]] = {**results[server["package"]], **figures(server)}
            else:
                made = results[server["package"]] = tried(server, measures=not given.no_figures)
            print(json.dumps(made, indent=1), flush=True)
            kept.write_text(json.dumps(results))
            if given.remove:
                for name in (server["package"], f"{server['package']}.sdk"):
                    shutil.rmtree(CACHE / name, ignore_errors=True)
    shown = [results[server["package"]] for server in servers if server["package"] in results]
    print(table(shown))
    return 1 if any(any(each["differences"].values()) for each in shown) else 0


if __name__ == "__main__":
    sys.exit(main())
