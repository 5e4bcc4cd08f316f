"""Four carriers of a conversation to a server, all without a socket, a process or a sleep.

==========  ==========================================================================================================
``direct``  a `DirectDispatcher` pair: calls in one process, no bytes; knows one era and neither cancels nor judges
``memory``  a memory stream pair under `serve_dual_era_loop`
``bytes``   the framing of stdio under `serve_dual_era_loop`; by default a chunk per byte, so that every message is
            split at every position
``asgi``    the HTTP endpoint as a plain ASGI callable, legacy revisions with a session and a GET stream
==========  ==========================================================================================================

A carrier sends and returns decoded messages; the runner decides their content.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, cast

import anyio
from anyio.abc import TaskGroup

from ferrule.kernel.dispatch import DispatchContext, StreamMessage, TakeFrames
from ferrule.protocol.errors import MCPError
from ferrule.wire.codec import decode, encode, to_builtins
from ferrule.wire.ndjson import Frame, LineFramer
from ferrule.wire.revisions import Revision

if TYPE_CHECKING:
    from ferrule.kernel.server import Server
    from ferrule.transports.memory import MemoryEnd
    from ferrule.transports.stdio.pipes import Inbox, Outbox

__all__ = ["Carrier", "each_byte", "open_carrier"]

_MAX_BYTES = 64 << 20


class Carrier(Protocol):
    """A client's connection to a server."""

    async def send(self, message: Any, headers: Mapping[str, str | None]) -> None:
        """Send one message; over HTTP with these headers set, or left out if they are ``None``."""
        ...

    async def send_raw(self, data: bytes, headers: Mapping[str, str | None]) -> None:
        """Send bytes that need not be a message.

        Raises:
            NotImplementedError: this carrier has no bytes.
        """
        ...

    async def receive(self) -> Any:
        """Return the next message of the server; waits for it.

        Raises:
            anyio.EndOfStream: no message can follow.
        """
        ...

    async def status(self) -> int | None:
        """The HTTP status of the response to the last message; ``None`` without HTTP."""
        ...

    async def close(self) -> None:
        """End the client's side; the server may still answer."""
        ...


def each_byte(data: bytes) -> Iterable[bytes]:
    """Chunks of one byte: a split at every position."""
    return (data[at : at + 1] for at in range(len(data)))


def open_carrier(
    name: str, server: Server[Any], revision: Revision, *, chunks: Callable[[bytes], Iterable[bytes]] = each_byte
) -> AbstractAsyncContextManager[Carrier]:
    """Start serving ``server`` on a carrier; leaving the context ends it.

    Args:
        name: one of the four.
        server: the server, whose lifespan is entered and left.
        revision: the version of the client, which determines the era of `direct` and the headers of `asgi`.
        chunks: how `bytes` splits the client's messages.
    """
    if name == "direct":
        return _open_direct(server, revision)
    if name == "memory":
        return _open_memory(server)
    if name == "bytes":
        return _open_bytes(server, chunks)
    if name == "asgi":
        from ferrule.testing.asgi_carrier import open_asgi

        return open_asgi(server, revision)
    raise ValueError(f"There is no carrier {name!r}")


class Mailbox:
    """The queue of messages to the client; closing it ends each wait."""

    def __init__(self) -> None:
        self._messages: deque[Any] = deque()
        self._event = anyio.Event()
        self._is_closed = False

    def put(self, message: Any) -> None:
        """Add one message."""
        self._messages.append(message)
        self._wake()

    def close(self) -> None:
        """Close the queue: no message can follow."""
        self._is_closed = True
        self._wake()

    async def get(self) -> Any:
        """Return the next message.

        Raises:
            anyio.EndOfStream: the queue is empty and closed.
        """
        while not self._messages:
            if self._is_closed:
                raise anyio.EndOfStream
            await self._event.wait()
        return self._messages.popleft()

    def _wake(self) -> None:
        self._event.set()
        self._event = anyio.Event()


# --- direct -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _open_direct(server: Server[Any], revision: Revision) -> AsyncGenerator[Carrier]:
    from ferrule.kernel.connection import Connection
    from ferrule.kernel.direct import DirectDispatcher
    from ferrule.kernel.runner import ServerRunner, aclose_shielded, modern_on_request

    client, ours = DirectDispatcher.pair()
    async with server.lifespan() as state, anyio.create_task_group() as tasks:
        connection = Connection.for_loop(ours)
        if revision.has_sessions:
            runner = ServerRunner(server, connection, state)
            ours.serve(runner.on_request, runner.on_notify)
        else:
            ours.serve(modern_on_request(server, state), _ignore)
        carrier = _DirectCarrier(client, tasks)
        client.serve(carrier.on_request, carrier.on_notify)
        yield carrier
        client.close()
        connection.closing()
        await aclose_shielded(connection)
        tasks.cancel_scope.cancel()


async def _ignore(_: DispatchContext, __: str, ___: Mapping[str, Any] | None) -> None:
    """Ignore a notification: those of modern clients have no effect on an in-process pair."""


class _DirectCarrier:
    def __init__(self, client: Any, tasks: TaskGroup) -> None:
        self._client = client
        self._tasks = tasks
        self._mailbox = Mailbox()
        self._in_flight = 0
        self._is_closing = False
        self._asked = 0
        self._questions: dict[Any, Mailbox] = {}

    async def send(self, message: Any, headers: Mapping[str, str | None]) -> None:
        if "method" not in message:
            self._questions.pop(message["id"]).put(message)
        elif "id" in message:
            self._in_flight += 1
            self._tasks.start_soon(self._call, message)
            # A request that is served without waiting is answered before the next message goes out, as over a wire.
            await anyio.lowlevel.checkpoint()
        else:
            await self._client.notify(message["method"], message.get("params"))

    async def send_raw(self, data: bytes, headers: Mapping[str, str | None]) -> None:
        raise NotImplementedError("direct has no bytes")

    async def receive(self) -> Any:
        return await self._mailbox.get()

    async def status(self) -> int | None:
        return None

    async def close(self) -> None:
        self._is_closing = True
        self._end_when_idle()

    async def _call(self, message: Mapping[str, Any]) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            answer["result"] = await self._client.send_raw_request(message["method"], message.get("params"))
        except MCPError as error:
            answer["error"] = to_builtins(error.to_error())
        self._mailbox.put(_over_a_wire(answer))
        self._in_flight -= 1
        self._end_when_idle()

    def _end_when_idle(self) -> None:
        if self._is_closing and not self._in_flight:
            self._mailbox.close()

    async def on_request(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
        """Return the answer of the script to a request of the server."""
        self._asked += 1
        asked = f"question-{self._asked}"
        self._questions[asked] = waiting = Mailbox()
        self._queue_message({"id": asked, "method": method}, params)
        answer = await waiting.get()
        if "error" in answer:
            error = answer["error"]
            raise MCPError(error["message"], code=error["code"])
        return answer["result"]

    async def on_notify(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> None:
        """Queue a notification of the server."""
        self._queue_message({"method": method}, params)

    def _queue_message(self, message: dict[str, Any], params: Mapping[str, Any] | None) -> None:
        if params is not None:
            message["params"] = params
        self._mailbox.put(_over_a_wire({"jsonrpc": "2.0", **message}))


def _over_a_wire(message: Any) -> Any:
    """Return a copy of a message, as decoded from its JSON."""
    return decode(encode(message))


# --- memory -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _open_memory(server: Server[Any]) -> AsyncGenerator[Carrier]:
    from ferrule.transports.memory import memory_pair

    ours, theirs = memory_pair()
    async with server.lifespan() as state, anyio.create_task_group() as tasks:
        tasks.start_soon(_serve, server, theirs.read_stream, theirs.write_stream, state)
        yield _MemoryCarrier(ours)
        await ours.aclose()
        tasks.cancel_scope.cancel()


async def _serve(server: Server[Any], read_stream: Any, write_stream: Any, state: Any) -> None:
    from ferrule.kernel.runner import serve_dual_era_loop

    try:
        await serve_dual_era_loop(server, read_stream, write_stream, lifespan_state=state)
    finally:
        with anyio.CancelScope(shield=True):
            await write_stream.aclose()


class _MemoryCarrier:
    def __init__(self, end: MemoryEnd) -> None:
        self._end = end

    async def send(self, message: Any, headers: Mapping[str, str | None]) -> None:
        await self._end.write_stream.send(StreamMessage(message))

    async def send_raw(self, data: bytes, headers: Mapping[str, str | None]) -> None:
        raise NotImplementedError("memory has no bytes")

    async def receive(self) -> Any:
        return (await self._end.read_stream.receive()).message

    async def status(self) -> int | None:
        return None

    async def close(self) -> None:
        await self._end.write_stream.aclose()


# --- bytes ------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _open_bytes(server: Server[Any], chunks: Callable[[bytes], Iterable[bytes]]) -> AsyncGenerator[Carrier]:
    from ferrule.transports.stdio.pipes import Inbox, Outbox
    from ferrule.transports.stdio.server import StdioReadStream, StdioWriteStream

    reader, writer = _ByteReader(Inbox(_MAX_BYTES)), _ByteWriter(Outbox())
    reading = StdioReadStream(reader, writer, max_message_bytes=_MAX_BYTES, drain_s=5.0)
    async with server.lifespan() as state, anyio.create_task_group() as tasks:
        tasks.start_soon(_serve, server, reading, StdioWriteStream(writer, reading), state)
        yield _BytesCarrier(reader, writer, chunks)
        reader.finish()
        tasks.cancel_scope.cancel()


class _BytesCarrier:
    def __init__(self, reader: _ByteReader, writer: _ByteWriter, chunks: Callable[[bytes], Iterable[bytes]]) -> None:
        self._reader = reader
        self._writer = writer
        self._chunks = chunks

    async def send(self, message: Any, headers: Mapping[str, str | None]) -> None:
        await self.send_raw(encode(message), headers)

    async def send_raw(self, data: bytes, headers: Mapping[str, str | None]) -> None:
        for chunk in self._chunks(data + b"\n"):
            self._reader.feed(chunk)

    async def receive(self) -> Any:
        return await self._writer.mailbox.get()

    async def status(self) -> int | None:
        return None

    async def close(self) -> None:
        self._reader.finish()


class _ByteReader:
    """A `FrameReader` in place of one on a descriptor: takes chunks, returns frames."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._came = anyio.Event()
        self.show_to: TakeFrames | None = (
            None  # never called, since this reader does not show its frames: every message takes the general path
        )

    @property
    def frames(self) -> deque[Frame]:
        return self._inbox.frames

    def feed(self, chunk: bytes) -> None:
        self._inbox.feed(chunk)
        if self._inbox.frames:
            self._wake()

    async def next_frame(self) -> Frame:
        while not self._inbox.frames:
            if self._inbox.ended:
                raise anyio.EndOfStream
            await self._came.wait()
        return self._inbox.frames.popleft()

    def finish(self) -> None:
        self._inbox.end()
        self._wake()

    def discard(self) -> None:
        self._inbox.discard()
        self._wake()

    def close(self) -> None:
        self.finish()

    def _wake(self) -> None:
        self._came.set()
        self._came = anyio.Event()


class _ByteWriter:
    """A `FrameWriter` in place of one on a descriptor: passes the bytes to the client's framer at once."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.mailbox = Mailbox()
        self._framer = LineFramer(_MAX_BYTES)

    def send_nowait(self, frame: bytes, *, flush: bool) -> None:
        for line in self._framer.feed(frame + b"\n"):
            self.mailbox.put(decode(cast("bytes", line)))

    def send_pieces(self, pieces: Sequence[bytes], *, flush: bool) -> None:
        """Send pieces, which together are frames with their newlines."""
        for line in self._framer.feed(b"".join(pieces)):
            self.mailbox.put(decode(cast("bytes", line)))

    async def wait_below(self, limit_bytes: int) -> None:
        """Return at once: no bytes are unsent."""

    def unread_bytes(self) -> int | None:
        """Return 0: a message counts as read immediately."""
        return 0

    def close(self) -> None:
        self.mailbox.close()
