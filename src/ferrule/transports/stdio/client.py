"""A server as a child process: its start, its streams, its stderr and its end.

The process gets a session (POSIX) or a process group (Windows) of its own, so that closing ends everything that it
started, and a Ctrl-C in the terminal reaches only this process. Its environment consists of a short list of variables
without secrets and those that the caller adds, so that secrets of an agent do not reach every server. stderr is always
read, so that a server which logs much never blocks; its last lines are part of each error about the process.

Closing follows the specification ("stdio", shutdown): close stdin, wait, send SIGTERM to the group, wait, send SIGKILL
to the group. It takes at most the sum of the three waits of `StdioServer`. Any task may close.

On Windows there is no signal for a group. The second step sends CTRL_BREAK, the third runs ``taskkill /T /F``, which
finds the process tree by parent ids: a grandchild whose parent has already ended is not found (that would need a Job
Object).
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
"""Variables that a server gets by default: the user's name, folders and language. Usually none of them contains a
secret; variables of proxies and tokens are not in the list."""

DEFAULT_MAX_MESSAGE_BYTES: Final = 64 << 20
_STDERR_TAIL_BYTES: Final = 16 * 1024
_ERROR_LINES: Final = 10
_STATUS_WAIT_S: Final = 0.5
"""Seconds that an error about closed streams waits for the exit status of the process."""
_GROUP_GRACE_S: Final = 0.25
"""Seconds after the end of the server until the processes that it started get SIGTERM."""

StderrMode: TypeAlias = "Literal['capture', 'inherit'] | Callable[[str], object]"


@dataclass(frozen=True, slots=True)
class StdioServer:
    """The command and the options to start a server that uses its stdin and stdout.

    Attributes:
        command: the program; a name without a folder is looked up in PATH.
        args: its arguments.
        env: variables added to the filtered environment (see `SAFE_ENVIRONMENT`).
        cwd: its working folder; ``None`` for that of this process.
        inherit_env: names of further variables to pass on; ``True`` passes all of them.
        stderr: ``"capture"`` reads it, keeps the last 16 KiB for error messages and logs each line at DEBUG to
            ``ferrule.client.stdio``; a function is called with each line instead, in the thread of the event loop;
            ``"inherit"`` lets the server write to the stderr of this process, and errors then cannot quote it.
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
        """The command line without arguments that may contain secrets: the program and its first plain argument."""
        first = next((f" {argument}" for argument in self.args[:1] if not argument.startswith("-")), "")
        return f"{os.path.basename(self.command) or self.command}{first}"


class ServerStartFailed(LocalError):
    """A server process could not be started.

    Attributes:
        server: the label of the server.
        program: the settings with which it was to be started.
    """

    def __init__(self, server: StdioServer, why: str) -> None:
        super().__init__(f"Cannot start the server {server.command!r}: {why}")
        self.server = server.label
        self.program = server


class ServerProcessEnded(ConnectionClosed):
    """A server process ended, or closed its stdout, while it was still needed.

    Attributes:
        server: the label of the server.
        program: the settings with which it was started.
        returncode: exit status, negative for a signal; ``None`` if it is not known (yet).
        stderr: the last lines of its stderr; empty if it was not captured.
        after_s: seconds since it was started.
    """

    def __init__(
        self, server: StdioServer, returncode: int | None, stderr: str, after_s: float, closed: str = "output"
    ) -> None:
        what = f"closed its {closed}" if returncode is None else f"ended with {_status(returncode)}"
        lines = f"; the last lines of its stderr:\n{stderr}" if stderr else ""
        super().__init__(f"The server {server.label!r} {what} after {after_s:.1f} s{lines}")
        self.server = server.label
        self.program = server
        self.returncode = returncode
        self.stderr = stderr
        self.after_s = after_s


def safe_environment(extra: Mapping[str, str] | None = None, *, inherit: Iterable[str] | bool = ()) -> dict[str, str]:
    """Return the environment of a server: `SAFE_ENVIRONMENT`, the names in ``inherit`` (``True``: all), ``extra``."""
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
    """Start a server and return it with open streams, before any handshake.

    Raises:
        ServerStartFailed: the program or the folder does not exist, or may not be used.
    """
    return ServerProcess(server)


class ServerProcess:
    """A running server and its stream pair. Made by `connect_stdio`; any task may close it.

    Attributes:
        server: the settings with which it was started.
        read_stream: `receive` returns each message as `StreamMessage`; lines that are not a JSON object are skipped,
            and logged once per kind. At the end it raises `anyio.EndOfStream`, caused by a `ServerProcessEnded` unless
            this side closed.
        write_stream: `send` writes each message.
        is_deaf: whether the process has closed its input, or has ended.
        is_closing: whether `aclose` was called.
    """

    def __init__(self, server: StdioServer) -> None:
        self.server = server
        # First, for the error if the process ends at once.
        self._started_at = time.monotonic()
        self._tail = LineTail(_STDERR_TAIL_BYTES)
        self._stderr_watch: Watch | None = None
        self._stderr: NonBlockingFd | None = None
        self.is_closing = False
        self._closed = anyio.Event()
        self._process = _start(server, self._on_exit)
        stdin, stdout, stderr = self._process.take_pipes()
        self._reader, self._writer = _open_pair(stdout, stdin, server.max_message_bytes)
        self.is_deaf = False
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

    async def why_ended(self) -> ServerProcessEnded:
        """Return the error for calls without a response after the end of the process; wait briefly for its status."""
        with anyio.move_on_after(_STATUS_WAIT_S):
            await self._process.exited.wait()
        self._read_stderr_rest()
        return ServerProcessEnded(
            self.server,
            self.returncode,
            self._tail.text(_ERROR_LINES),
            time.monotonic() - self._started_at,
            "input" if self.is_deaf else "output",
        )

    async def aclose(self) -> None:
        """End the server and everything that it started, within `StdioServer`'s three waits. Idempotent.

        If the call is cancelled, the processes are killed immediately.
        """
        if self.is_closing:
            await self._closed.wait()
            return
        # Set before the first wait: a concurrent `aclose` must wait for this one.
        self.is_closing = True
        try:
            await self._shut_down()
        finally:
            # Also after a cancellation, and for what has survived SIGTERM; without effect on a group that has ended.
            self._process.kill()
            self._read_stderr_rest()
            self._stop_stderr()
            self.close_stdin()
            self._reader.close()
            self._process.release()
            self._closed.set()

    async def _shut_down(self) -> None:
        server, process = self.server, self._process
        self._reader.discard()  # otherwise a server with responses left to write would block on a full pipe
        with anyio.move_on_after(server.close_s):
            await self._writer.wait_below(0)
            self.close_stdin()
            await process.exited.wait()
            # The server has ended; what it started may need a moment to notice.
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

    # -- callbacks of the event loop ----------------------------------------------------------------------------

    def _watch_stdin(self, fd: int) -> Watch | None:
        """Watch for the close of the server's input: the writing end of a pipe becomes "readable" then.

        Otherwise a request that was written just before would wait for a response that cannot come.
        """
        if os.name == "nt" or runs_on_trio():  # trio does not let two tasks wait for one descriptor
            return None
        try:
            return watch_readable(fd, self._on_deaf)
        except (OSError, ValueError, NotImplementedError, RuntimeError):
            return None  # the next write then fails

    def _on_deaf(self) -> bool:
        """Handle the close of its input: no further call can reach it, but responses may still arrive for a second."""
        if not self.is_deaf:
            self.is_deaf = True
            self._deaf_timer = call_every(_LAST_ANSWERS_S, self._end_reading)
        return False

    def _end_reading(self) -> bool:
        self._reader.finish()
        return False

    def close_stdin(self) -> None:
        """Close its input, which means that it should end ("stdio", shutdown)."""
        for watch in (self._stdin_watch, self._deaf_timer):
            if watch is not None:
                watch.cancel()
        self._writer.close()

    def _on_exit(self) -> None:
        """Handle the end of the process. Its children may keep the pipes open, so their end is not awaited."""
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
            self._report(self._tail.feed(chunk))
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
        """Take a chunk from a thread, which reads where the event loop cannot wait for the pipe."""
        if chunk:
            self._report(self._tail.feed(chunk))
            watch_blocking(self._read_stderr_chunk, self._next_stderr_chunk, name=f"ferrule-stderr-{self.pid}")
        else:
            self._report(self._tail.finish())
            if self._stderr is not None:
                self._stderr.close()

    def _read_stderr_rest(self) -> None:
        """Read what has arrived, in a bounded number of reads: other processes may continue to write to the pipe."""
        if self._stderr is not None and self._stderr.pollable and self._stderr.fd >= 0:
            for _ in range(LAST_READS):
                chunk = self._read_stderr_chunk()
                if not chunk:
                    break
                self._report(self._tail.feed(chunk))

    def _stop_stderr(self) -> None:
        if self._stderr_watch is not None:
            self._stderr_watch.cancel()
            self._stderr_watch = None
        if self._stderr is not None and self._stderr.pollable:
            self._stderr.close()

    @cached_property
    def _on_line(self) -> Callable[[str], object] | None:
        import logging

        if callable(self.server.stderr):
            return self.server.stderr
        log = logging.getLogger("ferrule.client.stdio")
        if not log.isEnabledFor(logging.DEBUG):
            return None
        return lambda line: log.debug("%s: %s", self.server.label, line)

    def _report(self, lines: Iterable[str]) -> None:
        on_line = self._on_line
        if on_line is None:
            return
        for line in lines:
            try:
                on_line(line)
            except Exception:
                import logging

                logging.getLogger("ferrule.client.stdio").exception(
                    "The stderr function of %s failed", self.server.label
                )


class ServerOutput:
    """The messages that a server writes to its stdout.

    Attributes:
        decode: returns the JSON value of a line, or raises `DecodeError`; may be replaced before the first `receive`,
            by a program that records the lines.
    """

    def __init__(self, process: ServerProcess, reader: FrameReader) -> None:
        self.decode: Callable[[bytes], Any] = decode
        self._process = process
        self._reader = reader
        self._frames = reader.frames
        self._warned: set[str] = set()
        self._has_answered = False
        self._closed = False

    async def receive(self) -> StreamMessage:
        """Return the next message.

        Raises:
            anyio.EndOfStream: there are no more; its cause is a `ServerProcessEnded` unless this side closed.
        """
        while True:
            try:
                frame = self._frames.popleft() if self._frames else await self._reader.next_frame()
            except anyio.EndOfStream:
                if self._closed or self._process.is_closing:
                    raise
                raise anyio.EndOfStream from await self._process.why_ended()
            if isinstance(frame, FrameTooLong):
                self._warn_once("longer than max_message_bytes", f"{frame.size} bytes and more")
                continue
            try:
                message: Any = self.decode(frame)
            except DecodeError as error:
                self._warn_once("not JSON", f"{frame[:_QUOTE_BYTES]!r} ({error})")
                message = None if self._has_answered else _answer_behind(frame)
                if message is None:
                    continue
            if _is_message(message):
                self._has_answered = self._has_answered or "method" not in message
                return StreamMessage(message, _TRANSPORT)
            self._warn_once("JSON, but no message", repr(frame[:_QUOTE_BYTES]))

    def show_frames(self, take: TakeFrames | None) -> None:
        """See `ShowsFrames`."""
        self._reader.show_to = take

    def frames_taken(self, count: int, unanswered: int) -> None:
        """See `ShowsFrames`."""
        self._has_answered = True

    async def aclose(self) -> None:
        """Stop reading; later output of the server is discarded."""
        self._closed = True
        self._reader.discard()

    def _warn_once(self, kind: str, what: str) -> None:
        if kind in self._warned:
            return
        self._warned.add(kind)
        import logging

        logging.getLogger("ferrule.client.stdio").warning(
            "The server %r wrote a line to its stdout that is %s; skipped: %s. Only messages belong there; a program "
            "logs to stderr. Further lines of this kind are skipped without a warning.",
            self._process.server.label,
            kind,
            what,
        )


class ServerInput:
    """The messages that a server reads from its stdin."""

    encodes = True

    def __init__(self, process: ServerProcess, writer: FrameWriter) -> None:
        self._process = process
        self._writer = writer
        self._outbox = writer.outbox

    async def send(self, item: StreamMessage) -> None:
        """Queue one message; wait while more than a megabyte is unsent.

        Raises:
            anyio.ClosedResourceError: this side has closed.
            anyio.BrokenResourceError: the process has ended or closed its stdin; caused by a `ServerProcessEnded`.
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
        outbox, process = self._outbox, self._process
        return outbox.broken or outbox.unsent_bytes > HIGH_WATER_BYTES or process.is_deaf or process.is_closing

    def send_pieces(self, pieces: list[bytes], *, flush: bool) -> None:
        """See `WritesPieces`."""
        self._writer.send_pieces(pieces, flush=flush)

    async def aclose(self) -> None:
        """Write what is queued, for ``close_s`` seconds at most, and close the server's stdin, which ends it."""
        try:
            with anyio.move_on_after(self._process.server.close_s):
                await self._writer.wait_below(0)
        finally:
            self._process.close_stdin()


_QUOTE_BYTES: Final = 200
_LAST_ANSWERS_S: Final = 1.0
# Each attempt decodes the rest of the line, so that size and number of attempts are bounded.
_MAX_GREETED_BYTES: Final = 1 << 20
_MAX_BRACES: Final = 16
_TRANSPORT: Final = TransportContext("stdio")


def _answer_behind(frame: bytes) -> Any:
    """Return the response at the end of a line that begins with something else; ``None`` if there is none.

    Some programs write a byte order mark, an escape sequence or a greeting without a line end before their first
    response, which would be lost. A request is not accepted there, since a log line may quote one.
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
    """Return whether this is an object or an array of messages (2025-03-26), and not another list."""
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
