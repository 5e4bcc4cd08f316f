"""The fast path of plain calls over a stream pair: it reads frames and writes encoded responses.

It serves a strict subset of the messages of the general path: a ``tools/call`` without unusual members, on a connection
in its ordinary state, of a tool without options that change how it is called. It leaves every other frame unchanged to
the general path (`ferrule.kernel.duplex`). It contains no rule of the protocol: functions of the general path decide
whether a call is plain, the fixed parts of a response are copied from one that the general path made, and a call whose
function does anything but return a plain value continues on the general path (`JSONRPCDispatcher.resume`).

Order: frames are taken only while the dispatcher waits for a message and no earlier message waits to be handled. So a
plain call never overtakes another message, and frames after an unusual one in the same read take the general path. Most
calls are answered before the next frame is examined, and are then no longer in flight: a cancellation of such a call
has no effect, and its id is free.

Bounds: `CALLS_PER_PASS` calls in one iteration of the event loop. Calls that wait count among the requests in flight.
While the peer does not read its responses, calls are left to the general path, which waits.

On asyncio only, without a task factory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from ferrule.kernel.concurrency.first_step import FirstSteps, Rest, StartedCoroutine, first_steps
from ferrule.kernel.concurrency.spawner import AsyncioSpawner, Spawner
from ferrule.kernel.dispatch import (
    DispatchContext,
    ReadStream,
    ShowsFrames,
    TransportContext,
    WritesPieces,
    WriteStream,
)
from ferrule.kernel.fast_path.fast_tools import CallSender, FastCall, FastTools, WriteResult, entry_of_plain_calls
from ferrule.kernel.fast_path.middleware import rest_of
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.wire.codec import decode, plain_encode
from ferrule.wire.nesting import MAX_DEPTH, may_be_too_deep
from ferrule.wire.plain_calls import (
    ABSENT,
    ANSWER_HEAD,
    NO_ARGUMENTS,
    PLAIN_METHOD,
    decode_plain_call,
    without_progress_token,
)

if TYPE_CHECKING:
    from ferrule.kernel.connection import Connection
    from ferrule.kernel.duplex import JSONRPCDispatcher

__all__ = ["CALLS_PER_PASS", "FastConnection", "StreamFastCalls"]

CALLS_PER_PASS: Final = 128
"""Maximum number of calls that are served in one iteration of the event loop."""

_MAX_PIECES_BYTES: Final = 64 * 1024
"""Bytes of responses that are collected before they are passed to the transport."""

_MAX_KNOWN_META: Final = 256
_MAX_META_BYTES: Final = 4096
_LINE_END: Final = b"\n"


class FastConnection(Protocol):
    """The part of a connection that the fast path uses: whether calls on it can be plain, and their sender."""

    @property
    def server(self) -> Server[Any]: ...

    @property
    def plain_state(self) -> object | None:
        """The state of the connection that `sender_of` depends on; ``None`` while no call can be plain.

        As long as it is the same object, results of `sender_of` may be reused.
        """
        ...

    def sender_of(self, meta: bytes | None) -> CallSender | None:
        """Return the sender of a call with this ``_meta``; ``None`` if the call is not plain.

        Args:
            meta: the encoded ``_meta``; ``None`` if the params have none.

        Raises:
            DecodeError: ``meta`` is not JSON.
        """
        ...

    def finish_plain(self, sender: Any, result: Any) -> Any:
        """Return a result in the form of the sender's revision."""
        ...

    def plain_request(self, sender: Any, dctx: DispatchContext, params: dict[str, Any]) -> ServerRequestContext[Any]:
        """Return the request context of a call, as the handler of the general path gets it."""
        ...

    def session_id_of(self, sender: Any) -> str | None:
        """Return the id of the sender's legacy session; ``None`` elsewhere."""
        ...

    def client_of(self, sender: Any) -> Connection:
        """Return the connection of the sender; in the modern era without a channel to it."""
        ...

    def serve_plain(self, work: Awaitable[Any], request: ServerRequestContext[Any]) -> Awaitable[Any]:
        """Return an awaitable of the finished result for the dispatcher.

        Args:
            work: returns the result of the handler.
            request: the request context of the call.
        """
        ...


class StreamFastCalls:
    """The fast path of one connection.

    Args:
        tools: the tools of the server.
        connection: the connection; it decides whether its calls are plain.
        dispatcher: the dispatcher of the connection, which is the general path.
    """

    def __init__(self, tools: FastTools, connection: FastConnection, dispatcher: JSONRPCDispatcher) -> None:
        self._tools = tools
        self._connection = connection
        self._dispatcher = dispatcher
        self._server = connection.server
        self._known: dict[bytes | None, CallSender] = {}
        self._known_for: object | None = None
        self._read: ShowsFrames | None = None
        self._write: WritesPieces | None = None
        self._steps: FirstSteps | None = None
        self._loop: Any = None
        self._transport: Any = None
        self._out: list[bytes] = []
        self._out_bytes = 0

    def open(self, read: ReadStream, write: WriteStream, spawner: Spawner) -> None:
        """Start to serve plain calls; do nothing if this event loop or these streams do not support it."""
        if not (isinstance(read, ShowsFrames) and isinstance(write, WritesPieces)):
            return
        # A task factory may give tasks a class or a context of its own, which a lent task would not have.
        if not isinstance(spawner, AsyncioSpawner) or spawner.loop.get_task_factory() is not None:
            return
        self._read, self._write, self._loop = read, write, spawner.loop
        self._transport = self._dispatcher.transport
        self._steps = first_steps(spawner.loop, spawner.keep)
        read.show_frames(self.serve_frames)

    def close(self) -> None:
        """Write collected responses, and serve no further calls."""
        if self._out:
            self._flush(at_once=True)
        if self._read is not None:
            self._read.show_frames(None)
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    # -- frames -------------------------------------------------------------------------------------------------------

    def serve_frames(self, frames: deque[Any]) -> bool:
        """Serve frames from the left as long as they are plain calls.

        Returns:
            Whether to call it again in the next iteration of the event loop; see `TakeFrames`.
        """
        connection, dispatcher, server, steps = self._connection, self._dispatcher, self._server, self._steps
        state, handlers = connection.plain_state, server.request_handlers
        entry = entry_of_plain_calls(server, handlers, self._tools)
        write = self._write
        if state is None or entry is None or steps is None or write is None:
            return False
        if not dispatcher.is_idle or write.is_congested:
            return False
        # Another era or revision: the same `_meta` may mean another sender now.
        if state is not self._known_for:
            self._known.clear()
            self._known_for = state
        # Local variables: this loop runs for each call, and a look-up of an attribute takes a notable part of it.
        known, find, run, serve, wait = self._known, self._tools.find_fast, steps.run, self._serve, self._wait
        in_flight = dispatcher.in_flight_by_id
        served = 0
        try:
            while frames:
                if served == CALLS_PER_PASS:
                    return True
                # The function of the call before may have changed any of these.
                if dispatcher.unstarted or handlers.get(PLAIN_METHOD) is not entry:
                    return False
                frame = frames[0]
                try:
                    envelope = decode_plain_call(frame)
                    params = envelope.params
                    meta = None if params.meta is ABSENT else bytes(params.meta)
                    sender = known.get(meta) or self._learn(meta)
                    tool = find(params.name)
                    if sender is None or tool is None or (len(frame) > MAX_DEPTH and may_be_too_deep(frame)):
                        return False
                    if in_flight and not dispatcher.may_accept(envelope.id):
                        return False
                    arguments = tool.decode(NO_ARGUMENTS if params.arguments is ABSENT else params.arguments)
                    version = sender.revision.version
                    writer = tool.writers.get(version)
                    if writer is None:
                        writer = tool.make_writer(sender.revision, partial(connection.finish_plain, sender))
                        tool.writers[version] = writer
                    call = FastCall(envelope.id, tool, arguments, frame, sender, self, self._loop)
                    if tool.admits is not None and not tool.admits(call):
                        return False
                except Exception:  # a frame that is not a plain call, or arguments that the general path must judge
                    return False
                frames.popleft()
                served += 1
                run(serve(call, writer), wait, call)
                if self._out_bytes > _MAX_PIECES_BYTES:
                    self._flush(at_once=True)
                    if write.is_congested:  # `_flush` may have filled the buffer
                        return False  # type: ignore[unreachable]
        finally:
            if served:
                self._tools.fast_calls += served
                self._read.frames_taken(served, 0)  # type: ignore[union-attr]
                if self._out:
                    self._flush(at_once=True)
        return False

    def _learn(self, meta: bytes | None) -> CallSender | None:
        """Return the sender for a ``_meta`` that is not known yet, and remember it; ``None`` if the call is not plain.

        The number and the size of remembered values are bounded, because the peer chooses them.
        """
        if meta is not None:
            if len(meta) > _MAX_META_BYTES:
                return None
            # The token differs in each request, and the sender does not depend on it.
            meta = without_progress_token(meta)
            if meta in self._known:
                return self._known[meta]
        sender = self._connection.sender_of(meta)
        if sender is not None:
            # All at once: a client with more than this sends a new value in each request, so that no order helps.
            if len(self._known) >= _MAX_KNOWN_META:
                self._known.clear()
            self._known[meta] = sender
        return sender

    def _flush(self, *, at_once: bool) -> None:
        """Pass the collected responses to the transport; ``at_once``: it must send them now."""
        pieces, self._out = self._out, []
        # Small pieces are copied here, so that the transport need not look at each; a large text is not copied.
        if self._out_bytes <= _MAX_PIECES_BYTES:
            pieces = [b"".join(pieces)]
        self._out_bytes = 0
        self._write.send_pieces(pieces, flush=at_once)  # type: ignore[union-attr]

    # -- one call -----------------------------------------------------------------------------------------------------

    async def _serve(self, call: FastCall, write: WriteResult) -> Any:
        """Call the function; answer a plain value here, and anything else on the general path.

        Returns:
            The finished result for the dispatcher; ``None`` if the call is answered, as it always is in a first step.
        """
        try:
            coroutine = call.tool.start(call)
            if call.passage is None:
                # This context is the call's own, so that nothing has to be reset. The token holds the context, which
                # holds the call: a cycle for each call.
                call.token = None
            value = await coroutine
        except BaseException as error:
            begun = StartedCoroutine.raised(error)
        else:
            if (
                call.request is None
                and (pieces := write(value)) is not None
                and (call.passage is None or call.passage.leave(call))
            ):
                call.is_over = True
                if call.task is None or self._may_answer_late(call):
                    self._out += (ANSWER_HEAD, plain_encode(call.id), *pieces, _LINE_END)
                    self._out_bytes += len(pieces[1])
                return None
            begun = StartedCoroutine.returned(value)
        rest = self._handled(call, begun)
        if call.task is not None:  # the dispatcher awaits this call already
            return await rest
        left = self._hand_over(call, rest)
        return None if left is None else await StartedCoroutine(*left)

    def _wait(self, call: FastCall, work: Coroutine[Any, Any, Any], pending: Any) -> Rest | None:
        """Continue the work of a call that waits; see `FirstSteps.run`."""
        if call.task is not None:  # `_serve` has handed it over
            return work, pending
        return self._hand_over(call, StartedCoroutine(work, pending))

    def _hand_over(self, call: FastCall, rest: Awaitable[Any]) -> Rest | None:
        """Let the dispatcher await ``rest``, as it awaits every request, and return the rest of its work."""
        if self._out:
            self._flush(at_once=False)
        self._read.frames_taken(0, 1)  # type: ignore[union-attr]
        steps = self._steps  # `None` if the connection was closed in this step
        call.task = handle = (None if steps is None else steps.task) or asyncio.current_task(self._loop)
        accepted = self._dispatcher.accept(call.id, self._transport) if call.dispatch is None else call.dispatch
        call.dispatch = accepted
        return self._dispatcher.resume(accepted, handle, rest)  # type: ignore[arg-type]

    def _may_answer_late(self, call: FastCall) -> bool:
        """Return whether a call that has waited is to be answered: whether the peer has not withdrawn it.

        One write sends all responses that are collected in one iteration of the event loop.
        """
        call.task = None
        if not self._dispatcher.take_answer(call.dispatch):  # type: ignore[arg-type]
            return False
        self._read.frames_taken(0, -1)  # type: ignore[union-attr]
        if not self._out:
            self._loop.call_soon(self._flush_late)
        return True

    def _flush_late(self) -> None:
        if self._out:
            self._flush(at_once=True)

    async def _handled(self, call: FastCall, begun: StartedCoroutine) -> Any:
        work = rest_of(call, begun, self._server.request_handlers[PLAIN_METHOD])
        try:
            return await self._connection.serve_plain(work, call.request)  # type: ignore[arg-type]
        finally:
            call.is_over = True
            call.task = call.token = None  # each holds a context that holds the call

    def make_request(self, call: FastCall) -> ServerRequestContext[Any]:
        """See `CallCarrier`."""
        dispatch = call.dispatch
        if dispatch is None:  # the function reads its request in its first step
            if self._out:
                self._flush(at_once=False)  # earlier responses must precede messages of this call
            dispatch = self._dispatcher.accept(call.id, self._transport, is_over=call.is_over)
            call.dispatch = dispatch
        params = self.params_of(call)
        self._dispatcher.set_progress(dispatch, params)
        return self._connection.plain_request(call.sender, dispatch, params)

    @property
    def server(self) -> Server[Any]:
        """See `CallCarrier`."""
        return self._server

    def params_of(self, call: FastCall) -> dict[str, Any]:
        """See `CallCarrier`."""
        return decode(call.frame)["params"]  # type: ignore[no-any-return]

    def transport_of(self, call: FastCall) -> TransportContext:
        """See `CallCarrier`."""
        return self._transport  # type: ignore[no-any-return]

    def session_id_of(self, call: FastCall) -> str | None:
        """See `CallCarrier`."""
        return self._connection.session_id_of(call.sender)

    def client_of(self, call: FastCall) -> Connection:
        """See `CallCarrier`."""
        return self._connection.client_of(call.sender)
