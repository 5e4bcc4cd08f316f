"""Where audit records go: a file with a bound, a logger, or a function."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

__all__ = ["AuditFile", "AuditFunction", "AuditLog", "AuditSink"]

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_MODE: Final = 0o600
"""Records name people: only the owner of the process reads them."""


@runtime_checkable
class AuditSink(Protocol):
    """Writes records, one at a time, in a thread."""

    def write(self, record: Mapping[str, Any], line: bytes, /) -> None:
        """Write one record.

        Args:
            record: the record as JSON.
            line: the same, encoded, without a line end.

        Raises:
            Exception: it is not written; the audit's ``on_failure`` says what follows.
        """
        ...


AuditFunction: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[object] | object]
"""A function that takes one record. An async one runs on an event loop of the audit, in a thread."""


class AuditFile:
    """JSON Lines in a file, which is renamed to ``name.1`` when it is full, that one to ``name.2``, and so on.

    Several processes may write to one file: each line is one write, and a lock is held around the change of files
    (the file ``name.lock``; not on Windows: there put ``{pid}`` into the name). The files are readable for their owner
    only.

    Args:
        path: the path of the file; ``{pid}`` in it is the id of the process.
        max_bytes: bytes of one file.
        backups: older files that are kept; 0 for none. The audit has at most ``max_bytes * (backups + 1)`` bytes.
        fsync: wait for the disk after each record.

    Raises:
        ValueError: a number is too small.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, max_bytes: int = 64 << 20, backups: int = 9, fsync: bool = False
    ) -> None:
        if max_bytes < 1024 or backups < 0:
            raise ValueError("max_bytes is at least 1024, and backups at least 0")
        self._path = os.fspath(path)
        self._max_bytes = max_bytes
        self._backups = backups
        self._fsync = fsync
        self._lock = threading.Lock()

    @property
    def path(self) -> Path:
        """The file of this process."""
        return Path(self._path.replace("{pid}", str(os.getpid())))

    def write(self, record: Mapping[str, Any], line: bytes, /) -> None:
        """See `AuditSink`; the file is opened for each record, so that it may be moved or deleted at any time."""
        path = self.path
        with self._lock, _locked(path):
            if _size(path) + len(line) + 1 > self._max_bytes:
                self._rotate(path)
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _MODE)
            try:
                written = os.write(descriptor, line + b"\n")
                if written != len(line) + 1:  # a full disk: the part of a line would spoil the next one
                    os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
                    raise OSError(f"{path} has no room")
                if self._fsync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _rotate(self, path: Path) -> None:
        if not self._backups:
            path.unlink(missing_ok=True)
            return
        for number in range(self._backups - 1, 0, -1):
            with suppress(FileNotFoundError):
                Path(f"{path}.{number}").replace(f"{path}.{number + 1}")
        with suppress(FileNotFoundError):
            path.replace(f"{path}.1")


class _locked:  # noqa: N801 - used like a function
    """Holds the lock of a file's writers, which is a file beside it."""

    def __init__(self, path: Path) -> None:
        self._path = f"{path}.lock"
        self._descriptor: int | None = None

    def __enter__(self) -> None:
        if fcntl is not None:
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, _MODE)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)  # this releases the lock


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


class AuditLog:
    """One log message for each record: its JSON.

    Args:
        logger: the logger or its name.
        level: the level of the messages.
    """

    def __init__(self, logger: logging.Logger | str = "ferrule.audit", *, level: int = logging.INFO) -> None:
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self._level = level

    def write(self, record: Mapping[str, Any], line: bytes, /) -> None:
        """See `AuditSink`."""
        self._logger.log(self._level, "%s", line.decode())
