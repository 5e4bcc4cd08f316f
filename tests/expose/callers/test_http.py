"""ferrule.expose.callers.http: what goes over the wire, and answers that break the rules of HTTP."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from ferrule.expose.callers.http import HTTPCaller
from ferrule.expose.exchange import ApiRequest, ApiResponse, CallerUnavailable, Origin

pytestmark = pytest.mark.anyio

GET = ApiRequest(method="GET", path="/x")
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nset-cookie: sid=1; Path=/\r\n\r\n{}"


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve the bytes of one answer to each connection on loopback; the values are the origin and what was read."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads
    finally:
        server.close()


async def asked(
    answer: bytes, *, max_bytes: int = 1000, times: int = 1, **more: Any
) -> tuple[ApiResponse, list[bytes]]:
    """Return the answer that the caller makes of these bytes, and the heads of the requests."""
    origin = more.pop("origin", Origin())
    request = more.pop("request", GET)
    async with answering(answer) as (url, heads):
        caller = HTTPCaller(url, **more)
        try:
            for _ in range(times):
                response = await caller.call(request, origin, max_bytes=max_bytes)
        finally:
            await caller.aclose()
    return response, heads


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x00\xff not http",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n{}",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc",
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 3000,
    ],
)
async def test_an_answer_that_breaks_the_rules_is_one_error_without_details(answer: bytes) -> None:
    with pytest.raises(CallerUnavailable, match=r"^the connection to the API broke$"):
        await asked(answer)


@pytest.mark.parametrize(("kind", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_what_a_compressed_answer_expands_to_is_bounded(kind: str, compress: Callable[[bytes], bytes]) -> None:
    """50 MB come in 50 kB; what counts is how much is read, not how much is sent. Some versions refuse it."""
    body = compress(bytes(50_000_000))
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with suppress(CallerUnavailable):
        response, _ = await asked(head + body, max_bytes=10_000)
        assert response.is_cut
        assert response.body == bytes(10_000)


async def test_an_endless_answer_is_cut() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    response, _ = await asked(head + b"a\r\n0123456789\r\n" * 10_000, max_bytes=100)
    assert (len(response.body), response.is_cut) == (100, True)


async def test_an_api_that_never_answers_is_left() -> None:
    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    caller = HTTPCaller(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout_s=0.2)
    with pytest.raises(CallerUnavailable, match=r"did not answer within 0\.2 s"):
        await caller.call(GET, Origin(), max_bytes=1)
    await caller.aclose()
    server.close()


async def test_cookies_of_an_answer_are_not_kept() -> None:
    """They would be sent for the next user."""
    _, heads = await asked(OK, times=2)
    assert len(heads) == 2
    assert all(b"cookie" not in head.lower() for head in heads)


async def test_a_header_is_sent_once_and_the_nearest_one_wins() -> None:
    """That of the request, with the server's own credentials; then that of the outer request; then that of all."""
    _, heads = await asked(
        OK,
        headers={"Authorization": "Bearer of-all", "X-One": "all", "X-Two": "all"},
        origin=Origin(headers=(("authorization", "Bearer of-a-user"), ("x-one", "outer"))),
        request=ApiRequest(method="GET", path="/x", headers=(("authorization", "Bearer own"),)),
    )
    lines = heads[0].decode().lower().split("\r\n")
    wanted = ["authorization: bearer own", "x-one: outer", "x-two: all"]
    assert sorted(line for line in lines if line.startswith(("authorization", "x-"))) == wanted


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({"X-Key": "s3cret\n"}, ValueError),
        ({"X-Key\r\nX-Evil": "s3cret"}, ValueError),
        ({"X-Key": None}, TypeError),
        ({"X-Version": 3}, TypeError),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_at_the_start(headers: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        HTTPCaller("https://api.example", headers=headers)
    assert "s3cret" not in str(raised.value)
    assert "X-" in str(raised.value)


async def test_a_header_that_would_arrive_as_another_one_is_not_sent() -> None:
    """A client writes it as UTF-8 and a server reads it as Latin-1."""
    request = ApiRequest(method="GET", path="/x", headers=(("x-name", "Müller"),))
    caller = HTTPCaller("http://127.0.0.1:9")
    with pytest.raises(CallerUnavailable, match="ASCII"):
        await caller.call(request, Origin(), max_bytes=1)
    await caller.aclose()
