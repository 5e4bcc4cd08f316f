"""Names in the options of middleware: several in any iterable, or a single one as text."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["names_of"]


def names_of(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return the names of an option. A text is one name: by its letters, a limit would count nothing."""
    return (given,) if isinstance(given, str) else tuple(given)
