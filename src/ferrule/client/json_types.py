"""What a decoded JSON value is, in a way that type checkers follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

__all__ = ["is_list", "is_mapping"]


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """Whether it is a JSON array."""
    return isinstance(value, list)


def is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether it is a JSON object."""
    return isinstance(value, Mapping)
