"""Type guards for decoded JSON values; with ``isinstance`` alone, type checkers do not know the types of the items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

__all__ = ["is_array", "is_list", "is_mapping", "is_object", "is_pair"]


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Return whether a value that was decoded is a JSON object."""
    return isinstance(value, dict)


def is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is a JSON object, or a mapping of the program that stands for one."""
    return isinstance(value, Mapping)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Return whether a value that was decoded is a JSON array."""
    return isinstance(value, list)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Return whether a value is a JSON array, or a tuple of the program that stands for one."""
    return isinstance(value, list | tuple)


def is_pair(value: Any) -> TypeGuard[tuple[Any, Any]]:
    """Return whether a value is a tuple of two."""
    return isinstance(value, tuple) and len(value) == 2  # pyright: ignore[reportUnknownArgumentType]
