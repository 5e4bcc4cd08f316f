"""Encoders, which write a structured result as text for the model; the structured content itself never changes.

An encoder is a function from JSON-shaped data (dicts, lists, text, numbers, booleans, ``None``) to text. Named ones are
``"json"`` (compact), ``"toon"``, and ``"auto"`` (TOON if it is clearly shorter). Any other callable can be used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

__all__ = ["Encoder", "EncoderName", "encoder_for"]

Encoder: TypeAlias = Callable[[Any], str]
EncoderName: TypeAlias = Literal["json", "toon", "auto"]


def encoder_for(choice: EncoderName | Encoder) -> Encoder | None:
    """Return the encoder of a name; ``None`` for compact JSON, which the caller has already.

    Raises:
        ValueError: there is no such encoder.
        ImportError: ``"toon"`` or ``"auto"`` without the extra ``toon``.
    """
    if choice == "json":
        return None
    if choice in ("toon", "auto"):
        from ferrule.app.results.encoders.toon import encode_auto, encode_toon, require_toons

        require_toons()
        return encode_toon if choice == "toon" else encode_auto
    if callable(choice):
        return choice
    raise ValueError(f"text={choice!r}: expected 'json', 'toon', 'auto' or a function")
