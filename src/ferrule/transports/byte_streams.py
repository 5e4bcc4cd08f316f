"""MCP over any byte stream, one JSON message per line as on stdio; and over Unix sockets, both sides.

A byte stream is anything with the interface of anyio's: a socket, a TLS connection, a pipe. `ByteStreamPair` makes of
it the stream pair that servers and clients take. `serve_unix` listens on a socket that only the owner of the process
may open; then a peer counts as the owner, as over stdio, and otherwise as an anonymous sender of a network.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import stat
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast, runtime_checkable

import anyio

from ferrule.kernel.dispatch import StreamMessage, TransportContext
from ferrule.kernel.runner import serve_dual_era_loop
from ferrule.protocol.errors import InvalidRequest
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError
from ferrule.wire.ndjson import Frame, FrameTooLong, LineFramer

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream, ByteSendStream, SocketStream

    from ferrule.kernel.server import Server

__all__ = ["DEFAULT_MAX_MESSAGE_BYTES", "ByteStreamPair", "connect_unix", "run_unix", "serve_streams", "serve_unix"]

logger = logging.getLogger("ferrule.unix")

DEFAULT_MAX_MESSAGE_BYTES: Final = 64 << 20
DEFAULT_MAX_CONNECTIONS: Final = 64
_CHUNK_BYTES: Final = 1 << 16
_SEND_S: Final = 30.0
"""Seconds after which a peer that takes nothing of a message is disconnected."""


class ByteStreamPair:
    """A stream pair over two byte streams, for `serve_streams` and as the target of a `Client`.

    Args:
        source: the bytes of the peer, such as an `anyio.abc.ByteStream`.
        sink: the bytes to the peer; ``None``: ``source`` is both.
        transport: facts of the connection, for the server's side.
        max_message_bytes: longer messages are refused, and dropped as they arrive.
        drain_s: seconds that accepted requests get after the input has ended.

    Attributes:
        read_stream, write_stream: the two halves, for the kernel.
    """

    encodes = True

    def __init__(
        self,
        source: ByteReceiveStream,
        sink: ByteSendStream | None = None,
        *,
        transport: TransportContext | None = None,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        drain_s: float = 5.0,
    ) -> None:
        self.transport = transport or TransportContext("stream")
        self.drain_s = drain_s
        self._source = source
        self._sink = cast("ByteSendStream", source) if sink is None else sink
        self._framer = LineFramer(max_message_bytes)
        self._frames: deque[Frame] = deque()
        self._has_ended = False
        self._is_broken = False
        self._sending = anyio.Lock()

    @property
    def read_stream(self) -> ByteStreamPair:
        """The half that receives."""
        return self

    @property
    def write_stream(self) -> ByteStreamPair:
        """The half that sends."""
        return self

    async def receive(self) -> StreamMessage | Exception:
        """Return the next message, or why it cannot be read.

        Raises:
            anyio.EndOfStream: the input has ended, or the connection is closed.
        """
        while not self._frames:
            if self._has_ended:
                raise anyio.EndOfStream
            try:
                self._frames += self._framer.feed(await self._source.receive(_CHUNK_BYTES))
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                self._has_ended = True
                self._frames += self._framer.finish()
        frame = self._frames.popleft()
        if isinstance(frame, FrameTooLong):
            return InvalidRequest(f"The message is longer than {self._framer.max_bytes} bytes")
        try:
            return StreamMessage(decode(frame), self.transport)
        except DecodeError as error:
            return error  # the dispatcher answers it, and the next message works

    async def send(self, item: StreamMessage, /) -> None:
        """Send one message.

        Raises:
            EncodeError: it has no JSON form; nothing was sent.
            anyio.BrokenResourceError: the connection has ended, or is closed because the peer took nothing for 30
                seconds.
        """
        line = encode(item.message)
        if b"\n" in line:  # JSON that was encoded elsewhere
            line = encode(decode(line))
        async with self._sending:
            if self._is_broken:
                raise anyio.BrokenResourceError
            self._is_broken = True
            try:
                # Shielded: a message that is cut by a cancellation would make the next one unreadable.
                with anyio.CancelScope(shield=True) as scope:
                    line += b"\n"
                    for start in range(0, len(line), _CHUNK_BYTES):
                        scope.deadline = anyio.current_time() + _SEND_S
                        await self._sink.send(line[start : start + _CHUNK_BYTES])
                    self._is_broken = False
                if scope.cancelled_caught:
                    await self._abort()
                    raise anyio.BrokenResourceError
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                raise anyio.BrokenResourceError from None

    async def _abort(self) -> None:
        """Close both byte streams without waiting for the peer."""
        self._has_ended = True
        for stream in (self._sink, self._source):
            with contextlib.suppress(OSError, anyio.BrokenResourceError):
                await anyio.aclose_forcefully(stream)

    async def aclose(self) -> None:
        """Close both byte streams. Idempotent."""
        self._has_ended = self._is_broken = True
        with contextlib.suppress(OSError, anyio.BrokenResourceError):
            await self._sink.aclose()
        if cast("object", self._source) is not self._sink:
            await self._source.aclose()


@runtime_checkable
class _WrapsServer(Protocol):
    @property
    def lowlevel(self) -> Any: ...


async def serve_streams(
    server: Any,
    source: ByteReceiveStream,
    sink: ByteSendStream | None = None,
    *,
    transport: TransportContext | None = None,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
) -> None:
    """Serve one peer over a byte stream until it ends, both eras; the lifespan of the server is entered for it.

    Args:
        server: an `MCPServer`, a `Server` or a `Gateway`.
        source, sink: see `ByteStreamPair`; both are closed at the end.
        transport: facts of the connection; by default the peer is an anonymous sender of a network, for whom
            ``scopes=`` and ``allow=`` apply. With ``TransportContext("stream")`` it counts as the owner of the process.
        max_message_bytes: longer messages are refused.
    """
    kernel = _kernel_of(server)
    # The peer of the stream is not known here.
    facts = transport or TransportContext("stream", is_network=True)
    async with kernel.lifespan() as state:
        pair = ByteStreamPair(source, sink, transport=facts, max_message_bytes=max_message_bytes)
        await _serve_pair(kernel, pair, state)


async def serve_unix(
    server: Any,
    path: str | Path,
    *,
    mode: int = 0o600,
    max_connections: int = DEFAULT_MAX_CONNECTIONS,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    on_started: Callable[[], object] | None = None,
) -> None:
    """Serve on a Unix socket until cancelled; on asyncio and trio. The file is removed at the end.

    Args:
        server: an `MCPServer`, a `Server` or a `Gateway`; its lifespan is entered once.
        path: where the socket is. One that a process left behind is replaced.
        mode: the permissions of the file, before anyone can connect. With any for group or others, senders are
            anonymous, and ``scopes=`` and ``allow=`` apply.
        max_connections: further connections are closed at once.
        max_message_bytes: longer messages are refused.
        on_started: called when connections are accepted.

    Raises:
        FileExistsError: ``path`` exists and is not a socket.
        OSError: another process serves it, or it cannot be made.
        NotImplementedError: this system has no Unix sockets.
    """
    if not hasattr(socket, "AF_UNIX"):  # Windows
        raise NotImplementedError("This system has no Unix sockets")
    kernel, where = _kernel_of(server), Path(path)
    remove_stale(where)
    facts = TransportContext("unix", is_network=bool(mode & 0o077))
    count = 0

    async def serve(stream: SocketStream) -> None:
        nonlocal count
        if count >= max_connections:
            logger.warning("A connection to %s was closed: %d are open", where, count)
            await stream.aclose()
            return
        count += 1
        try:
            pair = ByteStreamPair(stream, transport=facts, max_message_bytes=max_message_bytes)
            await _serve_pair(kernel, pair, state)
        except Exception:
            logger.exception("A connection to %s failed", where)
        finally:
            count -= 1

    async with kernel.lifespan() as state:
        listener = await anyio.create_unix_listener(where, mode=mode)  # the mode is set before it listens
        own = _identity(where)
        try:
            if on_started is not None:
                on_started()
            await listener.serve(cast("Any", serve))
        finally:
            with anyio.CancelScope(shield=True):
                await listener.aclose()
            if _identity(where) == own:  # another process may have replaced it
                _unlink(where)


def run_unix(server: Any, path: str | Path, **options: Any) -> None:
    """Serve on a Unix socket until SIGINT or SIGTERM; for arguments and errors see `serve_unix`."""

    async def serve() -> None:
        async with anyio.create_task_group() as group:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:

                async def end() -> None:
                    async for _ in signals:
                        group.cancel_scope.cancel()
                        return

                group.start_soon(end)
                await serve_unix(server, path, **options)

    anyio.run(serve)


async def connect_unix(path: str | Path, *, max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> ByteStreamPair:
    """Connect to a Unix socket and return the stream pair; ``Client("unix:/path")`` does it, and again after a failure.

    Raises:
        OSError: nothing serves the socket, or this user may not open it.
    """
    stream = await anyio.connect_unix(path)
    return ByteStreamPair(stream, max_message_bytes=max_message_bytes)


def remove_stale(path: Path) -> None:
    """Remove a socket that no process serves.

    Raises:
        FileExistsError: the path is no socket.
        OSError: a process serves it.
    """
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(f"{path} exists and is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except FileNotFoundError:
            return
    raise OSError(f"Another process serves {path}")


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file; ``None`` if there is none."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _unlink(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def _kernel_of(server: Any) -> Server[Any]:
    found: Server[Any] = server.lowlevel if isinstance(server, _WrapsServer) else server
    return found


async def _serve_pair(kernel: Server[Any], pair: ByteStreamPair, state: Any) -> None:
    try:
        await serve_dual_era_loop(kernel, pair, pair, lifespan_state=state)
    finally:
        with anyio.CancelScope(shield=True):
            await pair.aclose()
