"""Compact JSON, through the one codec: NaN becomes ``null``, lone surrogates U+FFFD."""

from __future__ import annotations

from typing import Any

from ferrule.wire.codec import encode_str

__all__ = ["encode_json"]


def encode_json(value: Any) -> str:
    """Return JSON-shaped data as compact JSON text."""
    return encode_str(value)
