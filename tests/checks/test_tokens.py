"""Estimates of tokens."""

from __future__ import annotations

import pytest

from ferrule.checks.tokens import estimate_tokens, seen_by_models, tokens_of_tool
from tests.checks.samples import tool


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("1234567", 3, 3),
        ("a_b", 3, 3),
        ("internationalization", 2, 4),
        ("日本語", 2, 4),
    ],
)
def test_an_estimate(text: str, low: int, high: int) -> None:
    """Words, digits by three, marks."""
    assert low <= estimate_tokens(text) <= high


def test_a_model_sees_name_description_and_arguments() -> None:
    """Nothing else of a definition costs tokens."""
    assert seen_by_models(tool(title="Title", outputSchema={"type": "object"})) == seen_by_models(tool())
    assert tokens_of_tool(tool(title="Title")) == tokens_of_tool(tool()) > 20
    assert seen_by_models({}) == {"name": "", "description": "", "input_schema": {}}
