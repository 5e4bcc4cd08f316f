"""ferrule.expose.choice: which operations a pattern means."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.expose.choice import NothingMatches, choose_operations, matcher
from ferrule.expose.operations import Operation

USERS = Operation(name="list_users", method="GET", path="/users", operation_id="users/list", tags=("users", "read"))
USER = Operation(name="get_user", method="GET", path="/users/{id}", operation_id="users/get", tags=("users",))
POSTS = Operation(name="list_posts", method="GET", path="/users/{id}/posts", tags=("posts",))
MAKE = Operation(name="make_user", method="POST", path="/users", operation_id="users/make", tags=("users",))
FILES = Operation(name="files", method="DELETE", path="/a.b/(x)/[y]")
ALL = [USERS, USER, POSTS, MAKE, FILES]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", ALL),
        ("GET", [USERS, USER, POSTS]),
        ("get", [USERS, USER, POSTS]),
        ("GET /users", [USERS]),
        ("get /users/{id}", [USER]),
        ("* /users", [USERS, MAKE]),
        ("/users", [USERS, MAKE]),
        ("/users/*", [USER]),
        ("/users/**", [USER, POSTS]),
        ("/**", ALL),
        ("GET /**/posts", [POSTS]),
        ("/a.b/(x)/[y]", [FILES]),
        ("tag:users", [USERS, USER, MAKE]),
        ("tag:*s", [USERS, USER, POSTS, MAKE]),
        ("list_*", [USERS, POSTS]),
        ("users/get", [USER]),
        ("users/*", [USERS, USER, MAKE]),
        (lambda operation: operation.deprecated, []),
        (lambda operation: operation.name == "files", [FILES]),
        (["GET /users", "make_user"], [USERS, MAKE]),
        ([], []),
    ],
)
def test_a_pattern_means_these_operations(pattern: Any, found: list[Operation]) -> None:
    """In the order of the description, each once."""
    assert choose_operations(ALL, pattern) == found


@pytest.mark.parametrize(
    "pattern", ["/user", "/users/", "/axb/(x)/[y]", "GET  /users", "tag:user", "List_users", "TRACE"]
)
def test_nothing_else_matches(pattern: str) -> None:
    """A pattern is the whole of a path, a name, a tag; letters that mean something elsewhere mean themselves."""
    assert not any(map(matcher(pattern), ALL))


def test_what_is_excluded_is_left_out_whatever_includes_it() -> None:
    assert choose_operations(ALL, ["*", "get_user"], ["tag:users"]) == [POSTS, FILES]


@pytest.mark.parametrize(
    ("include", "exclude", "hint"),
    [
        ("tag:user", (), "'users'"),
        ("*", "get_usr", "'get_user'"),
        ("GET /user", (), "'GET /users'"),
        (["*", "qqqqqqq"], (), None),
    ],
)
def test_a_pattern_without_a_match_is_an_error_that_names_what_is_near(
    include: Any, exclude: Any, hint: str | None
) -> None:
    with pytest.raises(NothingMatches) as raised:
        choose_operations(ALL, include, exclude)
    assert "none of 5 operations" in str(raised.value)
    assert ("did you mean" in str(raised.value)) == (hint is not None)
    assert hint is None or hint in str(raised.value)
    found = choose_operations(ALL, include, exclude, strict=False)
    assert found == (ALL if "*" in include else [])
