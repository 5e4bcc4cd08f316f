"""The dispatcher of a duplex stream pair: request ids, concurrent requests, cancellation, progress.

The loop reads one message at a time and does not wait for handlers: a response settles its outbound request at once, an
inbound request gets a task. Two kinds of messages are handled within the loop: ``initialize`` and ``server/discover``,
so that the next message sees their effect, and notifications that only the kernel handles.

The number of requests in flight, and with it the number of tasks, is bounded. When the input ends, accepted requests
may finish within ``drain_s`` seconds. Outbound requests, open and new ones, then fail at once, since no response can
arrive.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from ferrule.kernel.concurrency.cancellation import failure_of, run_interruptible
from ferrule.kernel.concurrency.spawner import (
    STATUS_IGNORED,
    AsyncioSpawner,
    SpawnedTask,
    Spawner,
    spawner_for_this_loop,
)
from ferrule.kernel.dispatch import (
    CallOptions,
    DelaysUntilRead,
    DescribesTransport,
    DispatchContext,
    EncodesMessages,
    FastPath,
    LimitsDrain,
    OnNotify,
    OnRequest,
    ReadStream,
    StreamMessage,
    TransportContext,
    WritesResults,
    WriteStream,
)
from ferrule.kernel.inbound_request import InboundRequest
from ferrule.kernel.outbound_request import OutboundRequest
from ferrule.protocol.correlation import IdSequence, cancelled_request_id, own_id
from ferrule.protocol.errors import (
    ConnectionClosed,
    InternalError,
    InvalidRequest,
    LocalError,
    MCPError,
    RemoteError,
    RequestTimeout,
    error_from_exception,
)
from ferrule.wire.codec import to_builtins
from ferrule.wire.faults import EncodeError, FerruleError
from ferrule.wire.jsonrpc import (
    BATCH_TOO_LARGE,
    MAX_BATCH,
    InvalidMessage,
    JsonRpcError,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    RequestId,
    message_kind,
    readable_id,
    shown_text,
)
from ferrule.wire.struct import WireStruct

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from ferrule.kernel.concurrency.first_step import Rest
    from ferrule.kernel.concurrency.plain_requests import PlainRequest


__all__ = ["DEFAULT_DRAIN_S", "DEFAULT_MAX_IN_FLIGHT", "INLINE_METHODS", "JSONRPCDispatcher"]

logger = logging.getLogger(__name__)

# Clients may send their next message before the response to these, and it depends on what they set.
INLINE_METHODS: Final = frozenset({"initialize", "server/discover"})
DEFAULT_MAX_IN_FLIGHT: Final = 4096
DEFAULT_DRAIN_S: Final = 5.0

_INPUT_ENDED: Final = "The input has ended, so that no response can arrive"

_CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


class JSONRPCDispatcher:
    """Dispatches the messages of a duplex stream pair; requests run concurrently, up to a bound.

    Args:
        read_stream: yields `StreamMessage`, bare messages, or the exception that reading produced.
        write_stream: receives `StreamMessage`; see `WriteStream` for its optional protocols.
        transport: facts for messages that have none; ``None`` for those of the read stream.
        raise_exceptions: an exception of a handler ends `run` instead of becoming an error response (for tests).
        max_in_flight: maximum number of running handlers, including those of withdrawn requests; further requests are
            refused with -32603.
        drain_s: seconds that accepted requests may take after the input ended; ``None`` for the read stream's limit,
            or 5.

    Attributes:
        loop: the asyncio event loop while `run` serves; ``None`` on another event loop.
        after_result: request id to the notification that is sent right after the result.
        on_closing: called when the input has ended, before the drain.
        spawns_notification: whether a notification with this method is handled in a task of its own; ``None`` for all.
        accepts_batches: whether arrays of messages are accepted now (revision 2025-03-26); ``None`` for never.
        unstarted: number of accepted messages whose handling has not begun.
        plain_calls: serves plain messages before this dispatcher receives them: in a server calls
            (`ferrule.kernel.fast_path.stream_calls`), in a client results (`ferrule.client.fast_path.streams`);
            ``None`` for no fast path.
    """

    def __init__(
        self,
        read_stream: ReadStream,
        write_stream: WriteStream,
        *,
        transport: TransportContext | None = None,
        raise_exceptions: bool = False,
        max_in_flight: int = DEFAULT_MAX_IN_FLIGHT,
        drain_s: float | None = None,
    ) -> None:
        self._read = read_stream
        self._write = write_stream
        self._encodes = isinstance(write_stream, EncodesMessages) and write_stream.encodes
        # In `ferrule.transports`, the write streams of stdio have it.
        self._send_result: Callable[[RequestId, Any], Awaitable[None] | None] | None = (
            write_stream.send_result if isinstance(write_stream, WritesResults) else None
        )
        self._delays = write_stream if isinstance(write_stream, DelaysUntilRead) else None
        if transport is None and isinstance(read_stream, DescribesTransport):
            transport = read_stream.transport
        self._transport = TransportContext() if transport is None else transport
        self._raise = raise_exceptions
        self._max_in_flight = max_in_flight
        if drain_s is None:
            drain_s = read_stream.drain_s if isinstance(read_stream, LimitsDrain) else DEFAULT_DRAIN_S
        self._drain_s = drain_s
        self._ids = IdSequence()
        self._in_flight: dict[RequestId, InboundRequest] = {}
        self._notifying: set[InboundRequest] = set()
        self._inline: str | None = None
        self._outbound: dict[RequestId, OutboundRequest | PlainRequest] = {}
        self._spawner: Spawner | None = None
        # Two flags: the output may close while the input has messages left, and the other way round.
        self._closed = False
        self._input_ended = False
        self._lingering = 0  # running handlers of requests that were withdrawn or answered early
        self.unstarted = 0
        self.loop: Any = None
        self._failure: BaseException | None = None
        self._reading: anyio.CancelScope | None = None
        # Set by `run`: of a server `runner.serve_dual_era_loop`'s, of a client `ferrule.client.connection.channels`'.
        self._on_request: OnRequest | None = None
        self._on_notify: OnNotify | None = None
        # Set by `kernel.runner._drive` for a server, and by `StreamChannel` of `ferrule.client.connection.channels`.
        self.on_closing: Callable[[], None] | None = None
        self.after_result: dict[RequestId, tuple[str, Mapping[str, Any]]] = {}
        self.spawns_notification: Callable[[str], bool] | None = None
        self.accepts_batches: Callable[[], bool] | None = None
        # Set by `kernel.runner.serve_dual_era_loop` (`StreamFastCalls`) and by `StreamChannel` (`StreamFastPath`).
        self.plain_calls: FastPath | None = None

    @property
    def is_closed(self) -> bool:
        """Whether the output is closed; the input may still be open."""
        return self._closed

    @property
    def in_flight(self) -> int:
        """Number of running handlers, including those of withdrawn requests."""
        return len(self._in_flight) + self._lingering

    @property
    def in_flight_by_id(self) -> Mapping[RequestId, object]:
        """The requests in flight that can still be answered."""
        return self._in_flight

    @property
    def transport(self) -> TransportContext:
        """Facts of the transport for messages that have none of their own."""
        return self._transport

    @property
    def is_ending(self) -> bool:
        """Whether the running handlers are being cancelled, because the channel ends."""
        return self._spawner is None or self._spawner.is_ending

    # -- serving --------------------------------------------------------------------------------------------------

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        *,
        task_status: TaskStatus[None] = STATUS_IGNORED,
    ) -> None:
        """Serve until the input ends, drain, and fail the outbound requests without a response.

        Raises:
            Exception: with ``raise_exceptions``, the first exception of a handler.
        """
        self._on_request, self._on_notify = on_request, on_notify
        try:
            async with spawner_for_this_loop() as spawner:
                self._spawner = spawner
                self.loop = spawner.loop if isinstance(spawner, AsyncioSpawner) else None
                if self.plain_calls is not None and not self._raise:
                    self.plain_calls.open(self._read, self._write, spawner)
                task_status.started()
                # The scope lets `finish_error` stop the read, which would wait for a message that a test never sends.
                if self._raise:
                    with anyio.CancelScope() as self._reading:
                        await self._read_all()
                else:
                    await self._read_all()
                # Before the drain, or handlers that wait for a response of the peer would use up the whole `drain_s`.
                self._input_ended = True
                if self.plain_calls is not None:
                    self.plain_calls.close()
                self._fail_outbound(ConnectionClosed(_INPUT_ENDED))
                if self.on_closing is not None:
                    self.on_closing()
                # With the output closed the peer cannot receive the responses, so that there is nothing to wait for.
                if not self._closed and self._failure is None:
                    await spawner.drain(self._drain_s)
                    if self._in_flight:
                        logger.warning("Abandoned %d requests after %g s", len(self._in_flight), self._drain_s)
                self._closed = True
        finally:
            self._closed = True
            self._spawner = None
            if self.plain_calls is not None:
                self.plain_calls.close()
            self._fail_outbound(ConnectionClosed("The connection is closed"))
            # Tasks that were cancelled before they began never awaited their coroutine.
            for inbound in (*self._in_flight.values(), *self._notifying):
                inbound.discard()
            self._in_flight.clear()
            self._notifying.clear()
        if self._failure is not None:
            raise self._failure

    async def _read_all(self) -> None:
        receive = self._read.receive
        while self._failure is None and not self._closed:
            try:
                item = await receive()
            except _CLOSED:
                return
            # Unreadable input arrives as a value: raised, it would end the stream and with it all other requests.
            if isinstance(item, Exception):
                await self._refuse_unreadable(item)
                continue
            if isinstance(item, StreamMessage):
                waiting = self._handle(item.message, item.transport or self._transport)
            else:
                waiting = self._handle(item, self._transport)
            if waiting is not None:
                await waiting

    async def _refuse_unreadable(self, error: Exception) -> None:
        """Send an error response for unreadable input; the loop then continues with the next message."""
        id: RequestId | None = None
        if isinstance(error, InvalidMessage):
            logger.warning("Refused a message: %s", error)
            id = error.id
        elif isinstance(error, FerruleError):
            logger.warning("Unreadable message: %s", error)
        else:
            logger.error("Reading a message failed", exc_info=error)
        await self._send(JsonRpcResponse(id, error=error_from_exception(error)))

    def _handle(self, item: Any, transport: TransportContext) -> Awaitable[None] | None:
        """Handle one message; return an awaitable that must end before the next message is read, if there is one."""
        # Typed messages come from peers in this process, which are not obliged to encode.
        message: Any = to_builtins(item) if isinstance(item, WireStruct) else item
        try:
            kind = message_kind(message)
        except InvalidMessage as error:
            if isinstance(message, list) and self.accepts_batches is not None and self.accepts_batches():
                return self._handle_batch(cast("list[Any]", cast("object", message)), transport)
            # Only for what looks like a request. An error with the id of a response would be taken for the response to
            # the peer's own request.
            if error.wants_answer:
                return self._refuse_unreadable(error)
            self._drop(cast("Any", message), error)
            return None
        if kind == "request":
            return self._handle_request(message["id"], message["method"], message.get("params"), transport)
        if kind == "response":
            self._handle_response(message)
            return None
        return self._handle_notification(message["method"], message.get("params"), transport)

    def _drop(self, message: Mapping[str, Any], error: InvalidMessage) -> None:
        """Drop a malformed notification or response; fail the outbound request that a malformed response names."""
        logger.warning("Dropped a malformed message: %s", error)
        outbound: OutboundRequest | PlainRequest | None = None
        if "method" not in message and (own := own_id(message.get("id"))) is not None:
            # Its caller would wait until the time-out for a response that has come.
            outbound = self._outbound.pop(own, None)
        if outbound is not None:
            outbound.settle(error=LocalError(f"The peer's response is malformed: {error}"))

    # -- requests -------------------------------------------------------------------------------------------------

    def _handle_request(
        self, id: RequestId, method: str, params: dict[str, Any] | None, transport: TransportContext
    ) -> Awaitable[None] | None:
        in_flight = self._in_flight
        # An id must differ from those of unanswered requests (2026-07-28, "Base protocol"). Withdrawn handlers count
        # too: a peer could start any number by sending and withdrawing requests.
        if id in in_flight or len(in_flight) + self._lingering >= self._max_in_flight:
            return self._refuse(id)
        inbound = in_flight[id] = InboundRequest(self, id, params, transport)
        try:
            # Called here, in the order of arrival, and awaited in the task: `on_request` decides the era at its call.
            inbound.awaitable = self._on_request(inbound, method, params)  # type: ignore[misc]
        except Exception as error:
            return self.finish_error(inbound, error)
        self.unstarted += 1
        # Awaited by the reading loop, so that the next message sees its effect.
        if method in INLINE_METHODS:
            return self._serve_inline(inbound, method)
        inbound.handle = self._spawner.start_own(self._serve(inbound))  # type: ignore[union-attr]
        return None

    async def _refuse(self, id: RequestId) -> None:
        """Refuse a request whose id is in use (the responses could be confused), or one above the limit."""
        error = (
            InvalidRequest("A request with this id is still in flight")
            if id in self._in_flight
            else InternalError("Too many requests are in flight")
        )
        await self._send(JsonRpcResponse(id, error=error.to_error()))

    async def _serve_inline(self, inbound: InboundRequest, method: str) -> None:
        self._inline = method
        try:
            await self._serve(inbound)
        finally:
            self._inline = None

    async def _serve(self, inbound: InboundRequest) -> None:
        """Await one request and send its answer, unless the peer withdrew it."""
        if inbound.is_over:  # withdrawn before the task began: trio starts a task that was cancelled before
            return
        self.unstarted -= 1
        inbound.started = True
        try:
            result = await run_interruptible(inbound.awaitable, inbound)  # type: ignore[arg-type]
            # Asked here as well: most requests report no progress, and a call costs more than the question.
            if inbound.has_reported:
                await self.wait_until_read(inbound)
        except Exception as error:
            if inbound.has_reported:
                await self.wait_until_read(inbound)
            await self.finish_error(inbound, error)
        except BaseException as error:
            try:
                failure = failure_of(error, inbound)
            except BaseException:  # a cancellation by the peer or by the shutdown: it must end this task
                self._forget(inbound)
                raise
            try:
                await self.finish_error(inbound, failure)
            finally:
                del failure  # the traceback of its cause holds this frame
        else:
            if not inbound.is_over:
                await self.finish(inbound, result)
        finally:
            inbound.interruption = None
            if inbound.lingers:
                self._lingering -= 1
            if inbound.handle is not None and self._spawner is not None:
                self._spawner.forget(inbound.handle)
            inbound.handle = None  # a task that was cancelled holds its exception, which holds all this

    async def wait_until_read(self, inbound: InboundRequest) -> None:
        """Wait until the peer has read the progress of a request; called before its response (`DelaysUntilRead`)."""
        if self._delays is not None and inbound.has_reported and not inbound.is_over:
            await self._delays.wait_until_read()

    async def finish(self, inbound: InboundRequest, result: Any) -> None:
        """Send the result of a request; do nothing if the request was answered or withdrawn before."""
        if inbound.is_over:
            return
        inbound.is_over = True
        inbound.progress_params = None
        id: Any = inbound.request_id
        try:
            if self._send_result is None:
                await self._send(JsonRpcResponse(id, result=result if self._encodes else to_builtins(result)))
            else:
                waiting = self._send_result(id, result)
                if waiting is not None:
                    await waiting
            if self.after_result and id in self.after_result:
                await self.notify(*self.after_result[id])
        except EncodeError:
            # A result is built by user code: what it cannot encode is an error of this server, not of the peer.
            logger.exception("The result of a request cannot be written as JSON")
            await self._send(JsonRpcResponse(id, error=InternalError().to_error()))
        except (*_CLOSED, OSError):
            self._mark_closed()
        finally:
            self._forget(inbound)

    async def finish_error(self, inbound: InboundRequest, error: Exception) -> None:
        """Send an error response; do nothing if the request was answered or withdrawn before."""
        if inbound.is_over:
            return
        inbound.is_over = True
        inbound.progress_params = None
        try:
            if not isinstance(error, MCPError):
                if self._raise:
                    self._failure = error
                    if self._reading is not None:
                        self._reading.cancel()
                    return
                logger.error("A request failed", exc_info=error)
            id: Any = inbound.request_id
            answer = error_from_exception(error)
            try:
                await self._send(JsonRpcResponse(id, error=answer))
            except EncodeError:
                logger.exception("The data of an error cannot be written as JSON")
                await self._send(JsonRpcResponse(id, error=JsonRpcError(answer.code, answer.message)))
        finally:
            self._forget(inbound)

    def _forget(self, inbound: InboundRequest) -> None:
        """Free the request's id."""
        id: Any = inbound.request_id
        # After a withdrawal the peer may have used the id for another request, which must stay.
        if self._in_flight.get(id) is inbound:
            # Freed when the response is written and not when the task ends: the peer may use the id again at once.
            del self._in_flight[id]
            if self.after_result:
                self.after_result.pop(id, None)

    def _cancel(self, params: Mapping[str, Any] | None) -> None:
        """Cancel the request that a ``notifications/cancelled`` names; ignore an unknown or answered one.

        The response may cross the cancellation on the wire, so that neither is an error ("Cancellation").
        """
        id = cancelled_request_id(params)
        inbound = None if id is None else self._in_flight.get(id)
        # Without a handle it is served within the loop (`initialize` cannot be cancelled, "Cancellation").
        if inbound is None or inbound.handle is None or inbound.is_over:
            return
        inbound.cancel_requested = inbound.is_over = True
        self._forget(inbound)
        inbound.handle.cancel()
        if inbound.started:
            self.linger(inbound)
        else:
            self.unstarted -= 1
            if self._spawner is not None:
                self._spawner.forget(inbound.handle)  # asyncio never runs a task cancelled before its start
        inbound.discard()

    def linger(self, inbound: InboundRequest) -> None:
        """Keep counting a handler whose request id is free again: the limit is on running handlers, not on ids."""
        if not inbound.lingers and inbound.handle is not None:
            inbound.lingers = True
            self._lingering += 1

    # -- plain calls ----------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether a request that arrives now would be handled next: no earlier message waits to be handled."""
        return not self.unstarted and not self._closed and self._inline is None and not self.is_ending

    def may_accept(self, id: RequestId) -> bool:
        """Return whether a request with this id would be accepted (its id is free, and the limit is not reached)."""
        in_flight = self._in_flight
        return id not in in_flight and len(in_flight) + self._lingering < self._max_in_flight

    def accept(self, id: RequestId, transport: TransportContext, *, is_over: bool = False) -> DispatchContext:
        """Register a request that the fast path is serving already, and return its dispatch context.

        The context has no params; see `set_progress` and `resume`.

        Args:
            id: the id of the request.
            transport: facts of the transport that received it.
            is_over: the request has been answered, so that it is not registered as in flight.
        """
        inbound = InboundRequest(self, id, None, transport)
        if is_over:
            inbound.is_over = True
        else:
            self._in_flight[id] = inbound
        return inbound

    def set_progress(self, accepted: DispatchContext, params: Mapping[str, Any]) -> None:
        """Let the handler of a request report progress, if its params have a progress token.

        Args:
            accepted: the context that `accept` returned.
            params: the params of the request.
        """
        inbound: InboundRequest = accepted  # type: ignore[assignment]
        if not inbound.is_over:
            inbound.progress_params = params

    def take_answer(self, accepted: DispatchContext) -> bool:
        """Remove a request of `accept` from those in flight, and return whether the caller must send its response.

        It returns ``False`` if the request was answered or withdrawn before.
        """
        inbound: InboundRequest = accepted  # type: ignore[assignment]
        if inbound.is_over:
            return False
        inbound.is_over = True
        self._forget(inbound)
        return True

    def resume(self, accepted: DispatchContext, handle: SpawnedTask, awaitable: Awaitable[Any]) -> Rest | None:
        """Serve a request of `accept` as any other from now on; run the next step in the current task.

        Args:
            accepted: the context that `accept` returned.
            handle: the current task, which then serves the request.
            awaitable: returns the result of the request.

        Returns:
            The rest of the task's work; ``None`` if the request has been answered.

        Raises:
            KeyboardInterrupt, SystemExit: a signal handler raised it.
        """
        inbound: InboundRequest = accepted  # type: ignore[assignment]
        inbound.awaitable = awaitable
        inbound.handle = handle
        self.unstarted += 1
        serving = self._serve(inbound)
        try:
            return serving, serving.send(None)
        except StopIteration:
            return None
        except (KeyboardInterrupt, SystemExit):  # from a signal handler: it must stop the program
            raise
        except BaseException:  # a cancellation; it ends the task
            return None

    # -- notifications --------------------------------------------------------------------------------------------

    async def _handle_notification(
        self, method: str, params: dict[str, Any] | None, transport: TransportContext
    ) -> None:
        if method == "notifications/cancelled":
            self._cancel(params)
        elif method == "notifications/progress" and self._outbound and self._handle_progress(params):
            return
        inbound = InboundRequest(self, None, params, transport)
        # Handled within the loop where only the kernel reads it, since a task costs more than all of its work.
        spawns = self.spawns_notification is None or self.spawns_notification(method)
        # Notifications have no response that could slow the peer down, so that the surplus is dropped.
        if spawns and len(self._notifying) >= self._max_in_flight:
            logger.warning("Dropped %s: too many notifications are being handled", shown_text(method))
            return
        try:
            inbound.awaitable = self._on_notify(inbound, method, params)  # type: ignore[misc]
        except Exception:
            logger.exception("The handling of %s failed", method)
            return
        if spawns:
            self._notifying.add(inbound)
            self.unstarted += 1
            self._spawner.start(self._notify_one(inbound, method))  # type: ignore[union-attr]
        else:
            self.unstarted += 1
            await self._notify_one(inbound, method)

    async def _notify_one(self, inbound: InboundRequest, method: str) -> None:
        self.unstarted -= 1
        inbound.started = True
        try:
            await run_interruptible(inbound.awaitable, inbound)  # type: ignore[arg-type]
        except BaseException as error:
            logger.error("The handling of %s failed", shown_text(method), exc_info=failure_of(error, inbound))
        finally:
            inbound.interruption = None
            self._notifying.discard(inbound)

    def _handle_progress(self, params: dict[str, Any] | None) -> bool:
        """Pass progress to the outbound request that it belongs to; return ``False`` if there is none."""
        token = None if params is None else params.get("progressToken")
        # The exact type first: a bool is an int for `isinstance`, and other peers echo integers as they are.
        own = token if type(token) is int else own_id(token)
        outbound = None if own is None else self._outbound.get(own)
        if outbound is None or params is None:
            return False
        waiting = outbound.receive_progress(params)
        if waiting is not None:
            # In a task, since the callback may send a request whose response this loop must read.
            self._spawner.start(waiting)  # type: ignore[union-attr]
        return True

    # -- batches (revision 2025-03-26) ----------------------------------------------------------------------------

    async def _handle_batch(self, messages: list[Any], transport: TransportContext) -> None:
        """Handle each message of a batch as a single one; ``initialize`` is refused (2025-03-26, "Lifecycle")."""
        # JSON-RPC 2.0, section 6: an empty array is an invalid request. Each message of a long one would start a task.
        if not messages or len(messages) > MAX_BATCH:
            await self._refuse_unreadable(InvalidMessage(BATCH_TOO_LARGE if messages else "A batch is not empty"))
            return
        for message in messages:
            if isinstance(message, dict) and cast("dict[str, Any]", message).get("method") == "initialize":
                id = readable_id(message)
                await self._refuse_unreadable(InvalidMessage("initialize may not be in a batch", id=id))
            # Checked here, because `_handle` would accept it as a batch of its own, to any depth.
            elif isinstance(message, list):
                await self._refuse_unreadable(InvalidMessage("A batch holds messages, not batches"))
            else:
                waiting = self._handle(message, transport)
                if waiting is not None:
                    await waiting

    # -- responses to outbound requests ---------------------------------------------------------------------------

    def _handle_response(self, message: Mapping[str, Any]) -> None:
        id = message.get("id")
        own = id if type(id) is int else own_id(id)
        outbound = None if own is None else self._outbound.pop(own, None)
        if outbound is None:
            # An error response without an id means that the peer could not read one of our messages (JSON-RPC 2.0,
            # section 5).
            if id is None:
                logger.warning("The peer could not read a message: %s", shown_text(message["error"]["message"]))
            else:
                # Late responses to withdrawn requests are normal, so that this is not a warning ("Cancellation").
                logger.debug("Dropped a response to no open request: id %.200r", id)
            return
        if "result" in message:
            outbound.settle(message["result"])
            return
        error = message["error"]
        raised = RemoteError(error["message"], code=error["code"])
        if "data" in error:
            raised.data = error["data"]
        outbound.settle(error=raised)

    def _fail_outbound(self, error: LocalError) -> None:
        open_requests = list(self._outbound.values())
        self._outbound.clear()
        for outbound in open_requests:
            outbound.settle(error=error)

    # -- outbound -------------------------------------------------------------------------------------------------

    @property
    def outbound(self) -> Mapping[RequestId, OutboundRequest | PlainRequest]:
        """The requests that wait for a response, by their ids."""
        return self._outbound

    @property
    def can_send_request(self) -> bool:
        """Whether a request that is sent now can be answered."""
        return not (self._closed or self._input_ended) and self._inline is None

    def expect(self, request: PlainRequest) -> int:
        """Register an outbound request, and return the id to send it with."""
        id = self._ids.next()
        self._outbound[id] = request
        return id

    def forget(self, id: RequestId) -> bool:
        """Remove an outbound request, because its caller no longer waits; return whether it was registered."""
        return self._outbound.pop(id, None) is not None

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request and return its result; see `Outbound.send_raw_request`.

        If the caller is cancelled, or the request times out, ``notifications/cancelled`` is sent.

        Raises:
            ConnectionClosed: the channel is closed, its input has ended, or it closes before the response.
            RemoteError: the peer sent an error response.
            RequestTimeout: no response came in time.
            LocalError: a request is being handled in the reading loop, which then cannot read the response; or the
                response is malformed.
        """
        if self._closed:
            raise ConnectionClosed("The connection is closed")
        if self._input_ended:
            raise ConnectionClosed(_INPUT_ENDED)
        if self._inline is not None:
            raise LocalError(
                f"{method} cannot be sent while {self._inline} is being handled: the response would not be read"
            )
        options = opts or {}
        on_progress = options.get("on_progress")
        id = self._ids.next()
        if "on_id" in options:
            options["on_id"](id)
        outbound = OutboundRequest(on_progress)
        # Before the request is sent: the response may arrive while `send` still waits.
        self._outbound[id] = outbound
        if on_progress is not None or options.get("reset_on_progress"):
            # Copies: the caller may use its params for several requests, and each has a token of its own.
            sent = dict(params or {})
            sent["_meta"] = {**(sent.get("_meta") or {}), "progressToken": id}
            params = sent
        try:
            request = JsonRpcRequest(id, method, None if params is None else dict(params))
            await outbound.wait(method, options, self._send_outbound(request, outbound))
        except BaseException as error:
            outbound.drop_progress()
            # The client must not cancel `initialize` ("Cancellation").
            if self._outbound.pop(id, None) is not None and method != "initialize":
                await self.withdraw(id, error)
            raise
        if outbound.error is not None:
            try:
                raise outbound.error
            finally:
                del outbound  # the traceback of its error references this frame
        result: Any = outbound.result
        if not isinstance(result, dict):
            raise LocalError(f"The peer's response to {method} is malformed: a result is an object")
        return result  # pyright: ignore[reportUnknownVariableType]

    async def _send_outbound(self, request: JsonRpcRequest, outbound: OutboundRequest) -> None:
        try:
            await self._send(request)
        except LocalError:  # the request was not sent, or was refused: there is nothing to withdraw
            self._outbound.pop(request.id, None)
            if not outbound.is_settled:
                raise

    async def withdraw(self, id: RequestId, error: BaseException) -> None:
        """Send ``notifications/cancelled`` for a request whose caller no longer waits."""
        if isinstance(error, (ConnectionClosed, EncodeError, GeneratorExit)):
            return  # the request was not sent, or nothing can be sent now
        reason = str(error) if isinstance(error, RequestTimeout) else "The caller no longer waits"
        # Shielded, since the caller is being cancelled; bounded, since it waits for this.
        with anyio.move_on_after(1, shield=True):
            try:
                await self.notify("notifications/cancelled", {"requestId": id, "reason": reason})
            except (FerruleError, *_CLOSED):
                logger.debug("The cancellation of request %r could not be sent", id)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification; once the channel is closed it is dropped without an error."""
        if self._closed:
            return
        raw = None if params is None else dict(params)
        await self._send(JsonRpcNotification(method, raw))

    async def _send(self, message: JsonRpcMessage) -> None:
        try:
            await self._write.send(StreamMessage(message))
        except (*_CLOSED, OSError):
            self._mark_closed()
            if isinstance(message, JsonRpcRequest):
                raise ConnectionClosed("The connection is closed") from None
        except LocalError as error:
            if isinstance(message, JsonRpcRequest):
                raise
            logger.warning("A message did not reach the peer: %s", error)

    def _mark_closed(self) -> None:
        self._closed = True
        logger.debug("The peer has closed the channel; a message was dropped")

    @property
    def is_running(self) -> bool:
        """Whether `run` is serving."""
        return self._spawner is not None

    def start_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a task for a coroutine; see `RunsTasks`."""
        assert self._spawner is not None, "start_task needs a running dispatcher"
        self._spawner.start(coroutine)
