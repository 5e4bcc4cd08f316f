"""Finds tracebacks among the lines of stderr, and the files and lines that they name.

It reads the text that Python itself prints, so that it works for servers of every library. A process may write
anything: every bound here also holds for text that only looks like a traceback.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import ferrule

__all__ = ["Crash", "CrashReader", "is_own_file"]

MAX_LINES: Final = 400
"""Lines of one crash that are kept: the first and the last. The rest is in the log of stderr only."""
MAX_FRAMES: Final = 100
"""Frames of one exception that are kept: the outermost and the innermost."""
MAX_RAISED: Final = 20
"""Exceptions of one crash; a further one is a new crash."""
MAX_LINE_CHARS: Final = 1000

_GROUP: Final = re.compile(r"^\s*\|(?: |$)")
_START: Final = re.compile(r"^\s*(?:\+ )?(?:Exception Group )?Traceback \(most recent call last\):\s*$")
_FRAME: Final = re.compile(r'^  File "([^"]+)", line (\d+)(?:, in (.*))?$')
_MARKS: Final = re.compile(r"^[\s~^]+$")
_CHAINED: Final = re.compile(
    r"^(?:During handling of the above exception|The above exception was the direct cause|\s*\+-)"
)
_FERRULE: Final = Path(ferrule.__file__).resolve().parent
_LIBRARIES: Final = re.compile(
    r"[/\\](?:site-packages|dist-packages|node_modules)[/\\]|[/\\]lib[/\\]python3", re.IGNORECASE
)


@dataclass(slots=True)
class _Raised:
    """One exception of a crash: its line, and its frames, the outermost first."""

    line: str = ""
    frames: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass(slots=True)
class Crash:
    """A traceback with the exceptions that it chains.

    Attributes:
        heading: the line before it, in which a logger names what failed.
        lines: its text.
    """

    heading: str
    lines: list[str] = field(default_factory=list[str])
    raised: list[_Raised] = field(default_factory=list[_Raised])

    def describe(self) -> dict[str, Any]:
        """Return it as the JSON object that the page shows; the exception that was raised last comes first.

        The frames of an exception are in the order of nearness: the innermost of the developer's own files first.
        """
        exceptions: list[dict[str, Any]] = []
        for each in reversed(self.raised):
            kind, _, message = each.line.partition(": ")
            frames = list(reversed(each.frames))
            frames.sort(key=lambda frame: not frame["is_own"])
            exceptions.append({"type": kind, "message": message, "frames": frames})
        return {"heading": self.heading, "exceptions": exceptions, "text": "\n".join(self.lines)}


class CrashReader:
    """Collects crashes from lines.

    Args:
        on_crash: called with a crash when its first exception is complete, and again with the same object when it
            grows by a chained exception.
    """

    def __init__(self, on_crash: Callable[[Crash], object]) -> None:
        self._on_crash = on_crash
        self._heading = ""
        self._crash: Crash | None = None
        self._has_ended = False  # the line of the exception was read
        self._is_chained = False

    def feed(self, line: str) -> None:
        """Take the next line of stderr, without its end."""
        line = line.rstrip("\r\n")[:MAX_LINE_CHARS]
        inner = _GROUP.sub("", line)
        if _START.match(inner):
            self._begin()
        if self._crash is None:
            self._heading = line.strip() or self._heading
            return
        if self._has_ended and not self._goes_on(line, inner):
            self._crash, self._heading = None, line.strip()
            return
        self._crash.lines.append(line)
        if len(self._crash.lines) > MAX_LINES:
            del self._crash.lines[MAX_LINES // 2]
        self._read(inner)

    def _begin(self) -> None:
        is_new = self._crash is None or (self._has_ended and not self._is_chained)
        if self._crash is None or is_new or len(self._crash.raised) == MAX_RAISED:
            self._crash = Crash(self._heading)
        self._crash.raised.append(_Raised())
        self._has_ended = self._is_chained = False

    def _goes_on(self, line: str, inner: str) -> bool:
        self._is_chained = self._is_chained or _CHAINED.match(line) is not None
        return self._is_chained or not inner.strip() or inner[0].isspace()

    def _read(self, inner: str) -> None:
        assert self._crash is not None
        raised = self._crash.raised[-1]
        found = _FRAME.match(inner)
        if self._has_ended or _START.match(inner):
            return
        if found is not None:
            file, number, function = found.groups()
            raised.frames.append(
                {
                    "file": file,
                    "line": int(number),
                    "function": function or "",
                    "source": "",
                    "is_own": is_own_file(file),
                }
            )
            if len(raised.frames) > MAX_FRAMES:
                del raised.frames[MAX_FRAMES // 2]
        elif inner.startswith("    "):
            if raised.frames and not raised.frames[-1]["source"] and not _MARKS.match(inner):
                raised.frames[-1]["source"] = inner.strip()
        elif inner.strip() and not inner[0].isspace():
            raised.line = inner
            self._has_ended = True
            self._on_crash(self._crash)


def is_own_file(file: str) -> bool:
    """Return whether a file of a traceback is the developer's own: neither a library, nor Python, nor Ferrule."""
    if file.startswith("<") or _LIBRARIES.search(file):
        return False
    path = os.path.normcase(os.path.abspath(file))
    return not any(
        path.startswith(os.path.normcase(str(folder)) + os.sep)
        for folder in (_FERRULE, Path(os.__file__).resolve().parent, Path(sys.executable).parent)
    )
