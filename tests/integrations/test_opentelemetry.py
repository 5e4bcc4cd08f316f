"""Spans, with a tracer that records instead of a configured SDK."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("opentelemetry")

from opentelemetry import trace

from ferrule import MCPServer
from ferrule.integrations.opentelemetry import Tracing, is_available
from ferrule.protocol.errors import InvalidParams
from tests.app.support import ask, call

pytestmark = pytest.mark.anyio

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class RecordedSpan(trace.NonRecordingSpan):
    def __init__(self, name: str, attributes: Any, parent: Any) -> None:
        super().__init__(trace.INVALID_SPAN_CONTEXT)
        self.name, self.attributes, self.parent, self.status = name, dict(attributes), parent, None

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.status = status


class Recorder(trace.TracerProvider, trace.Tracer):
    def __init__(self) -> None:
        self.spans: list[RecordedSpan] = []

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        return self

    def start_span(self, *args: Any, **kwargs: Any) -> trace.Span:
        raise NotImplementedError

    @contextmanager
    def start_as_current_span(self, name: str, context: Any = None, **options: Any) -> Iterator[RecordedSpan]:
        parent = trace.get_current_span(context).get_span_context() if context is not None else None
        span = RecordedSpan(name, options["attributes"], parent)
        self.spans.append(span)
        yield span


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def app(recorder: Recorder) -> MCPServer:
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
