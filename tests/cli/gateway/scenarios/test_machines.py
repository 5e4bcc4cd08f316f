"""Two machines with one store behind a balancer: a session goes on whichever process gets its next request.

A machine is `ferrule gateway --workers 2` on a port of its own; each connection goes to the next machine. With one
SQLite file here, which machines would replace by a Redis; with a Redis too where the tests have one.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.processes import free_port, wait_until_served

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.name == "nt", reason="workers share a port where sockets can be inherited"),
]

BEHIND = """
import os
from ferrule import Context, MCPServer

app = MCPServer("behind")

@app.tool
def pid() -> str:
    return str(os.getpid())

@app.tool
async def ask(ctx: Context) -> str:
    return str((await ctx.elicit("name?", str)).data)

app.run("stdio")
"""


@asynccontextmanager
async def balancer(ports: list[int]) -> AsyncIterator[int]:
    """A TCP balancer on loopback: connection after connection to the next port."""
    turn = iter(range(1 << 30))

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up, down = await asyncio.open_connection("127.0.0.1", ports[next(turn) % len(ports)])
        await asyncio.gather(pump(reader, down), pump(up, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def start_machine(config: Path, store: str, folder: Path, number: int) -> tuple[subprocess.Popen[bytes], int, Path]:
    port, log = free_port(), folder / f"machine{number}.log"
    command = [sys.executable, "-m", "ferrule", "gateway", str(config), "--port", str(port)]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--workers", "2", "--store", store],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env={**os.environ, "FERRULE_GATEWAY_CACHE": str(folder / "cache")},
        )
    return process, port, log


def send(port: int, session: str | None, method: str, params: Any, id: int | None = 1) -> tuple[dict[str, str], Any]:
    """One request of a legacy client on a connection of its own: headers and message of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    if session is not None:
        headers |= {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
    message = {"jsonrpc": "2.0", "method": method, "params": params, **({} if id is None else {"id": id})}
    connection.request("POST", "/mcp", json.dumps(message), headers)
    response = connection.getresponse()
    body = response.read().decode()
    found = {name.lower(): value for name, value in response.getheaders()}
    connection.close()
    assert response.status in (200, 202), (response.status, body)
    lines = [line.removeprefix("data:") for line in body.splitlines() if line.startswith("data:")]
    events = [json.loads(line) for line in lines if line.strip()]
    return found, next((each for each in events if each.get("id") == id), None) or (
        json.loads(body) if body and not lines else None
    )


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_a_session_goes_on_on_another_machine(kind: str, tmp_path: Path) -> None:
    """Twenty connections of one session reach both machines, and lists and calls work on each."""
    redis = os.environ.get("FERRULE_TEST_REDIS_URL")
    if kind == "redis" and not redis:
        pytest.skip("there is no Redis (scripts/test starts one)")
    store = f"sqlite:///{tmp_path}/store.db" if kind == "sqlite" else f"{redis}?prefix=gateway-{tmp_path.name}"
    behind = tmp_path / "behind.py"
    behind.write_text(BEHIND)
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"one": {"command": sys.executable, "args": [str(behind)]}}}))
    machines = [start_machine(config, store, tmp_path, number) for number in (1, 2)]
    try:
        for process, port, log in machines:
            wait_until_served(process, port, log)
        async with balancer([port for _, port, _ in machines]) as front:

            def talk() -> set[str]:
                params = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "t", "version": "1"},
                }
                headers, opened = send(front, None, "initialize", params)
                assert "result" in opened
                session = headers["mcp-session-id"]
                send(front, session, "notifications/initialized", {}, None)
                pids: set[str] = set()
                for number in range(2, 22):
                    _, answer = send(front, session, "tools/call", {"name": "one_pid", "arguments": {}}, number)
                    assert not answer["result"].get("isError"), answer
                    pids.add(answer["result"]["content"][0]["text"])
                return pids

            pids = await asyncio.to_thread(talk)
        assert len(pids) >= 2  # the servers behind are those of the machines that served
    finally:
        for process, _, _ in machines:
            process.terminate()
        for process, _, _ in machines:
            process.wait(60)
