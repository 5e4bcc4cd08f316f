"""OpenTelemetry for servers, clients and gateways: `instrument` adds traces and metrics by one call.

The API package comes with ``ferrule[otel]``; the program configures the SDK and its exporter as for any other library.
What is not instrumented pays nothing, whatever is installed. Spans hold names, never arguments or results unless
`Payloads` says so. Source: OpenTelemetry's semantic conventions for MCP of the version in
`ferrule.integrations.opentelemetry.conventions`, where all of it is still "Development".
"""

from __future__ import annotations

from ferrule.integrations.opentelemetry.client import ClientMetrics, ClientTracing
from ferrule.integrations.opentelemetry.instrument import instrument
from ferrule.integrations.opentelemetry.metrics import Metrics
from ferrule.integrations.opentelemetry.payloads import Payloads
from ferrule.integrations.opentelemetry.tracing import Tracing

__all__ = ["ClientMetrics", "ClientTracing", "Metrics", "Payloads", "Tracing", "instrument", "is_available"]


def is_available() -> bool:
    """Return whether the OpenTelemetry API is installed."""
    from importlib.util import find_spec

    return find_spec("opentelemetry") is not None
