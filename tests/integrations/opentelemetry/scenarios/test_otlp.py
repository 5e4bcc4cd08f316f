"""The real OTLP exporter against a receiver on the loopback interface, which decodes with ``opentelemetry-proto``."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from ferrule import Client, MCPServer
from ferrule.integrations.opentelemetry import Payloads, instrument
from tests.integrations.opentelemetry.support import Telemetry

pytestmark = pytest.mark.anyio

SECRET = "ghp_" + "a1B2c3D4" * 5
TYPES = {
    "/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse),
    "/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Receiver:
    """What a collector does with a request: decode it, and answer."""

    def __init__(self) -> None:
        self.received: dict[str, list[Any]] = {path: [] for path in TYPES}
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                request, response = TYPES[self.path]
                receiver.received[self.path].append(request.FromString(body))
                answer = response().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def spans(self) -> list[Any]:
        return [
            span
            for request in self.received["/v1/traces"]
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def metrics(self) -> dict[str, Any]:
        return {
            metric.name: metric
            for request in self.received["/v1/metrics"]
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def attributes_of(thing: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in thing.attributes}


async def test_spans_and_metrics_arrive_at_a_collector(receiver: Receiver) -> None:
    """Names, kinds, parents, types of attributes and units, as a collector reads them; and no secret."""
    traces = SimpleSpanProcessor(OTLPSpanExporter(f"{receiver.url}/v1/traces"))
    measured = PeriodicExportingMetricReader(OTLPMetricExporter(f"{receiver.url}/v1/metrics"), float("inf"))
    telemetry = Telemetry(processors=[traces], readers=[measured])
    app = MCPServer("x")

    @app.tool
    async def sign_in(user: str, password: str, note: str) -> str:
        return f"{user}: {note}"

    instrument(app, payloads=Payloads(max_bytes=200), **telemetry.providers)
    given = {"user": "sam", "password": "hunter2-hunter2", "note": f"my key is {SECRET} " + "x" * 1000}
    async with instrument(Client(app), payloads=True, **telemetry.providers) as client:
        await client.call_tool("sign_in", given)
    # The exporter speaks HTTP in the thread that calls it.
    telemetry.meters.force_flush()
    telemetry.tracers.shutdown()
    telemetry.meters.shutdown()

    calls = [span for span in receiver.spans() if span.name == "tools/call sign_in"]
    by_kind = {span.kind: span for span in calls}
    sent, served = by_kind[3], by_kind[2]  # SPAN_KIND_CLIENT, SPAN_KIND_SERVER
    assert (served.trace_id, served.parent_span_id) == (sent.trace_id, sent.span_id)
    attributes = attributes_of(served)
    assert attributes["gen_ai.operation.name"] == "execute_tool"
    assert attributes["gen_ai.tool.name"] == "sign_in"
    assert '"password":"(masked)"' in attributes["gen_ai.tool.call.arguments"]
    assert len(attributes["gen_ai.tool.call.arguments"].encode()) <= 200 + len("…".encode())
    histogram = receiver.metrics()["mcp.server.operation.duration"]
    assert histogram.unit == "s"
    assert "sign_in" in {attributes_of(point).get("gen_ai.tool.name") for point in histogram.histogram.data_points}
    everything = str(receiver.received)
    assert "hunter2" not in everything
    assert SECRET not in everything
    assert "x" * 300 in everything, "the client's span has the default bound"
