"""Questions as values: forms from types, and how answers are read."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal, Optional, TypedDict

import msgspec
import pydantic
import pytest

from ferrule import Field
from ferrule.app.rounds.questions import (
    Accepted,
    MisfitAnswer,
    elicit_question,
    elicit_url_question,
    form_for,
    roots_question,
    sample_question,
)


@dataclass
class Order:
    size: Literal["S", "M"]
    count: Annotated[int, Field(ge=1)] = 1


class Plain(TypedDict):
    name: str


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Nested(msgspec.Struct):
    order: Order


def accepted(wanted: Any, content: Any) -> Any:
    return elicit_question("?", wanted).read({"action": "accept", "content": content})


def test_a_class_is_a_form_of_its_fields():
    schema = form_for(Order).schema
    assert schema["required"] == ["size"]
    assert schema["properties"]["size"]["enum"] == ["S", "M"]
    assert schema["properties"]["count"]["type"] == "integer"
    assert accepted(Order, {"size": "M"}) == Accepted(Order("M", 1))
    assert accepted(Plain, {"name": "Ada"}).data == {"name": "Ada"}


def test_an_answer_is_true_only_where_the_user_gave_one():
    """`if answer:` is the short form; a default of data that is false itself must not decide."""
    assert accepted(int, {"value": 0})
    refused = elicit_question("?", int).read({"action": "decline"})
    assert not refused
    assert (refused.data, refused.accepted, refused.action) == (None, False, "decline")


def test_a_scalar_is_a_form_of_one_field():
    assert form_for(int).schema == {
        "type": "object",
        "properties": {"value": {"type": "integer"}},
        "required": ["value"],
    }
    assert accepted(int, {"value": 3}).data == 3
    assert accepted(Colour, {"value": "blue"}).data is Colour.BLUE
    assert accepted(list[Literal["a", "b"]], {"value": ["a"]}).data == ["a"]


def test_a_schema_of_the_author_is_sent_unchanged_and_enforced():
    own = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}
    assert form_for(own).schema == own
    assert accepted(own, {"n": 3}).data == {"n": 3}
    for content in ({"n": 2}, {}, None, "x"):
        with pytest.raises(MisfitAnswer):
            accepted(own, content)


@pytest.mark.parametrize("wanted", [Nested, dict[str, int], list[int], Any])
def test_a_type_that_no_form_can_show_is_refused(wanted):
    """It is the author's mistake, and raises before a question is sent."""
    with pytest.raises(TypeError, match="cannot be a form"):
        form_for(wanted)


@pytest.mark.parametrize(
    ("wanted", "raw"),
    [
        (int, {"action": "accept", "content": {"value": "x"}}),
        (int, {"action": "accept", "content": {}}),
        (int, {"action": "accept"}),
        (Order, {"action": "accept", "content": {"size": "XL"}}),
        (Order, {"action": "accept", "content": {"size": "S", "count": 0}}),
        (int, {"action": "perhaps"}),
        (int, {"content": {"value": 1}}),
        (int, None),
        (int, []),
    ],
)
def test_answers_that_do_not_fit_are_misfits(wanted, raw):
    """Never a wrong value in the body, and never another exception."""
    with pytest.raises(MisfitAnswer):
        elicit_question("?", wanted).read(raw)


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_refusals_are_values(action):
    """Also where a client sends content along."""
    read = elicit_question("?", int).read({"action": action, "content": {"value": 1}})
    assert (read.action, read.data, read.accepted) == (action, None, False)


def test_a_form_is_made_once_per_type():
    """A loop with a question must not make a schema each time."""
    assert form_for(Order) is form_for(Order)
    assert form_for(Annotated[int, Field(ge=1)]).schema["properties"]["value"]["minimum"] == 1


def test_a_url_question_has_an_id_only_where_the_revision_requires_one():
    """`elicitationId` is gone in 2026-07-28."""
    assert elicit_url_question("m", "https://x", elicitation_id="i").params == {
        "mode": "url",
        "message": "m",
        "url": "https://x",
        "elicitationId": "i",
    }
    asked = elicit_url_question("m", "https://x", elicitation_id=None)
    assert "elicitationId" not in (asked.params or {})
    assert asked.read({"action": "accept"}) == Accepted(None)


def test_sampling_has_wire_names_and_no_nulls():
    asked = sample_question("hi", max_tokens=5, systemPrompt="be kind", temperature=None)
    assert asked.params == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
        "maxTokens": 5,
        "systemPrompt": "be kind",
    }
    assert asked.read({"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}).model == "m"
    with pytest.raises(MisfitAnswer):
        asked.read({"role": "assistant"})


def test_roots_are_one_question():
    assert roots_question().shared
    assert roots_question().read({"roots": [{"uri": "file:///a"}]})[0].uri == "file:///a"


def test_the_message_and_the_form_make_the_digest():
    one = elicit_question("a", int)
    assert one.content_digest() == elicit_question("a", int).content_digest()
    assert one.content_digest() != elicit_question("b", int).content_digest()
    assert one.content_digest() != elicit_question("a", str).content_digest()
    assert sample_question("a", max_tokens=1).content_digest() != sample_question("a", max_tokens=2).content_digest()


@dataclass
class Optionals:
    nick: str | None = None
    age: Optional[int] = None  # noqa: UP045 - the spelling is the case
    size: Literal["S", "M"] | None = None
    tags: list[Literal["a", "b"]] | None = None
    born: dt.date | None = None
    must: str | None = field(default=None, kw_only=True)


@dataclass
class Nullable:
    name: str
    nick: str | None


class OptionalModel(pydantic.BaseModel):
    nick: str | None = None
    age: int | None = pydantic.Field(default=None, ge=0)
    size: Literal["S", "M"] | None = None
    count: int = 3


class OptionalDict(TypedDict, total=False):
    nick: str | None
    age: int


@pytest.mark.parametrize("wanted", [Optionals, OptionalModel, OptionalDict, Nullable])
def test_a_field_that_may_be_null_is_an_optional_field(wanted):
    """A form cannot express null; it can leave a field out."""
    form = form_for(wanted)
    assert "nick" not in form.schema.get("required", [])
    assert form.schema["properties"]["nick"]["type"] == "string"
    assert "anyOf" not in str(form.schema)
    needed = dict.fromkeys(form.schema.get("required", []), "x")
    made = accepted(wanted, needed).data
    assert (made.get("nick") if isinstance(made, dict) else made.nick) is None
    made = accepted(wanted, {**needed, "nick": "y"}).data
    assert (made["nick"] if isinstance(made, dict) else made.nick) == "y"


def test_what_an_optional_field_holds_is_read_as_its_type():
    """Choices of one and of several, dates, numbers."""
    content = {"nick": "n", "age": 3, "size": "S", "tags": ["a"], "born": "2026-01-02"}
    assert accepted(Optionals, content).data == Optionals("n", 3, "S", ["a"], dt.date(2026, 1, 2))
    assert form_for(Optionals).schema["properties"]["born"] == {"type": "string", "format": "date"}
    assert accepted(Optionals, dict.fromkeys(content)).data == Optionals()
    assert accepted(int | None, {}).data is None


@dataclass
class Count:
    n: int
    on: bool = False


class CountModel(pydantic.BaseModel):
    n: int
    on: bool = False


@pytest.mark.parametrize("wanted", [Count, CountModel])
def test_answers_are_judged_as_arguments_are(wanted):
    """A whole float is an integer, a boolean is not a number, whichever library owns the class."""
    for good in ({"n": 3}, {"n": 3.0}, {"n": "3"}, {"n": 3, "on": None}, {"n": 3, "on": False}):
        assert accepted(wanted, good).data == wanted(n=3)
    for bad in ({"n": True}, {"n": 3.5}, {"n": "x"}, {"n": 3, "on": 1}, {"n": None}):
        with pytest.raises(MisfitAnswer):
            accepted(wanted, bad)


@dataclass
class Choice:
    size: Literal["S", "M"] | None = "M"


@pytest.mark.parametrize(("content", "size"), [({"size": None}, None), ({}, "M"), ({"size": "S"}, "S")])
def test_null_is_a_value_where_the_type_has_it(content: dict[str, Any], size: Any) -> None:
    """And is not the same as leaving the field out, which means the default."""
    assert accepted(Choice, content).data == Choice(size)


@dataclass
class Ab:
    first: Literal["a", "b"]
    second: Literal["c", "d"]


@dataclass
class Ba:
    second: Literal["d", "c"]
    first: Literal["b", "a"]


def test_the_order_of_choices_does_not_make_another_question() -> None:
    """A set has another order in each process, and an author may sort a list."""
    assert form_for(Literal["a", "b"]).digest == form_for(Literal["b", "a"]).digest
    assert form_for(Literal["a", "b"]).digest != form_for(Literal["a", "c"]).digest

    def form(*options: Any, required: list[str]) -> str:
        field: dict[str, Any] = {"type": "string", "oneOf": [{"const": each, "title": each} for each in options]}
        return form_for({"type": "object", "properties": {"x": field, "y": field}, "required": required}).digest

    assert form("a", "b", required=["x", "y"]) == form("b", "a", required=["y", "x"])
    assert form("a", "b", required=["x", "y"]) != form("a", "b", required=["x"])


@dataclass
class Mixed:
    value: int | str | None


@dataclass
class MixedWithDefault:
    value: int | str | None = None


@pytest.mark.parametrize("wanted", [Mixed, MixedWithDefault])
def test_a_field_of_two_types_cannot_be_in_a_form(wanted: Any) -> None:
    """Also where it may stay empty; the first of them alone would be another question."""
    with pytest.raises(TypeError, match="its field 'value' is not"):
        form_for(wanted)


@dataclass
class Needed:
    name: str
    size: int | None
    count: int = 3


def test_a_required_field_is_not_left_out_by_null() -> None:
    """Only a field with a default may be; one whose type has null gets it, also if the client leaves it out."""
    assert accepted(Needed, {"name": "Ada", "count": None}).data == Needed("Ada", None, 3)
    assert accepted(Needed, {"name": "Ada", "size": None}).data == Needed("Ada", None, 3)
    with pytest.raises(MisfitAnswer, match=r"Expected `str`, got `null`.*name"):
        accepted(Needed, {"name": None, "size": 1})
