"""ferrule.kernel.runner: what a server announces, and notifications; requests are in tests/seed."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.kernel.connection import Connection, InitializationOptions
from ferrule.kernel.runner import ServerRunner
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.types import LATEST_MODERN_VERSION, Implementation, ServerCapabilities
from tests.kernel.harness import FakeDispatch, handshake, note, request, serving

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


async def test_a_driver_may_announce_something_else_than_the_server_derives() -> None:
    """For one connection; without it the server's own words hold."""
    own = InitializationOptions(Implementation(name="front", version="2"), ServerCapabilities(), "Knock.")
    for options, expected in ((own, "Knock."), (None, "Enter.")):
        connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, {})
        runner = ServerRunner(Server("s", instructions="Enter."), connection, None, init_options=options)
        found = await runner.on_request(FakeDispatch(), "server/discover", {})
        assert found["instructions"] == expected


async def test_options_that_a_connection_has_already_are_kept() -> None:
    """A runner without options of its own does not take them away."""
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, {})
    connection.init_options = InitializationOptions(Implementation(name="a", version="1"), ServerCapabilities(), "A.")
    found = await ServerRunner(Server("s"), connection, None).on_request(FakeDispatch(), "server/discover", {})
    assert found["instructions"] == "A."


async def test_a_notification_reaches_its_handler_and_any_other_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """Known but unhandled, unknown, and malformed ones: the connection goes on."""
    heard: list[Any] = []
    server: Server[Any] = Server("s")

    async def hear(ctx: ServerRequestContext[Any]) -> None:
        heard.append((ctx.method, ctx.params))

    server.add_notification_handler("x/own", hear)
    server.add_notification_handler("notifications/roots/list_changed", hear)
    async with serving(server) as peer:
        await handshake(peer)
        peer.send(
            note("x/unknown", {"a": 1}),
            note("x/own", {"a": 1}),
            note("notifications/progress", {"progressToken": []}),
            note("notifications/roots/list_changed"),
        )
        assert await peer.result(request(1, "ping")) == {}
    assert [method for method, _ in heard] == ["x/own", "notifications/roots/list_changed"]
    assert heard[0][1] == {"a": 1}
