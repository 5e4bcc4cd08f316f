"""What a legacy request costs in Redis, counted where redis-py writes to its socket: counts, not clocks."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

pytest.importorskip("redis")

from redis.asyncio.connection import AbstractConnection

from ferrule import Context, MCPServer
from tests.transports.asgi.support import legacy_call, open_session, request

pytestmark = pytest.mark.anyio

_OWN = (b"PING", b"CLIENT", b"SUBSCRIBE", b"HELLO", b"SELECT", b"worker:")
"""What belongs to a connection or to the process, and to no request."""


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What went to Redis; one entry is one round trip."""
    found: list[bytes] = []
    before = AbstractConnection.send_packed_command

    async def send(self: Any, command: Any, check_health: bool = True) -> None:
        raw = command if isinstance(command, bytes) else b"".join(command)
        if not any(word in raw for word in _OWN):
            found.append(raw)
        await before(self, command, check_health)

    monkeypatch.setattr(AbstractConnection, "send_packed_command", send)
    return found


async def tool(endpoint: Any, session: str, name: str, id: int, **meta: Any) -> Any:
    """The text of a result."""
    params: dict[str, Any] = {"name": name, "arguments": {}}
    if meta:
        params["_meta"] = meta
    answer = await legacy_call(endpoint, request(id, "tools/call", params), session).run()
    return answer.messages[-1]["result"]["content"][0]["text"]


async def test_a_legacy_call_costs_two_round_trips_at_most(redis_url: str, written: list[bytes]) -> None:
    """One to look at the session, and one to write it if it changed; on a worker that never saw the session, too."""
    store = f"{redis_url}?prefix=trips-{secrets.token_hex(6)}"
    apps, endpoints = [], []
    for _ in range(2):
        app = MCPServer("trips", store=store)

        @app.tool
        async def plain() -> str:
            return "plain"

        @app.tool
        async def remember(ctx: Context) -> str:
            ctx.session_state["n"] = ctx.session_state.get("n", 0) + 1
            return str(ctx.session_state["n"])

        @app.tool
        async def speak(ctx: Context) -> str:
            await ctx.progress(1, 2)
            return "said"

        apps.append(app)
        endpoints.append(app.asgi(loopback=True))
    one, other = endpoints
    try:
        session = await open_session(one)
        await tool(one, session, "plain", 10)
        costs = {}
        for number, (endpoint, name, wanted) in enumerate(
            [
                (one, "plain", "plain"),
                (other, "plain", "plain"),
                (other, "plain", "plain"),
                (other, "remember", "1"),
                (one, "remember", "2"),
                (one, "plain", "plain"),
            ],
            20,
        ):
            written.clear()
            assert await tool(endpoint, session, name, number) == wanted
            costs[number, name] = len(written)
        assert costs == {
            (20, "plain"): 1,
            (21, "plain"): 1,
            (22, "plain"): 1,
            (23, "remember"): 2,
            (24, "remember"): 2,
            (25, "plain"): 1,
        }
        written.clear()
        assert await tool(one, session, "speak", 30, progressToken="p") == "said"
        # A stream that can be resumed anywhere: each of its three events is kept, and who feeds it is written down.
        assert len(written) <= 6, written
        written.clear()
        await legacy_call(one, request(40, "ping"), session).run()
        assert len(written) == 1
    finally:
        for endpoint in endpoints:
            await endpoint.aclose()
        for app in apps:
            assert app.store is not None
            store_of: Any = app.store
            await store_of.blobs._server.aclose()
