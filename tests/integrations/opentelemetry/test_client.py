"""The client's half: spans and durations of requests, of their failures, and of sessions."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import pytest

pytest.importorskip("opentelemetry.sdk")

from ferrule import Client, Context, MCPServer
from ferrule.integrations.opentelemetry import ClientMetrics, ClientTracing, instrument
from ferrule.protocol.errors import RequestTimeout
from ferrule.testing import ManualClock
from ferrule.wire.types import ElicitResult
from tests.integrations.opentelemetry.support import Durations, Telemetry, parent_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


def server(seen: list[Any]) -> MCPServer:
    app = MCPServer("x")

    @app.tool
    async def work(ctx: Context) -> str:
        seen.append(dict(ctx.request.meta))
        return "ok"

    @app.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Which?", {"type": "object", "properties": {"n": {"type": "integer"}}})
        return answer.action

    @app.tool
    async def wait() -> str:
        await anyio.sleep(1000)
        return "late"

    return app


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_context_of_the_span_goes_out_in_meta(telemetry: Telemetry, mode: str) -> None:
    """W3C's names, unprefixed; a server without telemetry passes the same to its code."""
    seen: list[Any] = []
    async with Client(server(seen), mode=mode, middleware=[ClientTracing(telemetry.tracers)]) as client:
        await client.call_tool("work")
        assert client.call_counts.fast == 0
    span = telemetry.span("tools/call work")
    context = f"{span.context.trace_id:032x}-{span.context.span_id:016x}"
    assert seen[0]["traceparent"].startswith(f"00-{context}-")
    assert span.kind.name == "CLIENT"
    first = "initialize" if mode == "legacy" else "server/discover"
    assert telemetry.spans()[0].name == first
    assert telemetry.spans()[0].attributes["mcp.protocol.version"] == client_version(mode)


def client_version(mode: str) -> str:
    return "2025-11-25" if mode == "legacy" else "2026-07-28"


async def test_the_span_around_a_call_is_its_parent(telemetry: Telemetry) -> None:
    """An agent's span holds the calls that it makes."""
    async with instrument(Client(server([])), **telemetry.providers) as client:
        with telemetry.tracers.get_tracer("agent").start_as_current_span("turn"):
            await client.call_tool("work")
    assert parent_of(telemetry.span("tools/call work"), telemetry.spans()).name == "turn"


async def test_each_round_of_a_call_is_a_span(telemetry: Telemetry) -> None:
    """A question is a result of its own kind in the modern era; each message has one id and one span."""

    async def answer(params: Any, question: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"n": 1})

    async with Client(server([]), elicitation_handler=answer, middleware=[ClientTracing(telemetry.tracers)]) as client:
        assert (await client.call_tool("ask")).text == "accept"
    first, second = telemetry.spans("tools/call ask")
    assert first.attributes["mcp.result.type"] == "input_required"
    assert "mcp.result.type" not in second.attributes
    assert first.attributes["jsonrpc.request.id"] != second.attributes["jsonrpc.request.id"]


async def test_a_timeout_has_a_name_of_its_own(telemetry: Telemetry) -> None:
    """The class of an error is the type where there is no code."""
    async with instrument(Client(server([])), **telemetry.providers) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("wait", timeout_s=0.01)
    span = telemetry.span("tools/call wait")
    assert (span.attributes["error.type"], span.status.status_code.name) == ("timeout", "ERROR")
    assert "rpc.response.status_code" not in span.attributes
    types = {point.attributes.get("error.type") for point in telemetry.points("mcp.client.operation.duration")}
    assert types == {None, "timeout"}


async def test_sessions_last_from_negotiation_to_the_end() -> None:
    """By the clock of the program; one that is open has no duration yet."""
    clock, meter = ManualClock(), Durations()
    client = Client(server([]), middleware=[ClientMetrics(meter, clock=clock)])
    async with client:
        clock.advance(90)
        assert meter.others["mcp.client.session.duration"] == []
    ((seconds, attributes),) = meter.others["mcp.client.session.duration"]
    assert seconds == 90
    assert attributes == {"mcp.protocol.version": "2026-07-28"}
    assert meter.units["mcp.client.session.duration"] == "s"


@pytest.mark.parametrize("kind", [ClientTracing, ClientMetrics])
def test_a_missing_api_says_what_to_install(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match="ferrule\\[otel\\]"):
        kind()
