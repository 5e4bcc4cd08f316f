"""Estimates the tokens that a model reads for a text.

Token counts are estimates. The tokenizers of models differ and not all are public, so a text is split as most of them
do first (words, runs of digits, runs of punctuation, each with the space before it), and each piece is counted by its
length. `estimate_tokens` names the error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ferrule.wire.codec import encode_str
from ferrule.wire.patterns import pattern

__all__ = ["estimate_tokens", "seen_by_models", "tokens_of_tool"]

_PIECES = pattern(r" ?[^\W\d_]+|\d{1,3}| ?[^\w\s]+|_+|\s+")


def estimate_tokens(text: str) -> int:
    """Return an estimate of the number of tokens in a text.

    Compared with the o200k and cl100k vocabularies (gpt-tokenizer, 2026-11-28) on tool lists, rows of data as JSON and
    as TOON, prose, code, German and random hex: between 10 % too few and 18 % too many; Japanese 25 % off. Use it to
    compare texts, not to compute costs.
    """
    total = 0
    for piece in _PIECES.findall(text):
        length = len(piece.strip(" ")) or 1
        if piece[-1].isalpha():
            if piece[-1] >= "\u2e80":  # scripts without spaces: nearly a token per character
                total += max(1, round(length * 0.8))
            else:
                total += 1 + (length - 1) // (9 if piece.isascii() else 3)
        elif piece[-1].isdigit() or piece.isspace():
            total += 1
        else:
            total += 1 + (length - 1) // 3
    return total


def seen_by_models(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a tool that hosts pass to a model: name, description, input schema.

    Args:
        tool: an entry of ``tools/list`` as JSON.
    """
    return {
        "name": tool.get("name", ""),
        "description": tool.get("description") or "",
        "input_schema": tool.get("inputSchema") or {},
    }


def tokens_of_tool(tool: Mapping[str, Any]) -> int:
    """Return an estimate of the tokens that a model reads for one tool, as compact JSON."""
    return estimate_tokens(encode_str(seen_by_models(tool)))
