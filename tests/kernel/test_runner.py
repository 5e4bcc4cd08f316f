"""ferrule.kernel.runner: what a server announces, and notifications; requests are in tests/seed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ferrule.kernel.connection import Connection, InitializationOptions
from ferrule.kernel.runner import ServerRunner
from ferrule.kernel.server import CallNext, Server, ServerRequestContext
from ferrule.protocol.errors import InvalidParams, InvalidRequest, MethodNotFound, MissingRequiredClientCapability
from ferrule.types import LATEST_MODERN_VERSION, Implementation, ServerCapabilities
from tests.kernel.harness import FakeDispatch, handshake, initialize, note, request, serving
from tests.seed.test_kernel import legacy_runner, modern_runner

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


async def test_the_method_of_a_notification_that_fails_is_one_short_line(caplog: pytest.LogCaptureFixture) -> None:
    """The client chose it: it can write no lines of its own into the log."""

    async def fail(ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        if ctx.method.startswith("x/"):
            raise ValueError("in the middleware")
        return await call_next(ctx)

    async with serving(Server("s", middleware=[fail])) as peer:
        await handshake(peer)
        peer.send(note("x/a\nERROR all is lost"), note("x/" + "b" * 100_000))
        assert await peer.result(request(1, "ping")) == {}
    said = [record.getMessage() for record in caplog.records if "The handling of" in record.getMessage()]
    assert said[0] == "The handling of x/a\\nERROR all is lost failed"
    assert len(said) == 2
    assert len(said[1]) < 300


async def test_a_notification_reaches_its_handler_and_any_other_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """Known but unhandled, unknown, and malformed ones: the connection continues."""
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


@pytest.mark.parametrize("runner_of", [legacy_runner, modern_runner])
async def test_a_method_of_the_revision_without_a_handler_is_judged_like_one_with_a_handler(runner_of: Any) -> None:
    """Malformed params are refused first, then the method."""
    served, dctx = runner_of(Server("s"))
    with pytest.raises(MethodNotFound):
        await served.on_request(dctx, "tools/call", {"name": "x"})
    with pytest.raises(InvalidParams, match="name"):
        await served.on_request(dctx, "tools/call", {"name": 1})
    with pytest.raises(MethodNotFound):
        await served.on_request(dctx, "no/such", {"name": 1})


@pytest.mark.parametrize("method", ["a/b", "ping", "x/y"])
async def test_a_second_handshake_is_refused_unless_middleware_makes_another_request_of_it(method: str) -> None:
    """What the client named decides nothing after that."""
    server: Server[Any] = Server("s")

    async def answer(ctx: ServerRequestContext[Any]) -> dict[str, Any]:
        return {"served": ctx.method}

    for name in ("a/b", "x/y"):
        server.add_request_handler(name, answer)
    served, dctx = legacy_runner(server)
    params = initialize()["params"]
    with pytest.raises(InvalidRequest, match="This connection is already initialized"):
        await served.on_request(dctx, "initialize", params)

    async def rename(ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        return await call_next(replace(ctx, method=method, params={}))

    server.middleware.append(rename)
    assert await served.on_request(dctx, "initialize", params) == ({} if method == "ping" else {"served": method})


@pytest.mark.parametrize("declared", [{}, {"extensions": {}}, {"extensions": {"example.com/y": {}}}])
async def test_a_method_of_an_extension_needs_a_client_that_declares_the_extension(declared: dict[str, Any]) -> None:
    """The error names it; a legacy client has no such method at all. Other own methods need nothing."""
    server: Server[Any] = Server("s")

    async def answer(ctx: ServerRequestContext[Any]) -> dict[str, Any]:
        return {"served": ctx.method}

    server.add_request_handler("x/own", answer)
    server.add_request_handler("x/extended", answer, extension="example.com/x")
    modern, dctx = modern_runner(server, **declared)
    with pytest.raises(MissingRequiredClientCapability) as caught:
        await modern.on_request(dctx, "x/extended", {})
    assert caught.value.data == {"requiredCapabilities": {"extensions": {"example.com/x": {}}}}
    assert (await modern.on_request(dctx, "x/own", {}))["served"] == "x/own"
    legacy, dctx = legacy_runner(server)
    with pytest.raises(MethodNotFound):
        await legacy.on_request(dctx, "x/extended", {})
    assert (await legacy.on_request(dctx, "x/own", {}))["served"] == "x/own"
    modern, dctx = modern_runner(server, extensions={"example.com/x": {}})
    assert (await modern.on_request(dctx, "x/extended", {}))["served"] == "x/extended"
