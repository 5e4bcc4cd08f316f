"""Escapes text from a server so that it is safe to print on a terminal.

An escape sequence in a tool's description or in a question could otherwise rewrite what is on the screen, and a
direction mark could disguise a URL.
"""

from __future__ import annotations

import unicodedata
from typing import Final

__all__ = ["terminal_safe"]

_UNSEEN: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Controls, marks without a shape that reorder or hide text, halves of pairs, and separators of lines."""

_SEEN: Final = frozenset("\u00ad\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2")
"""Characters of category Cf that words and emoji need: they neither hide text nor turn it around."""


def terminal_safe(text: str) -> str:
    """Return text with control and direction characters escaped, so that a terminal does not execute them."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character in "\n\t":
        return character
    if character not in _SEEN and unicodedata.category(character) in _UNSEEN:
        code = ord(character)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return character
