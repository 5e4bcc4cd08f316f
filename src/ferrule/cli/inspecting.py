"""The size of values for a model, in the two notations that a result may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ferrule.checks.tokens import estimate_tokens

__all__ = ["TokenCost", "as_models_see", "cost_of"]


@dataclass(frozen=True, slots=True)
class TokenCost:
    """The size of one value in two notations.

    Attributes:
        json_bytes, json_tokens: compact JSON.
        toon_bytes, toon_tokens: TOON; ``None`` where the extra ``toon`` is not installed.
    """

    json_bytes: int
    json_tokens: int
    toon_bytes: int | None = None
    toon_tokens: int | None = None

    def words(self) -> str:
        """Return the sizes as text for people."""
        text = f"JSON {self.json_bytes} bytes, about {self.json_tokens} tokens"
        if self.toon_bytes is None or self.toon_tokens is None:
            return text
        gain = 100 - round(100 * self.toon_tokens / max(1, self.json_tokens))
        return f"{text}; TOON {self.toon_bytes} bytes, about {self.toon_tokens} tokens ({gain:+d} % saved)"


def cost_of(value: Any) -> TokenCost:
    """Return the size of a JSON-shaped value, as JSON and as TOON."""
    from ferrule.wire.codec import encode_str

    text = encode_str(value)
    size = len(text.encode("utf-8", "surrogatepass"))
    try:
        from ferrule.app.results.encoders.toon import encode_toon

        toon = encode_toon(value)
    except ImportError:
        return TokenCost(size, estimate_tokens(text))
    return TokenCost(size, estimate_tokens(text), len(toon.encode("utf-8", "surrogatepass")), estimate_tokens(toon))


def as_models_see(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the parts of each tool that hosts pass to a model: name, description, input schema."""
    from ferrule.wire.codec import to_builtins

    return [
        {"name": tool.name, "description": tool.description or "", "input_schema": to_builtins(tool.input_schema)}
        for tool in tools
    ]
