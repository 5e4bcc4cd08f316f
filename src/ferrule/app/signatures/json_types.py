"""What a decoded value is, for people and for type checkers: ``isinstance`` alone leaves the item types unknown."""

from __future__ import annotations

from typing import Any, TypeGuard

__all__ = ["is_array", "is_object", "is_pair"]


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """A JSON object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """A JSON array, or a tuple that stands for one."""
    return isinstance(value, list | tuple)


def is_pair(value: Any) -> TypeGuard[tuple[Any, Any]]:
    """A tuple of two."""
    return isinstance(value, tuple) and len(value) == 2  # pyright: ignore[reportUnknownArgumentType]
