"""The legacy era is removed by deleting its folders and its lines in the index of revisions, nothing else."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import ferrule

SOURCE = Path(ferrule.__file__).parent
INDEX = "wire/revisions/index.py"
"""The only file that changes when the legacy era goes."""

LEGACY = [
    "client/calls/legacy",
    "client/connection/legacy",
    "extensions/tasks/legacy",
    "kernel/legacy",
    "protocol/legacy",
    "transports/asgi/legacy",
    "transports/sse",
    "wire/revisions/r2024_11_05.py",
    "wire/revisions/r2025_03_26.py",
    "wire/revisions/r2025_06_18.py",
    "wire/revisions/r2025_11_25.py",
]
"""What is deleted, below the package."""

SEAMS = {
    "client/calls/tasks.py": "ferrule.client.calls.legacy.tasks",
    "client/connection/connector.py": "ferrule.client.connection.legacy.",
    "extensions/tasks/extension.py": "ferrule.extensions.tasks.legacy.methods",
    "kernel/serving/server_runner.py": "ferrule.kernel.legacy.",
    "kernel/standard_methods.py": "ferrule.protocol.legacy.handshake",
    "transports/asgi/endpoint.py": "ferrule.transports.asgi.legacy.endpoint",
    INDEX: "ferrule.wire.revisions.r20",
}
"""The modules that import legacy modules when they run, and which ones."""

PROGRAM = """
import asyncio, importlib, json, pkgutil, socket, subprocess, sys, time, warnings
import ferrule
from ferrule import Client, MCPServer, StdioServer
from ferrule.extensions.tasks import Tasks
from ferrule.types import HANDSHAKE_PROTOCOL_VERSIONS

app = MCPServer("modern", extensions=[Tasks()])

@app.tool(task="required")
async def later(a: int) -> int:
    return a + 1

@app.tool
def add(a: int, b: int) -> int:
    return a + b

@app.tool
def package() -> str:
    return ferrule.__file__

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = {
    "host": "localhost",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}
CALL_HEADERS = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "add"}

def call(target):
    async def run():
        async with Client(target) as client:
            found = await client.call_tool("add", {"a": 1, "b": 2})
            served_by = await client.call_tool("package")
            handle = await client.start_tool("later", {"a": 1})
            await handle.cancel()
            assert (await handle.status()).task_id == handle.task_id
            done = await (await client.start_tool("later", {"a": 1})).result()
            assert done.structured_content == 2, done
            return [client.protocol_version, found.structured_content, served_by.structured_content]
    return asyncio.run(run())

async def ask(endpoint, verb, message, headers):
    sent, received = [], []
    async def receive():
        if received:
            await asyncio.Event().wait()  # the client stays connected
        received.append(message)
        return {"type": "http.request", "body": json.dumps(message).encode()}
    async def send(part):
        sent.append(part)
    raw = [(name.encode(), value.encode()) for name, value in {**HEADERS, **headers}.items()]
    await endpoint({"type": "http", "method": verb, "path": "/mcp", "headers": raw}, receive, send)
    body = b"".join(part.get("body", b"") for part in sent[1:])
    return [sent[0]["status"], json.loads(body) if body else None]

async def over_http():
    endpoint = app.asgi()
    params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    legacy = {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    answers = {
        "call": await ask(endpoint, "POST", request, CALL_HEADERS),
        "initialize": await ask(endpoint, "POST", legacy, {}),
        "get": await ask(endpoint, "GET", None, {}),
    }
    await endpoint.aclose()
    return answers

def call_over_http():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, __file__, str(port)])
    try:
        while server.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        return call(f"http://127.0.0.1:{port}/mcp")
    finally:
        server.terminate()
        server.wait()

def broken_modules():
    warnings.simplefilter("ignore")
    for found in pkgutil.walk_packages(ferrule.__path__, "ferrule."):
        if not found.name.endswith("__main__"):
            if found.name.startswith("ferrule.django"):
                continue  # needs the settings of a project
            try:
                importlib.import_module(found.name)
            except ModuleNotFoundError as error:
                if (error.name or "").startswith("ferrule"):
                    yield f"{found.name}: {error}"

if sys.argv[1:] == ["serve"]:
    app.run("stdio")
elif sys.argv[1:]:
    app.run("http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    print(json.dumps({
        "legacy versions": HANDSHAKE_PROTOCOL_VERSIONS,
        "in process": call(app),
        "stdio": call(StdioServer(sys.executable, [__file__, "serve"])),
        "client over http": call_over_http(),
        "http": asyncio.run(over_http()),
        "broken": sorted(broken_modules()),
    }))
"""


def without_legacy(target: Path) -> Path:
    """Copy the package into ``target``, delete the legacy era there and return the copy."""
    package = target / "ferrule"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in LEGACY:
        gone = package / name
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    index = package / INDEX
    kept = [line for line in index.read_text("utf-8").splitlines() if not re.search(r"\.r202[45]_", line)]
    index.write_text("\n".join(kept) + "\n", "utf-8")
    return package


def test_the_modern_era_is_served_without_the_legacy_folders(tmp_path: Path) -> None:
    """By server and client, in process, over stdio and over HTTP.

    A legacy client gets the error that names the modern versions, and a GET finds no stream.
    """
    package = without_legacy(tmp_path / "copy")
    program = package.parent / "program.py"  # Python looks beside a script first, so it finds the copy
    program.write_text(PROGRAM, "utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["legacy versions"] == []
    assert found["in process"] == ["2026-07-28", 3, str(package / "__init__.py")]
    assert found["stdio"] == found["client over http"] == found["in process"]
    (status, answer), (refused, refusal), (no_stream, _) = (
        found["http"][name] for name in ("call", "initialize", "get")
    )
    assert (status, answer["result"]["structuredContent"]) == (200, 3)
    assert (refused, refusal["error"]["code"]) == (400, -32022)
    assert no_stream == 405
    assert found["broken"] == []


def imports_when_run(tree: ast.Module) -> list[str]:
    """Return the modules that a file imports, in functions too, but not those under ``if TYPE_CHECKING``."""
    found: list[str] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.ImportFrom) and node.module:
            found.extend([node.module, *(f"{node.module}.{alias.name}" for alias in node.names)])
        elif isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree)
    return found


def is_legacy(path: str) -> bool:
    """Return whether a file, named below the package, goes with the legacy era."""
    return any(path == name or path.startswith(f"{name}/") for name in LEGACY)


LEGACY_MODULES = tuple("ferrule." + name.removesuffix(".py").replace("/", ".") for name in LEGACY)


def test_few_modules_import_the_legacy_era() -> None:
    """A second import would be one more place to find on the day when the legacy era goes."""
    seams: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        path = file.relative_to(SOURCE).as_posix()
        imported = {
            name
            for name in ([] if is_legacy(path) else imports_when_run(ast.parse(file.read_text("utf-8"))))
            if any(name == module or name.startswith(f"{module}.") for module in LEGACY_MODULES)
        }
        if imported:
            seams[path] = imported
    assert seams.keys() == SEAMS.keys()
    for path, imported in seams.items():
        assert all(name.startswith(SEAMS[path]) for name in imported), path


def test_the_search_finds_an_import() -> None:
    """In a function, but not in annotations."""
    source = "if TYPE_CHECKING:\n    import a\ndef f():\n    from b.c import d\n"
    assert imports_when_run(ast.parse(source)) == ["b.c", "b.c.d"]
