"""Traces and metrics of servers and clients."""

# --8<-- [start:server]
from ferrule import Client, MCPServer
from ferrule.integrations.opentelemetry import Payloads, instrument

app = instrument(MCPServer("foundry"))


@app.tool
def melt(metal: str) -> str:
    return f"{metal} is liquid"


# --8<-- [end:server]


# --8<-- [start:client]
def connect() -> Client:
    return instrument(Client("https://mcp.example.com/mcp"))


# --8<-- [end:client]


# --8<-- [start:sdk]
def send_to_collector(endpoint: str = "http://localhost:4318") -> None:
    from opentelemetry import metrics, trace
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    traces = TracerProvider()
    traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces")))
    trace.set_tracer_provider(traces)
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{endpoint}/v1/metrics"))
    metrics.set_meter_provider(MeterProvider([reader]))


# --8<-- [end:sdk]


# --8<-- [start:payloads]
def with_arguments() -> MCPServer:
    return instrument(MCPServer("press"), payloads=Payloads(results=False, max_bytes=1000))


# --8<-- [end:payloads]


async def check(mode: str) -> None:
    """In both eras; the SDK is used by the tests of the integration."""
    assert connect().middleware
    assert len(with_arguments().lowlevel.middleware) == 2
    assert callable(send_to_collector)
    async with instrument(Client(app, mode=mode)) as client:
        assert (await client.call_tool("melt", {"metal": "brass"})).text == "brass is liquid"
