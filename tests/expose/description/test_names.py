"""Names of tools and arguments: stable, unique, and what model APIs take."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.expose.description.names import MAX_NAME, argument_names, operation_names

_SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")


def test_an_operation_is_named_after_its_id_or_its_method_and_path() -> None:
    assert operation_names(
        [("GET", "/users", "users/list"), ("GET", "/users/{id}/posts", None), ("POST", "/users", "")]
    ) == ["users_list", "get_users_id_posts", "post_users"]


def test_operations_that_share_an_id_are_named_after_method_and_path() -> None:
    assert operation_names([("GET", "/a", "read"), ("GET", "/b", "read"), ("GET", "/c", "other")]) == [
        "get_a",
        "get_b",
        "other",
    ]


def test_ids_that_are_the_same_once_cut_stay_apart() -> None:
    first, second = operation_names([("GET", "/a", "x" * 119 + "1"), ("GET", "/b", "x" * 119 + "2")])
    assert first != second
    assert len(first) == len(second) == MAX_NAME


def test_a_new_operation_changes_no_name_of_others() -> None:
    """Prompts, permissions and caches hold names, so an operation that is added elsewhere must not change them."""
    before = [("GET", "/a/{id}", None), ("GET", "/b", "b"), ("DELETE", "/a-b", None)]
    added = [("GET", "/0", None), *before, ("GET", "/z", "z")]
    assert operation_names(added)[1:4] == operation_names(before)


_OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["GET", "POST"]), st.text(min_size=1, max_size=90), st.none() | st.text(max_size=120)),
    max_size=12,
    unique_by=lambda operation: operation[:2],
)


@given(_OPERATIONS)
def test_names_are_safe_and_differ(operations: list[tuple[str, str, str | None]]) -> None:
    names = operation_names(operations)
    assert len({name.lower() for name in names}) == len(names)
    assert all(_SAFE.fullmatch(name) for name in names)


@given(st.lists(st.tuples(st.text(max_size=90), st.sampled_from(["path", "query", "body"])), max_size=12))
def test_argument_names_are_safe_and_differ(wanted: list[tuple[str, str]]) -> None:
    names = argument_names(wanted)
    assert len(set(names)) == len(names)
    assert all(_SAFE.fullmatch(name) for name in names)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ([("id", "path"), ("id", "body")], ["id", "id_body"]),
        ([("id", "path"), ("id", "query"), ("id", "body")], ["id", "id_query", "id_body"]),
        ([("id_body", "query"), ("id", "path"), ("id", "body")], ["id_body", "id", "id_body_2"]),
        ([("filter[name]", "query"), ("$top", "query")], ["filter_name", "top"]),
        ([("price__gte", "query"), ("price_gte", "query")], ["price__gte", "price_gte"]),  # django-filter
    ],
)
def test_the_first_argument_of_a_name_keeps_it(wanted: list[tuple[str, str]], names: list[str]) -> None:
    assert argument_names(wanted) == names
