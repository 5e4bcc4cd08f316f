"""A server over the stdin and stdout of its process: one message per line, in both directions.

Source: specification, "Transports", stdio. This module adds these rules:

- Only messages use the two pipes (see `ReservedStdio`): ``print``, logging and child processes of tools write to
  stderr. So does output that the program printed before and has not flushed, and with `run_stdio` later output.
- A line that cannot be read gets an error response, and reading continues with the next one. A line longer than
  ``max_message_bytes`` (64 MiB by default) gets one as soon as it is too long, and is skipped.
- Reading and writing never block the event loop. If the host does not read its pipe, handlers that send wait while one
  megabyte is unsent, and from 16 MiB on no message is read.
- At the end of input accepted requests may finish within ``drain_s`` seconds; then the server exits. It also exits
  when its parent process ends and leaves the pipe open.

Exit status of `run_stdio`: 0 after the end of input and after SIGTERM, 130 after Ctrl-C (a second Ctrl-C ends the
process at once).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import anyio

from ferrule.kernel.dispatch import StreamMessage, TakeFrames, TransportContext
from ferrule.protocol.errors import InvalidRequest
from ferrule.transports.hosting.collector import patient_collector
from ferrule.transports.loops import outliving_exits, refuse_in_running_loop
from ferrule.transports.stdio.descriptors import NonBlockingFd, ReservedStdio, fd_kind, open_missing_standard_fds
from ferrule.transports.stdio.pipe_opening import open_reader, open_writer
from ferrule.transports.stdio.pipes import HIGH_WATER_BYTES, FrameReader, FrameWriter, encode_frame, one_line
from ferrule.transports.watch import Watch, call_every
from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError
from ferrule.wire.jsonrpc import JsonRpcNotification, JsonRpcResponse, RequestId, encode_response

if TYPE_CHECKING:
    import asyncio

    from ferrule.kernel.server import Server

__all__ = [
    "DEFAULT_DRAIN_S",
    "DEFAULT_MAX_MESSAGE_BYTES",
    "ParentWatch",
    "StdioContext",
    "StdioReadStream",
    "StdioWriteStream",
    "run_stdio",
    "serve_stdio",
    "stdio_streams",
]

DEFAULT_MAX_MESSAGE_BYTES: Final = 64 << 20
DEFAULT_DRAIN_S: Final = 5.0
# There is no portable signal for it; Linux's PR_SET_PDEATHSIG follows the thread that started the process.
PARENT_POLL_S: Final = 2.0
# A peer that sends requests without reading the responses must not fill the memory of this process.
_CONGESTED_BYTES: Final = 16 << 20
_BOM: Final = b"\xef\xbb\xbf"
# Hosts wait for about two seconds before they kill the process; all waits of the end together must be shorter.
_LAST_TASKS_S: Final = 1.0
_THREAD_GRACE_S: Final = 1.0
_THREAD_POLL_S: Final = 0.05
_EXIT_CTRL_C: Final = 130
_READ_PAUSES_S: Final = (0.0, 0.0002, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032)
"""Seconds between two checks whether the peer has read its progress; in sum the longest delay of a response, 64 ms."""
_BLIND_PAUSE_S: Final = 0.005
"""Seconds to wait where the system does not report how much the peer has read."""


class StdioContext(TransportContext):
    """Facts of the stdio transport, whose only peer is the process that started this one."""

    __slots__ = ()

    def __init__(self, kind: str = "stdio", can_send_request: bool = True, **facts: Any) -> None:
        super().__init__(kind, can_send_request, **facts)


class StdioReadStream:
    """Messages from a descriptor.

    Attributes:
        transport: the facts of each message.
        drain_s: seconds that accepted requests may take after the end of input.
        received: number of messages so far.
        awaiting: estimated number of requests without a response; used only to choose when to write.
    """

    def __init__(self, reader: FrameReader, writer: FrameWriter, *, max_message_bytes: int, drain_s: float) -> None:
        self.transport = StdioContext()
        self.drain_s = drain_s
        self.received = 0
        self.awaiting = 0
        self._reader = reader
        self._frames = reader.frames
        self._writer = writer
        self._outbox = writer.outbox
        self._max_message_bytes = max_message_bytes
        self._outbox.on_broken = reader.finish

    @property
    def has_more(self) -> bool:
        """Whether a message has arrived that was not received yet."""
        return bool(self._frames)

    def show_frames(self, take: TakeFrames | None) -> None:
        """See `ShowsFrames`."""
        self._reader.show_to = take

    def frames_taken(self, count: int, unanswered: int) -> None:
        """See `ShowsFrames`."""
        self.received += count
        self.awaiting += unanswered

    async def receive(self) -> StreamMessage | Exception:
        """Return the next message, or for an unreadable one the error of its response.

        Raises:
            anyio.EndOfStream: the input has ended, or the peer has closed the output.
        """
        outbox = self._outbox
        # Waits before the next message is taken: this slows a peer that does not read.
        if outbox.unsent_bytes > _CONGESTED_BYTES:
            await self._writer.wait_below(_CONGESTED_BYTES)
        frame = self._frames.popleft() if self._frames else await self._reader.next_frame()
        if outbox.broken:
            raise anyio.EndOfStream
        self.received += 1
        if not isinstance(frame, bytes):
            return InvalidRequest(f"The message is longer than {self._max_message_bytes} bytes")
        try:
            message: Any = decode(frame)
        except DecodeError as error:
            if not frame.startswith(_BOM):  # as some Windows programs begin their output
                return error
            try:
                message = decode(frame.removeprefix(_BOM))
            except DecodeError as error:
                return error
        # `__class__` and not `isinstance`: this runs for each message, and `decode` returns plain dicts.
        if message.__class__ is dict and "id" in message and "method" in message:
            self.awaiting += 1
        return StreamMessage(message, self.transport)

    def finish(self) -> None:
        """End the input now; messages that have arrived are still returned."""
        self._reader.finish()

    async def aclose(self) -> None:
        """Stop reading."""
        self._reader.close()


class StdioWriteStream:
    """Messages to a descriptor.

    Responses of one iteration of the event loop are written together. A notification is written immediately, since
    the handler may compute for long after it.
    """

    encodes = True

    def __init__(self, writer: FrameWriter, reading: StdioReadStream) -> None:
        self._writer = writer
        self._outbox = writer.outbox
        self._reading = reading

    async def send(self, item: StreamMessage) -> None:
        """Write one message, or queue it; wait while more than a megabyte is unsent.

        Raises:
            EncodeError: it has no JSON form; nothing was written.
            anyio.BrokenResourceError: the peer has closed the pipe, or this side has.
        """
        message: object = item.message
        frame = encode_frame(message)
        if type(message) is JsonRpcNotification:
            self._writer.send_nowait(frame, flush=True)
            waiting = self._wait_for_room()
        else:
            waiting = self._write_line(frame, is_answer=type(message) is JsonRpcResponse)
        if waiting is not None:
            await waiting
        if self._outbox.broken:
            raise anyio.BrokenResourceError

    def send_result(self, id: RequestId, result: Any) -> Awaitable[None] | None:
        """Write the result of a request, or queue it, without waiting; see `WritesResults.send_result`.

        Returns:
            An awaitable to wait for room, if more than a megabyte is unsent; ``None`` otherwise.

        Raises:
            EncodeError: it has no JSON form; nothing was written.
        """
        frame = encode_response(id, result)
        if b"\n" in frame:
            frame = one_line(frame)
        return self._write_line(frame, is_answer=True)

    @property
    def is_congested(self) -> bool:
        """See `WritesPieces`; also true when the peer has closed the pipe."""
        return self._outbox.unsent_bytes > HIGH_WATER_BYTES or self._outbox.broken

    def send_pieces(self, pieces: list[bytes], *, flush: bool) -> None:
        """See `WritesPieces`."""
        self._writer.send_pieces(pieces, flush=flush)

    def _write_line(self, frame: bytes, *, is_answer: bool) -> Awaitable[None] | None:
        flush = False
        if is_answer:
            reading = self._reading
            if reading.awaiting > 1:
                reading.awaiting -= 1
            else:
                reading.awaiting = 0
                # The last expected response is written now; earlier ones wait for those of the same iteration.
                flush = not reading.has_more
        self._writer.send_nowait(frame, flush=flush)
        return self._wait_for_room()

    def _wait_for_room(self) -> Awaitable[None] | None:
        if self._outbox.unsent_bytes > HIGH_WATER_BYTES:
            return self._writer.wait_below(HIGH_WATER_BYTES)
        return None

    async def wait_until_read(self) -> None:
        """Wait until the peer has read everything, for 64 ms at most; see `DelaysUntilRead`."""
        for pause_s in _READ_PAUSES_S:
            unread = self._writer.unread_bytes()
            if unread is None:
                await anyio.sleep(_BLIND_PAUSE_S)
                return
            if not unread:
                return
            await anyio.sleep(pause_s)

    @property
    def is_flushed(self) -> bool:
        """Whether everything is written, or the peer has closed the pipe."""
        return not self._outbox.unsent_bytes

    async def flush(self) -> None:
        """Wait until everything is written, or the peer has closed the pipe."""
        await self._writer.wait_below(0)

    async def aclose(self) -> None:
        """Close; unsent data that the pipe does not accept now is lost (see `flush`)."""
        self._writer.close()


def stdio_streams(
    stdin_fd: int,
    stdout_fd: int,
    *,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    drain_s: float = DEFAULT_DRAIN_S,
) -> tuple[StdioReadStream, StdioWriteStream]:
    """Return a stream pair over two descriptors, which it owns from then on, in the running loop (asyncio or trio)."""
    reader = open_reader(NonBlockingFd(stdin_fd, writing=False), max_message_bytes)
    writer = open_writer(NonBlockingFd(stdout_fd, writing=True))
    reading = StdioReadStream(reader, writer, max_message_bytes=max_message_bytes, drain_s=drain_s)
    return reading, StdioWriteStream(writer, reading)


async def serve_stdio(
    server: Server[Any],
    *,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    drain_s: float = DEFAULT_DRAIN_S,
    watch_parent: bool = True,
) -> None:
    """Serve over this process's stdin and stdout until the input ends; on asyncio and trio.

    Args:
        server: the server; its lifespan is entered first.
        max_message_bytes: longer messages are refused.
        drain_s: seconds that accepted requests may take after the end of input, and again for writing the responses.
        watch_parent: also end when the parent process ends (see `ParentWatch`).

    Raises:
        RuntimeError: another server of this process uses stdin and stdout.
    """
    with _reserved() as reserved:
        await _serve(server, reserved, max_message_bytes, drain_s, watch_parent, _just_run)


async def _serve(
    server: Server[Any],
    reserved: ReservedStdio,
    max_message_bytes: int,
    drain_s: float,
    watch_parent: bool,
    run: Callable[[Coroutine[Any, Any, None]], Awaitable[None]],
) -> None:
    """Serve over reserved descriptors until the input ends; for the other arguments see `serve_stdio`.

    Args:
        run: awaits the serving. Set by `run_stdio` to `_Stop.run`, which a signal can end, and by `serve_stdio` to
            `_just_run`.
    """
    from ferrule.kernel.runner import serve_dual_era_loop

    _greet(server, reserved.stdin_fd)
    stdin_fd = reserved.stdin_fd if reserved.stdin_fd >= 0 else os.open(os.devnull, os.O_RDONLY)
    stdout_fd = reserved.stdout_fd if reserved.stdout_fd >= 0 else os.open(os.devnull, os.O_WRONLY)
    reading, writing = stdio_streams(stdin_fd, stdout_fd, max_message_bytes=max_message_bytes, drain_s=drain_s)
    watch = _watch_parent(reading) if watch_parent else None
    try:
        async with server.lifespan() as state:
            await run(serve_dual_era_loop(server, reading, writing, lifespan_state=state))
        if not writing.is_flushed:
            with anyio.move_on_after(drain_s):
                await writing.flush()
    finally:
        if watch is not None:
            watch.cancel()
        await reading.aclose()
        await writing.aclose()


async def _just_run(serving: Coroutine[Any, Any, None]) -> None:
    """Await the serving in this task; the ``run`` of `_serve` in a program that handles signals itself."""
    await serving


@contextlib.contextmanager
def _reserved() -> Generator[ReservedStdio]:
    reserved = ReservedStdio()
    try:
        yield reserved
    finally:
        reserved.restore()


# -- the parent ---------------------------------------------------------------------------------------------------


class ParentWatch:
    """Decides whether the host has ended although stdin is still open.

    The sign is that the parent process has ended, so that the process has another parent id. Two cases do not count: a
    launcher, which ends early (before ``launcher_s`` or before the first message), and a parent after whose end
    messages still arrive. POSIX only: on Windows the parent id does not change.

    Args:
        parent_id: returns the id of the parent process.
        clock: returns monotonic seconds.
        launcher_s: seconds after the start in which a parent that ends counts as a launcher.
    """

    def __init__(
        self,
        parent_id: Callable[[], int] = os.getppid,
        clock: Callable[[], float] = time.monotonic,
        *,
        launcher_s: float = 10.0,
    ) -> None:
        self._parent_id = parent_id
        self._parent = parent_id()
        self._clock = clock
        # `npx`, `uv run` and shells start the server and may end before it.
        self._launcher_until = clock() + launcher_s
        self._died_at_message: int | None = None

    def is_orphaned(self, received: int) -> bool:
        """Return whether to end; to be called at intervals with the number of messages received so far."""
        parent = self._parent_id()
        if parent == self._parent:
            return False
        if not received or self._clock() < self._launcher_until:
            self._parent = parent
            return False
        if self._died_at_message is None:
            self._died_at_message = received
            return False
        # No message since the last check: a host that has only lost its launcher would send some.
        if self._died_at_message == received:
            return True
        self._parent = parent
        self._died_at_message = None
        return False


def _watch_parent(reading: StdioReadStream) -> Watch | None:
    if sys.platform == "win32":
        return None
    parent = ParentWatch()

    def look() -> bool:
        if not parent.is_orphaned(reading.received):
            return True
        import logging

        logging.getLogger("ferrule.stdio").warning("The parent process has ended, so this server ends too")
        reading.finish()
        return False

    return call_every(PARENT_POLL_S, look)


# -- the terminal -------------------------------------------------------------------------------------------------


def _greet(server: Server[Any], stdin_fd: int) -> None:
    """Explain on stderr what the server waits for, if it was started in a terminal."""
    if fd_kind(stdin_fd) == "terminal":
        with contextlib.suppress(AttributeError, OSError, ValueError):  # no stderr
            sys.stderr.write(_greeting(server.server_info.name, _own_command()))
            sys.stderr.flush()


def _own_command() -> list[str]:
    """Return the command line of this process with absolute paths, since a host starts it in another folder."""
    words = [os.path.abspath(word) if os.path.isfile(word) else word for word in sys.orig_argv[1:]]
    return [sys.executable, *words]


def _greeting(name: str, command: list[str]) -> str:
    import json

    entry = json.dumps({"mcpServers": {name: {"command": command[0], "args": command[1:]}}})
    return (
        f"{name} is an MCP server. It waits for JSON-RPC messages on its standard input, one per line, and is meant\n"
        f"to be started by an MCP host (an editor, an agent). In the host's configuration:\n\n  {entry}\n\n"
        "Ctrl-C ends it.\n"
    )


# -- the process --------------------------------------------------------------------------------------------------


def run_stdio(
    server: Server[Any],
    *,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    drain_s: float = DEFAULT_DRAIN_S,
    watch_parent: bool = True,
) -> None:
    """Serve over stdin and stdout in a new asyncio event loop (uvloop takes longer to import than it saves here).

    Returns after the end of input and after SIGTERM. A handler, task or thread that does not end is abandoned: if such
    a thread still runs at the end of the program, the process is ended after one second. For the arguments see
    `serve_stdio`. Signals are handled in the main thread only.

    Stdin and stdout stay replaced after it returns (see `ReservedStdio`): later output of the program goes to stderr,
    because the host may still read the pipe.

    Raises:
        SystemExit: 130, after Ctrl-C.
        RuntimeError: another server of this process uses stdin and stdout, or an event loop runs in this thread.
    """
    refuse_in_running_loop()
    try:
        _run_stdio(server, max_message_bytes, drain_s, watch_parent)
    except KeyboardInterrupt:  # before the handler was installed, or after it was removed
        raise SystemExit(_EXIT_CTRL_C) from None


def _run_stdio(server: Server[Any], max_message_bytes: int, drain_s: float, watch_parent: bool) -> None:
    import asyncio

    open_missing_standard_fds()  # before the event loop opens descriptors, which would get these numbers
    reserved = ReservedStdio()  # before the event loop is made, which asyncio's debug mode logs
    threads_before = set(threading.enumerate())
    loop = outliving_exits(asyncio.new_event_loop())
    stop = _Stop(loop)
    try:
        main = loop.create_task(_serve(server, reserved, max_message_bytes, drain_s, watch_parent, stop.run))
        with _signals_stop(stop, main), patient_collector():
            try:
                loop.run_until_complete(main)
            except asyncio.CancelledError:
                if not stop.signals:
                    raise
            finally:
                _end_tasks(loop)
    finally:
        loop.close()
        reserved.keep()
        # 128 + SIGINT, as shells report it; SIGTERM is how hosts stop a server, which is not a failure.
        status = _EXIT_CTRL_C if stop.signals[:1] == [signal.SIGINT] else 0
        _abandon([thread for thread in threading.enumerate() if thread not in threads_before], status)
    if status:
        raise SystemExit(status)


class _Stop:
    """Cancels the serving task but not the main task, so that the server's lifespan ends normally."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.signals: list[int] = []
        self._loop = loop
        self._serving: asyncio.Task[None] | None = None

    async def run(self, serving: Coroutine[Any, Any, None]) -> None:
        """Await the serving in a separate task, which `cancel` cancels."""
        import asyncio

        self._serving = task = self._loop.create_task(serving)
        try:
            await task
        except asyncio.CancelledError:
            if not self.signals or not task.done():
                raise
        finally:
            self._serving = None

    def cancel(self, main: asyncio.Task[None]) -> None:
        """Cancel the serving task, or the main task before and after it; in the thread of the event loop."""
        (self._serving or main).cancel()


def _signals_that_stop(known: Any) -> tuple[int, ...]:
    """Return the signals of a ``signal`` module that stop a server; on Windows clients send Ctrl-Break, not SIGTERM."""
    return tuple(getattr(known, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(known, name))


_STOP_SIGNALS: Final = _signals_that_stop(signal)


@contextlib.contextmanager
def _signals_stop(stop: _Stop, main: asyncio.Task[None]) -> Generator[None]:
    """Install handlers for Ctrl-C, SIGTERM and Ctrl-Break: the first stops the server, the second ends the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, _: FrameType | None) -> None:
        stop.signals.append(number)
        if len(stop.signals) > 1:
            # Not `sys.exit`: a handler that does not yield to the event loop would keep the process alive.
            os._exit(128 + number)
        # A signal handler may run in the middle of any code, so that it only schedules the cancellation.
        main.get_loop().call_soon_threadsafe(stop.cancel, main)

    previous = {number: signal.signal(number, on_signal) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel the remaining tasks of the event loop and wait for a second; abandon those that do not end."""
    import asyncio

    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=_LAST_TASKS_S))
    for task in tasks:
        if not task.done():
            with contextlib.suppress(AttributeError):
                # Otherwise asyncio would log "Task was destroyed but it is pending" for a task that is abandoned on
                # purpose.
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    with contextlib.suppress(TimeoutError):
        loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), _LAST_TASKS_S))


def _abandon(threads: list[threading.Thread], status: int) -> None:
    """End the process although these threads do not end; Python would wait for them for ever.

    Args:
        threads: the threads that were started while the server ran.
        status: the exit status.
    """
    stuck = [thread for thread in threads if not thread.daemon]
    if not stuck or threading.current_thread() is not threading.main_thread():
        return
    main = threading.main_thread().ident or 0
    program = _outermost_frame(main)

    def end() -> None:
        # Until the program itself has ended: it may still have work after `run_stdio`.
        while _outermost_frame(main) is program:
            time.sleep(_THREAD_POLL_S)
            if not any(thread.is_alive() for thread in stuck):
                return
        time.sleep(_THREAD_GRACE_S)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
        os._exit(status)

    threading.Thread(target=end, name="ferrule-exit", daemon=True).start()


def _outermost_frame(thread_id: int) -> FrameType | None:
    """Return the outermost frame of a thread; for the main thread it changes when the interpreter shuts down."""
    frame = sys._current_frames().get(thread_id)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame
