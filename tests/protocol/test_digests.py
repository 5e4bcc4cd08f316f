"""The digest of a definition: the same for the same meaning, another one for every other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.protocol.digests import definition_digest, essential_definition

TOOL: dict[str, Any] = {
    "name": "add",
    "description": "Add.",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a", "b"]},
    "annotations": {"readOnlyHint": True},
}


def test_a_known_digest() -> None:
    """It never changes: files with digests are kept for years."""
    digits = "d9d719b27480b55cd4918020e7473e716ed3569c8adafe926cf9b10b4f8ef064"  # printf '{"name":"a"}' | sha256sum
    assert definition_digest({"name": "a"}) == f"sha256:{digits}"


@pytest.mark.parametrize(
    "same",
    [
        {**TOOL, "icons": [{"src": "data:,x"}]},
        {**TOOL, "_meta": {"x": 1}},
        {**TOOL, "title": None},
        dict(reversed(TOOL.items())),
        {**TOOL, "inputSchema": {**TOOL["inputSchema"], "required": ["b", "a"]}},
    ],
)
def test_what_does_not_count(same: dict[str, Any]) -> None:
    """Order, icons, `_meta`, nulls."""
    assert definition_digest(same) == definition_digest(TOOL)


@pytest.mark.parametrize(
    "other",
    [
        {**TOOL, "description": "Add!"},
        {**TOOL, "title": "Add"},
        {**TOOL, "annotations": {"readOnlyHint": False}},
        {**TOOL, "outputSchema": {"type": "object"}},
        {**TOOL, "inputSchema": {**TOOL["inputSchema"], "required": ["a"]}},
        {**TOOL, "inputSchema": {**TOOL["inputSchema"], "properties": {"a": {"enum": [1, 2]}, "b": {}}}},
        {**TOOL, "somethingNew": 1},
    ],
)
def test_what_counts(other: dict[str, Any]) -> None:
    """Everything that a model or a program may read, also what is not known yet."""
    assert definition_digest(other) != definition_digest(TOOL)


def test_the_order_of_values_counts() -> None:
    """``required`` as a value of a default or a name of a property is data."""
    for name in ("default", "enum"):
        one, other = ({"name": "a", "inputSchema": {name: {"required": order}}} for order in (["a", "b"], ["b", "a"]))
        assert definition_digest(one) != definition_digest(other)


@settings(deadline=None, max_examples=50)
@given(
    st.dictionaries(st.text(max_size=5), st.recursive(st.none() | st.booleans() | st.text(), st.lists, max_leaves=5))
)
def test_any_json(definition: dict[str, Any]) -> None:
    """A definition of a stranger never fails, and what counts of it is a fixed point."""
    kept = essential_definition(definition)
    assert essential_definition(kept) == kept
    assert definition_digest(kept) == definition_digest(definition)
