"""What the spans of servers and clients have in common: context in ``_meta``, links, and how a span ends.

W3C trace context (``traceparent``, ``tracestate``, ``baggage``) is in ``params._meta`` under its own names (SEP-414).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ferrule import __version__
from ferrule.integrations.opentelemetry.conventions import bounded
from ferrule.protocol.secret_forms import mask_secrets

if TYPE_CHECKING:
    from opentelemetry.trace import SpanKind, TracerProvider

__all__ = ["OpenSpan", "SpanMaker"]


class OpenSpan:
    """A span that is the current one until it is ended."""

    __slots__ = ("_detach", "_error", "_token", "span")

    def __init__(self, span: Any, token: Any, detach: Any, error: Any) -> None:
        self.span = span
        self._token = token
        self._detach = detach
        self._error = error

    def fail(self, attributes: Mapping[str, Any], message: str | None) -> None:
        """Mark the span as failed.

        Args:
            attributes: the attributes of the failure.
            message: the message of the JSON-RPC error, which the peer gets or has sent; it is masked and bounded.
        """
        self.span.set_attributes(attributes)
        self.span.set_status(self._error, None if message is None else bounded(mask_secrets(message)))

    def end(self) -> None:
        """End the span; the one before it is current again."""
        self._detach(self._token)
        self.span.end()


class SpanMaker:
    """Begins spans of one tracer.

    Args:
        provider: the tracer provider; ``None`` for the program's global one.
        what: who needs the API, for the error.

    Raises:
        ImportError: the API is not installed (install ``ferrule[otel]``).
    """

    def __init__(self, provider: TracerProvider | None, what: str) -> None:
        try:
            from opentelemetry import context, propagate, trace
        except ModuleNotFoundError as error:
            raise ImportError(f"{what} needs the OpenTelemetry API: pip install 'ferrule[otel]'") from error
        self._tracer = trace.get_tracer("ferrule", __version__, provider)
        self._context = context
        self._propagate = propagate
        self._trace = trace
        self.server: SpanKind = trace.SpanKind.SERVER
        self.client: SpanKind = trace.SpanKind.CLIENT
        self.internal: SpanKind = trace.SpanKind.INTERNAL

    def begin(self, name: str, kind: SpanKind, attributes: Mapping[str, Any], parent: Any, links: Any) -> OpenSpan:
        """Begin a span and make it the current one.

        Args:
            name, kind, attributes, links: what the span gets.
            parent: the context of the parent, or ``None`` for the current one.
        """
        span = self._tracer.start_span(name, context=parent, kind=kind, attributes=dict(attributes), links=links)
        token = self._context.attach(self._trace.set_span_in_context(span, parent))
        return OpenSpan(span, token, self._context.detach, self._trace.StatusCode.ERROR)

    def received(self, meta: Mapping[str, Any], *, links_ended: bool = False) -> tuple[Any, Sequence[Any]]:
        """Return the parent that ``_meta`` names, and the span around this code as a link where it is another one.

        Args:
            meta: the ``_meta`` of the request.
            links_ended: link a span that has ended, too. Code that runs long keeps the span in which it was started: a
                connection that of its first request, which has nothing to do with a later one.
        """
        fields = self._propagate.get_global_textmap().fields
        carrier = {key: meta[key] for key in fields if isinstance(meta.get(key), str)} if meta else None
        if not carrier:
            return None, ()
        parent = self._propagate.extract(carrier)
        span = self._trace.get_current_span()
        around = span.get_span_context()
        if not (links_ended or span.is_recording()):
            return parent, ()
        if not around.is_valid or around.span_id == self._trace.get_current_span(parent).get_span_context().span_id:
            return parent, ()
        return parent, (self._trace.Link(around),)

    def injected(self) -> dict[str, str]:
        """Return the members of ``_meta`` that name the current span."""
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier)
        return carrier
