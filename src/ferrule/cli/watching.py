"""Detects changed source files by polling: needs no library and no descriptor per folder, on every platform."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Final

__all__ = ["POLL_S", "SourceWatch", "exit_when_sources_change", "read_pages_again"]

POLL_S: Final = 0.25
"""Seconds between two polls; a poll of 200 files takes about 2 ms."""
MAX_FILES: Final = 5000
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})


class SourceWatch:
    """Detects changes of the Python files below a file's folder.

    Args:
        path: the file that is served.
    """

    def __init__(self, path: Path) -> None:
        self._root = path.resolve().parent
        self._seen = self._scan()

    def changed(self) -> list[str]:
        """Return the files that were added, removed or written since the last call."""
        now = self._scan()
        before, self._seen = self._seen, now
        return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))

    def _scan(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for folder, folders, names in os.walk(self._root):
            folders[:] = [name for name in folders if name not in _SKIPPED and not name.startswith(".")]
            for name in names:
                if name.endswith(".py"):
                    path = os.path.join(folder, name)
                    try:
                        status = os.stat(path)
                    except OSError:  # it went between the two calls
                        continue
                    found[path] = (status.st_mtime_ns, status.st_size)
            if len(found) > MAX_FILES:
                break
        return found


def read_pages_again() -> None:
    """Make the servers of this process, and of those that it starts, read a changed page of an app again.

    A page is no source: a server takes it without a new start, see `ferrule.extensions.apps.Apps`.
    """
    os.environ["FERRULE_RELOAD"] = "1"


def exit_when_sources_change(path: Path) -> None:
    """End this process, with its clean-up, when a source file changes; a thread watches the files."""
    watch = SourceWatch(path)

    def look() -> None:
        while not watch.changed():
            time.sleep(POLL_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=look, name="ferrule-reload", daemon=True).start()
