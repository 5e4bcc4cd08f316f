"""Spans, with a tracer that records instead of a configured SDK."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("opentelemetry")

from opentelemetry import baggage, trace

from ferrule import Client, MCPServer
from ferrule.integrations.opentelemetry import Metrics, Tracing, is_available
from ferrule.protocol.errors import InvalidParams
from tests.app.support import ask, call
from tests.extensions.tasks.support import Modern
from tests.integrations.opentelemetry.support import Spans, Telemetry

pytestmark = pytest.mark.anyio

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def recorder() -> Spans:
    return Spans()


@pytest.fixture
def app(recorder: Spans) -> MCPServer:
    app = MCPServer("x", middleware=[Tracing(recorder)])

    @app.tool
    async def work(fail: bool = False) -> str:
        if fail:
            raise ValueError("secret")
        return "ok"

    return app


async def test_a_span_per_request_under_the_clients_trace(app, recorder):
    """W3C context comes in `_meta`, unprefixed."""
    await ask(app, "tools/call", {"name": "work", "_meta": {"traceparent": PARENT, "tracestate": "a=b"}})
    (span,) = recorder.spans
    assert span.name == "tools/call work"
    assert span.attributes["mcp.method.name"] == "tools/call"
    assert span.attributes["gen_ai.tool.name"] == "work"
    assert span.attributes["mcp.protocol.version"] == "2026-07-28"
    assert format(span.parent.trace_id, "032x") == "0af7651916cd43dd8448eb211c80319c"
    assert span.parent.trace_state.get("a") == "b"
    assert span.status is None
    assert span.is_ended


@pytest.mark.parametrize("value", ["nonsense", 5, None, {"a": 1}])
async def test_a_malformed_context_is_no_parent_and_no_failure(app, recorder, value):
    await ask(app, "tools/call", {"name": "work", "_meta": {"traceparent": value}})
    parent = recorder.spans[0].parent
    assert parent is None or not parent.is_valid


async def test_failures_show_without_their_text(app, recorder):
    await call(app, "work", {"fail": True})
    with pytest.raises(InvalidParams):
        await call(app, "nothing")
    failed, refused = recorder.spans
    assert (failed.attributes["error.type"], failed.status) == ("tool_error", trace.StatusCode.ERROR)
    assert refused.attributes["rpc.response.status_code"] == "-32602"
    assert ("error.type" in refused.attributes, refused.status) == (False, None), "an error of the caller is none here"
    assert "secret" not in str([span.attributes for span in recorder.spans])


async def test_it_works_with_the_bare_api():
    """Without an SDK the API does nothing, and neither do we."""
    app = MCPServer("x", middleware=[Tracing()])

    @app.tool
    async def work() -> str:
        return "ok"

    result = await call(app, "work")
    assert result["content"][0]["text"] == "ok"


def test_a_missing_api_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match="ferrule\\[otel\\]"):
        Tracing()


def test_nothing_is_loaded_without_it():
    program = "import sys, ferrule.app.server; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
    assert is_available()


async def test_the_span_around_the_server_becomes_a_link():
    """Such as that of the HTTP request: the client's span is the parent, whatever the transport."""
    pytest.importorskip("opentelemetry.sdk")
    telemetry = Telemetry()
    app = MCPServer("x", middleware=[Tracing(telemetry.tracers)])

    @app.tool
    async def work() -> str:
        return str(baggage.get_baggage("user"))

    around = telemetry.tracers.get_tracer("http").start_span("POST /mcp")
    with trace.use_span(around):
        meta = {"traceparent": PARENT, "baggage": "user=sam"}
        result = await ask(app, "tools/call", {"name": "work", "_meta": meta})
        await call(app, "work")
    linked, alone = telemetry.spans("tools/call work")
    assert format(linked.parent.trace_id, "032x") == PARENT[3:35]
    assert [link.context.span_id for link in linked.links] == [around.get_span_context().span_id]
    assert (alone.parent.span_id, len(alone.links)) == (around.get_span_context().span_id, 0)
    assert result["content"][0]["text"] == "sam", "baggage is there for the tool's code"


async def test_a_task_has_a_span_of_its_own_in_the_same_trace():
    """Linked to the call that began it, which has ended by then; not counted as a second request."""
    pytest.importorskip("opentelemetry.sdk")
    telemetry = Telemetry()
    app = MCPServer("x", middleware=[Tracing(telemetry.tracers), Metrics(telemetry.meters)])
    other = MCPServer("other", middleware=[Tracing(telemetry.tracers)])

    @other.tool
    async def inner() -> str:
        return "ok"

    @app.tool(task="required")
    async def work() -> str:
        async with Client(other) as client:
            return (await client.call_tool("inner")).text

    modern = Modern(app)
    begun = await modern.ask("tools/call", name="work", arguments={}, _meta={"traceparent": PARENT})
    await modern.until(begun["taskId"], "completed")
    called = telemetry.span("tools/call work")
    body = telemetry.span("execute_tool work")
    assert (called.kind.name, body.kind.name) == ("SERVER", "INTERNAL")
    assert format(body.parent.span_id, "016x") == PARENT[36:52]
    assert [link.context.span_id for link in body.links] == [called.context.span_id]
    assert body.attributes["ferrule.task.id"] == begun["taskId"]
    nested = telemetry.span("tools/call inner")
    assert (nested.kind.name, nested.parent.span_id) == ("SERVER", body.context.span_id), "a request, not the task"
    calls = [
        point.count
        for point in telemetry.points("mcp.server.operation.duration")
        if point.attributes["mcp.method.name"] == "tools/call"
    ]
    assert calls == [1]
    (run,) = telemetry.points("ferrule.server.task.duration")
    assert (run.count, run.attributes["gen_ai.tool.name"]) == (1, "work")


async def test_a_span_that_has_ended_is_no_link():
    """A connection in this process keeps the context of the code that opened it."""
    pytest.importorskip("opentelemetry.sdk")
    telemetry = Telemetry()
    app = MCPServer("x", middleware=[Tracing(telemetry.tracers)])

    @app.tool
    async def work() -> str:
        return "ok"

    stale = telemetry.tracers.get_tracer("http").start_span("POST /mcp")
    stale.end()
    with trace.use_span(stale):
        await ask(app, "tools/list", {"_meta": {"traceparent": PARENT}})
    assert telemetry.span("tools/list").links == ()
