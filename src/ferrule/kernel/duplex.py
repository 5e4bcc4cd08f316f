"""One duplex stream pair as a dispatcher: ids, concurrent requests, cancellation, progress.

The loop reads one message at a time and never waits for a handler: an answer resolves its question at once, a
request gets a task. Only ``initialize`` and ``server/discover`` are served inline, so that the message behind them
sees their effect, and notifications whose taking runs no foreign code.

What a peer can grow is bounded: requests in flight, and with them tasks. When the input ends, accepted requests may
finish within ``drain_s`` seconds; questions to the peer, open ones and new ones, fail at once, since no answer can
come any more.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from ferrule.kernel.concurrency.cancellation import attended, failure_of
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
    EncodesMessages,
    LimitsDrain,
    OnNotify,
    OnRequest,
    ProgressSender,
    ReadStream,
    StreamMessage,
    TransportContext,
    WritesResults,
    WriteStream,
)
from ferrule.kernel.questions import OutboundRequest
from ferrule.protocol.correlation import IdSequence, cancelled_request_id, own_id
from ferrule.protocol.errors import (
    ClientNotAskable,
    ConnectionClosed,
    InternalError,
    InvalidRequest,
    LocalError,
    MCPError,
    NoBackChannel,
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
)
from ferrule.wire.struct import WireStruct

if TYPE_CHECKING:
    from anyio.abc import TaskStatus


__all__ = ["DEFAULT_DRAIN_S", "DEFAULT_MAX_IN_FLIGHT", "INLINE_METHODS", "JSONRPCDispatcher"]

logger = logging.getLogger(__name__)

INLINE_METHODS: Final = frozenset({"initialize", "server/discover"})
DEFAULT_MAX_IN_FLIGHT: Final = 4096
DEFAULT_DRAIN_S: Final = 5.0

_NO_ANSWER: Final = "The peer sends nothing more, so no answer can come"

_CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


class _Inbound(ProgressSender):
    """The dispatch context of one inbound message."""

    __slots__ = (
        "_dispatcher",
        "awaitable",
        "cancel_requested",
        "handle",
        "has_reported",
        "is_over",
        "lingers",
        "loop",
        "request_id",
        "started",
        "transport",
    )

    def __init__(
        self,
        dispatcher: JSONRPCDispatcher,
        request_id: RequestId | None,
        params: Mapping[str, Any] | None,
        transport: TransportContext,
    ) -> None:
        self._dispatcher = dispatcher
        self._gate = None
        self.interruption = None
        self.foreign_cancels = 0
        self.left_over = 0
        self.request_id = request_id
        self.transport = transport
        self.progress_params = params
        self.loop = dispatcher.loop
        self.cancel_requested = False
        self.started = False
        self.has_reported = False  # progress, while it was being served
        self.is_over = False  # answered, being answered, or withdrawn: nothing more is sent for it
        self.lingers = False  # withdrawn or answered early, and counted as running all the same
        self.handle: SpawnedTask | None = None
        self.awaitable: Awaitable[Any] | None = None

    @property
    def can_send_request(self) -> bool:
        return self.transport.can_send_request

    @property
    def is_being_cancelled(self) -> bool:
        return self.cancel_requested or self._dispatcher.is_ending

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if not self.transport.can_send_request:
            raise NoBackChannel(f"{method} cannot be sent over this transport")
        if self.is_over:
            raise ClientNotAskable(f"{method} cannot be sent: the request has been answered or withdrawn")
        return await self._dispatcher.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        if not self.cancel_requested:
            if method == "notifications/progress":
                self.has_reported = True
            await self._dispatcher.notify(method, params)

    def notify_after_result(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification right after the result of this request; see `NotifiesAfterResult`."""
        self._dispatcher.after_result[cast("RequestId", self.request_id)] = method, params

    async def answer(self, result: Any = None, *, error: Exception | None = None) -> None:
        """Answer now although the handler still runs; what it returns, raises or says later is dropped."""
        await self._dispatcher.wait_until_read(self)
        if error is not None:
            await self._dispatcher.finish_error(self, error)
        else:
            await self._dispatcher.finish(self, result)
        self.cancel_requested = True
        self._dispatcher.linger(self)


class JSONRPCDispatcher:
    """See the module.

    Args:
        read_stream: yields `StreamMessage`, bare messages, or the exception that reading produced.
        write_stream: takes `StreamMessage`; see `WriteStream` for what it is given.
        transport: facts used for messages that bring none.
        raise_exceptions: let what a handler raises end `run` instead of becoming an error (for tests).
        max_in_flight: requests whose handlers run, also those of withdrawn requests; more are refused.
        drain_s: seconds that accepted requests get after the input ended.

    Attributes:
        on_closing: called when the input has ended, before the drain.
        spawns_notification: whether taking a notification needs a task of its own; ``None`` gives one to each.
        accepts_batches: whether arrays of messages are taken now (revision 2025-03-26); ``None`` is never.
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
        self._in_flight: dict[RequestId, _Inbound] = {}
        self._notifying: set[_Inbound] = set()
        self._inline: str | None = None
        self._questions: dict[RequestId, OutboundRequest] = {}
        self._spawner: Spawner | None = None
        self._closed = False
        self._input_ended = False
        self._lingering = 0  # requests that were withdrawn, or answered early, and whose handlers still run
        self.loop: Any = None
        self._failure: BaseException | None = None
        self._reading: anyio.CancelScope | None = None
        self._on_request: OnRequest | None = None
        self._on_notify: OnNotify | None = None
        self.on_closing: Callable[[], None] | None = None
        self.after_result: dict[RequestId, tuple[str, Mapping[str, Any]]] = {}
        self.spawns_notification: Callable[[str], bool] | None = None
        self.accepts_batches: Callable[[], bool] | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more, though the input may go on."""
        return self._closed

    @property
    def in_flight(self) -> int:
        """Requests being served now, and withdrawn ones whose handlers have not ended."""
        return len(self._in_flight) + self._lingering

    @property
    def is_ending(self) -> bool:
        """Whether what still runs here is being cancelled, because the channel ends."""
        return self._spawner is None or self._spawner.is_ending

    # -- serving --------------------------------------------------------------------------------------------------

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        *,
        task_status: TaskStatus[None] = STATUS_IGNORED,
    ) -> None:
        """Serve until the input ends, drain, and fail what still waits for the peer."""
        self._on_request, self._on_notify = on_request, on_notify
        try:
            async with spawner_for_this_loop() as spawner:
                self._spawner = spawner
                self.loop = spawner.loop if isinstance(spawner, AsyncioSpawner) else None
                task_status.started()
                if self._raise:
                    with anyio.CancelScope() as self._reading:
                        await self._read_all()
                else:
                    await self._read_all()
                self._input_ended = True
                self._fail_questions(ConnectionClosed(_NO_ANSWER))
                if self.on_closing is not None:
                    self.on_closing()
                if not self._closed and self._failure is None:
                    await spawner.drain(self._drain_s)
                    if self._in_flight:
                        logger.warning("Abandoned %d requests after %g s", len(self._in_flight), self._drain_s)
                self._closed = True
        finally:
            self._closed = True
            self._spawner = None
            self._fail_questions(ConnectionClosed("The connection is closed"))
            for inbound in (*self._in_flight.values(), *self._notifying):
                _discard(inbound)
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
            if isinstance(item, Exception):
                await self._answer_unreadable(item)
                continue
            if isinstance(item, StreamMessage):
                waiting = self._take(item.message, item.transport or self._transport)
            else:
                waiting = self._take(item, self._transport)
            if waiting is not None:
                await waiting

    async def _answer_unreadable(self, error: Exception) -> None:
        """What the reading produced instead of a message: answered with its code, and the next message works."""
        id: RequestId | None = None
        if isinstance(error, InvalidMessage):
            logger.warning("Refused a message: %s", error)
            id = error.id
        elif isinstance(error, FerruleError):
            logger.warning("Unreadable message: %s", error)
        else:
            logger.error("Reading a message failed", exc_info=error)
        await self._send(JsonRpcResponse(id, error=error_from_exception(error)))

    def _take(self, item: Any, transport: TransportContext) -> Awaitable[None] | None:
        """Take one message; what is left to wait for before the next one, if anything."""
        message: Any = to_builtins(item) if isinstance(item, WireStruct) else item
        try:
            kind = message_kind(message)
        except InvalidMessage as error:
            if isinstance(message, list) and self.accepts_batches is not None and self.accepts_batches():
                return self._take_batch(cast("list[Any]", cast("object", message)), transport)
            if error.wants_answer:
                return self._answer_unreadable(error)
            self._drop(cast("Any", message), error)
            return None
        if kind == "request":
            return self._take_request(message["id"], message["method"], message.get("params"), transport)
        if kind == "response":
            self._take_response(message)
            return None
        return self._take_notification(message["method"], message.get("params"), transport)

    def _drop(self, message: Mapping[str, Any], error: InvalidMessage) -> None:
        """A malformed notification or response gets no answer; whoever waits for the response learns of it."""
        logger.warning("Dropped a malformed message: %s", error)
        question: OutboundRequest | None = None
        if "method" not in message and (own := own_id(message.get("id"))) is not None:
            question = self._questions.pop(own, None)
        if question is not None:
            question.settle(error=LocalError(f"The peer's answer is malformed: {error}"))

    # -- requests -------------------------------------------------------------------------------------------------

    def _take_request(
        self, id: RequestId, method: str, params: dict[str, Any] | None, transport: TransportContext
    ) -> Awaitable[None] | None:
        in_flight = self._in_flight
        if id in in_flight or len(in_flight) + self._lingering >= self._max_in_flight:
            return self._refuse(id)
        inbound = in_flight[id] = _Inbound(self, id, params, transport)
        try:
            inbound.awaitable = self._on_request(inbound, method, params)  # type: ignore[misc]
        except Exception as error:
            return self.finish_error(inbound, error)
        if method in INLINE_METHODS:
            return self._serve_inline(inbound, method)
        inbound.handle = self._spawner.start_own(self._serve(inbound))  # type: ignore[union-attr]
        return None

    async def _refuse(self, id: RequestId) -> None:
        """Two in flight under one id would swap their answers; too many would grow without bound."""
        error = (
            InvalidRequest("A request with this id is still in flight")
            if id in self._in_flight
            else InternalError("Too many requests are in flight")
        )
        await self._send(JsonRpcResponse(id, error=error.to_error()))

    async def _serve_inline(self, inbound: _Inbound, method: str) -> None:
        self._inline = method
        try:
            await self._serve(inbound)
        finally:
            self._inline = None

    async def _serve(self, inbound: _Inbound) -> None:
        """Await one request and send its answer, unless the peer withdrew it."""
        if inbound.is_over:  # withdrawn before it began; trio begins a task all the same
            return
        inbound.started = True
        try:
            result = await attended(cast("Awaitable[Any]", inbound.awaitable), inbound)
            if inbound.has_reported:
                await self.wait_until_read(inbound)
        except Exception as error:
            if inbound.has_reported:
                await self.wait_until_read(inbound)
            await self.finish_error(inbound, error)
        except BaseException as error:
            try:
                failure = failure_of(error, inbound)
            except BaseException:  # a cancellation: the peer's, or the end of everything; it ends this task either way
                self._forget(inbound)
                raise
            try:
                await self.finish_error(inbound, failure)
            finally:
                del failure  # the traceback of its cause holds this frame
        else:
            await self.finish(inbound, result)
        finally:
            inbound.interruption = None
            if inbound.lingers:
                self._lingering -= 1
            if inbound.handle is not None and self._spawner is not None:
                self._spawner.forget(inbound.handle)
            inbound.handle = None  # a task that was cancelled holds its exception, which holds all this

    async def wait_until_read(self, inbound: _Inbound) -> None:
        """Before the answer to a request that reported progress: give the peer time to read the reports."""
        if self._delays is not None and inbound.has_reported and not inbound.is_over:
            await self._delays.wait_until_read()

    async def finish(self, inbound: _Inbound, result: Any) -> None:
        """Answer a request, once; what comes after its answer or its withdrawal is dropped."""
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
            logger.exception("The result of a request cannot be written as JSON")
            await self._send(JsonRpcResponse(id, error=InternalError().to_error()))
        except (*_CLOSED, OSError):
            self._gone()
        finally:
            self._forget(inbound)

    async def finish_error(self, inbound: _Inbound, error: Exception) -> None:
        """As `finish`, with an error."""
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
            id = cast("RequestId", inbound.request_id)
            answer = error_from_exception(error)
            try:
                await self._send(JsonRpcResponse(id, error=answer))
            except EncodeError:
                logger.exception("The data of an error cannot be written as JSON")
                await self._send(JsonRpcResponse(id, error=JsonRpcError(answer.code, answer.message)))
        finally:
            self._forget(inbound)

    def _forget(self, inbound: _Inbound) -> None:
        """Free the id; the peer may have given it to another request since it withdrew this one."""
        id: Any = inbound.request_id
        if self._in_flight.get(id) is inbound:
            del self._in_flight[id]
            if self.after_result:
                self.after_result.pop(id, None)

    def _cancel(self, params: Mapping[str, Any] | None) -> None:
        """Apply a cancellation; one that names nothing in flight is no fault, nor one that crosses its answer."""
        id = cancelled_request_id(params)
        inbound = None if id is None else self._in_flight.get(id)
        if inbound is None or inbound.handle is None or inbound.is_over:
            return
        inbound.cancel_requested = inbound.is_over = True
        self._forget(inbound)
        inbound.handle.cancel()
        if inbound.started:
            self.linger(inbound)
        elif self._spawner is not None:
            self._spawner.forget(inbound.handle)  # on asyncio it will never run, so it cannot say so itself
        _discard(inbound)

    def linger(self, inbound: _Inbound) -> None:
        """Count a request on whose id is free again: what runs is bounded, not what has an id."""
        if not inbound.lingers and inbound.handle is not None:
            inbound.lingers = True
            self._lingering += 1

    # -- notifications --------------------------------------------------------------------------------------------

    async def _take_notification(self, method: str, params: dict[str, Any] | None, transport: TransportContext) -> None:
        if method == "notifications/cancelled":
            self._cancel(params)
        elif method == "notifications/progress" and self._questions and self._take_progress(params):
            return
        inbound = _Inbound(self, None, params, transport)
        spawns = self.spawns_notification is None or self.spawns_notification(method)
        if spawns and len(self._notifying) >= self._max_in_flight:
            logger.warning("Dropped %s: too many notifications are being handled", method)
            return
        try:
            inbound.awaitable = cast("OnNotify", self._on_notify)(inbound, method, params)
        except Exception:
            logger.exception("The handling of %s failed", method)
            return
        if spawns:
            self._notifying.add(inbound)
            cast("Spawner", self._spawner).start(self._notify_one(inbound, method))
        else:
            await self._notify_one(inbound, method)

    async def _notify_one(self, inbound: _Inbound, method: str) -> None:
        inbound.started = True
        try:
            await attended(cast("Awaitable[None]", inbound.awaitable), inbound)
        except BaseException as error:
            logger.error("The handling of %s failed", method, exc_info=failure_of(error, inbound))
        finally:
            inbound.interruption = None
            self._notifying.discard(inbound)

    def _take_progress(self, params: dict[str, Any] | None) -> bool:
        """Progress on a question of ours goes to whoever asked; ``False`` if it belongs to none."""
        token = None if params is None else params.get("progressToken")
        own = token if type(token) is int else own_id(token)
        question = None if own is None else self._questions.get(own)
        if question is None or params is None:
            return False
        waiting = question.take_progress(params)
        if waiting is not None:
            cast("Spawner", self._spawner).start(waiting)
        return True

    # -- batches (revision 2025-03-26) ----------------------------------------------------------------------------

    async def _take_batch(self, messages: list[Any], transport: TransportContext) -> None:
        """Each message as if it had come alone, except that ``initialize`` may not be among them."""
        if not messages or len(messages) > MAX_BATCH:
            await self._answer_unreadable(InvalidMessage(BATCH_TOO_LARGE if messages else "A batch is not empty"))
            return
        for message in messages:
            if isinstance(message, dict) and cast("dict[str, Any]", message).get("method") == "initialize":
                id = readable_id(message)
                await self._answer_unreadable(InvalidMessage("initialize may not be in a batch", id=id))
            elif isinstance(message, list):
                await self._answer_unreadable(InvalidMessage("A batch holds messages, not batches"))
            else:
                waiting = self._take(message, transport)
                if waiting is not None:
                    await waiting

    # -- answers to our questions ---------------------------------------------------------------------------------

    def _take_response(self, message: Mapping[str, Any]) -> None:
        id = message.get("id")
        own = id if type(id) is int else own_id(id)
        question = None if own is None else self._questions.pop(own, None)
        if question is None:
            if id is None:
                logger.warning("The peer could not read a message: %s", message["error"]["message"])
            else:
                logger.debug("Dropped an answer to nothing: id %r", id)
            return
        if "result" in message:
            question.settle(message["result"])
            return
        error = message["error"]
        raised = RemoteError(error["message"], code=error["code"])
        if "data" in error:
            raised.data = error["data"]
        question.settle(error=raised)

    def _fail_questions(self, error: LocalError) -> None:
        questions, self._questions = self._questions, {}
        for question in questions.values():
            question.settle(error=error)

    # -- outbound -------------------------------------------------------------------------------------------------

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Ask the peer and wait; see `Outbound.send_raw_request`.

        Cancelling the caller, or its time-out, tells the peer with ``notifications/cancelled``.
        """
        if self._closed:
            raise ConnectionClosed("The connection is closed")
        if self._input_ended:
            raise ConnectionClosed(_NO_ANSWER)
        if self._inline is not None:
            raise LocalError(f"{method} cannot be sent while {self._inline} is being handled: nobody reads the answer")
        options = opts or {}
        on_progress = options.get("on_progress")
        id = self._ids.next()
        question = OutboundRequest(on_progress)
        self._questions[id] = question
        if on_progress is not None or options.get("reset_on_progress"):
            sent = dict(params or {})
            sent["_meta"] = {**(sent.get("_meta") or {}), "progressToken": id}
            params = sent
        try:
            request = JsonRpcRequest(id, method, None if params is None else dict(params))
            await question.wait(method, options, self._send_question(request, question))
        except BaseException as error:
            question.forget_progress()
            if self._questions.pop(id, None) is not None and method != "initialize":
                await self._withdraw(id, error)
            raise
        if question.error is not None:
            try:
                raise question.error
            finally:
                del question  # the traceback of its error holds this frame
        result = cast("object", question.result)
        if not isinstance(result, dict):
            raise LocalError(f"The peer's answer to {method} is malformed: a result is an object")
        return cast("dict[str, Any]", result)

    async def _send_question(self, request: JsonRpcRequest, question: OutboundRequest) -> None:
        try:
            await self._send(request)
        except LocalError:  # it never left, or was refused: there is nothing to withdraw
            self._questions.pop(request.id, None)
            if not question.is_settled:
                raise

    async def _withdraw(self, id: RequestId, error: BaseException) -> None:
        """Tell the peer that nobody waits any more; bounded, because this runs while being cancelled."""
        if isinstance(error, (ConnectionClosed, EncodeError, GeneratorExit)):
            return  # nothing was sent, or nothing can be
        reason = str(error) if isinstance(error, RequestTimeout) else "The caller no longer waits"
        with anyio.move_on_after(1, shield=True):
            try:
                await self.notify("notifications/cancelled", {"requestId": id, "reason": reason})
            except (FerruleError, *_CLOSED):
                logger.debug("The cancellation of request %r could not be sent", id)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Tell the peer something; dropped without an error once the channel is gone."""
        if self._closed:
            return
        raw = None if params is None else dict(params)
        await self._send(JsonRpcNotification(method, raw))

    async def _send(self, message: JsonRpcMessage) -> None:
        try:
            await self._write.send(StreamMessage(message))
        except (*_CLOSED, OSError):
            self._gone()
            if isinstance(message, JsonRpcRequest):
                raise ConnectionClosed("The connection is closed") from None
        except LocalError as error:
            if isinstance(message, JsonRpcRequest):
                raise
            logger.warning("A message did not reach the peer: %s", error)

    def _gone(self) -> None:
        self._closed = True
        logger.debug("The peer has gone; a message was dropped")

    @property
    def is_running(self) -> bool:
        """Whether `run` is serving."""
        return self._spawner is not None

    def start_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until it or `run` ends; see `RunsTasks`."""
        assert self._spawner is not None, "start_task needs a running dispatcher"
        self._spawner.start(coroutine)


def _discard(inbound: _Inbound) -> None:
    """Close a coroutine that will never be awaited, so that Python does not warn about it."""
    awaitable: Any = inbound.awaitable
    if not inbound.started and isinstance(awaitable, Coroutine):
        awaitable.close()
