"""Metrics of a server: how long requests, sessions and tasks take and how they end, and what is open.

A server without this middleware pays nothing, whatever is installed.

=================================  ==========================  =====================================================
instrument                         kind                        what
=================================  ==========================  =====================================================
``mcp.server.operation.duration``  histogram, seconds          each request, by ``mcp.method.name``; errors also by
                                                               ``error.type`` and ``rpc.response.status_code``
``mcp.server.session.duration``    histogram, seconds          each legacy session; the modern era has none
``ferrule.server.task.duration``   histogram, seconds          each run of a task's body, by ``gen_ai.tool.name``
``ferrule.server.sessions``        up-down counter, observed   legacy HTTP sessions that this process holds
``ferrule.server.streams``         up-down counter, observed   event streams that are open over HTTP
``ferrule.server.listeners``       up-down counter, observed   listeners to changes: subscriptions, legacy clients
``ferrule.server.tasks``           up-down counter, observed   task bodies that run in this process
=================================  ==========================  =====================================================

The first two are named by OpenTelemetry's semantic conventions for MCP, which have no names for the others. Counts are
of one process; sum them over the workers.

An attribute's value never comes from a client unless the server has a component of that name: a series for each
invented method or tool would fill any metrics store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, runtime_checkable

from ferrule import __version__
from ferrule.app.application import application_of
from ferrule.app.execution.running_task import is_task_body
from ferrule.app.middleware.builtin import outcome_of
from ferrule.integrations.opentelemetry.conventions import (
    BOUNDARIES_S,
    SERVER_OPERATION_DURATION,
    SERVER_SESSION_DURATION,
    TOOL_ERROR,
    component_attributes,
    describes_failure,
    network_attributes,
    target_of,
)
from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import TransportContext
from ferrule.kernel.fast_path.fast_middleware import FastMiddleware, PlainCall
from ferrule.kernel.gauges import gauges_of
from ferrule.kernel.server import CallNext, Server, ServerRequestContext
from ferrule.protocol.errors import error_from_exception
from ferrule.wire.plain_calls import PLAIN_METHOD

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from ferrule.app.server import MCPServer

__all__ = ["Metrics"]

_NAMES: Final = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
_MAX_NAMES: Final = 1000
_GAUGES: Final = {
    "sessions": ("{session}", "Legacy HTTP sessions held by this process."),
    "streams": ("{stream}", "Event streams open over HTTP."),
    "listeners": ("{listener}", "Subscriptions and legacy clients that hear of changes."),
    "tasks": ("{task}", "Task bodies running in this process."),
}


@runtime_checkable
class CountsTasks(Protocol):
    """An extension that runs tasks in this process."""

    @property
    def running_here(self) -> int:
        """The number of tasks that run now."""
        ...


class Metrics(FastMiddleware):
    """Middleware that measures each request, and shows what its server has open; notifications pass.

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
            raise ImportError("Metrics need the OpenTelemetry API: pip install 'ferrule[otel]'") from error
        self._clock = clock
        self._observation = metrics.Observation
        self._servers: dict[Server[Any], None] = {}
        self._answered: set[tuple[str, str]] = set()
        meter = metrics.get_meter("ferrule", __version__, provider)
        self._duration = self._histogram(
            meter, SERVER_OPERATION_DURATION, "How long a request took from its receipt to its answer."
        )
        self._session_duration = self._histogram(
            meter, SERVER_SESSION_DURATION, "How long a session of the handshake era lasted."
        )
        self._task_duration = self._histogram(
            meter, "ferrule.server.task.duration", "How long a run of the body of a task took."
        )
        for name, (unit, description) in _GAUGES.items():
            meter.create_observable_up_down_counter(
                f"ferrule.server.{name}", [self._observed(name)], unit=unit, description=description
            )

    @staticmethod
    def _histogram(meter: Any, name: str, description: str) -> Any:
        return meter.create_histogram(
            name, unit="s", description=description, explicit_bucket_boundaries_advisory=BOUNDARIES_S
        )

    async def __call__(self, ctx: ServerRequestContext[Any], call_next: CallNext, /) -> Any:
        if ctx.request_id is None:
            return await call_next(ctx)
        self._servers[ctx.server] = None
        began = self._clock()
        result = await self.resume_fast(ctx, call_next, began)
        if ctx.method == "initialize":
            self._watch_session(ctx, began)
        return result

    def _watch_session(self, ctx: ServerRequestContext[Any], began: float) -> None:
        """Record the duration of a session when its connection closes."""
        if ctx.transport.kind == "http" and ctx.session.session_id is None:
            return  # served without sessions: the connection ends with this request
        connection = ctx.session.connection
        connection.exit_stack.callback(partial(self._note_session, connection, ctx.transport.kind, began))

    def _note_session(self, connection: Connection, kind: str, began: float) -> None:
        attributes = {"mcp.protocol.version": connection.protocol_version, **network_attributes(kind)}
        self._session_duration.record(self._clock() - began, attributes)

    def enter_fast(self, call: PlainCall) -> float:
        """Return the time of the begin."""
        self._servers[call.server] = None
        return self._clock()

    def leave_fast(self, call: PlainCall, kept: float) -> None:
        """Record a call that has given a plain value: its tool is known."""
        attributes = _attributes(PLAIN_METHOD, call.revision.version, call.transport, call.name)
        self._duration.record(self._clock() - kept, attributes)

    async def resume_fast(self, ctx: ServerRequestContext[Any], call_next: CallNext, kept: float) -> Any:
        """Record a request that began at the time ``kept``."""
        is_known = ctx.server.get_request_handler(ctx.method) is not None
        method = ctx.method if is_known else "_OTHER"
        is_task = is_task_body(ctx)
        attributes = _attributes(method, ctx.protocol_version, ctx.transport, target_of(ctx.method, ctx.params))
        try:
            result = await call_next(ctx)
            outcome = outcome_of(result)
            if outcome == "error":
                attributes["error.type"] = TOOL_ERROR
            self._leave_out_unknown(ctx, attributes, is_answered=outcome != "error")
        except BaseException as error:
            code = int(error_from_exception(error).code) if isinstance(error, Exception) else None
            describes_failure(attributes, code, type(error).__name__, is_server=True)
            self._leave_out_unknown(ctx, attributes, is_answered=False)
            raise
        finally:
            histogram = self._task_duration if is_task else self._duration
            histogram.record(self._clock() - kept, attributes)
        return result

    def _leave_out_unknown(
        self, ctx: ServerRequestContext[Any], attributes: dict[str, Any], *, is_answered: bool
    ) -> None:
        """Names are the client's to invent, also where a limit or a guard refuses before anybody has looked for them.

        A name is one of the server's if it has a component by it, or, in a server without components, if it was
        answered once; a bound stands behind that, for servers that answer to any name.
        """
        key = _NAMES.get(ctx.method, "")
        name = attributes.get(key)
        if name is None:
            return
        app = cast("MCPServer[Any] | None", application_of(ctx.server))
        if app is not None:
            is_known = (app.tools if ctx.method == "tools/call" else app.prompts).index.get(name) is not None
        else:
            is_known = (key, name) in self._answered
            if not is_known and is_answered and len(self._answered) < _MAX_NAMES:
                self._answered.add((key, name))
                is_known = True
        if not is_known:
            del attributes[key]

    def _observed(self, name: str) -> Callable[[Any], Iterable[Any]]:
        def observe(options: Any) -> Iterable[Any]:
            return [self._observation(sum(_count(name, server) for server in list(self._servers)))]

        return observe


def _attributes(method: str, version: str, transport: TransportContext, name: str | None) -> dict[str, Any]:
    return {
        "mcp.method.name": method,
        "mcp.protocol.version": version,
        **network_attributes(transport.kind),
        **component_attributes(method, name if method in _NAMES else None),  # a URI would be a series of its own
    }


def _count(name: str, server: Server[Any]) -> int:
    if name == "listeners":
        return len(server.bus)
    if name == "tasks":
        app = cast("MCPServer[Any] | None", application_of(server))
        extensions: Iterable[Any] = () if app is None else app.extensions.values()
        return sum(extension.running_here for extension in extensions if isinstance(extension, CountsTasks))
    return gauges_of(server).read(name)
