"""The fast path inside the ASGI callable answers as the general path does: status, headers, body, calls and log."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import Context, MCPServer, ToolError, current_context
from ferrule.errors import NoRequest
from ferrule.kernel.gauges import gauges_of
from ferrule.wire.codec import decode, encode
from tests.properties.test_fast_path import Recorder, make_app, odd_call, plain_call, with_envelope

MODERN = "2026-07-28"


async def post(app: Any, body: bytes, **more: str | None) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body of the answer to one POST; a header of ``None`` is left out."""
    sent = await exchange(app, body, None, **more)
    return sent[0]["status"], sent[0]["headers"], b"".join(message.get("body", b"") for message in sent[1:])


async def exchange(app: Any, body: bytes, sent: list[Any] | None, **more: str | None) -> list[Any]:
    """The ASGI messages that answer one POST; they are appended to ``sent`` as they come."""
    headers: dict[str, str | None] = {
        "host": "127.0.0.1:8000",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items() if value is not None],
        "client": ("127.0.0.1", 5000),
    }
    sent = [] if sent is None else sent
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return messages.pop() if messages else await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


def endpoint(app: MCPServer[Any], **options: Any) -> Any:
    return app.asgi(allowed_hosts=["127.0.0.1:*"], **options)


def call(name: str, arguments: Any = None, id: Any = 0, **meta: Any) -> bytes:
    params = {"name": name, "arguments": arguments or {}, **({"_meta": meta} if meta else {})}
    return with_envelope({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}, 1, MODERN)


@settings(max_examples=60)
@given(st.lists(plain_call() | plain_call() | odd_call(), min_size=1, max_size=6), st.integers(0, 9))
def test_both_paths_answer_call_and_log_alike(messages: list[Any], odd_header: int) -> None:
    """Whatever the body, and with headers that contradict it now and then."""
    messages = [
        message
        for message in messages
        if not (isinstance(message, dict) and "waits_for_ever" in repr(message.get("params")))
    ]

    def serve(*, fast_path: bool) -> tuple[Any, ...]:
        calls: list[Any] = []
        recorder = Recorder()
        logger = logging.getLogger("ferrule")
        app = make_app(calls, fast_path=fast_path)

        async def test() -> list[Any]:
            served = endpoint(app)
            answers: list[Any] = []
            for number, message in enumerate(messages, 2):
                body = with_envelope(message, number, MODERN)
                params = message.get("params") if isinstance(message, dict) else None
                name = params.get("name") if isinstance(params, dict) else None
                more: dict[str, str | None] = {"mcp_name": name if isinstance(name, str) and name.isascii() else None}
                if "\n" in (more["mcp_name"] or ""):
                    more["mcp_name"] = None
                if odd_header == 1:
                    more["mcp_name"] = "another"
                elif odd_header == 2:
                    more["mcp_protocol_version"] = "2025-06-18"
                elif odd_header == 3:
                    more["mcp_method"] = "tools/list"
                answers.append(await post(served, body, **more))
            return answers

        logger.addHandler(recorder)
        try:
            return asyncio.run(test()), list(map(repr, calls)), recorder.lines, app.tools.fast_calls
        finally:
            logger.removeHandler(recorder)

    fast, general = serve(fast_path=True), serve(fast_path=False)
    assert fast[:3] == general[:3]
    assert general[3] == 0


@settings(max_examples=40)
@given(
    st.lists(plain_call() | plain_call() | odd_call(), min_size=1, max_size=6),
    st.sampled_from(["2025-03-26", "2025-06-18", "2025-11-25"]),
    st.sampled_from(["same", "none", "another", "unknown"]),
    st.booleans(),
)
def test_both_paths_answer_alike_in_the_handshake_era(
    messages: list[Any], revision: str, version_header: str, stateless: bool
) -> None:
    """In a session, which has requests in flight and answers without its id, and in an endpoint without sessions."""
    messages = [
        message
        for message in messages
        if not (isinstance(message, dict) and "waits_for_ever" in repr(message.get("params")))
    ]

    def serve(*, fast_path: bool) -> tuple[Any, ...]:
        calls: list[Any] = []
        recorder = Recorder()
        logger = logging.getLogger("ferrule")
        app = make_app(calls, fast_path=fast_path)

        async def test() -> list[Any]:
            served = endpoint(app, stateless=stateless)
            client = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            opening = encode({"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": client})
            plain = {"mcp_method": None, "mcp_protocol_version": None}
            _, headers, _ = await post(served, opening, **plain)
            session = None if stateless else dict(headers)[b"mcp-session-id"].decode()
            stated = {"same": revision, "none": None, "another": "2025-06-18", "unknown": "1999-01-01"}[version_header]
            more: dict[str, str | None] = {
                "mcp_method": None,
                "mcp_protocol_version": stated,
                "mcp_session_id": session,
            }
            note = encode({"jsonrpc": "2.0", "method": "notifications/initialized"})
            await post(served, note, **{**more, "mcp_protocol_version": revision})
            return [
                await post(served, with_envelope(message, number, revision), **more)
                for number, message in enumerate(messages, 2)
            ]

        logger.addHandler(recorder)
        try:
            return asyncio.run(test()), list(map(repr, calls)), recorder.lines, app.tools.fast_calls
        finally:
            logger.removeHandler(recorder)

    fast, general = serve(fast_path=True), serve(fast_path=False)
    assert [without_stream_ids(answer) for answer in fast[0]] == [without_stream_ids(answer) for answer in general[0]]
    assert fast[1:3] == general[1:3]
    assert general[3] == 0


def without_stream_ids(answer: tuple[int, list[tuple[bytes, bytes]], bytes]) -> Any:
    """An answer without the random ids of events and the headers' order."""
    status, headers, body = answer
    return status, sorted(headers), [line for line in body.splitlines() if not line.startswith(b"id:")]


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["echo", "waits", "tells", "dated"])
async def test_a_plain_call_without_sessions_takes_the_fast_path(name: str) -> None:
    """Also one whose code reads its request, which then gets a temporary session."""
    app = make_app([], fast_path=True)
    served = endpoint(app, stateless=True)
    arguments = {"echo": {"text": "x"}, "waits": {"passes": 2}, "tells": {}, "dated": {"day": "2026-11-28"}}[name]
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    status, _, body = await post(served, encode(message), mcp_method=None, mcp_protocol_version="2025-06-18")
    assert status == 200, body
    assert (app.tools.fast_calls, app.tools.general_calls) == (1, 0)


@pytest.mark.anyio
async def test_a_plain_call_takes_the_fast_path_and_leaves_no_request_behind() -> None:
    """The task is the server's own; what is set for a call is taken back."""
    calls: list[Any] = []
    app = make_app(calls, fast_path=True)
    served = endpoint(app)
    status, _, body = await post(served, call("echo", {"text": "x"}), mcp_name="echo")
    assert (status, decode(body)["result"]["structuredContent"]) == (200, "x")
    assert (app.tools.fast_calls, app.tools.general_calls) == (1, 0)
    with pytest.raises(NoRequest):
        current_context()


@pytest.mark.anyio
async def test_a_context_sees_the_http_request_on_the_fast_path() -> None:
    """Also in a function that waits; a notification makes the answer a stream, as always."""
    app: MCPServer[Any] = MCPServer("plain", version="1")

    @app.tool
    async def look(ctx: Context) -> list[str]:
        await asyncio.sleep(0)
        return [ctx.headers["host"], str(ctx.transport.client), current_context().method]

    @app.tool
    async def notes(ctx: Context) -> str:
        await ctx.notify("notifications/example", {"a": 1})
        return "told"

    served = endpoint(app)
    _, _, body = await post(served, call("look"), mcp_name="look")
    assert decode(body)["result"]["structuredContent"] == ["127.0.0.1:8000", "('127.0.0.1', 5000)", "tools/call"]
    _, headers, body = await post(served, call("notes"), mcp_name="notes")
    assert (b"content-type", b"text/event-stream") in headers
    assert body.count(b"data:") == 2
    assert (app.tools.fast_calls, app.tools.general_calls) == (2, 0)


@pytest.mark.anyio
async def test_a_caller_stays_on_it_whose_token_allows_the_tool() -> None:
    """And one whose token does not gets the answer of the general path."""

    class Principal:
        def __init__(self, *scopes: str) -> None:
            self.scopes = list(scopes)

    app: MCPServer[Any] = MCPServer("plain", version="1")

    @app.tool(scopes="write", allow=lambda principal: principal is not None)
    async def write() -> str:
        return "written"

    async def authenticate(context: Any) -> Any:
        return Principal(*context.headers.get("authorization", "").split())

    served = endpoint(app, authenticate=authenticate)
    status, _, body = await post(served, call("write"), mcp_name="write", authorization="read write")
    assert (status, decode(body)["result"]["structuredContent"]) == (200, "written")
    assert (app.tools.fast_calls, app.tools.general_calls) == (1, 0)
    status, _, body = await post(served, call("write"), mcp_name="write", authorization="read")
    assert status == 403
    assert (app.tools.fast_calls, app.tools.general_calls) == (1, 1)


@pytest.mark.anyio
async def test_a_client_that_goes_away_cancels_its_call() -> None:
    """A call of the fast path that waits is watched as any other."""
    app: MCPServer[Any] = MCPServer("plain", version="1")
    ended = asyncio.Event()

    @app.tool
    async def waits() -> str:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    served = endpoint(app, disconnect_grace_s=0)
    body = call("waits")
    sent: list[Any] = []
    gone = asyncio.Event()
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = {
        "host": "127.0.0.1:8000",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        "mcp-name": "waits",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    serving = asyncio.create_task(served(scope, receive, send))
    for _ in range(5):
        await asyncio.sleep(0)
    gone.set()
    async with asyncio.timeout(10):
        await serving
        await ended.wait()
    assert sent == []
    assert app.tools.fast_calls == 1


@pytest.mark.anyio
async def test_errors_have_the_status_that_they_have_elsewhere() -> None:
    """A tool's error is a result, and what is not a result of a tool is an error with its HTTP status."""
    app: MCPServer[Any] = MCPServer("plain", version="1")

    @app.tool
    async def fails() -> str:
        raise ToolError("on purpose")

    @app.tool
    async def refuses() -> str:
        from ferrule.errors import InvalidParams

        raise InvalidParams("not so")

    served = endpoint(app)
    status, _, body = await post(served, call("fails"), mcp_name="fails")
    assert (status, decode(body)["result"]["isError"]) == (200, True)
    status, _, body = await post(served, call("refuses"), mcp_name="refuses")
    assert (status, decode(body)["error"]["message"]) == (400, "not so")
    assert encode(decode(body)["id"]) == b"1"


@pytest.mark.parametrize("size", [1_000, 65_534, 65_535, 300_000])
def test_a_large_answer_is_sent_piece_by_piece(size: int) -> None:
    """The same bytes as the general path sends, the text encoded once and copied into no other memory."""
    bodies: dict[bool, tuple[list[tuple[bytes, bytes]], list[bytes]]] = {}
    for fast_path in (True, False):
        app = MCPServer("large", fast_path=fast_path)

        @app.tool
        async def long(size: int) -> str:
            return 'ä"' * (size // 2)

        sent = asyncio.run(exchange(endpoint(app), call("long", {"size": size}), None, mcp_name="long"))
        assert gauges_of(app.lowlevel).read("fast_calls") == fast_path
        bodies[fast_path] = sent[0]["headers"], [message["body"] for message in sent[1:]]
        assert [message.get("more_body", False) for message in sent[1:]] == [True] * (len(sent) - 2) + [False]
    (headers, pieces), (general_headers, [whole]) = bodies[True], bodies[False]
    assert headers == general_headers
    assert b"".join(pieces) == whole
    if len(pieces) > 1:
        assert pieces[1] is pieces[3]
        assert len(whole) - 2 * len(pieces[1]) < 500
    assert (len(pieces) > 1) == (size > 40_000)
