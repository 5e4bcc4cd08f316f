"""Tracing with OpenTelemetry: a span per request, a child of the client's where ``_meta`` carries W3C trace context.

``MCPServer("x", middleware=[Tracing(), Metrics()])``; metrics have a module of their own. The API package comes with
``ferrule[otel]``; the program configures the SDK and its exporter as for any other library. A server without this
middleware pays nothing, whatever is installed.

Sources: SEP-414 (``traceparent``, ``tracestate`` and ``baggage`` are unprefixed keys of ``_meta``); the semantic
conventions for MCP and JSON-RPC. Spans hold names, never arguments, results or the text of exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from ferrule import __version__
from ferrule.app.middleware.builtin import name_of, outcome_of
from ferrule.integrations.opentelemetry_metrics import Metrics
from ferrule.kernel.dispatch import TransportContext
from ferrule.kernel.fast_path.fast_middleware import FastMiddleware, PlainCall
from ferrule.kernel.server import CallNext, ServerRequestContext
from ferrule.protocol.errors import MCPError
from ferrule.wire.plain_calls import PLAIN_METHOD

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["Metrics", "Tracing", "is_available"]

_KEYS: Final = ("traceparent", "tracestate", "baggage")


def is_available() -> bool:
    """Return whether the OpenTelemetry API is installed."""
    from importlib.util import find_spec

    return find_spec("opentelemetry") is not None


class Tracing(FastMiddleware):
    """Middleware that records a span per request; notifications pass.

    Args:
        provider: the tracer provider; ``None`` for the program's global one.

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
        name, session_id, transport = name_of(ctx), ctx.session.session_id, ctx.transport
        attributes = _attributes(ctx.method, name, ctx.protocol_version, ctx.request_id, transport, session_id)
        return await self.resume_fast(ctx, call_next, self._span(ctx.method, name, ctx.meta, attributes))

    def _span(self, method: str, name: str | None, meta: Mapping[str, Any], attributes: dict[str, Any]) -> Any:
        """Return the context manager of a new span, entered, and the span."""
        entered = self._tracer.start_as_current_span(
            method if name is None or method == "resources/read" else f"{method} {name}",
            context=self._parent(meta),
            kind=self._kind,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        )
        return entered, entered.__enter__()

    def enter_fast(self, call: PlainCall) -> Any:
        """Begin the span of a call."""
        name, version = call.name, call.revision.version
        attributes = _attributes(PLAIN_METHOD, name, version, call.id, call.transport, call.session_id)
        return self._span(PLAIN_METHOD, name, call.meta, attributes)

    def leave_fast(self, call: PlainCall, kept: Any) -> None:
        """End the span of a call that has given a plain value."""
        kept[0].__exit__(None, None, None)

    async def resume_fast(self, ctx: ServerRequestContext[Any], call_next: CallNext, kept: Any) -> Any:
        """Record the outcome of a request in its span, and end it."""
        with _Entered(*kept) as span:
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


class _Entered:
    """A context manager that was entered before."""

    def __init__(self, entered: AbstractContextManager[Any], span: Any) -> None:
        self._entered = entered
        self._span = span

    def __enter__(self) -> Any:
        return self._span

    def __exit__(self, *exc: Any) -> bool | None:
        return self._entered.__exit__(*exc)


def _attributes(
    method: str, name: str | None, version: str, id: Any, transport: TransportContext, session_id: str | None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "mcp.method.name": method,
        "mcp.protocol.version": version,
        "jsonrpc.request.id": str(id),
        "network.transport": "tcp" if transport.kind == "http" else "pipe",
    }
    if session_id is not None:
        found["mcp.session.id"] = session_id
    if name is not None:
        key = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}.get(method)
        found["mcp.resource.uri" if key is None else key] = name
    return found
