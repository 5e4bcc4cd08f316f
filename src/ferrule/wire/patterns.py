"""Regular expressions that are compiled on first use, and not at each start of a process.

Compiling one takes 100 to 500 microseconds, and most processes use few of them.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

__all__ = ["pattern"]


class _Uncompiled:
    """Stands for a compiled pattern: compiles it when a method is first used, and keeps that method as an attribute."""

    def __init__(self, source: Any, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, found)
        return found


def pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return ``re.compile(source, flags)``, compiled at the first use of a method, which raises its errors."""
    return cast("re.Pattern[AnyStr]", _Uncompiled(source, flags))
