"""The endpoint in the applications of others, on the servers of others: the examples, started for real."""

from __future__ import annotations

import http.client
import importlib.util
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import free_port
from tests.transports.asgi.support import LEGACY, legacy_headers, modern, modern_headers, request

CALL = modern(1, "tools/call", {"name": "greet", "arguments": {"name": "you"}})


@contextmanager
def served(command: list[str], port: int) -> Iterator[int]:
    """A server process that listens on ``port``; it must end by itself on SIGTERM."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None, process.communicate()[0]
                assert time.monotonic() < end
                time.sleep(0.05)
        yield port
        process.terminate()
        output, _ = process.communicate(timeout=30)
        assert "Traceback" not in output, output
    finally:
        process.kill()
        process.wait()


def post(port: int, path: str, message: object, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {**headers, "host": f"127.0.0.1:{port}", "x-forwarded-proto": "https", "authorization": "Bearer t"}
    connection.request("POST", path, json.dumps(message), headers)
    response = connection.getresponse()
    found = {name.lower(): value for name, value in response.getheaders()}
    body = response.read()
    connection.close()
    return response.status, found, body


def get(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    body = connection.getresponse().read()
    connection.close()
    return body


def check(port: int, path: str) -> None:
    """Both eras, with and without the slash, no redirect; a stream whose events arrive one by one."""
    for spelled in (path, path + "/"):
        status, _, body = post(port, spelled, CALL, modern_headers(CALL))
        assert (status, b"Hello, you!" in body) == (200, True), body
        client = {"name": "c", "version": "1"}
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}
        status, headers, _ = post(port, spelled, request(1, "initialize", params), legacy_headers(version=None))
        assert status == 200
        session = headers["mcp-session-id"]
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert post(port, spelled, initialized, legacy_headers(session))[0] == 202
        assert b"greet" in post(port, spelled, request(2, "tools/list"), legacy_headers(session))[2]
    listen = modern(9, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", path, json.dumps(listen), modern_headers(listen, host=f"127.0.0.1:{port}"))
    response = connection.getresponse()
    assert response.status == 200
    assert b"acknowledged" in response.readline() + response.readline()
    connection.close()


def uvicorn(folder: Path, target: str, port: int, *options: str) -> list[str]:
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(folder), "--port", str(port)]
    return [*command, "--log-level", "warning", "--timeout-graceful-shutdown", "3", *options, target]


@pytest.mark.parametrize(
    ("package", "target", "paths", "options"),
    [
        ("starlette", "starlette_app:app", ["/mcp", "/inner/mcp"], []),
        ("fastapi", "fastapi_app:app", ["/tools/mcp"], []),
        ("django", "django_asgi:app", ["/tools/mcp"], ["--lifespan", "off"]),
    ],
)
def test_the_example_serves_both_eras_under_its_prefix(
    package: str, target: str, paths: list[str], options: list[str], examples_dir: Path
) -> None:
    """And the host serves what is its own."""
    pytest.importorskip(package)
    port = free_port()
    with served(uvicorn(examples_dir / "mounting", target, port, *options), port):
        for path in paths:
            check(port, path)
        assert b"the host" in get(port, "/")
        assert get(port, "/healthz") == b'{"status":"ok"}'


BARE = """
from ferrule import MCPServer

mcp = MCPServer("bare", version="1.0")


@mcp.tool
async def greet(name: str) -> str:
    "Greet somebody."
    return f"Hello, {name}!"


app = mcp.asgi()
"""


@pytest.mark.parametrize("server", ["uvicorn-h11", "hypercorn", "hypercorn-trio", "granian"])
def test_other_servers_carry_the_bare_callable(server: str, tmp_path: Path) -> None:
    """uvicorn without httptools and uvloop, hypercorn on either loop, granian."""
    (tmp_path / "bare.py").write_text(BARE)
    port = free_port()
    name = server.partition("-")[0]
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    if name == "uvicorn":
        command = uvicorn(tmp_path, "bare:app", port, "--http", "h11", "--loop", "asyncio")
    elif name == "hypercorn":
        worker = "trio" if server.endswith("trio") else "asyncio"
        program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from hypercorn.__main__ import main; main()"
        command = [
            sys.executable,
            "-c",
            program,
            "--bind",
            f"127.0.0.1:{port}",
            "-k",
            worker,
            "--graceful-timeout",
            "1",
        ]
        command.append("bare:app")
    else:
        program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from granian.cli import entrypoint; entrypoint()"
        command = [sys.executable, "-c", program, "--interface", "asgi", "--port", str(port), "--workers", "1"]
        command += ["--workers-kill-timeout", "2", "--log-level", "error", "bare:app"]
    with served(command, port):
        check(port, "/mcp")
