"""The methods that every server answers without being told."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.kernel.connection import Connection
from ferrule.kernel.runner import ServerRunner
from ferrule.kernel.server import Server
from ferrule.protocol.errors import InvalidParams, MethodNotFound
from ferrule.types import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from tests.kernel.harness import DRIVERS, FakeDispatch, handshake, initialize, request, serving
from tests.seed.test_kernel import legacy_runner, modern_runner

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


async def test_discovery_says_what_is_spoken_and_offered() -> None:
    """Modern versions only; identity in `_meta`, hints as for every cacheable result."""
    served, dctx = modern_runner(Server("s", version="1", instructions="Do."))
    assert await served.on_request(dctx, "server/discover", {}) == {
        "supportedVersions": list(MODERN_PROTOCOL_VERSIONS),
        "capabilities": {},
        "instructions": "Do.",
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
    }


async def test_the_log_level_is_remembered_per_connection() -> None:
    """And the method exists only where the server declares logging."""
    served, dctx = legacy_runner(Server("s", logging=True))
    assert await served.on_request(dctx, "logging/setLevel", {"level": "error"}) == {}
    assert served.connection.log_level == "error"
    with pytest.raises(InvalidParams):
        await served.on_request(dctx, "logging/setLevel", {"level": "loud"})
    assert served.connection.log_level == "error"
    served, dctx = legacy_runner(Server("s"))
    with pytest.raises(MethodNotFound):
        await served.on_request(dctx, "logging/setLevel", {"level": "error"})


@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
async def test_subscriptions_exist_only_where_the_server_has_them(method: str) -> None:
    """What is not advertised is not there."""
    served, dctx = legacy_runner(Server("s"))
    with pytest.raises(MethodNotFound):
        await served.on_request(dctx, method, {"uri": "r://1"})


async def test_a_connection_without_a_channel_refuses_to_subscribe() -> None:
    """A promise that nothing could keep; unsubscribing from nothing is fine."""
    served, dctx = legacy_runner(Server("s", resource_updates=True))
    with pytest.raises(InvalidParams):
        await served.on_request(dctx, "resources/subscribe", {"uri": "r://1"})
    assert await served.on_request(dctx, "resources/unsubscribe", {"uri": "r://1"}) == {}


async def test_unsubscribing_from_what_was_never_subscribed_is_fine() -> None:
    """2025-11-25 knows no error for it."""
    async with serving(Server("s", resource_updates=True)) as peer:
        await handshake(peer)
        assert await peer.result(request(1, "resources/unsubscribe", {"uri": "r://1"})) == {}


async def test_any_of_them_may_be_replaced() -> None:
    """They are ordinary handlers."""
    server: Server[Any] = Server("s")

    async def own(ctx: Any) -> dict[str, Any]:
        return {"supportedVersions": ["own"], "capabilities": {}}

    server.add_request_handler("server/discover", own)
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, {})
    found = await ServerRunner(server, connection, None).on_request(FakeDispatch(), "server/discover", {})
    assert found["supportedVersions"] == ["own"]


@pytest.mark.parametrize("driver", DRIVERS)
async def test_what_arrives_before_the_handshake_is_refused_however_soon_that_follows(driver: Any) -> None:
    """Order of arrival decides, not the order in which tasks get their turn."""
    async with serving(Server("s"), driver) as peer:
        peer.send(request(1, "logging/setLevel", {"level": "info"}), request(2, "ping"), initialize(3), request(4, "x"))
        answers = {answer["id"]: answer for answer in await peer.waiting()}
    assert "came before initialize" in answers[1]["error"]["message"]
    assert answers[2]["result"] == {}
    assert "result" in answers[3]
    assert answers[4]["error"]["code"] == -32601
