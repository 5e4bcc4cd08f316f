"""The client's half: a span and a duration for each request that a client sends, and how long its sessions last.

Each message that goes out is one operation: the handshake, each round of a call with questions, a second attempt. The
span's context goes out in ``params._meta``, so that the server's span is its child. Notifications have no span.

===================================  ==================  =====================================================
instrument                           kind                what
===================================  ==================  =====================================================
``mcp.client.operation.duration``    histogram, seconds  each request, by ``mcp.method.name``, tool and prompt
``mcp.client.session.duration``      histogram, seconds  from the negotiation to the end of the connection; in the
                                                         modern era, which has no sessions, the same
===================================  ==================  =====================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from ferrule import __version__
from ferrule.app.middleware.builtin import outcome_of
from ferrule.client.connection.connector import Session
from ferrule.client.settings import OutgoingRequest, SendRequest
from ferrule.client.targets import HttpTarget, StdioTarget, Target, UnixTarget
from ferrule.integrations.opentelemetry.conventions import (
    BOUNDARIES_S,
    CLIENT_OPERATION_DURATION,
    CLIENT_SESSION_DURATION,
    TOOL_ERROR,
    bounded,
    component_attributes,
    describes_failure,
    network_attributes,
    server_attributes,
    session_hash,
    span_name,
    target_of,
)
from ferrule.integrations.opentelemetry.payloads import Payloads
from ferrule.integrations.opentelemetry.spans import OpenSpan, SpanMaker
from ferrule.protocol.errors import RemoteError, RequestTimeout
from ferrule.protocol.inbound import PROTOCOL_VERSION_KEY
from ferrule.protocol.secret_forms import SecretTools
from ferrule.wire.codec import to_builtins

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["ClientMetrics", "ClientTracing"]

_NO_META: Final[Mapping[str, Any]] = {}


class ClientTracing:
    """Middleware of a client that records a span for each request, and sends its context along.

    Args:
        provider: the tracer provider; ``None`` for the program's global one.
        payloads: which arguments and results spans get; ``None`` for none.
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
        self._spans = SpanMaker(provider, "ClientTracing")
        self._payloads = payloads
        self._has_uri = uri_in_names
        self._secrets = SecretTools()

    async def __call__(self, request: OutgoingRequest, call_next: SendRequest, /) -> Any:
        """Send a request inside a span."""
        method, name = request.method, target_of(request.method, request.params)
        attributes = _attributes(request, name)
        if self._payloads is not None:
            shown = self._secrets.masked_call(request.params) if method == "tools/call" else request.params
            attributes.update(self._payloads.of_request(method, shown))
        shown = span_name(method, name, has_uri=self._has_uri)
        kept = self._spans.begin(shown, self._spans.client, attributes, None, ())

        def note_id(id: Any) -> None:
            kept.span.set_attribute("jsonrpc.request.id", bounded(str(id)))

        try:
            params = request.params or {}
            meta = {**(params.get("_meta") or _NO_META), **self._spans.injected()}
            sent = {**params, "_meta": meta} if meta else request.params
            # As JSON-RPC, a request has its id only when it goes out.
            result = await call_next(replace(request, params=sent, options={**request.options, "on_id": note_id}))
        except BaseException as error:
            found: dict[str, Any] = {}
            _describe(found, error)
            kept.fail(found, error.message if isinstance(error, RemoteError) else None)
            raise
        else:
            self._note_result(kept, request, result)
            if self._payloads is not None and method == "tools/list":
                self._secrets.learn_from({"result": to_builtins(result)})
            return result
        finally:
            session_id = _session_id(request.channel)
            if session_id is not None:  # after the request, because the answer to ``initialize`` brings it
                kept.span.set_attribute("mcp.session.id", session_hash(session_id))
            kept.end()

    def _note_result(self, kept: OpenSpan, request: OutgoingRequest, result: Any) -> None:
        outcome = outcome_of(result)
        if outcome == "error":
            kept.fail({"error.type": TOOL_ERROR}, None)
        elif outcome != "ok":
            kept.span.set_attribute("mcp.result.type", outcome)
        elif self._payloads is not None:
            kept.span.set_attributes(self._payloads.of_result(request.method, result))
        if request.method == "initialize" and isinstance(result, Mapping):
            version: Any = cast("Mapping[str, Any]", result).get("protocolVersion")
            if isinstance(version, str):
                kept.span.set_attribute("mcp.protocol.version", bounded(version))


class ClientMetrics:
    """Middleware of a client that measures its requests and its sessions.

    Args:
        provider: the meter provider; ``None`` for the program's global one.
        clock: returns monotonic seconds.

    Raises:
        ImportError: the API is not installed (install ``ferrule[otel]``).
    """

    def __init__(
        self, provider: MeterProvider | None = None, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        try:
            from opentelemetry import metrics
        except ModuleNotFoundError as error:
            raise ImportError("ClientMetrics needs the OpenTelemetry API: pip install 'ferrule[otel]'") from error
        self._clock = clock
        self._opened: dict[int, float] = {}
        meter = metrics.get_meter("ferrule", __version__, provider)
        self._duration, self._session_duration = (
            meter.create_histogram(
                name, unit="s", description=description, explicit_bucket_boundaries_advisory=BOUNDARIES_S
            )
            for name, description in (
                (CLIENT_OPERATION_DURATION, "How long a request took from its sending to its answer."),
                (CLIENT_SESSION_DURATION, "How long a client stayed connected with a server."),
            )
        )

    async def __call__(self, request: OutgoingRequest, call_next: SendRequest, /) -> Any:
        """Send a request and record how long it took."""
        name = target_of(request.method, request.params)
        attributes = _attributes(request, name)
        attributes.pop("mcp.resource.uri", None)  # a series for each
        began = self._clock()
        try:
            result = await call_next(request)
            if outcome_of(result) == "error":
                attributes["error.type"] = TOOL_ERROR
            return result
        except BaseException as error:
            _describe(attributes, error)
            raise
        finally:
            self._duration.record(self._clock() - began, attributes)

    def session_opened(self, session: Session) -> None:
        """Note when a session began."""
        self._opened[id(session.channel)] = self._clock()

    def session_closed(self, session: Session, error: str | None) -> None:
        """Record how long a session lasted."""
        began = self._opened.pop(id(session.channel), None)
        if began is None:  # opened before this middleware was added
            return
        attributes: dict[str, Any] = {"mcp.protocol.version": session.version}
        if session.connector is not None:
            attributes.update(_target_attributes(session.connector.target))
        if error is not None:
            attributes["error.type"] = error
        self._session_duration.record(self._clock() - began, attributes)


def _attributes(request: OutgoingRequest, name: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "mcp.method.name": bounded(request.method),
        **_target_attributes(request.target),
        **component_attributes(request.method, name),
    }
    version: Any = request.version
    if version is None and request.params is not None:  # the probe names the revision that it asks for
        version = (request.params.get("_meta") or _NO_META).get(PROTOCOL_VERSION_KEY)
    if isinstance(version, str):
        found["mcp.protocol.version"] = version
    return found


def _target_attributes(target: Target) -> dict[str, Any]:
    if isinstance(target, HttpTarget):
        return {**network_attributes("http"), **server_attributes(target.url)}
    if isinstance(target, UnixTarget):
        return {**network_attributes("unix"), "server.address": target.path}
    return dict(network_attributes("stdio")) if isinstance(target, StdioTarget) else {}


def _session_id(channel: Any) -> str | None:
    from ferrule.transports.http.client import StreamableHttp

    return channel.session_id if isinstance(channel, StreamableHttp) else None


def _describe(attributes: dict[str, Any], error: BaseException) -> None:
    code = int(error.code) if isinstance(error, RemoteError) else None
    kind = "timeout" if isinstance(error, RequestTimeout) else type(error).__name__
    describes_failure(attributes, code, kind, is_server=False)
