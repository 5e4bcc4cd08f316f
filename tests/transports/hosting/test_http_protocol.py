"""ferrule.transports.hosting.http_protocol on real sockets: one answer for each request, whatever its head says."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
import uvicorn

from ferrule.transports.hosting.uvicorn_server import HttpLimits, serve_http
from tests.transports.asgi.support import modern_headers
from tests.transports.http_support import LIMITS, Client, Steered, assert_alive, http, open_session, post, tool

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_client_stays_open")]


ECHO = json.dumps(tool("echo", id=1, text="outer")).encode()
SMUGGLED = post(tool("echo", id="smuggled", text="smuggled"))
NEXT = post(tool("echo", id="next", text="next"))
LAST = http(
    {**modern_headers(tool("echo")), "connection": "close"}, json.dumps(tool("echo", id="last", text="")).encode()
)


def framed(body: bytes, verb: str = "POST", version: str = "1.1", **headers: str) -> bytes:
    """A request with the given headers besides the usual ones, names with underscores for hyphens."""
    usual = modern_headers(tool("echo")) if verb == "POST" else {"host": "localhost", "accept": "text/event-stream"}
    given = {**usual, **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = [f"{verb} /mcp HTTP/{version}", *(f"{name}: {value}" for name, value in given.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(*parts: bytes, ext: bytes = b"", trailers: bytes = b"") -> bytes:
    """A body in chunks."""
    return b"".join(b"%x%s\r\n%s\r\n" % (len(part), ext, part) for part in parts) + b"0\r\n" + trailers + b"\r\n"


async def answers(client: Client) -> list[tuple[int, Any]]:
    """Return status and JSON-RPC id (``None`` without one) of every response until the server closes."""
    found: list[tuple[int, Any]] = []
    while True:
        try:
            status, headers = await client.head()
            body = await client.body(headers)
        except (asyncio.IncompleteReadError, ConnectionError):
            return found
        is_json = headers.get("content-type") == "application/json" and bool(body)
        found.append((status, json.loads(body).get("id") if is_json else None))


async def exchanged(port: int, *parts: bytes) -> list[tuple[int, Any]]:
    """All answers to what is sent in these parts."""
    client = await Client.connect(port)
    try:
        for part in parts:
            await client.send(part)
            await asyncio.sleep(0.02)
    except ConnectionError:
        pass
    return await answers(client)


def length(body: bytes) -> str:
    """Of a body, for a header."""
    return str(len(body))


ONE_ANSWER = {
    "h2c": framed(SMUGGLED, connection="Upgrade, HTTP2-Settings", upgrade="h2c", content_length=length(SMUGGLED)),
    "websocket": framed(SMUGGLED, connection="upgrade", upgrade="websocket", content_length=length(SMUGGLED)),
    "upgrade without connection": framed(SMUGGLED, upgrade="h2c", content_length=length(SMUGGLED)),
    "connection without upgrade": framed(SMUGGLED, connection="upgrade", content_length=length(SMUGGLED)),
    "upgrade of a chunked body": framed(
        chunked(SMUGGLED), connection="upgrade", upgrade="h2c", transfer_encoding="chunked"
    ),
    "expect": framed(SMUGGLED, expect="200-maybe", content_length=length(SMUGGLED)),
}


@pytest.mark.parametrize("split", [False, True], ids=["one piece", "byte by byte"])
@pytest.mark.parametrize("name", ONE_ANSWER)
async def test_a_body_is_never_taken_for_a_request(name: str, split: bool) -> None:
    """Behind a proxy that reuses its connections the next client would get the answer to it (RFC 9112, 11.2)."""
    raw = ONE_ANSWER[name] + LAST
    async with Steered().serving() as port:
        for _ in range(5):
            client = await Client.connect(port)
            with suppress(ConnectionError):
                for at in range(len(raw) if split else 1):
                    await client.send(raw[at : at + 1] if split else raw)
            found = [id for _, id in await answers(client)]
            if found:  # a server that closes while the client sends may lose its answer with the connection
                break
    assert found in ([None], [None, "last"])  # the body is not JSON


@pytest.mark.parametrize("upgrade", ["h2c", "websocket", "foo"])
async def test_a_request_that_asks_for_another_protocol_is_served_in_this_one(upgrade: str) -> None:
    """A server may stay with HTTP/1.1 (RFC 9110, 7.8). Java's client requests an upgrade first."""
    asks = framed(ECHO, connection="upgrade", upgrade=upgrade, content_length=length(ECHO))
    asks_chunked = framed(chunked(ECHO), connection="upgrade", upgrade=upgrade, transfer_encoding="chunked")
    async with Steered().serving() as port:
        found = await exchanged(port, asks + asks_chunked, asks[:-5], asks[-5:] + NEXT + LAST)
        assert found == [(200, 1), (200, 1), (200, 1), (200, "next"), (200, "last")]
        closing = framed(ECHO, connection="upgrade, close", upgrade=upgrade, content_length=length(ECHO))
        assert await exchanged(port, closing + NEXT) == [(200, 1)]


@pytest.mark.parametrize("verb", ["GET", "DELETE", "OPTIONS", "PUT"])
@pytest.mark.parametrize("upgrade", [{}, {"connection": "upgrade", "upgrade": "h2c"}], ids=["plain", "upgrade"])
async def test_a_body_where_none_is_expected_is_not_taken_for_a_request(verb: str, upgrade: dict[str, str]) -> None:
    """It is read and discarded."""
    raw = framed(SMUGGLED, verb, content_length=length(SMUGGLED), **upgrade)
    async with Steered().serving() as port:
        assert [id for _, id in await exchanged(port, raw + LAST)] in ([None], [None, "last"])


async def test_a_stream_that_asked_for_another_protocol_has_no_second_answer() -> None:
    """The smuggled request would be answered when the stream has ended."""
    async with Steered().serving() as port:
        session = await open_session(port)
        client = await Client.connect(port)
        upgrade = {"connection": "upgrade", "upgrade": "h2c", "mcp_session_id": session}
        await client.send(framed(SMUGGLED, "GET", content_length=length(SMUGGLED), **upgrade))
        status, headers = await client.head()
        assert (status, headers["content-type"]) == (200, "text/event-stream")
    assert b"HTTP/1.1" not in await client.ended()


BAD_FRAMING = {
    "both lengths": framed(b"0\r\n\r\n", content_length="5", transfer_encoding="chunked"),
    "both lengths, turned": framed(b"0\r\n\r\n", transfer_encoding="chunked", content_length="5"),
    "two equal lengths": framed(b"hello", content_length="5\r\ncontent-length: 5"),
    "two lengths": framed(b"hello", content_length="5\r\ncontent-length: 6"),
    "a list of lengths": framed(b"hello", content_length="5, 5"),
    "a signed length": framed(b"hello", content_length="+5"),
    "chunked is not last": framed(chunked(ECHO), transfer_encoding="chunked, gzip"),
    "chunked twice": framed(chunked(ECHO), transfer_encoding="chunked, chunked"),
    "another coding": framed(ECHO, transfer_encoding="gzip"),
    "a chunk's bare line feed": framed(chunked(ECHO).replace(b"\r\n", b"\n"), transfer_encoding="chunked"),
    "an extension's bare line feed": framed(b"5;a\nhello\r\n0\r\n\r\n", transfer_encoding="chunked"),
    "a chunk of negative size": framed(b"-5\r\nhello\r\n0\r\n\r\n", transfer_encoding="chunked"),
    "a chunk longer than said": framed(b"3\r\nhello\r\n0\r\n\r\n", transfer_encoding="chunked"),
    "a folded header": framed(b"", x_a="b\r\n c", content_length="0"),
    "bare line feeds": framed(b"", content_length="0").replace(b"\r\n", b"\n"),
    "a header after a bare line feed": framed(b"", x_a="b\ncontent-length: 0"),
    "a header after a bare return": framed(b"", x_a="b\rcontent-length: 0"),
    "a blank before the colon": framed(b"", content_length="0").replace(b"content-length:", b"content-length :"),
    "HTTP/2 with prior knowledge": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "a tunnel": b"CONNECT localhost:1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "a tunnel with a body": framed(SMUGGLED, content_length=length(SMUGGLED)).replace(b"POST /mcp", b"CONNECT a:1"),
    "an unknown version": framed(b"", version="1.7", content_length="0"),
    "the upgraded body has bad chunks": framed(
        b"3\r\nhello\r\n0\r\n\r\n", connection="upgrade", upgrade="h2c", transfer_encoding="chunked"
    ),
}


@pytest.mark.parametrize("name", BAD_FRAMING)
async def test_a_request_whose_length_is_in_doubt_is_refused_and_ends_the_connection(name: str) -> None:
    """What follows may be its body or another request, and a proxy may have decided otherwise than we would."""
    async with Steered().serving() as port:
        assert await exchanged(port, BAD_FRAMING[name] + SMUGGLED) == [(400, None)]
        assert await exchanged(port, NEXT + BAD_FRAMING[name] + SMUGGLED) == [(200, "next"), (400, None)]
        await assert_alive(port)


async def test_a_refusal_waits_for_the_answers_before_it() -> None:
    """One read may bring a request, and the next one, which is refused."""
    steered = Steered()
    async with steered.serving() as port:
        slow = post(tool("slow", id="slow"))
        for bad in (
            b"NOT HTTP\r\n\r\n",
            framed(b"", x_big="x" * 70_000),
            framed(b"zz\r\n", transfer_encoding="chunked"),
        ):
            steered.release.clear()
            steered.started.clear()
            client = await Client.connect(port)
            await client.send(slow + NEXT + bad)
            await asyncio.wait_for(steered.started.wait(), 30)
            await client.send(SMUGGLED)
            steered.release.set()
            found = await answers(client)
            assert found[:2] == [(200, "slow"), (200, "next")]
            assert [status for status, _ in found[2:]] in ([400], [431])


@pytest.mark.parametrize("end", [b"", b"\r\n"])
async def test_a_large_body_does_not_count_for_the_head_behind_it(end: bytes) -> None:
    """One read brings a request of 70 kB and the first bytes of the next."""
    large = post(tool("echo", id="large", text="x" * 100_000))
    async with Steered().serving() as port:
        assert await exchanged(port, large + LAST[:100], LAST[100:]) == [(200, "large"), (200, "last")]
        assert await exchanged(port, large[:50_000], large[50_000:] + LAST[:5], LAST[5:]) == [
            (200, "large"),
            (200, "last"),
        ]
        larger = post(tool("echo", id="larger", text="x" * 240_000))
        for begin in (2_000, 50_000):  # the rest is one read, with more of the body than a head may have
            assert await exchanged(port, larger[:begin], larger[begin:] + LAST[:5], LAST[5:]) == [
                (200, "larger"),
                (200, "last"),
            ]


async def test_a_request_whose_answer_has_begun_gets_no_other() -> None:
    """Bad chunks behind a head that was answered already: the connection ends."""
    async with Steered().serving(max_body_bytes=1000) as port:
        client = await Client.connect(port)
        await client.send(framed(b"7d0\r\n" + b"x" * 2000, transfer_encoding="chunked"))
        status, headers = await client.head()
        assert status == 413
        await client.body(headers)
        await client.send(b"not a chunk")
        assert await client.ended() == b""


async def test_fields_behind_a_body_are_no_headers() -> None:
    """A proxy has checked the headers before the body only (RFC 9110, 6.5.1)."""
    trailers = b"mcp-method: ping\r\norigin: http://evil.example\r\n"
    raw = framed(chunked(ECHO, ext=b";a=b", trailers=trailers), transfer_encoding="chunked")
    async with Steered().serving() as port:
        assert await exchanged(port, raw + LAST) == [(200, 1), (200, "last")]


async def test_fields_behind_a_body_are_bounded() -> None:
    """The parser would keep them together in memory."""
    async with Steered().serving() as port:
        client = await Client.connect(port)
        head = framed(b"%x\r\n%s\r\n0\r\nx-endless: " % (len(ECHO), ECHO), transfer_encoding="chunked")
        await client.send(head)
        try:
            for _ in range(100):
                await client.send(b"x" * 10_000)
                await asyncio.sleep(0)
            status, _ = await client.head()
            assert status == 431
        except ConnectionError:
            pass  # it was still sending when we closed
        await assert_alive(port)


async def test_an_answer_instead_of_100_continue_ends_the_connection() -> None:
    """The client may send the body or not, so the meaning of the next bytes is unknown."""
    async with Steered().serving() as port:
        raw = framed(b"", expect="100-continue", origin="http://evil.example", content_length=length(SMUGGLED))
        assert await exchanged(port, raw, SMUGGLED) == [(403, None)]
        client = await Client.connect(port)
        await client.send(framed(b"", expect="100-continue", content_length=length(ECHO)))
        assert (await client.head())[0] == 100
        await client.send(ECHO)
        status, headers = await client.head()
        assert (status, headers.get("connection")) == (200, None)
        await client.body(headers)
        await client.send(LAST)
        assert await answers(client) == [(200, "last")]


async def test_an_http_1_0_client_gets_no_interim_answer() -> None:
    """It would take it for the final response (RFC 9110, 10.1.1)."""
    async with Steered().serving() as port:
        head = framed(b"", version="1.0", expect="100-continue", content_length=length(ECHO))
        assert await exchanged(port, head, ECHO) == [(200, 1)]
        assert await exchanged(port, head + ECHO) == [(200, 1)]


async def test_requests_that_wait_for_their_turn_are_bounded() -> None:
    """A client that sends requests without reading must not fill the memory with them."""
    waiting: list[int] = []
    protocols: set[Any] = set()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        protocols.add(receive.__self__.on_response.__self__)
        waiting.append(max(len(protocol.pipeline) for protocol in protocols))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        serve_http(app, port=0, limits=LIMITS, on_started=lambda host, port: bound.set_result(port))
    )
    client = await Client.connect(await bound)
    one = b"GET / HTTP/1.1\r\nx-pad: " + b"x" * 2000 + b"\r\n\r\n"
    total = 3000
    sending = asyncio.ensure_future(client.send(one * total))
    received = b""
    async with asyncio.timeout(60):
        while received.count(b"HTTP/1.1 204") < total:
            received += await client.reader.read(1 << 20)
    await sending
    one_read = 256 * 1024 // len(one)
    assert max(waiting) <= one_read + 16
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


# --- under a server of one's own --------------------------------------------------------------------------------------


async def under_uvicorn(app: Any, *parts: bytes, http: Any = "httptools") -> list[tuple[int, Any]]:
    """All answers of an application that uvicorn itself serves."""
    config = uvicorn.Config(app, port=0, http=http, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server._serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port: int = server.servers[0].sockets[0].getsockname()[1]
    try:
        return await exchanged(port, *parts)
    finally:
        server.should_exit = True
        await serving


@pytest.mark.parametrize("http", ["httptools", "h11"])
@pytest.mark.parametrize("name", ONE_ANSWER)
async def test_under_uvicorn_a_body_is_not_answered_as_a_request(name: str, http: str) -> None:
    """Its parser takes the body of an upgrade for the next request; the endpoint's answer ends the connection."""
    app = Steered().app.asgi(loopback=True)
    head, _, body = ONE_ANSWER[name].partition(b"\r\n\r\n")
    found = await under_uvicorn(app, head + b"\r\n\r\n", body + LAST, http=http)
    assert [id for _, id in found] in ([None], [None, "last"])


async def test_uvicorn_answers_the_body_of_an_upgrade() -> None:
    """Why the endpoint ends such connections itself. When this fails, uvicorn or httptools has been mended."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    head, _, body = ONE_ANSWER["h2c"].partition(b"\r\n\r\n")
    assert len(await under_uvicorn(app, head + b"\r\n\r\n", body + LAST)) == 3


async def test_the_bounds_have_the_documented_values() -> None:
    """docs/topics/security.md and the page on serving over HTTP name them."""
    limits = HttpLimits()
    assert (limits.max_head_bytes, limits.head_timeout_s, limits.body_timeout_s) == (64 * 1024, 15, 60)
    assert (limits.write_timeout_s, limits.keep_alive_s, limits.drain_s) == (60, 65, 10)
