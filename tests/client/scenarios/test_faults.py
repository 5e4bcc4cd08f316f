"""A fault at a byte boundary of an exchange that holds progress, a question and a cancellation.

Between client and server stands a proxy that lets through N bytes of what the server says and then delays, drops
(says nothing more and keeps the connection), truncates (ends it in good order) or resets it, once. Whatever N is, each
call ends with its answer or a clear error within its deadline, and a call after the fault works.

Every 23rd boundary here, and every one with ``FERRULE_FAULT_STRIDE=1`` (a few minutes).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import time
from typing import Any

import anyio
import pytest

from ferrule import Client, MCPError
from ferrule.client.connection.connector import forget_eras
from ferrule.protocol.errors import LocalError
from tests.peers.scripted_http import COMPLETE, DISCOVERED, INITIALIZED, META, Exchange, ScriptedServer, legacy_basics

pytestmark = pytest.mark.anyio

STRIDE = int(os.environ.get("FERRULE_FAULT_STRIDE", "23"))
LEEWAY_S = 30.0
"""What a loaded machine may add to a deadline; a call that hangs passes any."""
TEXT = {"content": [{"type": "text", "text": "done"}]}
FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}


class FaultProxy:
    """Counts the server's bytes over all connections and misbehaves once, at ``at``."""

    def __init__(self, port: int, at: int | None, fault: str) -> None:
        self.port, self.at, self.fault = port, at, fault
        self.passed = 0
        self.tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> FaultProxy:
        self.server = await asyncio.start_server(self.accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/mcp"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.server.close()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.sleep(0)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self.serve(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.port)
        up = asyncio.create_task(self.pump(reader, to_writer))
        try:
            await self.pump_back(to_reader, writer)
        except ConnectionError:
            pass
        finally:
            up.cancel()
            to_writer.transport.abort()
            writer.close()

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.transport.abort()  # the client has closed: so the server must see

    async def pump_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if self.at is not None and self.passed + len(data) > self.at:
                keep, self.at = self.at - self.passed, None
                writer.write(data[:keep])
                await writer.drain()
                self.passed += keep
                if self.fault == "delay":
                    await asyncio.sleep(0.02)
                    data = data[keep:]
                elif self.fault == "drop":
                    await asyncio.sleep(3600)
                elif self.fault == "truncate":
                    return
                else:
                    linger = struct.pack("ii", 1, 0)
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    writer.transport.abort()
                    return
            self.passed += len(data)
            writer.write(data)
            await writer.drain()


async def legacy_server(exchange: Exchange) -> None:
    name = exchange.message.get("params", {}).get("name")
    if exchange.method == "GET":
        await exchange.respond(405)
    elif exchange.method == "POST" and "result" in exchange.message:
        answered.set()
        await exchange.respond(202)
    elif name == "ask":
        await exchange.stream()
        await progress(exchange)
        answered.clear()
        await exchange.event({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": FORM})
        await answered.wait()
        await exchange.event_result(TEXT)
        await exchange.end()
    elif name == "slow":
        await exchange.stream()
        await exchange.gone.wait()
    elif not await legacy_basics(exchange):
        await exchange.result(TEXT)


async def modern_server(exchange: Exchange) -> None:
    params = exchange.message.get("params", {})
    if exchange.rpc_method == "server/discover":
        await exchange.result(DISCOVERED)
    elif params.get("name") == "ask" and "inputResponses" not in params:
        await exchange.stream()
        await progress(exchange)
        requests = {"k": {"method": "elicitation/create", "params": FORM}}
        await exchange.event_result({"resultType": "input_required", "inputRequests": requests, "_meta": META})
        await exchange.end()
    elif params.get("name") == "slow":
        await exchange.stream()
        await exchange.gone.wait()
    else:
        await exchange.result({**TEXT, **COMPLETE})


standing: list[Exchange] = []
talking: set[asyncio.Task[None]] = set()


async def two_endpoints(exchange: Exchange) -> None:
    """The transport of 2024-11-05: whatever is said goes over the GET stream that was opened last."""
    message = exchange.message
    if exchange.method == "GET":
        standing.append(exchange)
        await exchange.stream()
        await exchange.raw(b"event: endpoint\ndata: /messages\n\n")
        await exchange.gone.wait()
        return
    await exchange.respond(202)
    name = message.get("params", {}).get("name")
    if exchange.id is None or "method" not in message:
        answered.set()
    elif exchange.rpc_method == "initialize":
        await say(exchange, {**INITIALIZED, "protocolVersion": "2024-11-05"})
    elif name == "ask":
        await progress(standing[-1], message)
        answered.clear()
        ask = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": FORM}
        await standing[-1].event(ask)
        # The connection of this POST is free again, and may carry the answer.
        talking.add(asyncio.create_task(say_answered(exchange)))
    elif name != "slow":
        await say(exchange, TEXT)


async def say_answered(exchange: Exchange) -> None:
    await answered.wait()
    with contextlib.suppress(ConnectionError):
        await say(exchange, TEXT)


async def say(exchange: Exchange, result: Any) -> None:
    await standing[-1].event({"jsonrpc": "2.0", "id": exchange.id, "result": result})


async def progress(exchange: Exchange, call: Any = None) -> None:
    token = (call or exchange.message)["params"]["_meta"]["progressToken"]
    note = {"progressToken": token, "progress": 1}
    await exchange.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": note})


answered = asyncio.Event()
FAULTS = ["delay", "drop", "truncate", "reset"]
SERVERS = {"legacy": legacy_server, "2026-07-28": modern_server, "sse": two_endpoints}
CASES = [
    (mode, fault)
    for mode in sorted(SERVERS)
    for fault in FAULTS
    if (mode, fault)
    != ("sse", "drop")  # all answers come over one stream: a dead stream cannot be distinguished from a silent one
]


async def use(url: str, mode: str, timeout_s: float, *, faulty: bool) -> list[Any]:
    """The exchange; what each step ended with. A step that fails is tried once more: the fault has passed then."""
    client = Client(
        {"type": "sse", "url": url} if mode == "sse" else url,
        mode="legacy" if mode == "sse" else mode,
        timeout_s=timeout_s,
        connect_timeout_s=timeout_s,
        probe_timeout_s=timeout_s,
        elicitation_handler=lambda params: {"a": "x"},
    )
    outcomes: list[Any] = []

    async def step(action: Any, exchanges: int = 1) -> None:
        started = time.monotonic()
        try:
            outcomes.append(await action())
        except (LocalError, MCPError) as error:
            outcomes.append(error)
        assert time.monotonic() - started < timeout_s * exchanges + LEEWAY_S

    async def give_up() -> str:
        with anyio.move_on_after(0.02):
            await client.call_tool("slow")
        return "gave up"

    try:
        await step(client.connect, 4)
        if not client.is_connected:
            await client.connect()
        await step(lambda: client.call_tool("ask", on_progress=lambda *_: None))
        await step(give_up)
        for _ in range(2):
            await step(lambda: client.call_tool("echo"))
        assert len(outcomes) == 5
        if any(isinstance(outcome, Exception) for outcome in outcomes) or not faulty:
            assert (await client.call_tool("echo")).text == "done"
    finally:
        await client.aclose()
    return outcomes


@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("mode", "fault"), CASES)
async def test_fault_at_every_boundary(mode: str, fault: str) -> None:
    """See the module."""
    global answered
    answered = asyncio.Event()
    forget_eras()
    async with ScriptedServer(SERVERS[mode]) as server:
        async with FaultProxy(server.port, None, fault) as proxy:
            assert not any(isinstance(outcome, Exception) for outcome in await use(proxy.url, mode, 5, faulty=False))
            total = proxy.passed
        stride = STRIDE * (11 if fault == "drop" else 1)  # each costs its time-out
        limit = asyncio.Semaphore(8) if mode == "2026-07-28" else asyncio.Semaphore(1)

        async def one(at: int) -> None:
            async with limit, FaultProxy(server.port, at, fault) as proxy:
                with anyio.fail_after(60):
                    outcomes = await use(proxy.url, mode, 0.3 if fault == "drop" else 5, faulty=True)
                failures = sum(isinstance(outcome, Exception) for outcome in outcomes)
                assert failures <= (0 if fault == "delay" else 1), (at, outcomes)

        await asyncio.gather(*(one(at) for at in range(0, total, stride)))
