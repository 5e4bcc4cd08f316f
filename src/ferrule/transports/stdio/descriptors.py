"""File descriptors: what kind one is, using it without blocking, and taking stdin and stdout for the wire.

Three rules that a newcomer would break:

- ``O_NONBLOCK`` belongs to the *open file description*, which other processes share (the shell that started us, a
  terminal, ``2>&1``). So a pipe or terminal is opened anew where the system can (Linux, ``/proc/self/fd``), and
  elsewhere the flag is put back on closing; a terminal's flag is never touched.
- Descriptors 0 and 1 are what a stray ``print`` and every child process use. While a server speaks over them the wire
  lives on private duplicates, fd 0 is the null device and fd 1 is a copy of fd 2.
- A forked child without an ``exec`` (``multiprocessing``, ``os.fork``) has copies of *all* descriptors. A copy keeps
  a pipe open after both ends think that it is closed, so the child drops them at birth.

Nothing here knows an event loop.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from collections.abc import Callable
from typing import Final, Literal, Protocol, TextIO
from weakref import WeakSet

__all__ = [
    "NonBlockingFd",
    "ReservedStdio",
    "fd_kind",
    "grow_pipe",
    "open_missing_standard_fds",
    "private_duplicate",
    "unread_bytes",
]

FdKind = Literal["pipe", "socket", "terminal", "file", "device", "closed"]

_LOWEST_PRIVATE_FD: Final = 10
_LARGE_PIPE_BYTES: Final = 1 << 20
"""Linux lets an ordinary process have pipes of this size (``fs.pipe-max-size``)."""


def fd_kind(fd: int) -> FdKind:
    """How a descriptor can be waited for.

    Returns:
        ``"pipe"``, ``"socket"`` or ``"terminal"``: an event loop can wait for it (on POSIX); ``"file"``: a regular
        file, always ready; ``"device"``: everything else, the null device included; ``"closed"``.
    """
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return "closed"
    if stat.S_ISFIFO(mode):
        return "pipe"
    if stat.S_ISSOCK(mode):
        return "socket"
    if stat.S_ISCHR(mode) and os.isatty(fd):
        return "terminal"
    return "file" if stat.S_ISREG(mode) else "device"


def private_duplicate(fd: int) -> int:
    """Return a duplicate that no child process inherits, and never 0, 1 or 2 even when one of these is closed."""
    if sys.platform == "win32":
        import msvcrt

        copy = os.dup(fd)
        msvcrt.setmode(copy, os.O_BINARY)
        return copy
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LOWEST_PRIVATE_FD)


def grow_pipe(fd: int) -> None:
    """Let a pipe hold a megabyte if the system allows it: a large message needs fewer wake-ups. Never fails."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _LARGE_PIPE_BYTES)


def unread_bytes(fd: int, kind: FdKind) -> int | None:
    """How much of what was written to a pipe or socket its reader has not read yet.

    Returns:
        Bytes for a pipe; for a socket a number that is 0 once all is read; 0 for what has no reader (a file, a
        terminal); ``None`` where the system does not tell.
    """
    if kind not in ("pipe", "socket"):
        return 0
    if sys.platform != "linux":
        return None
    import fcntl
    import struct
    import termios

    request = termios.FIONREAD if kind == "pipe" else termios.TIOCOUTQ
    try:
        return int(struct.unpack("i", fcntl.ioctl(fd, request, bytes(4)))[0])
    except OSError:
        return None


class NonBlockingFd:
    """A descriptor of ours that never blocks, made from one that may; closing undoes what making it changed.

    Args:
        fd: taken over: closed by `close`, or at once when the system could open the same pipe anew.
        writing: the direction.

    Attributes:
        fd: what to read or write; -1 once closed.
        kind: see `fd_kind`.
        pollable: whether an event loop may wait for it. When false, reading and writing may block (a regular file,
            the null device, a terminal whose flags must stay as they are).
    """

    __slots__ = ("__weakref__", "_flag_was_set_here", "fd", "kind", "pollable")

    def __init__(self, fd: int, *, writing: bool) -> None:
        self.fd = fd
        self.kind: FdKind = fd_kind(fd)
        self.pollable = False
        self._flag_was_set_here = False
        _drop_in_forked_child(self)
        if sys.platform == "win32" or self.kind in ("file", "device", "closed"):
            return
        if not os.get_blocking(fd):
            self.pollable = True
            return
        again = _open_again(fd, self.kind, writing=writing)
        if again is not None:
            os.close(fd)
            self.fd = again
            self.pollable = True
        elif self.kind != "terminal":
            os.set_blocking(fd, False)
            self._flag_was_set_here = True
            self.pollable = True

    def close(self) -> None:
        """Restore the shared flag if it was changed, and close. Idempotent."""
        fd, self.fd = self.fd, -1
        if fd < 0:
            return
        with contextlib.suppress(OSError):
            if self._flag_was_set_here:
                os.set_blocking(fd, True)
        with contextlib.suppress(OSError):
            os.close(fd)

    def forget(self) -> None:
        """In a forked child: close the copy and leave the shared flag, which belongs to the parent, alone."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


def _open_again(fd: int, kind: FdKind, *, writing: bool) -> int | None:
    """The same anonymous pipe or terminal with an open file description of its own; ``None`` where that cannot be had.

    A *named* pipe is left out: after opening it anew, Linux reports its end only once another writer has come.
    """
    if sys.platform != "linux" or kind == "socket":
        return None
    path = f"/proc/self/fd/{fd}"
    try:
        if kind == "pipe" and not os.readlink(path).startswith("pipe:"):
            return None
        access = os.O_WRONLY if writing else os.O_RDONLY
        again = os.open(path, access | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    if again < 3:  # one of the standard three is closed: keep out of its place
        moved = private_duplicate(again)
        os.close(again)
        return moved
    return again


class _Forgettable(Protocol):
    def forget(self) -> None: ...


_to_forget: WeakSet[_Forgettable] = WeakSet()


def _drop_in_forked_child(item: _Forgettable) -> None:
    _to_forget.add(item)


def _forget_in_child() -> None:
    for item in list(_to_forget):
        item.forget()
    _to_forget.clear()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forget_in_child)


def open_missing_standard_fds() -> None:
    """Open the null device in the place of each standard descriptor that is closed.

    To be called before anything else opens a descriptor: it would get the free number, and then be mistaken for
    stdin, or replaced by `ReservedStdio`.
    """
    for fd in (0, 1, 2):
        if fd_kind(fd) == "closed":
            null = os.open(os.devnull, os.O_RDWR)
            if null != fd:  # cannot happen, in order, unless another thread is quicker
                os.dup2(null, fd)
                os.close(null)
            os.set_inheritable(fd, True)


_reserved = False


class ReservedStdio:
    """The process's stdin and stdout, taken for the wire until `restore`, or for good with `keep`.

    From construction on fd 0 is the null device, fd 1 goes where fd 2 goes (to the null device when stderr is
    closed), and ``sys.stdout`` writes a line at once and replaces what its encoding lacks. Child processes inherit
    these, so a tool's ``subprocess.run([...])`` can neither read requests nor write into the answers.

    Attributes:
        stdin_fd: private descriptor of the real stdin; -1 when the process was started without one.
        stdout_fd: the same for stdout.

    Raises:
        RuntimeError: they are reserved already (two servers on one stdin: the program's mistake).
    """

    def __init__(self) -> None:
        global _reserved
        if _reserved:
            raise RuntimeError("stdin and stdout already carry another server of this process")
        self._saved: list[tuple[int, int, bool]] = []
        self.stdin_fd = self._take(0)
        self.stdout_fd = self._take(1)
        null = os.open(os.devnull, os.O_RDWR)
        try:
            os.dup2(null, 0, inheritable=True)
            os.set_inheritable(0, True)  # dup2 onto itself, if stdin was closed, would not
            if fd_kind(2) == "closed":
                os.dup2(null, 2, inheritable=True)
                self._saved.append((2, -1, True))
            os.dup2(2, 1, inheritable=True)
        finally:
            if null > 2:
                os.close(null)
        # Also writes out what the program printed before and nobody has flushed yet: not on the wire.
        self._restore_text = _make_text_immediate()
        _flush(sys.stdout)
        _reserved = True
        _drop_in_forked_child(self)

    def _take(self, fd: int) -> int:
        try:
            saved = private_duplicate(fd)
        except OSError:
            self._saved.append((fd, -1, True))
            return -1
        self._saved.append((fd, saved, os.get_inheritable(fd)))
        return private_duplicate(fd)

    def forget(self) -> None:
        """In a forked child: its 0 and 1 stay diverted for good, and the copies of the wire are closed."""
        global _reserved
        saved, self._saved = self._saved, []
        for _, copy, _ in saved:
            if copy >= 0:
                with contextlib.suppress(OSError):
                    os.close(copy)
        _reserved = False

    def keep(self) -> None:
        """Leave 0 and 1 diverted for the rest of the process, and give up what `restore` would need. Idempotent."""
        global _reserved
        saved, self._saved = self._saved, []
        for _, copy, _ in saved:
            if copy >= 0:
                os.close(copy)
        if saved:
            _reserved = False

    def restore(self) -> None:
        """Put 0, 1 and ``sys.stdout`` back as they were. What was printed meanwhile has gone to stderr. Idempotent.

        `stdin_fd` and `stdout_fd` are not closed: whoever used them does that.
        """
        global _reserved
        saved, self._saved = self._saved, []
        if not saved:
            return
        _flush(sys.stdout)
        self._restore_text()
        for fd, copy, inheritable in saved:
            if copy < 0:
                os.close(fd)
            else:
                os.dup2(copy, fd, inheritable=inheritable)
                os.close(copy)
        _reserved = False


def _flush(stream: TextIO | None) -> None:
    if stream is not None:  # as under pythonw
        with contextlib.suppress(OSError, ValueError):  # a broken pipe, closed
            stream.flush()


def _make_text_immediate() -> Callable[[], None]:
    """Make ``sys.stdout`` fit for stderr if it is the text layer over fd 1; returns what undoes it."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper):
        return _nothing
    try:
        if stream.fileno() != 1:
            return _nothing
        line_buffering, errors = stream.line_buffering, stream.errors
        stream.reconfigure(line_buffering=True, errors="backslashreplace")
    except (OSError, ValueError):
        return _nothing

    def undo() -> None:
        with contextlib.suppress(OSError, ValueError):
            stream.reconfigure(line_buffering=line_buffering, errors=errors)

    return undo


def _nothing() -> None:
    pass
