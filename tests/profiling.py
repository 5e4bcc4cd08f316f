"""Python calls, counted: what a piece of work costs, without a clock."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

__all__ = ["PythonCalls"]


class PythonCalls(Counter[str]):
    """``with PythonCalls() as calls:`` counts the Python functions that are entered in the block, by file and name.

    A key is the path below ``src``, or the whole path of a file elsewhere, with the qualified name:
    ``ferrule/app/server.py:MCPServer.run``. The resumption of a coroutine counts as a call.
    """

    def __enter__(self) -> PythonCalls:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename != __file__:
            self[f"{code.co_filename.rpartition('/src/')[2]}:{code.co_qualname}"] += 1

    def of(self, *prefixes: str) -> int:
        """Return the number of calls whose key begins with one of these."""
        return sum(count for name, count in self.items() if name.startswith(prefixes))
