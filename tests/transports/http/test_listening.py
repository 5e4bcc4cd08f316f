"""The standing GET stream of a legacy session: when it is opened again, when not, and what the log says of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from ferrule import Client
from tests.peers.scripted_http import Exchange, ScriptedServer, legacy_basics

pytestmark = pytest.mark.anyio

NOTE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "heard"}}


@pytest.fixture(autouse=True)
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """No test waits: pauses are noted instead. The minute between late attempts becomes a moment."""
    noted: list[float] = []

    async def sleep(seconds: float) -> None:
        noted.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr("ferrule.transports.http.listening.anyio.sleep", sleep)
    return noted


async def listening(answer: Callable[[Exchange, int], Any], until: Callable[[ScriptedServer], bool]) -> list[Exchange]:
    """The GETs of a client whose server answers the n-th of them with ``answer``, once ``until`` is true."""
    number = 0

    async def handler(exchange: Exchange) -> None:
        nonlocal number
        if exchange.method == "GET":
            number += 1
            await answer(exchange, number)
        elif not await legacy_basics(exchange):
            await exchange.result({"tools": []})

    async with ScriptedServer(handler) as server, Client(server.url, mode="legacy") as client:
        async with asyncio.timeout(30):
            while not until(server):
                await asyncio.sleep(0.001)
        for _ in range(20):
            await client.list_tools()
        return [seen for seen in server.seen if seen.method == "GET"]


@pytest.mark.parametrize("status", [400, 408, 409, 425, 429, 500, 502, 503, 504])
async def test_a_refused_stream_is_asked_for_again(status: int) -> None:
    """A server that has evicted the idle stream, or a proxy that restarts, refuses once and then has it again."""

    async def answer(exchange: Exchange, number: int) -> None:
        if number == 2:
            await exchange.respond(status)
            return
        await exchange.stream()
        if number == 1:
            await exchange.event(NOTE, id="e1")
            exchange.drop()
        else:
            await exchange.gone.wait()

    gets = await listening(answer, lambda server: server.count("GET") == 3)
    assert [get.headers.get("last-event-id") for get in gets] == [None, "e1", None if status == 400 else "e1"]


@pytest.mark.parametrize("status", [204, 301, 307, 401, 403, 404, 405, 406, 410, 501])
async def test_a_server_without_a_stream_is_asked_once(status: int) -> None:
    """No time changes these answers. 404 is not a lost session here: many servers route POST only."""

    async def answer(exchange: Exchange, number: int) -> None:
        await exchange.respond(status)

    assert len(await listening(answer, lambda server: server.count("GET") == 1)) == 1


async def test_something_that_is_no_event_stream_is_asked_for_once() -> None:
    """A web page behind the same address, for instance."""

    async def answer(exchange: Exchange, number: int) -> None:
        await exchange.respond(200, b"<html>", {"content-type": "text/html"})

    assert len(await listening(answer, lambda server: server.count("GET") == 1)) == 1


async def test_the_media_type_of_a_stream_may_have_any_case_and_parameters() -> None:
    """Media types are case-insensitive (RFC 9110, 8.3.1)."""
    heard = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            kind = b"content-type: Text/Event-Stream ; charset=UTF-8"
            exchange.writer.write(b"HTTP/1.1 200 OK\r\n%s\r\ntransfer-encoding: chunked\r\n\r\n" % kind)
            exchange.streams = True
            await exchange.event(NOTE)
            await exchange.gone.wait()
        elif not await legacy_basics(exchange):
            await exchange.result({})

    async with ScriptedServer(handler) as server:
        async with Client(server.url, mode="legacy", message_handler=lambda method, params: heard.set()):
            await asyncio.wait_for(heard.wait(), 30)


async def test_giving_up_on_a_refusal_is_a_warning(caplog: pytest.LogCaptureFixture, delays: list[float]) -> None:
    """The log must have the reason why no notifications arrive any more."""

    async def answer(exchange: Exchange, number: int) -> None:
        await exchange.respond(400)

    with caplog.at_level(logging.WARNING, "ferrule.client.http"):
        gets = await listening(answer, lambda server: "it is not opened again" in caplog.text)
    assert len(gets) == 5
    assert "HTTP 400" in caplog.text
    assert delays == [1.0, 2.0, 4.0, 8.0]


async def test_a_failing_server_is_asked_once_a_minute_in_the_end(
    caplog: pytest.LogCaptureFixture, delays: list[float]
) -> None:
    """An outage of an hour must not leave a client deaf for the rest of its life, nor knock twice a second."""

    async def answer(exchange: Exchange, number: int) -> None:
        if number < 8:
            await exchange.respond(503, headers={"retry-after": "3"})
            return
        await exchange.stream()
        await exchange.gone.wait()

    with caplog.at_level(logging.WARNING, "ferrule.client.http"):
        await listening(answer, lambda server: server.count("GET") == 8)
    assert delays == [3.0, 3.0, 4.0, 8.0, 60.0, 60.0, 60.0]
    assert caplog.text.count("trying again every 60 s") == 1


async def test_the_last_id_stays_until_another_comes() -> None:
    """A resumed stream that carries a comment, a lone ``retry`` or an event without an id moves nothing."""
    note = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n\n'
    pieces = [b"id: e7\n" + note, b": still here\n\n", b"retry: 20\n\n", note, b"id: e8\ndata:\n\n", b"\n\n"]

    async def answer(exchange: Exchange, number: int) -> None:
        await exchange.stream()
        if number <= len(pieces):
            await exchange.raw(pieces[number - 1])
            exchange.drop() if number % 2 else await exchange.end()
        else:
            await exchange.gone.wait()

    gets = await listening(answer, lambda server: server.count("GET") > len(pieces))
    ids = [get.headers.get("last-event-id") for get in gets]
    assert ids == [None, "e7", "e7", "e7", "e7", "e8", "e8"]
