"""TOON: rows of equal keys as a table, for fewer tokens. The encoder is ``toons`` (Rust; extra ``toon``).

``encode_auto`` returns TOON only if it is at least 10 % shorter than compact JSON. It encodes only values with a table:
a list of objects as the value itself, or one level inside an object, as in pages of lists. Its output is never longer
than compact JSON.
"""

from __future__ import annotations

import math
from typing import Any, cast

from ferrule.wire.codec import encode_str

__all__ = ["AUTO_GAIN", "encode_auto", "encode_toon", "require_toons"]

AUTO_GAIN = 0.10
"""The share of compact JSON's bytes that TOON must save for ``"auto"`` to use it."""

_MIN_ROWS = 2


def require_toons() -> None:
    """Check that the extra is installed, when an encoder is chosen.

    Raises:
        ImportError: the extra is not installed.
    """
    try:
        import toons  # noqa: F401 # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise ImportError("text='toon' and text='auto' need the extra: pip install 'ferrule[toon]'") from error


def encode_toon(value: Any, *, indent_size: int = 2, delimiter: str = ",") -> str:
    """Return JSON-shaped data as TOON text.

    Args:
        value: NaN and infinities are written as ``null``, as in JSON.
        indent_size: spaces per level.
        delimiter: ``","``, ``"\\t"`` or ``"|"``.
    """
    import toons

    return toons.dumps(value, indent_size=indent_size, delimiter=delimiter)


def encode_auto(value: Any) -> str:
    """Return TOON text if it saves at least `AUTO_GAIN` of compact JSON's UTF-8 bytes, else compact JSON."""
    plain = encode_str(value)
    if not _has_table(value):
        return plain
    table = encode_toon(value)
    limit = math.floor(_utf8_len(plain) * (1 - AUTO_GAIN))
    return table if _utf8_len(table) <= limit else plain


def _utf8_len(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _has_table(value: Any) -> bool:
    """Return whether a value is a list of objects, or an object with one as a member: TOON writes these as tables."""
    if isinstance(value, dict):
        inside = cast("dict[str, Any]", value).values()
        return any(_is_rows(part) or _is_keyed_rows(part) for part in inside) or _is_keyed_rows(value)
    return _is_rows(value)


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and len(value) >= _MIN_ROWS and isinstance(value[0], dict)  # pyright: ignore[reportUnknownArgumentType]


def _is_keyed_rows(value: Any) -> bool:
    """Return whether a value is an object whose values are all objects: TOON writes uniform ones as a table."""
    if not isinstance(value, dict) or len(cast("dict[str, Any]", value)) < _MIN_ROWS:
        return False
    return all(isinstance(part, dict) for part in cast("dict[str, Any]", value).values())
