"""What a decoded value is, for people and for type checkers: ``isinstance`` alone leaves the item types unknown."""

from __future__ import annotations

from typing import Any, TypeGuard

__all__ = ["is_list", "is_mapping"]


def is_mapping(value: Any) -> TypeGuard[dict[str, Any]]:
    """A JSON object."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """A JSON array."""
    return isinstance(value, list)
