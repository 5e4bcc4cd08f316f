"""Tracing with OpenTelemetry: a span per request, a child of the client's where ``_meta`` carries W3C trace context.

``MCPServer("x", middleware=[Tracing(), Metrics()])``; metrics have a module of their own. The API package comes with
``ferrule[otel]``; the program configures the SDK and its exporter as for any other library. A server without this
middleware pays nothing, whatever is installed.

Sources: SEP-414 (``traceparent``, ``tracestate`` and ``baggage`` are unprefixed keys of ``_meta``); the semantic
conventions for MCP and JSON-RPC. Spans hold names, never arguments, results or the text of exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ferrule import __version__
from ferrule.app.middleware.builtin import name_of, outcome_of
from ferrule.integrations.opentelemetry_metrics import Metrics
from ferrule.kernel.server import CallNext, ServerRequestContext
from ferrule.protocol.errors import MCPError

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["Metrics", "Tracing", "is_available"]

_KEYS: Final = ("traceparent", "tracestate", "baggage")


def is_available() -> bool:
    """Return whether the OpenTelemetry API is installed."""
    from importlib.util import find_spec

    return find_spec("opentelemetry") is not None


class Tracing:
    """Middleware that records a span per request; notifications pass.

    Args:
        provider: ``None`` takes the program's own.

    Raises:
        ImportError: the API is not installed (install ``ferrule[otel]``).
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        try:
            from opentelemetry import propagate, trace
        except ModuleNotFoundError as error:
            raise ImportError("Tracing needs the OpenTelemetry API: pip install 'ferrule[otel]'") from error
        self._tracer = trace.get_tracer("ferrule", __version__, provider)
        self._extract = propagate.extract
        self._kind = trace.SpanKind.SERVER
        self._error = trace.StatusCode.ERROR

    async def __call__(self, ctx: ServerRequestContext[Any], call_next: CallNext, /) -> Any:
        if ctx.request_id is None:
            return await call_next(ctx)
        name = name_of(ctx)
        with self._tracer.start_as_current_span(
            ctx.method if name is None or ctx.method == "resources/read" else f"{ctx.method} {name}",
            context=self._parent(ctx.meta),
            kind=self._kind,
            attributes=_attributes(ctx, name),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                result = await call_next(ctx)
            except BaseException as error:
                if isinstance(error, MCPError):
                    span.set_attribute("rpc.response.status_code", str(error.code))
                kind = str(error.code) if isinstance(error, MCPError) else type(error).__name__
                span.set_attribute("error.type", kind)
                span.set_status(self._error)
                raise
            outcome = outcome_of(result)
            if outcome == "error":
                span.set_attribute("error.type", "tool_error")
                span.set_status(self._error)
            elif outcome != "ok":
                span.set_attribute("mcp.result.type", outcome)
            return result

    def _parent(self, meta: Mapping[str, Any]) -> Any:
        carrier = {key: meta[key] for key in _KEYS if isinstance(meta.get(key), str)}
        return self._extract(carrier) if carrier else None


def _attributes(ctx: ServerRequestContext[Any], name: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "mcp.method.name": ctx.method,
        "mcp.protocol.version": ctx.protocol_version,
        "jsonrpc.request.id": str(ctx.request_id),
        "network.transport": "tcp" if ctx.transport.kind == "http" else "pipe",
    }
    if ctx.session.session_id is not None:
        found["mcp.session.id"] = ctx.session.session_id
    if name is not None:
        key = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}.get(ctx.method)
        found["mcp.resource.uri" if key is None else key] = name
    return found
