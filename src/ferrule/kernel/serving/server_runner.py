"""Serves one message on one connection: makes its context, and sends it through the middleware to its handler.

A transport calls `ServerRunner.handle_request` and encodes the result. This module compares no version: the era follows
from the connection, other differences from the tables of its revision. What only the handshake era needs is imported at
the first handshake; without that era the tables have neither ``initialize`` nor ``notifications/initialized``.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Mapping
from typing import Any, Generic, cast

from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import DispatchContext, Dispatcher, OnNotify
from ferrule.kernel.server import (
    CallNext,
    HandlerResult,
    InitializationOptions,
    LifespanT,
    Server,
    ServerRequestContext,
)
from ferrule.kernel.serving.request_steps import (
    drop_early,
    refuse_early,
    serve_notification,
    serve_request,
    typed_params,
)
from ferrule.kernel.session import ServerSession
from ferrule.wire.codec import to_builtins
from ferrule.wire.jsonrpc import shown_text
from ferrule.wire.revisions import read_params

__all__ = ["ServerRunner", "with_forwarding"]

logger = logging.getLogger(__name__)

_NO_META: Mapping[str, Any] = {}
_DICT = frozenset({dict})


class ServerRunner(Generic[LifespanT]):
    """Serves the requests and notifications of one connection.

    Args:
        server: its handlers, middleware and options.
        connection: the connection to the peer.
        lifespan_state: the value that the server's lifespan yielded.
        init_options: announced identity and capabilities; ``None`` for those that the server derives.
    """

    __slots__ = ("connection", "lifespan_state", "server")

    def __init__(
        self,
        server: Server[LifespanT],
        connection: Connection,
        lifespan_state: LifespanT,
        *,
        init_options: InitializationOptions | None = None,
    ) -> None:
        self.server = server
        self.connection = connection
        self.lifespan_state = lifespan_state
        # Only if given: a dual-era loop shares the options of its standing connection.
        if init_options is not None:
            connection.init_options = init_options

    async def on_request(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
        """Serve one request and return the finished result as a dict under wire names.

        Raises:
            Exception: any exception of middleware or handler; `error_from_exception` makes the error response of it.
        """
        result = await self.handle_request(dctx, method, params)
        return cast("dict[str, Any]", to_builtins(result))

    async def handle_early(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> HandlerResult:
        """Refuse a request that arrived before the handshake, after it has passed the middleware."""
        # Through the middleware too, so that its logs and metrics count refused requests.
        result = await self.server.chain(refuse_early)(self._context(dctx, method, params))
        return {} if result is None else result

    async def handle_request(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> HandlerResult:
        """Serve one request and return the finished result, for transports that encode it; see `on_request`."""
        ctx = self._context(dctx, method, params)
        # In a revision without sessions `initialize` is an unknown method, which the chain refuses as any other.
        if method == "initialize" and self.connection.revision.has_sessions:
            from ferrule.kernel.legacy.handshake import serve_initialize

            return await serve_initialize(self.connection, ctx)
        try:
            result = await self.server.chain(serve_request)(ctx)
        except Exception:
            raise
        except BaseException as error:  # a middleware may raise a `BaseException` too
            raise ctx.session.failure_of(error)  # noqa: B904 - it has its cause
        return {} if result is None else result

    def on_notify(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> Coroutine[Any, Any, None]:
        """Return a coroutine that handles one notification.

        Whether it came before the handshake is decided at the call, in the order of arrival. The coroutine never
        raises: errors are logged. Return values of middleware are discarded.
        """
        connection = self.connection
        # Set at arrival and not in the coroutine: a handler that waits for it must not depend on the order of the
        # tasks.
        if method == "notifications/initialized" and connection.initialize_accepted:
            connection.initialized.set()
        # A cancellation is due at any time: it may withdraw a request that was sent before the handshake ended.
        is_due = connection.is_ready or method == "notifications/cancelled"
        innermost = serve_notification if is_due else drop_early
        return self._notify(innermost, self._context(dctx, method, params))

    async def _notify(self, innermost: CallNext, ctx: ServerRequestContext[LifespanT]) -> None:
        try:
            await self.server.chain(innermost)(ctx)
        except BaseException as error:
            logger.error("The handling of %s failed", shown_text(ctx.method), exc_info=ctx.session.failure_of(error))

    def _context(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None
    ) -> ServerRequestContext[LifespanT]:
        if params is None:
            params = {}
        elif self.connection.revision.has_own_forms:
            params = cast("Mapping[str, Any]", read_params(self.connection.revision, method, params))
        meta: Any = params.get("_meta")
        if type(meta) not in _DICT and not issubclass(type(meta), Mapping):  # exact type first: no call into ABCMeta
            meta = _NO_META
        connection = self.connection
        return ServerRequestContext(
            ServerSession(connection, dctx, meta),
            self.lifespan_state,
            method,
            params,
            dctx.request_id,
            meta,
            connection.protocol_version,
            dctx.transport,
            self.server,
        )

    def typed_context(
        self, dctx: DispatchContext, method: str, params: Mapping[str, Any]
    ) -> ServerRequestContext[LifespanT]:
        """Return a request as its handler gets it, with typed params.

        Raises:
            MethodNotFound, InvalidParams: as `handle_request`.
        """
        ctx = self._context(dctx, method, params)
        ctx.params = typed_params(self.connection.revision, self.server.get_request_handler(method), ctx)
        return ctx


def with_forwarding(dispatcher: Dispatcher, runner: ServerRunner[Any]) -> OnNotify:
    """Return an `on_notify` that also starts to forward changes when a legacy client is initialized."""

    def on_notify(dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Coroutine[Any, Any, None]:
        # First, since it sets `initialized`, on which the forwarding depends.
        taking = runner.on_notify(dctx, method, params)
        if (
            method == "notifications/initialized"
            and runner.connection.is_ready
            and runner.connection.revision.has_sessions
        ):
            from ferrule.kernel.legacy.change_forwarder import start_forwarding

            start_forwarding(dispatcher, runner.connection, runner.server)
        return taking

    return on_notify
