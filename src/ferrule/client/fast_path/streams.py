"""The fast path over a stream pair: prepared bytes out, and answers decoded to their type as they come in.

It sends the same bytes as the general path for the same call. It takes the plain results of its own calls from the
incoming frames. The dispatcher handles all other frames, and ends calls of this path that get an error or an unusual
result, or that are open when the channel ends. It opens only on asyncio, over streams that show their frames.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from ferrule.client.fast_path.outcome import FirstOutcome
from ferrule.client.fast_path.prepared import PreparedCall
from ferrule.kernel.concurrency.plain_requests import Deadlines, PlainRequest
from ferrule.kernel.concurrency.spawner import AsyncioSpawner, Spawner
from ferrule.kernel.dispatch import OnProgress, ReadStream, ShowsFrames, WritesPieces, WriteStream
from ferrule.protocol.errors import ConnectionClosed, LocalError, RequestTimeout
from ferrule.wire.json_types import is_mapping
from ferrule.wire.plain_answers import decode_encoded_answer, decode_plain_answer, encoded_result, plain_result
from ferrule.wire.plain_calls import PLAIN_METHOD
from ferrule.wire.types import ToolResult

if TYPE_CHECKING:
    from ferrule.kernel.duplex import JSONRPCDispatcher

__all__ = ["StreamFastPath"]


class StreamFastPath:
    """Sends prepared calls over a stream pair and takes their plain results; the dispatcher takes everything else.

    Args:
        dispatcher: the dispatcher of the channel; the general path.
        why_closed: returns the error for a call that is open when the channel ends.
    """

    def __init__(
        self, dispatcher: JSONRPCDispatcher, why_closed: Callable[[ConnectionClosed], Awaitable[Exception]]
    ) -> None:
        self._dispatcher = dispatcher
        self._why_closed = why_closed
        self._read: ShowsFrames | None = None
        self._write: WritesPieces | None = None
        self._loop: Any = None
        self._deadlines: Any = None
        self._waiting: Mapping[Any, object] = dispatcher.outbound
        self._decode: Callable[[Any], Any] = decode_plain_answer
        self._result: Callable[[Any, Any], Any] = plain_result

    def keep_encoded(self) -> None:
        """Return results as `EncodedResult` from now on, for a program that passes them on."""
        self._decode, self._result = decode_encoded_answer, encoded_result

    def open(self, read: ReadStream, write: WriteStream, spawner: Spawner) -> None:
        """See `ferrule.kernel.dispatch.FastPath`."""
        if isinstance(read, ShowsFrames) and isinstance(write, WritesPieces) and isinstance(spawner, AsyncioSpawner):
            self._loop = spawner.loop
            self._deadlines = Deadlines(spawner.loop, self._waiting)
            self._read, self._write = read, write
            read.show_frames(self.take_answers)

    def close(self) -> None:
        """See `ferrule.kernel.dispatch.FastPath`."""
        self._write = None
        if self._read is not None:
            self._read.show_frames(None)
            self._read = None
            self._deadlines.close()

    @property
    def is_open(self) -> bool:
        """Whether a call can be sent now without waiting."""
        write = self._write
        return write is not None and not write.is_congested and self._dispatcher.can_send_request

    # -- one call -----------------------------------------------------------------------------------------------------

    async def call(
        self,
        prepared: PreparedCall,
        arguments: bytes,
        headers: Any,
        timeout_s: float | None,
        wait_s: float | None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult | FirstOutcome:
        """Send a call, while `is_open`, and return its result, or the outcome that the general path continues from.

        Args:
            prepared: the call.
            arguments: as JSON.
            headers: not used.
            timeout_s: seconds without a response or progress.
            wait_s: seconds from the last progress to the time-out.
            on_progress: called with the progress of the call, whose request has a token then.
        """
        started = time.monotonic()
        dispatcher = self._dispatcher
        is_first = not self._waiting
        request = PlainRequest(self._loop, wait_s, on_progress)
        id = dispatcher.expect(request)
        # A call that is alone is sent at once; further ones are sent together at the end of this pass of the loop.
        self._write.send_pieces([prepared.fill(id, arguments, b"\n")], flush=is_first)  # type: ignore[union-attr]
        if timeout_s is not None:
            request.deadline = due = self._loop.time() + timeout_s
            if due < self._deadlines.due:
                self._deadlines.note(due)
        try:
            result = await request.future
            if on_progress is not None:
                while request.calling is not None:
                    await request.calling.wait()
        except BaseException as error:
            request.on_progress = None
            if dispatcher.forget(id):
                await dispatcher.withdraw(id, error)
            raise
        if result is not None:
            return result  # type: ignore[no-any-return]
        return await self._unusual(id, request, started, timeout_s)

    async def _unusual(self, id: int, request: PlainRequest, started: float, timeout_s: float | None) -> FirstOutcome:
        """Return the outcome of a call that the dispatcher has ended, or whose time is over."""
        error = request.error
        if not request.has_response:
            error = RequestTimeout(PLAIN_METHOD, timeout_s or 0.0)
            if self._dispatcher.forget(id):
                await self._dispatcher.withdraw(id, error)
        elif isinstance(error, ConnectionClosed):
            why = await self._why_closed(error)
            if why is not error:
                why.__cause__ = error
                error = why
        elif error is None and not is_mapping(request.result):
            error = LocalError(f"The peer's response to {PLAIN_METHOD} is malformed: a result is an object")
        return FirstOutcome(started, cast("object", request.result), error)

    # -- frames -------------------------------------------------------------------------------------------------------

    def take_answers(self, frames: deque[Any]) -> bool:
        """Take plain answers to calls of this path from the left; see `TakeFrames`."""
        waiting, forget = self._waiting, self._dispatcher.forget
        decode, result_of = self._decode, self._result
        taken = 0
        while frames and waiting:
            frame = frames[0]
            try:
                answer = decode(frame)
            except Exception:  # not ours
                break
            id = answer.id
            request = waiting.get(id)
            if type(request) is not PlainRequest:
                break
            result = result_of(answer, frame)
            if result is None:
                break
            frames.popleft()
            taken += 1
            forget(id)
            if not request.future.done():
                request.future.set_result(result)
        if taken:
            self._read.frames_taken(taken, 0)  # type: ignore[union-attr]
        return False
