"""Text that a server chose, made fit for a terminal.

An escape sequence in a tool's description or in a question could otherwise rewrite what is on the screen, and a
direction mark could hide what a URL really says. Nothing here knows a terminal: whoever prints decides.
"""

from __future__ import annotations

import unicodedata
from typing import Final

__all__ = ["harmless"]

_HIDDEN: Final = frozenset("\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2066\u2067\u2068\u2069\ufeff")
"""Characters without a shape that reorder or hide text."""


def harmless(text: str) -> str:
    """Text with control and direction characters written out, so that a terminal shows them instead of obeying."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character in "\n\t":
        return character
    if character in _HIDDEN or unicodedata.category(character) in ("Cc", "Cs"):
        code = ord(character)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    return character
