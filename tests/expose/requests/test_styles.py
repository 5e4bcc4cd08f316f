"""Parameters as they stand in a request: the table of OpenAPI 3.1, "Style Examples", and what must not get through."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.expose.operations import Parameter
from ferrule.expose.requests.styles import header_value, path_value, query_pairs

_LIST = ["blue", "black", "brown"]
_OBJECT = {"R": 100, "G": 200, "B": 150}


def parameter(style: Any, explode: bool, location: Any = "query") -> Parameter:
    return Parameter(name="color", argument="color", location=location, style=style, explode=explode)


def query(style: str, explode: bool, value: Any) -> str:
    return "&".join(f"{name}={text}" for name, text in query_pairs(parameter(style, explode), value))


@pytest.mark.parametrize(
    ("style", "explode", "value", "expected"),
    [
        ("matrix", False, "blue", ";color=blue"),
        ("matrix", False, _LIST, ";color=blue,black,brown"),
        ("matrix", False, _OBJECT, ";color=R,100,G,200,B,150"),
        ("matrix", True, _LIST, ";color=blue;color=black;color=brown"),
        ("matrix", True, _OBJECT, ";R=100;G=200;B=150"),
        ("label", False, "blue", ".blue"),
        ("label", False, _LIST, ".blue,black,brown"),
        ("label", False, _OBJECT, ".R,100,G,200,B,150"),
        ("label", True, _LIST, ".blue.black.brown"),
        ("label", True, _OBJECT, ".R=100.G=200.B=150"),
        ("simple", False, "blue", "blue"),
        ("simple", False, _LIST, "blue,black,brown"),
        ("simple", False, _OBJECT, "R,100,G,200,B,150"),
        ("simple", True, _OBJECT, "R=100,G=200,B=150"),
    ],
)
def test_styles_of_a_path(style: str, explode: bool, value: Any, expected: str) -> None:
    assert path_value(parameter(style, explode, "path"), value) == expected


@pytest.mark.parametrize(
    ("style", "explode", "value", "expected"),
    [
        ("form", False, "blue", "color=blue"),
        ("form", False, "", "color="),
        ("form", False, _LIST, "color=blue,black,brown"),
        ("form", False, _OBJECT, "color=R,100,G,200,B,150"),
        ("form", True, _LIST, "color=blue&color=black&color=brown"),
        ("form", True, _OBJECT, "R=100&G=200&B=150"),
        ("spaceDelimited", False, _LIST, "color=blue%20black%20brown"),
        ("spaceDelimited", False, _OBJECT, "color=R%20100%20G%20200%20B%20150"),
        ("pipeDelimited", False, _LIST, "color=blue%7Cblack%7Cbrown"),
        ("pipeDelimited", False, _OBJECT, "color=R%7C100%7CG%7C200%7CB%7C150"),
        ("deepObject", True, _OBJECT, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
        ("deepObject", True, {"a": {"b": [1, 2]}}, "color%5Ba%5D%5Bb%5D=1&color%5Ba%5D%5Bb%5D=2"),
        ("form", True, True, "color=true"),
        ("form", True, 1.0, "color=1"),
        ("form", True, "a&b=c#d é", "color=a%26b%3Dc%23d%20%C3%A9"),
        ("content", False, {"a": [1]}, "color=%7B%22a%22%3A%5B1%5D%7D"),
    ],
)
def test_styles_of_a_query(style: str, explode: bool, value: Any, expected: str) -> None:
    assert query(style, explode, value) == expected


def test_a_value_never_becomes_another_step_of_the_path() -> None:
    """An argument must not choose another operation: a slash is encoded, and a step that leads up is refused."""
    assert path_value(parameter("simple", False, "path"), "a/..b?c#d") == "a%2F..b%3Fc%23d"
    for value in ("", ".", "..", "a/../b", "../b", "b/.", "a\\..\\b"):
        with pytest.raises(ValueError, match="step of the path"):
            path_value(parameter("simple", False, "path"), value)


def test_a_header_has_no_line_break() -> None:
    with pytest.raises(ValueError, match="control characters"):
        header_value(parameter("simple", False, "header"), "a\r\nx-admin: 1")
    assert header_value(parameter("simple", False, "header"), _LIST) == "blue,black,brown"
    assert header_value(parameter("simple", True, "header"), _OBJECT) == "R=100,G=200,B=150"
