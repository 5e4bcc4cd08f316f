"""ferrule.expose.answers.projection: what is kept of an answer, and what is masked."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.expose.answers.projection import MASKED, Projection

VALUE: dict[str, Any] = {
    "items": [
        {"id": 1, "owner": {"name": "a", "apiToken": "s3cret"}, "tags": ["x"]},
        {"id": None, "owner": None},
        7,
    ],
    "total": 2,
    "Token": {"inner": "s3cret"},
    "tokens": ["s3cret"],
    "token": None,
}


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        (None, VALUE),
        ([], {}),
        (["total"], {"total": 2}),
        (["items.id"], {"items": [{"id": 1}, {"id": None}, 7]}),
        (["items.owner.name", "total"], {"items": [{"owner": {"name": "a"}}, {"owner": None}, 7], "total": 2}),
        (["items", "items.id"], {"items": VALUE["items"]}),
        (["items.id", "items"], {"items": VALUE["items"]}),
        (["nothing", "items.nothing.at.all"], {"items": [{}, {}, 7]}),
    ],
)
def test_only_these_members_are_kept(fields: Any, kept: Any) -> None:
    """Lists are passed through, and a longer path beside a shorter one takes nothing away."""
    assert Projection(fields)(VALUE) == kept


@pytest.mark.parametrize("value", [[{"a": 1, "b": 2}], [[{"a": 1, "b": 2}]]])
def test_a_list_at_the_top_is_passed_through(value: Any) -> None:
    assert Projection(["a"])(value) in ([{"a": 1}], [[{"a": 1}]])


@pytest.mark.parametrize("value", [7, "text", None, True, [], {}])
def test_a_value_without_members_stays(value: Any) -> None:
    assert Projection(["a"], mask=["*"])(value) == value


def test_members_whose_names_match_are_masked_at_any_depth() -> None:
    """In capitals too, and whatever stands there; a null says that there is none."""
    made = Projection(mask=["*TOKEN*"])(VALUE)
    assert "s3cret" not in str(made)
    assert made["items"][0]["owner"] == {"name": "a", "apiToken": MASKED}
    assert (made["Token"], made["tokens"], made["token"]) == (MASKED, MASKED, None)
    assert VALUE["items"][0]["owner"]["apiToken"] == "s3cret"


def test_what_is_nested_without_end_is_masked() -> None:
    value: Any = "s3cret"
    for _ in range(400):
        value = [{"a": value}]
    assert "s3cret" not in str(Projection(mask=["token"])(value))


def test_whether_anything_changes_is_known_before() -> None:
    assert not Projection().changes
    assert Projection(["a"]).changes
    assert Projection(mask=["a"]).changes
