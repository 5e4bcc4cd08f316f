"""A server as a child process: its start, its streams, its last words and its end.

The process gets a session (POSIX) or process group (Windows) of its own, so that closing ends everything that it
started and a Ctrl-C at our terminal reaches us alone. Its environment is a short list of harmless variables and what
the caller adds: an agent's secrets do not leak into every server. stderr is always read, so a server that logs a lot
never blocks, and the last of it is part of every error about the process.

Closing follows the specification ("stdio", shutdown): close stdin, wait, SIGTERM the whole group, wait, SIGKILL the
group. The sum of the three waits of `StdioServer` bounds it. Nothing here belongs to the task that connected: any
task may close.

Windows: there is no group signal. The second step sends CTRL_BREAK, the third runs ``taskkill /T /F``, which finds
the tree by parent ids: a grandchild whose parent has already ended escapes it (that would need a Job Object).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import anyio

from ferrule.kernel.dispatch import StreamMessage, TakeFrames, TransportContext
from ferrule.protocol.errors import ConnectionClosed, LocalError
from ferrule.transports.stdio.descriptors import NonBlockingFd
from ferrule.transports.stdio.pipe_opening import open_reader, open_writer
from ferrule.transports.stdio.pipes import HIGH_WATER_BYTES, LAST_READS, FrameReader, FrameWriter, encode_frame
from ferrule.transports.stdio.process import ChildProcess
from ferrule.transports.stdio.stderr_tail import LineTail
from ferrule.transports.watch import Watch, call_every, runs_on_trio, watch_blocking, watch_readable
from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError
from ferrule.wire.ndjson import FrameTooLong

__all__ = [
    "SAFE_ENVIRONMENT",
    "ServerProcess",
    "ServerProcessEnded",
    "ServerStartFailed",
    "StdioServer",
    "connect_stdio",
    "safe_environment",
]

SAFE_ENVIRONMENT: Final[tuple[str, ...]] = (
    (
        "APPDATA",
        "COMSPEC",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "PROGRAMDATA",
        "PROGRAMFILES",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "USERNAME",
        "USERPROFILE",
        "WINDIR",
    )
    if sys.platform == "win32"
    else (
        "HOME",
        "LANG",
        "LANGUAGE",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
    )
)
"""Variables that a server gets without being named: who and where the user is, and in which language. None of them
usually holds a secret; proxies and tokens are not among them."""

DEFAULT_MAX_MESSAGE_BYTES: Final = 64 << 20
_STDERR_TAIL_BYTES: Final = 16 * 1024
_ERROR_LINES: Final = 10
_STATUS_WAIT_S: Final = 0.5
"""How long an error about closed streams waits for the exit status that belongs to it."""
_GROUP_GRACE_S: Final = 0.25
"""How long processes that the server started may outlive it before they are told to end."""

StderrMode: TypeAlias = "Literal['capture', 'inherit'] | Callable[[str], object]"


@dataclass(frozen=True, slots=True)
class StdioServer:
    """How to start a server that speaks over its stdin and stdout.

    Attributes:
        command: the program; a bare name is looked up in PATH.
        args: its arguments.
        env: variables set on top of the filtered environment (see `SAFE_ENVIRONMENT`).
        cwd: where it runs; ``None``: here.
        inherit_env: names of further variables to pass on; ``True`` passes all of them.
        stderr: ``"capture"`` reads it, keeps the last 16 KiB for error messages and logs every line at DEBUG to
            ``ferrule.client.stdio``; a function is called with every line instead of the log, in the loop's thread;
            ``"inherit"`` lets the server write to our stderr, and errors then cannot quote it.
        max_message_bytes: longer messages from the server are skipped, with a warning in the log.
        close_s: seconds to wait after closing its stdin.
        terminate_s: seconds to wait after SIGTERM.
        kill_s: seconds to wait after SIGKILL, which only a process stuck in the kernel survives.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] | None = None
    cwd: str | os.PathLike[str] | None = None
    inherit_env: Iterable[str] | bool = ()
    stderr: StderrMode = "capture"
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    close_s: float = 2.0
    terminate_s: float = 2.0
    kill_s: float = 1.0

    @property
    def label(self) -> str:
        """The command line without the arguments that may hold secrets: the program and its first plain argument."""
        first = next((f" {argument}" for argument in self.args[:1] if not argument.startswith("-")), "")
        return f"{os.path.basename(self.command) or self.command}{first}"


class ServerStartFailed(LocalError):
    """A server process could not be started.

    Attributes:
        server: its label.
        program: what was to be started.
    """

    def __init__(self, server: StdioServer, why: str) -> None:
        super().__init__(f"Cannot start the server {server.command!r}: {why}")
        self.server = server.label
        self.program = server


class ServerProcessEnded(ConnectionClosed):
    """A server process ended, or closed its stdout, while it was still needed.

    Attributes:
        server: its label.
        program: what was started.
        returncode: exit status, negative for a signal; ``None`` if it is not known (yet).
        stderr: the last lines of its stderr; empty if it was not captured.
        after_s: seconds since it was started.
    """

    def __init__(
        self, server: StdioServer, returncode: int | None, stderr: str, after_s: float, closed: str = "output"
    ) -> None:
        what = f"closed its {closed}" if returncode is None else f"ended with {_status(returncode)}"
        words = f"; its last words:\n{stderr}" if stderr else ""
        super().__init__(f"The server {server.label!r} {what} after {after_s:.1f} s{words}")
        self.server = server.label
        self.program = server
        self.returncode = returncode
        self.stderr = stderr
        self.after_s = after_s


def safe_environment(extra: Mapping[str, str] | None = None, *, inherit: Iterable[str] | bool = ()) -> dict[str, str]:
    """The environment for a server: `SAFE_ENVIRONMENT`, the names in ``inherit`` (``True``: all), then ``extra``."""
    source = os.environ
    if inherit is True:
        found = dict(source)
    else:
        names = (*SAFE_ENVIRONMENT, *(inherit or ()))
        # A value that starts with "()" is a function that an old shell exported: code, not data.
        found = {name: source[name] for name in names if name in source and not source[name].startswith("()")}
    found.update(extra or {})
    return found


async def connect_stdio(server: StdioServer) -> ServerProcess:
    """Start a server; its streams are open when this returns, its handshake is the caller's.

    Raises:
        ServerStartFailed: no such program, no such folder, no permission.
    """
    return ServerProcess(server)


class ServerProcess:
    """A running server and its stream pair. Made by `connect_stdio`; any task may close it.

    Attributes:
        server: what was started.
        read_stream: `receive` gives each message as `StreamMessage`; lines that are no JSON object are named in the
            log, once per kind, and skipped. At the end it raises `anyio.EndOfStream`, caused by a
            `ServerProcessEnded` unless this side closed.
        write_stream: `send` takes each message.
    """

    def __init__(self, server: StdioServer) -> None:
        self.server = server
        self._started_at = time.monotonic()
        self._tail = LineTail(_STDERR_TAIL_BYTES)
        self._stderr_watch: Watch | None = None
        self._stderr: NonBlockingFd | None = None
        self._is_closing = False
        self._closed = anyio.Event()
        self._process = _start(server, self._on_exit)
        stdin, stdout, stderr = self._process.take_pipes()
        self._reader, self._writer = _open_pair(stdout, stdin, server.max_message_bytes)
        self._is_deaf = False
        self._deaf_timer: Watch | None = None
        self._stdin_watch = self._watch_stdin(stdin)
        self._writer.outbox.on_broken = self._on_deaf
        if stderr >= 0:
            self._watch_stderr(NonBlockingFd(stderr, writing=False))
        self.read_stream = ServerOutput(self, self._reader)
        self.write_stream = ServerInput(self, self._writer)

    @property
    def pid(self) -> int:
        """Its process id, also the id of its process group on POSIX."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; ``None`` while it runs."""
        return self._process.returncode

    @property
    def stderr_tail(self) -> str:
        """The last 16 KiB of its stderr; empty if it is not captured."""
        return self._tail.text()

    @property
    def is_deaf(self) -> bool:
        """Whether it has closed its input, or is dead."""
        return self._is_deaf

    @property
    def is_closing(self) -> bool:
        """Whether `aclose` was called."""
        return self._is_closing

    async def why_ended(self) -> ServerProcessEnded:
        """Return the error for calls that the end of the process left unanswered; waits briefly for the exit status."""
        with anyio.move_on_after(_STATUS_WAIT_S):
            await self._process.exited.wait()
        self._read_stderr_rest()
        return ServerProcessEnded(
            self.server,
            self.returncode,
            self._tail.text(_ERROR_LINES),
            time.monotonic() - self._started_at,
            "input" if self._is_deaf else "output",
        )

    async def aclose(self) -> None:
        """End the server and everything that it started, within `StdioServer`'s three waits. Idempotent.

        A cancelled close kills at once.
        """
        if self._is_closing:
            await self._closed.wait()
            return
        self._is_closing = True
        try:
            await self._shut_down()
        finally:
            self._process.kill()
            self._read_stderr_rest()
            self._stop_stderr()
            self.close_stdin()
            self._reader.close()
            self._process.release()
            self._closed.set()

    async def _shut_down(self) -> None:
        server, process = self.server, self._process
        self._reader.discard()  # a server that still has answers to write must not block on a full pipe
        with anyio.move_on_after(server.close_s):
            await self._writer.wait_below(0)
            self.close_stdin()
            await process.exited.wait()
            if await process.wait_for_group(_GROUP_GRACE_S):
                return
        self.close_stdin()
        process.terminate()
        with anyio.move_on_after(server.terminate_s):
            await process.exited.wait()
            if await process.wait_for_group(server.terminate_s):
                return
        process.kill()
        with anyio.move_on_after(server.kill_s):
            await process.exited.wait()

    # -- what the loop calls ------------------------------------------------------------------------------------

    def _watch_stdin(self, fd: int) -> Watch | None:
        """The writing end of a pipe becomes "readable" when the other end is closed: else a message that was written
        just before would be waited for in vain."""
        if os.name == "nt" or runs_on_trio():  # trio's watch would have to share the descriptor with its writer
            return None
        try:
            return watch_readable(fd, self._on_deaf)
        except (OSError, ValueError, NotImplementedError, RuntimeError):
            return None  # the next writing will tell

    def _on_deaf(self) -> bool:
        """It has closed its input: no call can reach it any more, though the process may live on. What it has still to
        answer it may."""
        if not self._is_deaf:
            self._is_deaf = True
            self._deaf_timer = call_every(_LAST_ANSWERS_S, self._end_reading)
        return False

    def _end_reading(self) -> bool:
        self._reader.finish()
        return False

    def close_stdin(self) -> None:
        """Release its input, which asks it to end."""
        for watch in (self._stdin_watch, self._deaf_timer):
            if watch is not None:
                watch.cancel()
        self._writer.close()

    def _on_exit(self) -> None:
        """The process is dead. A child of its own may hold the pipes open, so their end is not waited for."""
        self._read_stderr_rest()
        self._reader.finish()
        self.close_stdin()

    def _watch_stderr(self, source: NonBlockingFd) -> None:
        self._stderr = source
        try:
            if source.pollable:
                self._stderr_watch = watch_readable(source.fd, self._read_stderr)
                return
        except (OSError, NotImplementedError):
            pass
        watch_blocking(self._read_stderr_chunk, self._next_stderr_chunk, name=f"ferrule-stderr-{self.pid}")

    def _read_stderr(self) -> bool:
        """Return whether there may be more later."""
        chunk = self._read_stderr_chunk()
        if chunk:
            self._say(self._tail.feed(chunk))
        return chunk is None or bool(chunk)

    def _read_stderr_chunk(self) -> bytes | None:
        assert self._stderr is not None
        try:
            return os.read(self._stderr.fd, 64 * 1024)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _next_stderr_chunk(self, chunk: bytes | None) -> None:
        """One chunk from a thread, where the loop cannot wait for the pipe."""
        if chunk:
            self._say(self._tail.feed(chunk))
            watch_blocking(self._read_stderr_chunk, self._next_stderr_chunk, name=f"ferrule-stderr-{self.pid}")
        else:
            self._say(self._tail.finish())
            if self._stderr is not None:
                self._stderr.close()  # nobody reads it any more

    def _read_stderr_rest(self) -> None:
        """What is there now, and no more: other processes may hold the pipe open and go on writing."""
        if self._stderr is not None and self._stderr.pollable and self._stderr.fd >= 0:
            for _ in range(LAST_READS):
                chunk = self._read_stderr_chunk()
                if not chunk:
                    break
                self._say(self._tail.feed(chunk))

    def _stop_stderr(self) -> None:
        if self._stderr_watch is not None:
            self._stderr_watch.cancel()
            self._stderr_watch = None
        if self._stderr is not None and self._stderr.pollable:
            self._stderr.close()

    @cached_property
    def _hear(self) -> Callable[[str], object] | None:
        import logging

        if callable(self.server.stderr):
            return self.server.stderr
        log = logging.getLogger("ferrule.client.stdio")
        if not log.isEnabledFor(logging.DEBUG):
            return None
        return lambda line: log.debug("%s: %s", self.server.label, line)

    def _say(self, lines: Iterable[str]) -> None:
        hear = self._hear
        if hear is None:
            return
        for line in lines:
            try:
                hear(line)
            except Exception:
                import logging

                logging.getLogger("ferrule.client.stdio").exception(
                    "The stderr function of %s failed", self.server.label
                )


class ServerOutput:
    """What a server writes to its stdout, as messages."""

    def __init__(self, process: ServerProcess, reader: FrameReader) -> None:
        self._process = process
        self._reader = reader
        self._frames = reader.frames
        self._complained: set[str] = set()
        self._has_answered = False
        self._closed = False

    async def receive(self) -> StreamMessage:
        """Return the next message.

        Raises:
            anyio.EndOfStream: there will be no more; its cause is a `ServerProcessEnded` unless this side closed.
        """
        while True:
            try:
                frame = self._frames.popleft() if self._frames else await self._reader.next_frame()
            except anyio.EndOfStream:
                if self._closed or self._process.is_closing:
                    raise
                raise anyio.EndOfStream from await self._process.why_ended()
            if isinstance(frame, FrameTooLong):
                self._complain("longer than max_message_bytes", f"{frame.size} bytes and more")
                continue
            try:
                message: Any = decode(frame)
            except DecodeError as error:
                self._complain("not JSON", f"{frame[:_QUOTE_BYTES]!r} ({error})")
                message = None if self._has_answered else _answer_behind(frame)
                if message is None:
                    continue
            if _is_message(message):
                self._has_answered = self._has_answered or "method" not in message
                return StreamMessage(message, _TRANSPORT)
            self._complain("JSON, but no message", repr(frame[:_QUOTE_BYTES]))

    def show_frames(self, take: TakeFrames | None) -> None:
        """See `ShowsFrames`."""
        self._reader.show_to = take

    def frames_taken(self, count: int, unanswered: int) -> None:
        """See `ShowsFrames`."""
        self._has_answered = True

    async def aclose(self) -> None:
        """Stop reading; what the server still writes is thrown away."""
        self._closed = True
        self._reader.discard()

    def _complain(self, kind: str, what: str) -> None:
        if kind in self._complained:
            return
        self._complained.add(kind)
        import logging

        logging.getLogger("ferrule.client.stdio").warning(
            "The server %r wrote a line to its stdout that is %s; skipped: %s. Only messages belong there; a program "
            "logs to stderr. Further lines of this kind are skipped in silence.",
            self._process.server.label,
            kind,
            what,
        )


class ServerInput:
    """What a server reads from its stdin."""

    encodes = True

    def __init__(self, process: ServerProcess, writer: FrameWriter) -> None:
        self._process = process
        self._writer = writer

    async def send(self, item: StreamMessage) -> None:
        """Hand over one message; waits while a megabyte is unsent.

        Raises:
            anyio.ClosedResourceError: this side has closed.
            anyio.BrokenResourceError: the process is gone; caused by a `ServerProcessEnded`.
            EncodeError: the message has no JSON form.
        """
        writer, outbox = self._writer, self._writer.outbox
        if self._process.is_closing:
            raise anyio.ClosedResourceError
        if not outbox.broken:
            writer.send_nowait(encode_frame(item.message), flush=False)
            if outbox.unsent_bytes > HIGH_WATER_BYTES:
                await writer.wait_below(HIGH_WATER_BYTES)
        if outbox.broken:
            raise anyio.BrokenResourceError from await self._process.why_ended()

    @property
    def is_congested(self) -> bool:
        """See `WritesPieces`; also when no server reads any more."""
        outbox, process = self._writer.outbox, self._process
        return outbox.broken or outbox.unsent_bytes > HIGH_WATER_BYTES or process.is_deaf or process.is_closing

    def send_pieces(self, pieces: list[bytes], *, flush: bool) -> None:
        """See `WritesPieces`."""
        self._writer.send_pieces(pieces, flush=flush)

    async def aclose(self) -> None:
        """Send what is queued and close the server's stdin, which asks it to end."""
        try:
            with anyio.move_on_after(self._process.server.close_s):
                await self._writer.wait_below(0)
        finally:
            self._process.close_stdin()


_QUOTE_BYTES: Final = 200
_LAST_ANSWERS_S: Final = 1.0
_MAX_GREETED_BYTES: Final = 1 << 20
_MAX_BRACES: Final = 16
_TRANSPORT: Final = TransportContext("stdio")


def _answer_behind(frame: bytes) -> Any:
    """Return the answer that ends a line which begins with something else; ``None`` if it does not end with one.

    Some programs write a byte order mark, an escape sequence or a greeting without a line end before their first
    answer, which would be lost with it. A request is not taken from there: it may be one that a log quotes.
    """
    if len(frame) > _MAX_GREETED_BYTES:
        return None
    at = -1
    for _ in range(_MAX_BRACES):
        at = frame.find(b"{", at + 1)
        if at < 0:
            return None
        try:
            found: Any = decode(frame[at:])
        except DecodeError:
            continue
        return found if "jsonrpc" in found and ("result" in found or "error" in found) else None
    return None


def _is_message(value: Any) -> bool:
    """An object, or an array of messages (revision 2025-03-26); a program that prints a list prints no messages."""
    if type(value) is dict:
        return True
    if type(value) is not list or not value:
        return False
    items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
    return all(type(item) is dict and "jsonrpc" in item for item in items)


def _start(server: StdioServer, on_exit: Callable[[], None]) -> ChildProcess:
    try:
        return ChildProcess(
            [server.command, *server.args],
            env=safe_environment(server.env, inherit=server.inherit_env),
            cwd=server.cwd,
            capture_stderr=server.stderr != "inherit",
            on_exit=on_exit,
        )
    except FileNotFoundError as error:
        if server.cwd is not None and not os.path.isdir(server.cwd):
            raise ServerStartFailed(server, f"the folder {os.fspath(server.cwd)!r} does not exist") from error
        raise ServerStartFailed(server, "there is no such program in PATH") from error
    except (OSError, ValueError) as error:  # no permission, not executable; a NUL in an argument
        raise ServerStartFailed(server, str(error)) from error


def _open_pair(source: int, target: int, max_message_bytes: int) -> tuple[FrameReader, FrameWriter]:
    reader = open_reader(NonBlockingFd(source, writing=False), max_message_bytes)
    return reader, open_writer(NonBlockingFd(target, writing=True))


def _status(returncode: int) -> str:
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"
