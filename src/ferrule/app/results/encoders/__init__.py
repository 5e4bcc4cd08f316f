"""How a structured result is written as text for the model; the structured content itself is never touched.

An encoder is a function from JSON-shaped data (dicts, lists, text, numbers, booleans, ``None``) to text. Named ones:
``"json"`` (compact), ``"toon"``, and ``"auto"`` (TOON only where it is clearly shorter). Any callable will do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

__all__ = ["Encoder", "EncoderName", "encoder_for"]

Encoder: TypeAlias = Callable[[Any], str]
EncoderName: TypeAlias = Literal["json", "toon", "auto"]


def encoder_for(choice: EncoderName | Encoder) -> Encoder | None:
    """Return the encoder behind a name; ``None`` means compact JSON, which the caller has at hand anyway.

    Raises:
        ValueError: no such encoder.
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
