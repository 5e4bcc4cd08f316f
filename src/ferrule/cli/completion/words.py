"""Reads the line before the cursor as a shell does, and writes a completed word back in the user's quotes.

A completed word is put into the command line, and Enter runs it: what a server calls its tools must stay a word there.
"""

from __future__ import annotations

from typing import Final

__all__ = ["TypedLine", "quote_for_bash", "read_line"]

_SAFE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")
_IN_DOUBLE_QUOTES: Final = frozenset('\\"$`')


class TypedLine:
    """The line before the cursor.

    Attributes:
        words: the words before the one under the cursor, without quotes.
        current: the word under the cursor up to it, without quotes; empty after a space.
        quote: the quotation mark in which the cursor stands; empty without.
        kept: characters of ``current`` that the shell leaves as they are when it replaces the word: bash replaces what
            stands after the last break character or after the opening quotation mark.
    """

    def __init__(self, words: list[str], current: str, quote: str, kept: int) -> None:
        self.words = words
        self.current = current
        self.quote = quote
        self.kept = kept


def read_line(text: str, breaks: str = "") -> TypedLine:
    """Return the words of a line.

    Args:
        text: the line up to the cursor; quotation marks may be open.
        breaks: the characters after which the shell begins a word to complete (``COMP_WORDBREAKS`` of bash).
    """
    words: list[str] = []
    current: list[str] = []
    is_word = False
    quote = ""
    kept = 0
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if quote == "'" or (quote and character == quote):
            if character == quote:
                quote = ""
            else:
                current.append(character)
        elif character == "\\" and position < len(text):
            following = text[position]
            position += 1
            if quote and following not in _IN_DOUBLE_QUOTES:
                current.append(character)
            current.append(following)
            is_word = True
        elif quote:
            current.append(character)
        elif character in "'\"":
            quote, is_word, kept = character, True, len(current)
        elif character.isspace():
            if is_word:
                words.append("".join(current))
            current, is_word, kept = [], False, 0
        else:
            current.append(character)
            is_word = True
            if character in breaks:
                kept = len(current)
    return TypedLine(words, "".join(current), quote, kept)


def quote_for_bash(text: str, quote: str) -> str | None:
    """Return text so that bash reads exactly it, after the given open quotation mark.

    Args:
        text: without control characters.
        quote: ``"'"``, ``'"'``, or empty outside of quotation marks.

    Returns:
        ``None`` if it cannot be written there.
    """
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote:
        if "!" in text:  # history expansion, which no backslash prevents without staying in the word
            return None
        return "".join(f"\\{character}" if character in _IN_DOUBLE_QUOTES else character for character in text)
    return "".join(
        character if character in _SAFE or not character.isascii() else f"\\{character}" for character in text
    )
