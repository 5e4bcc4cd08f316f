"""The modern era over HTTP (2026-07-28 and later): one POST, one request, no session.

The steps: the checks of the request (`classify_inbound_request`), a connection made from its envelope, the kernel, the
answer. Before the first event the status of an error comes from ``protocol.inbound.ERROR_CODE_HTTP_STATUS``; on a
stream an error is the last event.

After a disconnect nothing more is sent for the request, but the handler's ``finally`` still runs and is awaited.
"""

import logging
from collections.abc import Awaitable, Mapping
from typing import Any, cast

from ferrule.kernel.concurrency.cancellation import run_interruptible
from ferrule.kernel.connection import Connection
from ferrule.kernel.runner import ServerRunner, aclose_shielded
from ferrule.kernel.server import Server
from ferrule.protocol.errors import MCPError, error_from_exception
from ferrule.protocol.inbound import (
    MCP_METHOD_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    PROTOCOL_VERSION_KEY,
    InboundLadderRejection,
    InboundModernRoute,
    MirroredHeaders,
    classify_inbound_request,
    http_status,
)
from ferrule.transports.asgi.context import http_form_of
from ferrule.transports.asgi.modern.exchange import ModernExchange
from ferrule.transports.asgi.replies import KeepAlive, send_body
from ferrule.transports.asgi.request import IncomingRequest
from ferrule.transports.asgi.runtime import Runtime, TrioRuntime
from ferrule.wire.headers import check_params
from ferrule.wire.jsonrpc import JsonRpcErrorCode, RequestId, encode_error, encode_response
from ferrule.wire.sse import encode_event

__all__ = ["ModernEndpoint"]

log = logging.getLogger("ferrule.http")


class ModernEndpoint:
    """Serves the modern POSTs of one endpoint.

    Attributes:
        keep_alive: writes comments on open streams.
        grace_s: seconds that a handler may run before the client's disconnect is watched.
        is_ending: whether a shutdown has begun: a new subscription then ends immediately.
        waiting: exchanges whose handler waits, so that a shutdown can end the streams among them.
    """

    def __init__(self, server: Server[Any], keep_alive: KeepAlive, grace_s: float) -> None:
        self._server = server
        self._mirrored = server.attachments.made(MirroredHeaders)
        self.keep_alive = keep_alive
        self.grace_s = grace_s
        self.waiting: dict[ModernExchange, None] = {}
        self.is_ending = False

    # --- requests ---------------------------------------------------------------------------------------------------

    def serve_request(
        self, request: IncomingRequest, body: dict[str, Any], runtime: Runtime, lifespan_state: Any
    ) -> Awaitable[None]:
        """Check one request (id, method and params have the right types already); the awaited result serves it."""
        server = self._server
        id, method = body["id"], body["method"]
        route = classify_inbound_request(
            body,
            headers=request.headers,
            supported_modern_versions=server.modern_versions,
            name_params=self._mirrored.names,
        )
        # 400 unless the table says otherwise: the request was not served.
        if isinstance(route, InboundLadderRejection):
            return request.refuse(http_status(route.code, 400), route.code, route.message, id=id, data=route.data)
        params = body["params"]
        # Most servers have no tool with such headers.
        if self._mirrored.params and method == "tools/call":
            problem = self._param_problem(request, params)
            if problem is not None:
                return request.refuse(400, JsonRpcErrorCode.HEADER_MISMATCH, problem, id=id)
        exchange, connection = self.open_exchange(request, id, params, route, runtime)
        work = ServerRunner(server, connection, lifespan_state).handle_request(exchange, method, params)
        if type(runtime) is not TrioRuntime:
            return self.serve_exchange(exchange, connection, request, work, method)
        return self._serve_in_scope(exchange, connection, request, work, method)

    def open_exchange(
        self,
        request: IncomingRequest,
        id: RequestId,
        params: Mapping[str, Any],
        route: InboundModernRoute,
        runtime: Runtime,
    ) -> tuple[ModernExchange, Connection]:
        """Return the exchange of a request that passed the checks, and its connection."""
        exchange = ModernExchange(request, request.context(), id, params, runtime, self)
        connection = exchange.connection = Connection.from_envelope(
            route.protocol_version, route.client_info, route.client_capabilities, outbound=exchange
        )
        return exchange, connection

    async def serve_exchange(
        self,
        exchange: ModernExchange,
        connection: Connection,
        request: IncomingRequest,
        work: Awaitable[Any],
        method: str,
    ) -> None:
        """Await the finished result of a request and send the response, on asyncio.

        Args:
            exchange, connection: the results of `open_exchange` for the request.
            request: the POST.
            work: returns the finished result.
            method: the method of the request, for the log.
        """
        status = 200
        try:
            result = await run_interruptible(work, exchange)
            payload = encode_response(exchange.request_id, result)  # type: ignore[arg-type]
        except Exception as exc:
            error = error_from_exception(exc)
            if not isinstance(exc, MCPError):
                log.error("%s failed", method, exc_info=exc)
            payload = encode_error(exchange.request_id, error)
            status = http_status(error.code)
            form = http_form_of(exc)
            if form is not None:
                status, extra = form
                request.reply_headers = [*(request.reply_headers or ()), *extra]
        except BaseException as exc:
            if not _is_our_cancel(exchange, exc):
                raise
            payload = b""
        finally:
            # `answer` was called while the handler ran.
            was_answered = exchange.finished
            exchange.finish()
            if self.waiting:
                self.waiting.pop(exchange, None)
            if connection.opened_exit_stack is not None:
                await aclose_shielded(connection)
        if was_answered:
            return
        if exchange.cancel_requested:
            _settle_cancel(exchange)
        elif exchange.stream is not None:
            # The response is the last event of the stream ("Streamable HTTP").
            await exchange.stream.close(encode_event(payload))
        else:
            await send_body(request.send, status, payload, request.reply_headers)

    async def _serve_in_scope(
        self,
        exchange: ModernExchange,
        connection: Connection,
        request: IncomingRequest,
        work: Awaitable[Any],
        method: str,
    ) -> None:
        """Serve a request on trio, where a cancellation needs a cancel scope."""
        from anyio import CancelScope

        with CancelScope() as scope:
            exchange.scope = scope
            await self.serve_exchange(exchange, connection, request, work, method)

    def _param_problem(self, request: IncomingRequest, params: Mapping[str, Any]) -> str | None:
        plan = self._mirrored.params.get(params.get("name", ""))
        if not plan:
            return None
        arguments: Any = params.get("arguments")
        found = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else None
        # A value that differs between header and body must be refused: proxies may have routed by the header.
        return check_params(plan, request.headers, found)

    # --- notifications ----------------------------------------------------------------------------------------------

    async def serve_notification(
        self, request: IncomingRequest, body: dict[str, Any], runtime: Runtime, lifespan_state: Any
    ) -> None:
        """Handle one notification and respond with 202.

        The specification defines no client notification for HTTP, but middleware and handlers may use their own. A
        header that is present must agree with the body; it may be absent.
        """
        method = body["method"]
        params: Mapping[str, Any] = body.get("params") or {}
        meta: Any = params.get("_meta")
        version: Any = cast("Mapping[str, Any]", meta).get(PROTOCOL_VERSION_KEY) if isinstance(meta, Mapping) else None
        stated = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if version is not None and stated is not None and version != stated:
            message = "The MCP-Protocol-Version header differs from the version in params._meta"
            await request.refuse(400, JsonRpcErrorCode.HEADER_MISMATCH, message)
            return
        if request.headers.get(MCP_METHOD_HEADER, method) != method:
            message = "The Mcp-Method header differs from the method in the body"
            await request.refuse(400, JsonRpcErrorCode.HEADER_MISMATCH, message)
            return
        version = stated if version is None else version
        if version not in self._server.modern_versions:
            data = {"supported": list(self._server.modern_versions), "requested": version}
            message = "Unsupported protocol version"
            await request.refuse(400, JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION, message, data=data)
            return
        exchange = ModernExchange(request, request.context(), None, params, runtime, self)
        exchange.finish()  # the response to a notification has no body
        connection = Connection.from_envelope(version, None, {}, outbound=None)
        await run_interruptible(
            ServerRunner(self._server, connection, lifespan_state).on_notify(exchange, method, params), exchange
        )
        exchange.interruption = None
        await aclose_shielded(connection)
        # "Streamable HTTP": a notification that was accepted gets 202 without a body.
        await request.reply_empty(202)

    # --- shutdown ---------------------------------------------------------------------------------------------------

    def end_streams(self) -> None:
        """End subscriptions with their result during a shutdown; other requests may finish."""
        self.is_ending = True
        for exchange in list(self.waiting):
            if exchange.connection is not None:
                exchange.connection.closing()


def _is_our_cancel(exchange: ModernExchange, exc: BaseException) -> bool:
    """Return whether this is the cancellation after a disconnect, and not one of the ASGI server."""
    from asyncio import CancelledError

    task = exchange.task
    return exchange.cancel_requested and task is not None and isinstance(exc, CancelledError) and task.cancelling() <= 1


def _settle_cancel(exchange: ModernExchange) -> None:
    """Take back the cancellation of the task, also if the handler absorbed it."""
    # The task belongs to the ASGI server, which may use it for the next request of the connection.
    if exchange.task is not None and exchange.task.cancelling():
        exchange.task.uncancel()
