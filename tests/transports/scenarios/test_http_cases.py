"""Public bug reports of other implementations, each on a real socket (the numbers are those of the case list)."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from ferrule import Context
from ferrule.transports.asgi import HttpContext, HttpRefusal
from tests.transports.asgi.support import legacy_headers, modern, modern_headers, request
from tests.transports.http_support import Client, Steered, assert_alive, http, open_session, post, tool

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_client_stays_open")]


def legacy(session: str | None, message: Any, **headers: str) -> bytes:
    return http({**legacy_headers(session), **headers}, json.dumps(message).encode())


def call(name: str, id: Any = 1, **arguments: Any) -> dict[str, Any]:
    return request(id, "tools/call", {"name": name, "arguments": arguments})


@pytest.mark.parametrize("options", [{"stateless": True, "response_mode": "json"}, {}])
async def test_case_7_a_request_refused_early_breaks_nothing(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Wrong Accept, wrong Content-Type, then a good one, on one connection; nothing above a warning in the log."""
    with caplog.at_level(logging.WARNING):
        async with Steered().serving(**options) as port:
            client = await Client.connect(port)
            message = tool("echo", text="a")
            body = json.dumps(message).encode()
            for changes, status in (({"accept": "text/plain"}, 406), ({"content-type": "text/plain"}, 415)):
                assert (await client.ask(http({**modern_headers(message), **changes}, body)))[0] == status
                assert (await client.ask(legacy("x", call("echo"), **changes)))[0] == status
            assert (await client.ask(post(message)))[0] == 200
            if options:
                assert (await client.ask(legacy(None, call("echo", text="a"))))[0] == 200
    assert caplog.messages == []


async def test_case_11_both_spellings_are_served_and_both_challenge() -> None:
    """Behind a TLS terminator, with a bearer and without: no redirect, ever."""

    async def authenticate(context: HttpContext) -> str:
        if "authorization" not in context.headers:
            raise HttpRefusal(401, "A token is needed", [("WWW-Authenticate", "Bearer")])
        return "somebody"

    async with Steered().serving(authenticate=authenticate) as port:
        client = await Client.connect(port)
        message = tool("echo", text="a")
        for path in ("/mcp", "/mcp/"):
            for extra, status in (({"authorization": "Bearer t"}, 200), ({}, 401)):
                headers = {**modern_headers(message), "x-forwarded-proto": "https", **extra}
                found, answer, _ = await client.ask(http(headers, json.dumps(message).encode(), path=path))
                assert (found, "location" in answer) == (status, False)
                assert ("www-authenticate" in answer) is (status == 401)


async def test_case_29_a_handler_sees_the_token_of_its_own_request() -> None:
    """The session was opened with another one."""
    steered = Steered()

    @steered.app.tool
    async def token(ctx: Context) -> str:
        """The token of this request."""
        return str(ctx.headers.get("authorization"))

    async with steered.serving() as port:
        session = await open_session(port)
        client = await Client.connect(port)
        for bearer in ("Bearer A", "Bearer B"):
            _, _, body = await client.ask(legacy(session, call("token"), authorization=bearer))
            assert json.loads(body)["result"]["content"][0]["text"] == bearer


async def test_case_32_no_answer_to_a_cancelled_request() -> None:
    """Its response ends empty, ping is answered, and unknown or finished ids are ignored."""
    steered = Steered()
    async with steered.serving() as port:
        session = await open_session(port)
        first, second = await Client.connect(port), await Client.connect(port)
        await first.send(legacy(session, call("slow", id=7)))
        await asyncio.wait_for(steered.started.wait(), 30)
        for id in (99, 7, 7):
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
            assert (await second.ask(legacy(session, cancelled)))[0] == 202
        status, headers = await first.head()
        assert (status, await first.body(headers)) == (200, b"")
        assert steered.log == ["finally"]
        assert json.loads((await second.ask(legacy(session, request(8, "ping"))))[2])["result"] == {}


async def test_case_34_idle_time_spares_what_is_in_flight() -> None:
    """A call that outlasts the idle time is answered, and an open stream keeps its session."""
    steered = Steered()
    async with steered.serving(session_idle_s=1.0) as port:
        calling, streaming, idle = [await open_session(port) for _ in range(3)]
        caller, stream = await Client.connect(port), await Client.connect(port)
        await caller.send(legacy(calling, call("slow")))
        await stream.send(http({**legacy_headers(streaming), "accept": "text/event-stream"}, b"", "GET"))
        assert (await stream.head())[0] == 200
        legacy_side = steered.endpoint.legacy
        assert legacy_side is not None
        async with asyncio.timeout(30):
            while len(legacy_side.sessions) > 2:
                await asyncio.sleep(0.05)
        prober = await Client.connect(port)
        assert (await prober.ask(legacy(idle, request(1, "ping"))))[0] == 404
        assert (await prober.ask(legacy(streaming, request(1, "ping"))))[0] == 200
        steered.release.set()
        _, headers = await caller.head()
        assert b'"slow"' in await caller.body(headers)
        assert (await prober.ask(legacy(calling, request(1, "ping"))))[0] == 200


@pytest.mark.parametrize("kind", ["deleted", "left", "stateless", "cut off"])
async def test_case_38_sessions_are_forgotten(kind: str) -> None:
    """With DELETE, by idle time, without sessions, and when the client vanishes while it connects."""
    steered = Steered()
    options: dict[str, Any] = {"stateless": True} if kind == "stateless" else {"session_idle_s": 1.0}
    async with steered.serving(**options) as port:
        client = await Client.connect(port)
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        raw = http(legacy_headers(version=None), json.dumps(request(0, "initialize", params)).encode())
        ids: list[str] = []
        for _ in range(100):
            if kind == "cut off":
                fresh = await Client.connect(port)
                await fresh.send(raw)
                fresh.abort()
                continue
            _, headers, _ = await client.ask(raw)
            session = headers.get("mcp-session-id")
            assert (session is None) is (kind == "stateless")
            status, _, _ = await client.ask(legacy(session, call("echo", text="a")))
            assert status == 200
            if session is not None:
                ids.append(session)
            if kind == "deleted":
                await client.ask(http(legacy_headers(session), b"", "DELETE"))
        legacy_side = steered.endpoint.legacy
        assert legacy_side is not None
        assert kind == "left" or kind == "cut off" or len(legacy_side.sessions) == 0
        async with asyncio.timeout(30):
            while len(legacy_side.sessions):
                await asyncio.sleep(0.02)
        assert all([(await client.ask(legacy(id, request(1, "ping"))))[0] == 404 for id in ids])
        await assert_alive(port)


async def test_case_40_two_hundred_sync_calls_and_a_prompt_ping() -> None:
    """The thread limit makes them queue; what needs no thread does not wait for them."""
    steered = Steered()
    async with steered.serving() as port:
        clients = [await Client.connect(port) for _ in range(200)]
        for client in clients:
            await client.send(post(tool("block")))
        try:
            async with asyncio.timeout(30):
                while not steered.blocked:
                    await asyncio.sleep(0.01)
                session = await open_session(port)
                prober = await Client.connect(port)
                assert (await prober.ask(legacy(session, request(1, "ping"))))[0] == 200
                assert (await prober.ask(post(modern(2, "server/discover"))))[0] == 200
                assert len(steered.blocked) < 200
        finally:
            steered.unblock.set()
        assert [(await client.head())[0] for client in clients] == [200] * 200
