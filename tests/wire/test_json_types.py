"""What a decoded JSON value is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from ferrule.wire.json_types import is_array, is_list, is_mapping, is_object, is_pair

FROZEN: Mapping[str, Any] = MappingProxyType({"a": 1})


@pytest.mark.parametrize(
    ("value", "true_for"),
    [
        ({"a": 1}, {is_object, is_mapping}),
        (FROZEN, {is_mapping}),
        ([1, 2], {is_list, is_array}),
        ((1, 2), {is_array, is_pair}),
        ((1, 2, 3), {is_array}),
        ("ab", set()),
        (b"ab", set()),
        (None, set()),
        (True, set()),
    ],
)
def test_each_question_is_true_for_its_values_only(value: Any, true_for: set[Any]) -> None:
    """A decoder makes plain dicts and lists; programs hand in other mappings, and tuples."""
    assert {ask for ask in (is_array, is_list, is_mapping, is_object, is_pair) if ask(value)} == true_for
