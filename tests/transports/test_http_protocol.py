"""ferrule.transports._http_protocol: HTTP/1.1 itself, with a bare ASGI application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ferrule.transports.http_server import HttpLimits, serve_http

pytestmark = pytest.mark.anyio

LIMITS = HttpLimits(head_timeout_s=0.3, body_timeout_s=0.3, write_timeout_s=0.5, keep_alive_s=1, drain_s=2)


async def respond(send: Any, body: bytes, status: int = 200, **headers: str) -> None:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


async def whole_body(receive: Any) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        parts.append(message["body"])
        if not message["more_body"]:
            return b"".join(parts)


@asynccontextmanager
async def serving(app: Callable[..., Any]) -> AsyncIterator[int]:
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def with_lifespan(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        await app(scope, receive, send)

    task = asyncio.ensure_future(
        serve_http(with_lifespan, port=0, limits=LIMITS, on_started=lambda _, port: bound.set_result(port))
    )
    try:
        yield await asyncio.wait_for(bound, 10)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def talk(port: int, *parts: bytes, pause_s: float = 0.02) -> bytes:
    """Send the parts one by one, then read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(pause_s)
    found = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return found


def get(path: str = "/", *headers: str, version: str = "1.1", verb: str = "GET") -> bytes:
    return "\r\n".join([f"{verb} {path} HTTP/{version}", "Host: x", *headers, "", ""]).encode()


CLOSE = "Connection: close"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Say what the request was."""
    body = await whole_body(receive)
    text = f"{scope['method']} {scope['path']} {scope['raw_path']!r} {scope['query_string']!r} {len(body)}".encode()
    await respond(send, text, content_length=str(len(text)))


async def test_the_parts_of_a_request_reach_the_application() -> None:
    """Percent-decoded path, raw path, query, body in any framing."""
    async with serving(echo) as port:
        answer = await talk(port, get("/a%20b/%C3%A9?x=1&y", CLOSE))
        assert "GET /a b/é b'/a%20b/%C3%A9' b'x=1&y' 0".encode() in answer
        chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        answer = await talk(port, chunked, b"5\r\nhello\r\n", b"3\r\nyou\r\n0\r\n\r\n")
        assert b"POST / b'/' b'' 8" in answer


async def test_requests_are_answered_in_order_on_one_connection() -> None:
    """Pipelined, in one piece and split anywhere."""
    async with serving(echo) as port:
        raw = get("/1") + get("/2") + get("/3", CLOSE)
        for parts in ([raw], [raw[:30], raw[30:40], raw[40:]], [raw[i : i + 7] for i in range(0, len(raw), 7)]):
            answer = await talk(port, *parts, pause_s=0.002)
            assert [answer.index(b"GET /%d" % number) for number in (1, 2, 3)] == sorted(
                answer.index(b"GET /%d" % number) for number in (1, 2, 3)
            )
            assert answer.count(b"HTTP/1.1 200 OK") == 3


async def test_a_response_without_a_length_is_chunked_or_ends_with_the_connection() -> None:
    """HTTP/1.0 knows no chunks."""

    async def stream(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (b"one", b"", b"two"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with serving(stream) as port:
        assert (await talk(port, get("/", CLOSE))).endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
        answer = await talk(port, get("/", version="1.0"))
        assert answer.endswith(b"\r\n\r\nonetwo")
        assert b"chunked" not in answer


async def test_a_head_request_and_a_204_have_no_body() -> None:
    """Whatever the application sends."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/none":
            await respond(send, b"", 204)
        else:
            await respond(send, b"body", content_length="4")

    async with serving(app) as port:
        answer = await talk(port, get(verb="HEAD"), get("/none"), get("/", CLOSE))
        head, none, full = answer.split(b"HTTP/1.1 ")[1:]
        assert head.endswith(b"content-length: 4\r\n\r\n")
        assert none.startswith(b"204")
        assert none.endswith(b"\r\n\r\n")
        assert b"chunked" not in none
        assert full.endswith(b"body")


async def test_an_early_answer_leaves_the_connection_usable() -> None:
    """What still comes of the refused request's body is dropped, not taken for the next request."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/refused":
            await respond(send, b"no", 404, content_length="2")
        else:
            await echo(scope, receive, send)

    async with serving(app) as port:
        refused = b"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\n"
        answer = await talk(port, refused, b"GET /smuggled HTTP/1.1\r\n", b"x" * 16, get("/next", CLOSE))
        assert answer.count(b"HTTP/1.1") == 2
        assert b"GET /next" in answer
        assert b"smuggled" not in answer


async def test_a_body_without_end_after_an_early_answer_is_cut() -> None:
    """A bound on what is dropped."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, b"no", 404, content_length="2")

    async with serving(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        with pytest.raises(ConnectionError):  # noqa: PT012
            for _ in range(10_000):
                writer.write(b"x" * 65536)
                await writer.drain()
        writer.close()
        del reader


async def test_a_client_that_waits_to_be_asked_is_asked() -> None:
    """Expect: 100-continue, but only when the application wants the body."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/refused":
            await respond(send, b"no", 417, content_length="2", connection="close")
        else:
            await echo(scope, receive, send)

    async with serving(app) as port:
        head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
        answer = await talk(port, head % b"/", b"ab")
        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
        assert b"100 Continue" not in await talk(port, head % b"/refused")


async def test_a_large_body_waits_for_the_application() -> None:
    """The buffer between socket and application is bounded."""
    go = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()
        await echo(scope, receive, send)

    async with serving(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        size = 8_000_000
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size)
        writer.write(b"x" * size)
        await asyncio.sleep(0.1)
        assert writer.transport.get_write_buffer_size() > 0  # the server does not read it all
        go.set()
        assert b" 8000000" in await asyncio.wait_for(reader.read(), 10)
        writer.close()


@pytest.mark.parametrize("fault", ["raises", "nothing", "half", "short", "long", "split", "type"])
async def test_a_faulty_application_costs_one_connection(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    """500 while nothing is out, else the connection; always one log line, never the next request."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != "/fault":
            return await respond(send, b"fine", content_length="4")
        if fault == "raises":
            raise ValueError("inside")
        if fault == "half":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        elif fault == "short":
            await respond(send, b"ab", content_length="3")
        elif fault == "long":
            await respond(send, b"abcd", content_length="3")
        elif fault == "split":
            await respond(send, b"", x="a\r\nset-cookie: b")
        elif fault == "type":
            await send({"type": "http.response.body", "body": b""})
        return None

    async with serving(app) as port:
        with caplog.at_level(logging.ERROR, "ferrule.http"):
            answer = await talk(port, get("/fault"))
        assert len(caplog.records) == 1
        assert b"inside" not in answer
        assert b"set-cookie" not in answer
        assert answer.startswith(b"HTTP/1.1 500") or fault in ("half", "short", "long")
        assert b"fine" in await talk(port, get("/", CLOSE))


async def test_an_idle_connection_is_closed() -> None:
    """After the keep-alive time, and not before."""
    async with serving(echo) as port:
        began = asyncio.get_running_loop().time()
        await talk(port, get("/"))
        assert 0.9 < asyncio.get_running_loop().time() - began < 3


async def test_a_disconnect_reaches_the_application_once_it_asks() -> None:
    """By ``receive``; what it still sends is dropped."""
    seen: list[str] = []
    done = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await whole_body(receive)
        seen.append((await receive())["type"])
        await respond(send, b"to nobody", content_length="9")
        seen.append((await receive())["type"])
        done.set()

    async with serving(app) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get())
        await asyncio.sleep(0.05)
        writer.transport.abort()
        await asyncio.wait_for(done.wait(), 5)
    assert seen == ["http.disconnect", "http.disconnect"]


async def test_an_upgrade_is_answered_as_a_request() -> None:
    """Some clients offer HTTP/2 in clear text on every request."""
    async with serving(echo) as port:
        answer = await talk(port, get("/up", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c"))
        assert b"GET /up" in answer
