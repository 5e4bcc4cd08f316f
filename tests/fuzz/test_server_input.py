"""Whatever arrives, the server goes on: the message after it is answered, and every answer is well-formed.

The input is grown from good messages by hypothesis: bytes flipped, cut, doubled and inserted, and JSON values of any
shape in every place where a message has one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.testing.carriers import Carrier, open_carrier
from ferrule.wire.jsonrpc import parse_message
from ferrule.wire.revisions import REVISIONS

LEGACY, MODERN = REVISIONS["2025-11-25"], REVISIONS["2026-07-28"]
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN.version,
    "io.modelcontextprotocol/clientCapabilities": {},
}
INIT_PARAMS = {"protocolVersion": LEGACY.version, "capabilities": {}, "clientInfo": {"name": "f", "version": "1"}}
LAST = {
    "jsonrpc": "2.0",
    "id": "the last one",
    "method": "tools/call",
    "params": {"name": "x", "arguments": {}, "_meta": META},
}


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """Bad input is logged, thousands of times here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def make_server() -> Server[Any]:
    """Serves calls and lists."""
    server: Server[Any] = Server("s", version="1", logging=True, list_changed=["tools"], resource_updates=True)

    async def call_tool(ctx: ServerRequestContext[Any]) -> Any:
        return {"content": []}

    async def list_tools(ctx: ServerRequestContext[Any]) -> Any:
        return {"tools": []}

    server.add_request_handler("tools/call", call_tool)
    server.add_request_handler("tools/list", list_tools)
    return server


# --- what arrives -----------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(
    [*dict.fromkeys(method for each in REVISIONS.values() for method in (*each.requests, *each.notifications))]
) | st.text(max_size=6)
ENVELOPE = st.fixed_dictionaries(
    {},
    optional={
        **{f"io.modelcontextprotocol/{key}": JSON for key in ("clientCapabilities", "clientInfo", "logLevel")},
        "io.modelcontextprotocol/protocolVersion": st.sampled_from([*REVISIONS, "x"]) | JSON,
        "progressToken": JSON,
    },
)
PARAM_NAMES = [
    "name",
    "arguments",
    "uri",
    "cursor",
    "level",
    "ref",
    "argument",
    "requestId",
    "progress",
    "taskId",
    "progressToken",
    "notifications",
    "protocolVersion",
    "capabilities",
    "clientInfo",
    "requestState",
]
PARAMS = st.fixed_dictionaries({}, optional={"_meta": ENVELOPE | JSON, **dict.fromkeys(PARAM_NAMES, JSON)})
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": JSON | st.integers(0, 3),
        "method": METHODS | JSON,
        "params": PARAMS | JSON,
        "result": JSON,
        "error": JSON,
    },
)
GOOD = [
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
    json.dumps({**LAST, "id": 3}).encode(),
    json.dumps({"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": INIT_PARAMS}).encode(),
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good message with a few wounds."""
    data = bytearray(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        wound = draw(st.sampled_from(["flip", "cut", "double", "insert"]))
        if wound == "cut":
            del data[at : at + draw(st.integers(1, 20))]
        elif wound == "double":
            data[at:at] = data[at : at + draw(st.integers(1, 20))]
        elif wound == "insert":
            data[at:at] = draw(st.binary(max_size=6) | st.sampled_from([b"[" * 3000, b"\xff", b"\x00", b'"', b"{}"]))
        elif at < len(data):
            data[at] ^= draw(st.integers(1, 255))
    return bytes(data)


INPUT = st.lists(
    MESSAGES.map(lambda message: json.dumps(message).encode()) | damaged() | st.binary(max_size=30),
    min_size=1,
    max_size=5,
)


# --- the tests --------------------------------------------------------------------------------------------------------


def serve(work: Callable[[Carrier], Any], carrier_name: str, revision: Any) -> None:
    """Run ``work`` against a fresh server; a hang is a failure."""

    async def main() -> None:
        with anyio.fail_after(30):
            async with open_carrier(
                carrier_name, make_server(), revision, chunks=lambda data: [data[:7], data[7:]]
            ) as carrier:
                await work(carrier)

    anyio.run(main)


async def until_last(carrier: Carrier) -> None:
    """Read on until the last call is answered; everything on the way is a message of JSON-RPC."""
    while True:
        message = await carrier.receive()
        parse_message(message)
        if message.get("id") == "the last one":
            assert "result" in message or message["error"]["code"] == -32600
            return


@settings(max_examples=300, deadline=None)
@given(INPUT)
def test_a_stream_survives_any_lines(lines: list[bytes]) -> None:
    """Before anything is negotiated; a line that happens to shake hands locks the era, and then a refusal is right."""

    async def work(carrier: Carrier) -> None:
        for line in lines:
            await carrier.send_raw(line.replace(b"\n", b" "), {})
        await carrier.send(LAST, {})
        await until_last(carrier)

    serve(work, "bytes", MODERN)


@settings(max_examples=200, deadline=None)
@given(INPUT)
def test_an_open_legacy_connection_survives_any_lines(lines: list[bytes]) -> None:
    """After the handshake, and with questions of its own still possible."""
    last = {**LAST, "params": {"name": "x"}}

    async def work(carrier: Carrier) -> None:
        await carrier.send({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": INIT_PARAMS}, {})
        await carrier.receive()
        await carrier.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, {})
        for line in lines:
            await carrier.send_raw(line.replace(b"\n", b" "), {})
        await carrier.send(last, {})
        await until_last(carrier)

    serve(work, "bytes", LEGACY)


HEADERS = st.dictionaries(
    st.sampled_from(
        ["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id", "accept", "content-type", "last-event-id"]
    ),
    st.none()
    | st.text(st.characters(max_codepoint=255), max_size=12)
    | st.sampled_from([*REVISIONS, "tools/call", "tools/list", "x", "=?base64?eA==?=", "=?base64?!?="]),
    max_size=4,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(GOOD) | INPUT.map(lambda lines: lines[0]), HEADERS), min_size=1, max_size=3))
def test_the_endpoint_survives_any_body_and_headers(requests: list[tuple[bytes, dict[str, str | None]]]) -> None:
    """Each gets a status that is no 5xx, and the next good request is served."""

    async def work(carrier: Carrier) -> None:
        for body, headers in requests:
            async with anyio.create_task_group() as tasks:
                # A damaged body may still be a good `subscriptions/listen`, which stays open: do not wait for its end.
                tasks.start_soon(carrier.send_raw, body, headers)
                await anyio.lowlevel.checkpoint()
                status = await carrier.status()
                assert status is not None
                assert 200 <= status < 500
                tasks.cancel_scope.cancel()
        await carrier.send(LAST, {"mcp-name": "x"})
        while True:
            message = await carrier.receive()
            parse_message(message)
            if message.get("id") == "the last one":
                return

    serve(work, "asgi", MODERN)
