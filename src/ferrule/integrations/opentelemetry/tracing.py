"""The spans of a server: one for each request, a child of the client's where ``_meta`` carries W3C trace context.

The span around the server's code, such as that of an HTTP request, becomes a link. The body of a task has a span of its
own in the same trace, with a link to the call that began it. Notifications have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ferrule.app.execution.running_task import current_task_id, is_task_body
from ferrule.app.middleware.access import directory_of, members_of
from ferrule.app.middleware.audit.record import Definitions
from ferrule.app.middleware.builtin import outcome_of
from ferrule.integrations.opentelemetry.conventions import (
    TOOL_ERROR,
    bounded,
    component_attributes,
    describes_failure,
    network_attributes,
    session_hash,
    span_name,
    target_of,
)
from ferrule.integrations.opentelemetry.payloads import Payloads
from ferrule.integrations.opentelemetry.spans import OpenSpan, SpanMaker
from ferrule.kernel.dispatch import TransportContext
from ferrule.kernel.fast_path.fast_middleware import FastMiddleware, PlainCall
from ferrule.kernel.server import CallNext, ServerRequestContext
from ferrule.protocol.errors import error_from_exception
from ferrule.protocol.secret_forms import SecretTools
from ferrule.wire.plain_calls import PLAIN_METHOD

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["Tracing"]


class Tracing(FastMiddleware):
    """Middleware that records a span per request; notifications pass.

    Args:
        provider: the tracer provider; ``None`` for the program's global one.
        payloads: which arguments and results spans get; ``None`` for none. With any, calls of tools take the general
            path.
        uri_in_names: put the URI of a resource into the name of the span, too.

    Raises:
        ImportError: the API is not installed (install ``ferrule[otel]``).
    """

    def __init__(
        self,
        provider: TracerProvider | None = None,
        *,
        payloads: Payloads | None = None,
        uri_in_names: bool = False,
    ) -> None:
        self._spans = SpanMaker(provider, "Tracing")
        self._payloads = payloads
        self._has_uri = uri_in_names
        self._secrets = SecretTools()
        self._definitions = Definitions()

    async def __call__(self, ctx: ServerRequestContext[Any], call_next: CallNext, /) -> Any:
        if ctx.request_id is None:
            return await call_next(ctx)
        name = target_of(ctx.method, ctx.params)
        attributes = _attributes(
            ctx.method, name, ctx.protocol_version, ctx.request_id, ctx.transport, ctx.session.session_id
        )
        if self._payloads is not None:
            attributes.update(self._payloads.of_request(ctx.method, await self._shown_params(ctx)))
        if is_task_body(ctx):
            return await self.resume_fast(ctx, call_next, self._of_task(name, attributes, ctx.meta))
        return await self.resume_fast(ctx, call_next, self._begin(ctx.method, name, ctx.meta, attributes))

    async def _shown_params(self, ctx: ServerRequestContext[Any]) -> Any:
        """Return the params without the secret arguments of the tool; without its definition, as they are."""
        directory = directory_of(ctx.server) if ctx.method == "tools/call" else None
        if directory is None:
            return ctx.params
        for kind, name, _ in members_of(ctx):  # the tool that a search calls, too
            member = await directory.find(ctx, kind, name)
            if member is not None:
                self._secrets.note(name, self._definitions.of(member)[1])
        return self._secrets.masked_call(ctx.params)

    def _begin(self, method: str, name: str | None, meta: Mapping[str, Any], attributes: dict[str, Any]) -> OpenSpan:
        parent, links = self._spans.received(meta)
        shown = span_name(method, name, has_uri=self._has_uri)
        return self._spans.begin(shown, self._spans.server, attributes, parent, links)

    def _of_task(self, name: str | None, attributes: dict[str, Any], meta: Mapping[str, Any]) -> OpenSpan:
        """Begin the span of a task's body: work of this server, and not a request that is being answered."""
        parent, links = self._spans.received(meta, links_ended=True)  # the call may have been answered already
        attributes["ferrule.task.id"] = str(current_task_id())
        del attributes["jsonrpc.request.id"]
        return self._spans.begin(bounded(f"execute_tool {name}"), self._spans.internal, attributes, parent, links)

    def admits_fast(self, call: PlainCall) -> bool:
        """Refuse plain calls, whose arguments are not decoded, if spans get payloads."""
        return self._payloads is None

    def enter_fast(self, call: PlainCall) -> OpenSpan:
        """Begin the span of a call."""
        name, version = call.name, call.revision.version
        attributes = _attributes(PLAIN_METHOD, name, version, call.id, call.transport, call.session_id)
        return self._begin(PLAIN_METHOD, name, call.meta, attributes)

    def leave_fast(self, call: PlainCall, kept: OpenSpan) -> None:
        """End the span of a call that has given a plain value."""
        kept.end()

    async def resume_fast(self, ctx: ServerRequestContext[Any], call_next: CallNext, kept: OpenSpan) -> Any:
        """Record the outcome of a request in its span, and end it."""
        try:
            result = await call_next(ctx)
        except BaseException as error:
            _note_failure(kept, error)
            raise
        else:
            self._note_result(kept, ctx, result)
            return result
        finally:
            kept.end()

    def _note_result(self, kept: OpenSpan, ctx: ServerRequestContext[Any], result: Any) -> None:
        outcome = outcome_of(result)
        if outcome == "error":
            kept.fail({"error.type": TOOL_ERROR}, None)
        elif outcome != "ok":
            kept.span.set_attribute("mcp.result.type", outcome)
        elif self._payloads is not None:
            kept.span.set_attributes(self._payloads.of_result(ctx.method, result))
        if ctx.method == "initialize":  # the handshake has settled it by now
            kept.span.set_attribute("mcp.protocol.version", ctx.session.connection.protocol_version)


def _note_failure(kept: OpenSpan, error: BaseException) -> None:
    found: dict[str, Any] = {}
    if not isinstance(error, Exception):  # a cancellation: no answer is sent
        kept.fail({"error.type": type(error).__name__}, None)
        return
    sent = error_from_exception(error)
    if describes_failure(found, int(sent.code), "", is_server=True):
        kept.fail(found, sent.message)
    else:
        kept.span.set_attributes(found)


def _attributes(
    method: str, name: str | None, version: str, id: Any, transport: TransportContext, session_id: str | None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "mcp.method.name": bounded(method),
        "mcp.protocol.version": version,
        "jsonrpc.request.id": bounded(str(id)),
        **network_attributes(transport.kind),
        **component_attributes(method, name),
    }
    if session_id is not None:
        found["mcp.session.id"] = session_hash(session_id)
    if transport.client is not None:
        found["client.address"], found["client.port"] = transport.client
    return found
