"""Metrics, with a provider that records instead of a configured SDK."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytest.importorskip("opentelemetry")

from ferrule import Context, MCPServer
from ferrule.app.middleware.builtin import RateLimit, RateLimited
from ferrule.integrations.opentelemetry import Metrics, metrics
from ferrule.kernel.runner import ServerRunner
from ferrule.kernel.server import Server
from ferrule.protocol.errors import InvalidParams, MethodNotFound
from ferrule.testing import ManualClock
from ferrule.wire.types import CallToolResult
from tests.app.support import LATEST, RecordingDispatch, ask, call, connection_of
from tests.integrations.opentelemetry.support import Durations
from tests.transports.asgi.support import legacy_call, modern, modern_call, open_session, running

pytestmark = pytest.mark.anyio


@pytest.fixture
def recorder() -> Durations:
    return Durations()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(recorder: Durations, clock: ManualClock) -> MCPServer:
    app = MCPServer("x", middleware=[Metrics(recorder, clock=clock)])

    @app.tool
    async def work(fail: bool = False) -> str:
        clock.advance(0.25)
        if fail:
            raise ValueError("secret")
        return "ok"

    @app.tool
    async def say(ctx: Context) -> str:
        await ctx.progress(1)
        return "ok"

    return app


async def test_a_duration_per_request_by_the_conventions_names(app: MCPServer, recorder: Durations) -> None:
    """In seconds, with the method, the tool and the revision."""
    await call(app, "work")
    ((seconds, attributes),) = recorder.durations
    assert recorder.units["mcp.server.operation.duration"] == "s"
    assert seconds == 0.25
    assert attributes["mcp.method.name"] == "tools/call"
    assert attributes["gen_ai.tool.name"] == "work"
    assert attributes["gen_ai.operation.name"] == "execute_tool"
    assert attributes["mcp.protocol.version"] == "2026-07-28"
    assert "error.type" not in attributes


async def test_errors_are_distinguished_by_code(app: MCPServer, recorder: Durations) -> None:
    """A failed tool, a refused request; neither with its text."""
    await call(app, "work", {"fail": True})
    with pytest.raises(InvalidParams):
        await call(app, "nothing")
    failed, refused = (attributes for _, attributes in recorder.durations)
    assert failed["error.type"] == "tool_error"
    assert (refused.get("error.type"), refused["rpc.response.status_code"]) == (None, "-32602")
    assert "secret" not in str(recorder.durations)


async def test_what_clients_invent_makes_no_series(app: MCPServer, recorder: Durations) -> None:
    """A series per invented name would fill any metrics store."""
    for number in range(3):
        with pytest.raises(InvalidParams):
            await call(app, f"invented-{number}")
        with pytest.raises(MethodNotFound):
            await ask(app, f"invented/{number}")
    assert "invented" not in str(recorder.durations)
    assert len({str(attributes) for _, attributes in recorder.durations}) <= 2


async def test_names_refused_before_anybody_looked_for_them_make_no_series(recorder: Durations) -> None:
    """A client above the limit could otherwise make any number of series with invented names."""
    app = MCPServer("x", middleware=[Metrics(recorder), RateLimit(1, per_s=1000)])

    @app.tool
    async def work() -> str:
        return "ok"

    await call(app, "work")
    for name in ("invented", "work"):
        with pytest.raises(RateLimited):
            await call(app, name)
    named = [attributes.get("gen_ai.tool.name") for _, attributes in recorder.durations]
    assert named == ["work", None, "work"]


async def test_a_server_without_components_names_what_it_answers(
    recorder: Durations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not more names than a metrics store can bear, if it answers to any."""
    monkeypatch.setattr(metrics, "_MAX_NAMES", 2)
    server: Server[Any] = Server("x", middleware=[Metrics(recorder)])

    async def answer(ctx: Any) -> CallToolResult:
        return CallToolResult(content=[], is_error=ctx.params.name == "bad")

    server.add_request_handler("tools/call", answer)
    runner = ServerRunner(server, connection_of(LATEST), None)
    for name in ("bad", "a", "b", "c", "a"):
        await runner.handle_request(RecordingDispatch(), "tools/call", {"name": name})
    named = [attributes.get("gen_ai.tool.name") for _, attributes in recorder.durations]
    assert named == [None, "a", "b", None, "a"]


async def test_what_is_open_is_counted_when_it_is_read(app: MCPServer, recorder: Durations) -> None:
    """Sessions, streams, listeners; an endpoint that is gone counts for nothing."""
    endpoint = app.asgi(loopback=True)
    assert recorder.read("sessions") == 0  # no client was served yet
    session = await open_session(endpoint)
    await legacy_call(endpoint, {"jsonrpc": "2.0", "id": 5, "method": "ping"}, session).run()
    assert recorder.read("sessions") == 1
    assert recorder.read("streams") == 0
    before = recorder.read("listeners")
    wanted = {"notifications": {"toolsListChanged": True}}
    async with running(modern_call(endpoint, modern(1, "subscriptions/listen", wanted))) as listening:
        await listening.message_count(1)
        assert recorder.read("streams") == 1
        assert recorder.read("listeners") == before + 1
    assert recorder.read("streams") == 0
    await endpoint.aclose()
    assert recorder.read("sessions") == 0
    assert recorder.read("tasks") == 0


async def test_it_works_with_the_bare_api() -> None:
    """Without an SDK the API does nothing, and neither do we."""
    app = MCPServer("x", middleware=[Metrics()])

    @app.tool
    async def work() -> str:
        return "ok"

    assert (await call(app, "work"))["content"][0]["text"] == "ok"


def test_a_missing_api_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match="ferrule\\[otel\\]"):
        Metrics()
