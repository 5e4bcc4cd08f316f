"""A low-level server on a transport in one call, and what editors know of its options."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import anyio
import pytest

import ferrule
from ferrule import Client, MCPServer, Server, StdioServer
from ferrule.transports.asgi.options import HttpOptions
from ferrule.transports.hosting.options import AsgiOptions, ServingOptions, StdioOptions
from ferrule.transports.hosting.uvicorn_server import run_http, serve_http
from ferrule.transports.stdio.server import run_stdio

PROGRAM = """
import sys

from ferrule import Server, run
from ferrule.types import ListToolsResult, Tool

server = Server("raw")


@server.request("tools/list")
async def list_tools(ctx):
    return ListToolsResult([Tool("echo", {"type": "object"})])


if sys.argv[1] == "http":
    run(server, "http", port=0, path="/raw", on_started=lambda host, port: print(port, flush=True))
else:
    run(server)
"""

TYPED = """
from ferrule import MCPServer, Server, asgi, run

run(Server("a"), "http", port=1, path="/x", access_log=True)
run(Server("a"), "http", paths="/x")  # wrong
run(Server("a"), "https")  # wrong
asgi(Server("a"), allowed_hosts=["a"])
asgi(Server("a"), allowed_host="a")  # wrong
MCPServer("a").run("http", stateless=True, workers=2)
MCPServer("a").run("http", stateles=True)  # wrong
MCPServer("a").asgi(max_body_bytes="1")  # wrong
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "raw_server.py"
    path.write_text(PROGRAM)
    return path


async def names(target: Any) -> list[str]:
    async with Client(target) as client:
        return [tool.name for tool in await client.list_tools()]


def test_a_lowlevel_server_is_served_over_http_in_one_call(program: Path) -> None:
    """As an `MCPServer` is, options included; loopback names are allowed by themselves."""
    process = subprocess.Popen([sys.executable, str(program), "http"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert anyio.run(names, f"http://127.0.0.1:{port}/raw") == ["echo"]
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_a_lowlevel_server_is_served_over_stdio_in_one_call(program: Path) -> None:
    """The default transport, as for `MCPServer.run`."""
    assert anyio.run(names, StdioServer(sys.executable, [str(program), "stdio"])) == ["echo"]


def test_a_lowlevel_server_is_an_asgi_callable_in_one_call() -> None:
    """With the endpoint's options."""
    endpoint = ferrule.asgi(Server("raw"), path="/raw", stateless=True)
    assert (endpoint.options.path, endpoint.options.stateless) == ("/raw", True)


def test_an_mcp_server_is_run_by_its_own_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its store and its guard belong to the endpoint."""
    app = MCPServer("app")
    assert ferrule.asgi(app.lowlevel, path="/a").options.path == "/a"
    seen: list[Any] = []
    monkeypatch.setattr(app, "run", lambda *args, **options: seen.append((args, options)))
    monkeypatch.setattr(app, "asgi", lambda **options: seen.append(options))
    given: Any = app
    ferrule.run(given, "http", port=0)
    ferrule.asgi(given, path="/b")
    assert seen == [(("http",), {"host": "127.0.0.1", "port": 0}), {"path": "/b"}]


def test_an_unknown_transport_and_a_wrong_option_are_refused() -> None:
    """Before anything listens."""
    transport: Any = "https"
    with pytest.raises(ValueError, match="expected 'stdio' or 'http'"):
        ferrule.run(Server("raw"), transport)
    with pytest.raises(TypeError, match="max_message_bytes"):
        ferrule.run(Server("raw"), "http", port=0, max_message_bytes=1)


def keywords(function: Callable[..., Any], *less: str) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    return {item.name for item in parameters if item.kind is item.KEYWORD_ONLY} - set(less)


def test_the_shared_options_are_those_of_the_signatures() -> None:
    """The list exists twice, for two kinds of readers; it must not come to say two things."""
    assert set(AsgiOptions.__annotations__) == {field.name for field in fields(HttpOptions)}
    assert set(ServingOptions.__annotations__) == keywords(run_http, "host", "port")
    in_a_loop = keywords(serve_http, "host", "port", "handle_signals")
    assert set(ServingOptions.__annotations__) == in_a_loop | {"log_level"}  # `run_async` takes it
    assert set(StdioOptions.__annotations__) == keywords(run_stdio)


def test_type_checkers_know_the_options(tmp_path: Path) -> None:
    """An option that does not exist is found before the server starts."""
    file = tmp_path / "program.py"
    file.write_text(TYPED)
    done = subprocess.run(
        [sys.executable, "-m", "pyright", str(file)], capture_output=True, text=True, timeout=110, check=False
    )
    wrong = [number for number, line in enumerate(TYPED.splitlines(), 1) if line.endswith("# wrong")]
    found = sorted({int(line.split(":")[1]) for line in done.stdout.splitlines() if " - error: " in line})
    assert found == wrong, done.stdout
