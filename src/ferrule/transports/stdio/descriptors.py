"""File descriptors: their kinds, non-blocking use, and reserving stdin and stdout for messages.

Three rules:

- ``O_NONBLOCK`` belongs to the *open file description*, which other processes share (the shell that started this one, a
  terminal, ``2>&1``). So a pipe or terminal is opened again where the system allows it (Linux, ``/proc/self/fd``).
  Elsewhere the flag is restored on closing; the flag of a terminal is never changed.
- ``print`` and all child processes use descriptors 0 and 1. While a server uses stdin and stdout, its messages use
  private duplicates; descriptor 0 is the null device and 1 a copy of 2.
- A forked child without an ``exec`` (``multiprocessing``, ``os.fork``) has copies of *all* descriptors. A copy keeps a
  pipe open after both ends were closed, so the child closes them immediately after the fork.

This module uses no event loop.
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

# Shells and programs use small numbers for redirections.
_LOWEST_PRIVATE_FD: Final = 10
_LARGE_PIPE_BYTES: Final = 1 << 20
"""Linux lets an ordinary process have pipes of this size (``fs.pipe-max-size``)."""


def fd_kind(fd: int) -> FdKind:
    """Return the kind of a descriptor.

    ``"pipe"``, ``"socket"`` and ``"terminal"``: an event loop can wait for it (on POSIX). ``"file"``: a regular file,
    which is always ready. ``"device"``: all others, also the null device. ``"closed"``: not open.
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
    """Return a duplicate that no child process inherits; never 0, 1 or 2, even if one of these is closed."""
    if sys.platform == "win32":
        import msvcrt

        copy = os.dup(fd)
        # Otherwise Windows would write each newline as two characters.
        msvcrt.setmode(copy, os.O_BINARY)
        return copy
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LOWEST_PRIVATE_FD)


def grow_pipe(fd: int) -> None:
    """Set the capacity of a pipe to a megabyte, if the system allows it, so that large messages need fewer wake-ups."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _LARGE_PIPE_BYTES)


def unread_bytes(fd: int, kind: FdKind) -> int | None:
    """Return how many written bytes of a pipe or socket its reader has not read yet.

    Returns:
        The number of bytes of a pipe; for a socket a number that is 0 when everything is read; 0 for files and
        terminals, which have no reader; ``None`` if the system does not report it.
    """
    if kind not in ("pipe", "socket"):
        return 0
    if sys.platform != "linux":
        return None
    import fcntl
    import struct
    import termios

    # For a pipe the bytes in it, at either end; for a socket those that the other side has not acknowledged.
    request = termios.FIONREAD if kind == "pipe" else termios.TIOCOUTQ
    try:
        return int(struct.unpack("i", fcntl.ioctl(fd, request, bytes(4)))[0])
    except OSError:
        return None


class NonBlockingFd:
    """A non-blocking descriptor, made from one that may block; `close` restores the changed flag.

    Args:
        fd: owned from now on: closed by `close`, or immediately if the same pipe could be opened again.
        writing: whether it is written to; read otherwise.

    Attributes:
        fd: the descriptor to read or write; -1 after `close`.
        kind: see `fd_kind`.
        pollable: whether an event loop can wait for it. If not, reading and writing may block (a regular file, the null
            device, a terminal whose flags must not be changed).
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
        """Close the copy in a forked child, without changing the shared flag, which belongs to the parent."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


def _open_again(fd: int, kind: FdKind, *, writing: bool) -> int | None:
    """Return the same anonymous pipe or terminal with another open file description; ``None`` if it cannot be opened.

    Not for *named* pipes: after opening one again, Linux reports its end only after another writer has opened it.
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
    if again < 3:  # a standard descriptor is closed; its number must not be used for the pipe
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
    """Open the null device for each standard descriptor that is closed.

    To be called before any other descriptor is opened: that would get the free number, and then be used as stdin, or be
    replaced by `ReservedStdio`.
    """
    for fd in (0, 1, 2):
        if fd_kind(fd) == "closed":
            null = os.open(os.devnull, os.O_RDWR)
            if null != fd:  # only if another thread opened or closed a descriptor meanwhile
                os.dup2(null, fd)
                os.close(null)
            os.set_inheritable(fd, True)


_reserved = False


class ReservedStdio:
    """The stdin and stdout of the process, reserved for messages until `restore`, or permanently by `keep`.

    After construction descriptor 0 is the null device, descriptor 1 is a copy of 2 (the null device if stderr is
    closed), and ``sys.stdout`` writes each line immediately and replaces characters that its encoding lacks. Child
    processes inherit these, so that a tool's ``subprocess.run([...])`` can neither read requests nor write between
    responses.

    Attributes:
        stdin_fd: private duplicate of stdin; -1 if the process was started without one.
        stdout_fd: the same for stdout.

    Raises:
        RuntimeError: they are reserved already (two servers on one stdin: a mistake of the program).
    """

    def __init__(self) -> None:
        global _reserved
        if _reserved:
            raise RuntimeError("Another server of this process already uses stdin and stdout")
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
        # This also writes output that was printed before and not flushed, so that it goes to stderr.
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
        """Close the duplicates in a forked child; its descriptors 0 and 1 stay replaced."""
        global _reserved
        saved, self._saved = self._saved, []
        for _, copy, _ in saved:
            if copy >= 0:
                with contextlib.suppress(OSError):
                    os.close(copy)
        _reserved = False

    def keep(self) -> None:
        """Leave descriptors 0 and 1 replaced until the process ends, and close the duplicates. Idempotent."""
        global _reserved
        saved, self._saved = self._saved, []
        for _, copy, _ in saved:
            if copy >= 0:
                os.close(copy)
        if saved:
            _reserved = False

    def restore(self) -> None:
        """Restore descriptors 0 and 1 and ``sys.stdout``; output until now has been written to stderr. Idempotent.

        `stdin_fd` and `stdout_fd` are not closed; the code that used them does that.
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
    """Make ``sys.stdout`` write lines immediately, if it uses descriptor 1; return a function that undoes it."""
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
