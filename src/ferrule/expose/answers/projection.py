"""Selects members of a response, and masks values."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from ferrule.wire.json_types import is_list, is_object

__all__ = ["MASKED", "Projection"]

MASKED = "***"
"""The text that replaces a masked value."""

_MAX_NESTING = 100


class Projection:
    """Removes and masks members of JSON responses before a model gets them.

    Args:
        fields: dotted paths of the members that are kept; a path applies to each item of a list: ``items.id``. ``None``
            keeps all, an empty list none. What has no members stays as it is.
        mask: patterns of member names (``*token*``, not case-sensitive) whose values become `MASKED`.
    """

    __slots__ = ("_mask", "_tree")

    def __init__(self, fields: Iterable[str] | None = None, mask: Iterable[str] = ()) -> None:
        self._tree: dict[str, Any] | None = None
        self._mask = tuple(pattern.lower() for pattern in mask)
        if fields is not None:
            self._tree = {}
            for path in fields:
                _add(self._tree, path.split("."))

    @property
    def changes(self) -> bool:
        """Whether any member may be removed or masked."""
        return self._tree is not None or bool(self._mask)

    def __call__(self, value: Any) -> Any:
        """Return a copy of the value without removed members and with masked values."""
        return self.masked(value if self._tree is None else _kept(value, self._tree))

    @property
    def masks(self) -> bool:
        """Whether any value may be masked."""
        return bool(self._mask)

    def masked(self, value: Any) -> Any:
        """Return a copy of the value with masked values, and with all members."""
        return _masked(value, self._mask, 0) if self._mask else value


def _add(tree: dict[str, Any], steps: list[str]) -> None:
    """Add a path to a tree, in which ``None`` stands for all of a member."""
    for step in steps[:-1]:
        inner = tree.setdefault(step, {})
        if inner is None:  # all of it is kept
            return
        tree = inner
    tree[steps[-1]] = None


def _kept(value: Any, tree: dict[str, Any] | None) -> Any:
    if tree is None:
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
