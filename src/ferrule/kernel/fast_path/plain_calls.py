"""The fast path of plain calls over a stream pair: frames in, pieces of answers out, and nothing made in between.

It takes a strict subset of what the general path takes: a ``tools/call`` without unusual members, on a connection in
its ordinary state, of a tool that is called in the ordinary way. It leaves everything else, byte for byte, to the
general path (`ferrule.kernel.duplex`), as if it had not looked. It knows no rule of the protocol: the functions of the
general path judge whether a call is plain, the answer is cut out of one that the general path has made, and a call that
does anything but return a plain value goes on in the general path (`JSONRPCDispatcher.resume`).

Order: frames are taken only while the dispatcher waits for one and nothing that came before waits for its turn. So a
plain call never overtakes anything; what comes behind an unusual message in the same read goes the way of that. Most
calls are answered before the next frame is looked at, and are then in flight no longer: a cancellation or a second
request that names such an id finds nothing.

Bounds: `CALLS_PER_PASS` calls in one pass of the event loop; calls that wait are counted with all other requests in
flight; while the peer does not read its answers, calls are left to the general path, which waits.

On asyncio only, without a task factory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from ferrule.kernel.concurrency.first_step import Begun, FirstSteps, Rest, first_steps
from ferrule.kernel.concurrency.spawner import AsyncioSpawner, Spawner
from ferrule.kernel.dispatch import DispatchContext, ReadStream, ShowsFrames, WritesPieces, WriteStream
from ferrule.kernel.fast_path.plain_tools import PlainCall, PlainTools, WriteResult
from ferrule.kernel.server import Handler, HandlerEntry, Server, ServerRequestContext
from ferrule.wire.codec import decode, plain_encode
from ferrule.wire.nesting import MAX_DEPTH
from ferrule.wire.plain_calls import ABSENT, ANSWER_HEAD, NO_ARGUMENTS, PLAIN_METHOD, decode_plain_call, may_be_too_deep
from ferrule.wire.revisions import Revision

if TYPE_CHECKING:
    from ferrule.kernel.duplex import JSONRPCDispatcher

__all__ = ["CALLS_PER_PASS", "Origins", "PlainCalls", "PlainOrigin"]

CALLS_PER_PASS: Final = 128
"""Calls that are served before the event loop gets its turn."""

_MAX_PIECES_BYTES: Final = 64 * 1024
"""So many bytes of answers are collected before they are handed to the transport."""

_MAX_KNOWN_META: Final = 256
_MAX_META_BYTES: Final = 4096
_LINE_END: Final = b"\n"


class PlainOrigin(Protocol):
    """What is known of the sender of a plain call."""

    @property
    def revision(self) -> Revision: ...


class Origins(Protocol):
    """Judges whether a connection is in its ordinary state, and what plain calls on it stand for."""

    @property
    def server(self) -> Server[Any]: ...

    @property
    def plain_state(self) -> object | None:
        """What `origin` depends on besides ``_meta``; ``None`` while no call can be plain."""
        ...

    def origin(self, meta: bytes | None) -> PlainOrigin | None:
        """Judge the ``_meta`` of a plain call; ``None`` if it makes the call an unusual one.

        Raises:
            DecodeError: it is not JSON.
        """
        ...

    def finish_plain(self, origin: Any, result: Any) -> Any:
        """Return the finished result for a sender."""
        ...

    def plain_request(self, origin: Any, dctx: DispatchContext, params: dict[str, Any]) -> ServerRequestContext[Any]:
        """Return the request as its handler gets it."""
        ...

    def serve_plain(self, entry: HandlerEntry, handler: Handler, request: ServerRequestContext[Any]) -> Awaitable[Any]:
        """Return the finished result of a handler, for the dispatcher; see `ferrule.kernel.runner.handled`."""
        ...


class PlainCalls:
    """The fast path of one connection.

    Args:
        tools: the tools of the server.
        origins: the connection.
        dispatcher: the dispatcher of the connection; the general path.
    """

    def __init__(self, tools: PlainTools, origins: Origins, dispatcher: JSONRPCDispatcher) -> None:
        self._tools = tools
        self._origins = origins
        self._dispatcher = dispatcher
        self._server = origins.server
        self._known: dict[bytes | None, PlainOrigin] = {}
        self._known_for: object | None = None
        self._read: ShowsFrames | None = None
        self._write: WritesPieces | None = None
        self._steps: FirstSteps | None = None
        self._loop: Any = None
        self._transport: Any = None
        self._out: list[bytes] = []
        self._out_bytes = 0

    def open(self, read: ReadStream, write: WriteStream, spawner: Spawner) -> None:
        """Take plain calls from now on, if this event loop and these streams allow it."""
        if not (isinstance(read, ShowsFrames) and isinstance(write, WritesPieces)):
            return
        if not isinstance(spawner, AsyncioSpawner) or spawner.loop.get_task_factory() is not None:
            return
        self._read, self._write, self._loop = read, write, spawner.loop
        self._transport = self._dispatcher.transport
        self._steps = first_steps(spawner.loop, spawner.keep)
        read.show_frames(self.take)

    def close(self) -> None:
        """Take nothing more."""
        if self._out:
            self._flush(at_once=True)
        if self._read is not None:
            self._read.show_frames(None)
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    # -- frames -------------------------------------------------------------------------------------------------------

    def take(self, frames: deque[Any]) -> bool:
        """Serve frames from the left as long as they are plain calls; see `TakeFrames`."""
        origins, dispatcher, server, steps = self._origins, self._dispatcher, self._server, self._steps
        state = origins.plain_state
        entry = server.get_request_handler(PLAIN_METHOD)
        write = self._write
        if state is None or entry is None or entry.handler != self._tools.handler or steps is None or write is None:
            return False
        if not dispatcher.is_idle or write.is_congested or PLAIN_METHOD in server.cache_hints:
            return False
        if state is not self._known_for:
            self._known.clear()
            self._known_for = state
        known, find, first, run = self._known, self._tools.find_plain, self._first_step, steps.run
        handlers, in_flight = server.request_handlers, dispatcher.in_flight_by_id
        served = 0
        try:
            while frames:
                if served == CALLS_PER_PASS:
                    return True
                # The function of the call before may have changed any of these.
                if dispatcher.unstarted or server.middleware or handlers.get(PLAIN_METHOD) is not entry:
                    return False
                frame = frames[0]
                try:
                    envelope = decode_plain_call(frame)
                    params = envelope.params
                    meta = None if params.meta is ABSENT else bytes(params.meta)
                    origin = known.get(meta) or self._learn(meta)
                    tool = find(params.name)
                    if origin is None or tool is None or (len(frame) > MAX_DEPTH and may_be_too_deep(frame)):
                        return False
                    if in_flight and not dispatcher.may_accept(envelope.id):
                        return False
                    arguments = tool.decode(NO_ARGUMENTS if params.arguments is ABSENT else params.arguments)
                    version = origin.revision.version
                    writer = tool.writers.get(version)
                    if writer is None:
                        writer = tool.make_writer(origin.revision, partial(origins.finish_plain, origin))
                        tool.writers[version] = writer
                except Exception:  # not ours
                    return False
                frames.popleft()
                served += 1
                run(first, PlainCall(envelope.id, tool, arguments, frame, origin, self), writer)
                if self._out_bytes > _MAX_PIECES_BYTES:
                    self._flush(at_once=True)
                    if write.is_congested:  # sending has changed it
                        return False  # type: ignore[unreachable]
        finally:
            if served:
                self._tools.fast_calls += served
                self._read.frames_taken(served, 0)  # type: ignore[union-attr]
                if self._out:
                    self._flush(at_once=True)
        return False

    def _learn(self, meta: bytes | None) -> PlainOrigin | None:
        """Judge a ``_meta`` that has not been seen; bounded, because it comes from outside."""
        if meta is not None and len(meta) > _MAX_META_BYTES:
            return None
        origin = self._origins.origin(meta)
        if origin is not None:
            if len(self._known) >= _MAX_KNOWN_META:
                self._known.clear()
            self._known[meta] = origin
        return origin

    def _flush(self, *, at_once: bool) -> None:
        """Hand the answers so far to the transport."""
        pieces, self._out = self._out, []
        self._out_bytes = 0
        self._write.send_pieces(pieces, flush=at_once)  # type: ignore[union-attr]

    # -- one call -----------------------------------------------------------------------------------------------------

    def _first_step(self, call: PlainCall, write: WriteResult) -> Rest | None:
        """Call the function, in the identity of a task; answer if it returns a plain value without waiting."""
        coroutine: Any = None
        try:
            coroutine = call.tool.start(call)
            pending = coroutine.send(None)
        except StopIteration as stop:
            value = stop.value
            if call.request is None and (pieces := write(value)) is not None:
                call.is_over = True
                id = call.id
                out = self._out
                out.append(ANSWER_HEAD)
                out.append(b"%d" % id if type(id) is int else plain_encode(id))
                out += pieces
                out.append(_LINE_END)
                self._out_bytes += len(pieces[1])
                return None
            rest = self._handled(call, Begun.returned(value))
        except BaseException as error:
            rest = self._handled(call, Begun.raised(error))
        else:
            rest = self._awaited(call, Begun(coroutine, pending), write)
        return self._hand_over(call, rest)

    def _hand_over(self, call: PlainCall, rest: Coroutine[Any, Any, Any]) -> Rest | None:
        """Let the dispatcher await the rest of a call as it does every request; in the task of the call."""
        if self._out:
            self._flush(at_once=False)
        self._read.frames_taken(0, 1)  # type: ignore[union-attr]
        call.task = handle = asyncio.current_task(self._loop)
        accepted = self._dispatcher.accept(call.id, self._transport) if call.dispatch is None else call.dispatch
        call.dispatch = accepted
        return self._dispatcher.resume(accepted, handle, rest)  # type: ignore[arg-type]

    async def _awaited(self, call: PlainCall, begun: Begun, write: WriteResult) -> Any:
        """Await a function that waits; its plain value is answered like one that came at once."""
        try:
            value = await begun
        except BaseException as error:
            begun = Begun.raised(error)
        else:
            if call.request is None and (pieces := write(value)) is not None:
                self._answer_late(call, pieces)
                return None
            begun = Begun.returned(value)
        return await self._handled(call, begun)

    def _answer_late(self, call: PlainCall, pieces: tuple[bytes, ...]) -> None:
        """Answer a call that has waited, together with all others of this pass of the loop; not if it was withdrawn."""
        call.is_over = True
        if not self._dispatcher.take_answer(call.dispatch):  # type: ignore[arg-type]
            return
        self._read.frames_taken(0, -1)  # type: ignore[union-attr]
        id = call.id
        shown_id = b"%d" % id if type(id) is int else plain_encode(id)
        if not self._out:
            self._loop.call_soon(self._flush_late)
        self._out += (ANSWER_HEAD, shown_id, *pieces, _LINE_END)

    def _flush_late(self) -> None:
        if self._out:
            self._flush(at_once=True)

    async def _handled(self, call: PlainCall, begun: Begun) -> Any:
        entry = self._server.get_request_handler(PLAIN_METHOD)
        request = call.tool.request_of(call)
        try:
            return await self._origins.serve_plain(entry, call.tool.go_on(call, begun), request)  # type: ignore[arg-type]
        finally:
            call.is_over = True

    def make_request(self, call: PlainCall) -> ServerRequestContext[Any]:
        """See `CallCarrier`."""
        dispatch = call.dispatch
        if dispatch is None:  # in its first step
            if self._out:
                self._flush(at_once=False)  # before whatever is sent about this call
            dispatch = self._dispatcher.accept(call.id, self._transport, is_over=call.is_over)
            call.dispatch = dispatch
        params: dict[str, Any] = decode(call.frame)["params"]
        return self._origins.plain_request(call.origin, dispatch, params)
