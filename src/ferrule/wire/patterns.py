"""Regular expressions that are compiled on first use, and not at each start of a process.

Compiling one takes 100 to 500 microseconds, and most processes use few of them.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

__all__ = ["pattern"]


class _Uncompiled:
    """Becomes its pattern one method at a time: each is looked up once and then found in the instance."""

    def __init__(self, source: Any, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, found)
        return found


def pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """``re.compile(source, flags)``, put off until the first use of a method; an error in ``source`` shows then."""
    return cast("re.Pattern[AnyStr]", _Uncompiled(source, flags))
