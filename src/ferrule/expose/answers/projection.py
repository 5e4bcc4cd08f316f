"""Parts of an answer: members that are kept, and members whose values are replaced."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from ferrule.wire.json_types import is_list, is_object

__all__ = ["MASKED", "Projection"]

MASKED = "***"
"""Stands where a value was masked."""

_MAX_NESTING = 100


class Projection:
    """Which members of JSON answers a model sees.

    Args:
        fields: dotted paths of the members that are kept, lists passed through: ``items.id``; ``None`` keeps all.
        mask: patterns of member names (``*token*``, upper and lower case alike) whose values become `MASKED`.
    """

    __slots__ = ("_mask", "_tree")

    def __init__(self, fields: Iterable[str] | None = None, mask: Iterable[str] = ()) -> None:
        self._tree: dict[str, Any] | None = None
        self._mask = tuple(pattern.lower() for pattern in mask)
        if fields is not None:
            self._tree = {}
            for path in fields:
                node = self._tree
                for step in path.split("."):
                    node = node.setdefault(step, {})

    @property
    def changes(self) -> bool:
        """Whether anything is left out or masked."""
        return self._tree is not None or bool(self._mask)

    def __call__(self, value: Any) -> Any:
        """Return the value with what is kept of it."""
        kept = value if self._tree is None else _kept(value, self._tree)
        return _masked(kept, self._mask, 0) if self._mask else kept


def _kept(value: Any, tree: dict[str, Any]) -> Any:
    if not tree:
        return value
    if is_list(value):
        return [_kept(part, tree) for part in value]
    if is_object(value):
        return {name: _kept(value[name], inner) for name, inner in tree.items() if name in value}
    return value


def _masked(value: Any, patterns: tuple[str, ...], depth: int) -> Any:
    if depth > _MAX_NESTING:
        return MASKED
    if is_list(value):
        return [_masked(part, patterns, depth + 1) for part in value]
    if not is_object(value):
        return value
    return {
        name: MASKED
        if part is not None and any(fnmatchcase(name.lower(), pattern) for pattern in patterns)
        else _masked(part, patterns, depth + 1)
        for name, part in value.items()
    }
