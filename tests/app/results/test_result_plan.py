"""Return values become results: validated, structured, and projected once as text."""

from __future__ import annotations

import datetime as dt
import enum
import inspect
import math
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import attrs
import jsonschema_rs
import msgspec
import pydantic
import pytest

from ferrule import Audio, Embedded, File, Image, Link, WithContent
from ferrule.app.errors import ResultError
from ferrule.app.results import result_plan as results
from ferrule.app.results.result_plan import WRAP_MARKER, wrap_schema
from ferrule.app.signatures.function import compile_function
from ferrule.app.signatures.schema_profile import schema_problems
from ferrule.app.signatures.validation import validator_for
from ferrule.types import InputRequiredResult, ResourceContents, ToolContentBlock, ToolResult
from ferrule.wire import types as wire
from ferrule.wire.revisions import REVISIONS

MODERN, OBJECT_ONLY, TEXT_ONLY = REVISIONS["2026-07-28"], REVISIONS["2025-06-18"], REVISIONS["2025-03-26"]
EMPTY = inspect.Parameter.empty
UNSET = msgspec.UNSET


@dataclass
class Record:
    n: int
    mean: float | None = None
    when: dt.date | None = None


class Typed(TypedDict):
    n: int


class Struct(msgspec.Struct, rename="camel"):
    some_n: int


@attrs.define
class Attrs:
    n: int


class Model(pydantic.BaseModel):
    n: int
    ratio: float = 1.0
    maybe: float | None = None
    alias: str = pydantic.Field(default="x", serialization_alias="outName")


class Pair(NamedTuple):
    a: int
    b: str


@dataclass
class Node:
    v: int
    kids: list[Node] = field(default_factory=list)


class Colour(enum.Enum):
    RED = "red"


def plan_result(returns: Any, **options: Any) -> Any:
    return results.plan_result(returns, **options)


def project(value: Any, returns: Any = EMPTY, revision=MODERN, **options: Any) -> Any:
    return plan_result(returns, **options).project(value, revision)


def text_of(result: ToolResult) -> str:
    (block,) = result.content
    assert block.text is not None
    return block.text


def test_declared_text_is_text_and_structured_content():
    """One rule for every declared type: the structured content is always there."""
    result = project("hi", str)
    assert (text_of(result), result.structured_content) == ("hi", "hi")


@pytest.mark.parametrize("value", [5, None, b"x", ["x"], Image(b"p")])
def test_declared_text_must_be_text(value):
    """A number would break the schema that says string."""
    with pytest.raises(ResultError):
        project(value, str)


def test_undeclared_text_is_text_only():
    """It has no structure, and sending it twice would double every result."""
    result = project("hi")
    assert (text_of(result), result.structured_content) == ("hi", UNSET)


@pytest.mark.parametrize(
    ("returns", "value", "structured"),
    [
        (Record, Record(1, 2.5, dt.date(2026, 1, 2)), {"n": 1, "mean": 2.5, "when": "2026-01-02"}),
        (Typed, {"n": 1}, {"n": 1}),
        (Struct, Struct(1), {"someN": 1}),
        (Attrs, Attrs(1), {"n": 1}),
        (Model, Model(n=1), {"n": 1, "ratio": 1.0, "maybe": None, "outName": "x"}),
        (Model, {"n": 1}, {"n": 1, "ratio": 1.0, "maybe": None, "outName": "x"}),
        (list[Model], [Model(n=1)], [{"n": 1, "ratio": 1.0, "maybe": None, "outName": "x"}]),
        (Pair, Pair(1, "x"), [1, "x"]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict[int, int], {1: 2}, {"1": 2}),
        (list[int], (1, 2), [1, 2]),
        (set[int], {1}, [1]),
        (Colour, Colour.RED, "red"),
        (Path, Path("a/b"), "a/b"),
        (bytes, b"hi", "aGk="),
        (int | None, None, None),
        (Node, Node(1, [Node(2)]), {"v": 1, "kids": [{"v": 2, "kids": []}]}),
        (bool, True, True),
    ],
)
def test_each_kind_of_value_is_structured_and_fits_its_schema(returns, value, structured):
    """What is sent conforms to what was published, in either shape."""
    plan = plan_result(returns)
    result = plan.project(value, MODERN)
    schema = plan.output_schema()
    assert result.structured_content == structured
    jsonschema_rs.validator_for(schema).validate(structured)
    assert schema_problems(schema, output=True) == []
    old = plan.project(value, OBJECT_ONLY).structured_content
    assert isinstance(old, dict)
    if plan.wraps:
        wrapped = wrap_schema(schema)
        assert wrapped[WRAP_MARKER] is True
        assert old == {"result": structured}
        jsonschema_rs.validator_for(wrapped).validate(old)
    else:
        assert old == structured
    assert plan.project(value, TEXT_ONLY).structured_content is UNSET


def test_the_text_is_compact_json_of_the_structured_content():
    """For clients and models that read text only."""
    assert text_of(project(Record(1), Record)) == '{"n":1,"mean":null,"when":null}'


@pytest.mark.parametrize("returns", [Record, Typed, Struct, Attrs, Model])
@pytest.mark.parametrize("value", [{"wrong": "shape"}, object(), None, {"n": "one", "someN": "x"}, [], "text"])
def test_a_result_that_breaks_its_type_is_an_error(returns, value):
    """Wrong shape, unserialisable, nothing: never a success without its structured content."""
    with pytest.raises(ResultError) as caught:
        project(value, returns)
    assert "declared return type" in str(caught.value)


def test_an_instance_with_wrong_fields_is_an_error_too():
    """Dataclasses do not check what they are given; the client's validator would."""
    wrong: Any = "x"
    for returns, value in ((Record, Record(wrong)), (list[Record], [Record(wrong)]), (Attrs, Attrs(wrong))):
        with pytest.raises(ResultError, match="expected integer, got string"):
            project(value, returns)


def test_values_of_a_result_are_not_repeated_in_its_error():
    """They may be secret; path and types are enough for the author."""
    with pytest.raises(ResultError) as caught:
        project({"n": "hunter2"}, Typed)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_is_null_where_null_is_allowed(value):
    """One policy for text and structured content, and never a bare token."""
    result = project({"mean": value})
    assert (text_of(result), result.structured_content) == ('{"mean":null}', {"mean": None})
    for returns, made in ((Record, Record(1, value)), (Model, Model(n=1, maybe=value))):
        result = project(made, returns)
        assert "NaN" not in text_of(result)
        assert None in result.structured_content.values()


@pytest.mark.parametrize(
    ("returns", "value"),
    [
        (float, math.inf),
        (list[float], [1.0, math.nan]),
        (Model, Model(n=1, ratio=math.nan)),
        (dict[str, float], {"a": math.nan}),
    ],
)
def test_nan_is_an_error_where_the_type_forbids_null(returns, value):
    """A null there would break the published schema."""
    with pytest.raises(ResultError):
        project(value, returns)


def test_nothing_is_no_content():
    """A tool that returns nothing has no content; with a declared type it is an error."""
    assert project(None) == ToolResult([])
    assert project(None, None) == ToolResult([])
    assert plan_result(None).output_schema() is None


def test_values_without_a_json_form_are_errors():
    """Guessing ``str(value)`` would publish an address in memory."""
    with pytest.raises(ResultError, match="no JSON form"):
        project(object())
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ResultError, match="nested too deeply"):
        project(loop)


def test_content_helpers_become_blocks(tmp_path):
    """Each helper is one block of its kind."""
    (tmp_path / "a note.txt").write_text("hi", encoding="utf-8")
    made = project(
        [
            "text",
            Image(b"p", format="jpeg"),
            Audio(b"s", mime_type="audio/mpeg"),
            File(path=tmp_path / "a note.txt"),
            File(b"\xff", name="raw.bin"),
            Link("data://x/y", title="T", size=3),
            Embedded("data://x", b"b", mime_type="a/b"),
            ResourceContents("data://z", text="t"),
            {"n": 1},
        ]
    )
    kinds = [block.type for block in made.content]
    assert kinds == ["text", "image", "audio", "resource", "resource", "resource_link", "resource", "resource", "text"]
    assert (made.content[1].data, made.content[1].mime_type) == ("cA==", "image/jpeg")
    assert made.content[3].resource == ResourceContents("file:///a%20note.txt", mime_type="text/plain", text="hi")
    assert made.content[4].resource.blob == "/w=="
    assert made.content[5].name == "y"
    assert made.content[8].text == '{"n":1}'
    assert made.structured_content is UNSET


def test_a_picture_may_stand_alone_and_is_never_structured():
    """Image bytes in structured content would double the result."""
    result = project(Image(b"p"), Image)
    assert result.content[0].mime_type == "image/png"
    assert result.structured_content is UNSET
    assert plan_result(list[Image | str]).output_schema() is None


@pytest.mark.parametrize("returns", [list, list[Any], list[object], tuple, tuple[str, Any]])
def test_a_list_of_anything_may_hold_pictures(returns):
    """The bare `list` is how people annotate a mix; a schema without item types would only forbid it."""
    mix = project(("caption", Image(b"p")), returns)
    assert [block.type for block in mix.content] == ["text", "image"]
    assert mix.structured_content is UNSET
    assert project(("a", 1), returns).structured_content == ["a", 1]
    assert plan_result(returns).output_schema() is None


def test_helpers_refuse_both_or_neither_source(tmp_path):
    """Neither is an empty picture, both is a mistake."""
    for wrong in ({}, {"data": b"x", "path": "y"}):
        with pytest.raises(ValueError, match="either"):
            Image(**wrong)
    with pytest.raises(FileNotFoundError):
        Image(path=tmp_path / "gone.png")


def test_a_result_of_ones_own_passes_through():
    """Full control: content, meta and the error flag are the author's."""
    mine = ToolResult([ToolContentBlock("text", "t")], {"a": 1}, is_error=None, meta={"k": 1})
    assert project(mine) == mine
    assert project(mine, revision=TEXT_ONLY).structured_content is UNSET
    question = InputRequiredResult(request_state="s")
    assert project(question, Record) is question


def test_a_result_of_ones_own_is_checked_against_the_declared_schema():
    """What is sent conforms to what was published here too; error results are exempt."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    good = ToolResult([], {"a": 1})
    assert project(good, output_schema=schema) == good
    for bad in (ToolResult([], {"a": "x"}), ToolResult([])):
        with pytest.raises(ResultError):
            project(bad, output_schema=schema)
    failed = ToolResult([ToolContentBlock("text", "no")], is_error=True)
    assert project(failed, output_schema=schema) is failed


def test_an_output_schema_of_ones_own_is_enforced_and_published_untouched():
    """The author's words go out as they are."""
    schema = {"type": "array", "items": {"type": "integer"}, "x-mine": True}
    plan = plan_result(EMPTY, output_schema=schema)
    assert plan.output_schema() == schema
    assert plan.project([1], MODERN).structured_content == [1]
    assert plan.project([1], OBJECT_ONLY).structured_content == {"result": [1]}
    with pytest.raises(ResultError, match=r"\[0\]") as caught:
        plan.project(["hunter2"], MODERN)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ResultError):
        plan.project(None, MODERN)


def test_structured_output_can_be_turned_off():
    """For clients that pass both to the model."""
    plan = plan_result(Record, structured=False)
    assert plan.output_schema() is None
    assert plan.project(Record(1), MODERN).structured_content is UNSET


@pytest.mark.parametrize("revision", [MODERN, OBJECT_ONLY])
@pytest.mark.parametrize(
    ("returns", "value", "content"),
    [
        (str, "x", {"result": "x"}),
        (list[int], [1], {"result": [1]}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (EMPTY, [1], {"result": [1]}),
        (EMPTY, {"a": 1}, {"a": 1}),
        (ToolResult, ToolResult([], [1]), {"result": [1]}),
        (ToolResult, ToolResult([], {"result": 1}), {"result": 1}),
    ],
)
def test_structured_content_can_be_an_object_in_each_revision(revision, returns, value, content):
    """For readers that refuse any other value, such as pages of apps."""
    plan = plan_result(returns, structured="object")
    assert plan.project(value, revision).structured_content == content


def test_undeclared_data_is_structured_where_the_revision_can():
    """Clients cannot unwrap a list without a schema, so older revisions get it as text only."""
    assert project([1]).structured_content == [1]
    assert project([1], revision=OBJECT_ONLY).structured_content is UNSET
    assert project({"a": 1}, revision=OBJECT_ONLY).structured_content == {"a": 1}


@pytest.mark.parametrize("value", ["x" * 101, {"a": "x" * 100}, [Image(b"x" * 101)], ToolResult([], "x" * 101)])
def test_results_are_bounded(value):
    """A result of any size would fill the model's context window."""
    with pytest.raises(ResultError, match="bytes"):
        project(value, max_bytes=100)
    if isinstance(value, str):
        with pytest.raises(ResultError, match="bytes"):
            project(value, str, max_bytes=100)


def test_an_encoder_changes_the_text_and_nothing_else():
    """Structured content is never touched."""
    result = project({"a": [1, 2]}, encoder=lambda data: f"<{data['a']}>")
    assert (text_of(result), result.structured_content) == ("<[1, 2]>", {"a": [1, 2]})


def test_old_wrapping_keeps_references_at_the_root():
    """A recursive list's schema refers to #/$defs, which must stay reachable."""
    plan = plan_result(list[Node])
    wrapped = wrap_schema(plan.output_schema())
    jsonschema_rs.validator_for(wrapped).validate({"result": [{"v": 1, "kids": [{"v": 2, "kids": []}]}]})


def test_a_recursive_root_is_an_object_for_old_revisions():
    """They require the type object at the root, which a bare $ref lacks."""
    assert plan_result(Node).output_schema()["type"] == "object"


@pytest.mark.parametrize("returns", [None, list[int]], ids=["undeclared", "declared"])
def test_an_iterator_is_refused_with_advice(returns):
    """Reading it would run the function's code on the event loop after the function has ended."""
    plan = results.plan_result(EMPTY if returns is None else returns)
    for value in (map(str, [1]), (n for n in [1])):
        with pytest.raises(ResultError, match="return a list"):
            plan.project(value, MODERN)


class FrozenDatetime(dt.datetime):
    """As the clocks that tests freeze, and the stamps of data frames."""


class FrozenDate(dt.date):
    pass


class FrozenTime(dt.time):
    pass


class Span(dt.timedelta):
    pass


class Money(Decimal):
    pass


class Blob(bytes):
    pass


class Key(uuid.UUID):
    pass


SUBCLASSES: list[tuple[Any, Any, Any]] = [
    (FrozenDatetime(2026, 1, 2, 3, 4, 5), dt.datetime, "2026-01-02T03:04:05"),
    (FrozenDatetime(2026, 1, 2, tzinfo=dt.UTC), dt.datetime, "2026-01-02T00:00:00Z"),
    (FrozenDate(2026, 1, 2), dt.date, "2026-01-02"),
    (FrozenTime(3, 4, 5), dt.time, "03:04:05"),
    (Span(days=1), dt.timedelta, "P1D"),
    (Money("1.50"), Decimal, "1.50"),
    (Blob(b"hi"), bytes, "aGk="),
    (Key(int=5), uuid.UUID, "00000000-0000-0000-0000-000000000005"),
]


@pytest.mark.parametrize(("value", "base", "expected"), SUBCLASSES)
def test_a_subclass_of_a_plain_type_is_sent_as_its_base(value, base, expected):
    """Anywhere: alone, in containers, as a key, in a class, declared as the base, as itself, or not at all."""
    for returns, made, sent in (
        (EMPTY, value, expected),
        (base, value, expected),
        (type(value), value, expected),
        (list[base], [value], [expected]),
        (EMPTY, {"k": [value]}, {"k": [expected]}),
        (dict[str, base | None], {"k": value}, {"k": expected}),
        (dict[str, type(value)], {"k": value}, {"k": expected}),
        (tuple[base, int], (value, 1), [expected, 1]),
        (EMPTY, Holder(value), {"value": expected}),
        (Holder, Holder(value), {"value": expected}),
    ):
        assert project({"_": made}).structured_content == {"_": sent}
        assert project(made, returns).structured_content in (sent, UNSET)
    if base not in (bytes, dt.timedelta):
        assert project({value: 1}).structured_content == {expected: 1}


@dataclass
class Holder:
    value: Any


def test_what_equals_nothing_is_null():
    """Libraries of data frames spell a missing time so."""

    class Missing(dt.datetime):
        def __eq__(self, other: object) -> bool:
            return False

        def __ne__(self, other: object) -> bool:
            return True

        __hash__ = dt.datetime.__hash__

    assert project({"when": Missing(2026, 1, 1)}).structured_content == {"when": None}


@dataclass
class Animal:
    name: str


@dataclass
class Dog(Animal):
    tricks: list[str]


class Closed(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class ClosedDog(Closed):
    tricks: int


class Pet(pydantic.BaseModel):
    name: str


class Puppy(Pet):
    age: int


class SealedPet(pydantic.BaseModel, extra="forbid"):
    name: str


class SealedPuppy(SealedPet):
    age: int


@pytest.mark.parametrize(
    ("returns", "value", "structured"),
    [
        (Animal, Dog("a", ["sit"]), {"name": "a", "tricks": ["sit"]}),
        (list[Animal], [Dog("a", []), Animal("b")], [{"name": "a", "tricks": []}, {"name": "b"}]),
        (dict[str, Animal], {"x": Dog("a", [])}, {"x": {"name": "a", "tricks": []}}),
        (tuple[Animal, int], (Dog("a", []), 1), [{"name": "a", "tricks": []}, 1]),
        (Animal | None, Dog("a", []), {"name": "a", "tricks": []}),
        (list[Animal | Record], [Dog("a", []), Record(1)], None),
        (list[Pet], [Puppy(name="a", age=1)], [{"name": "a", "age": 1}]),
        (dict[str, Pet | None], {"x": Puppy(name="a", age=1)}, {"x": {"name": "a", "age": 1}}),
    ],
)
def test_an_instance_of_a_subclass_is_treated_as_its_base(returns, value, structured):
    """In a container as well as alone; what it has beyond the base is sent, which the schema leaves open."""
    plan = plan_result(returns)
    made = plan.project(value, MODERN).structured_content
    if structured is not None:
        assert made == structured
    validator_for(plan.output_schema())(made)


@pytest.mark.parametrize(
    ("returns", "value"),
    [
        (Closed, ClosedDog("a", 1)),
        (list[Closed], [ClosedDog("a", 1)]),
        (SealedPet, SealedPuppy(name="a", age=1)),
        (list[SealedPet], [SealedPuppy(name="a", age=1)]),
        (Pet, Pet.model_construct(name=5)),
        (dict[str, Pet], {"x": Pet.model_construct(name=5)}),
        (list[str], [b"x"]),
        (list[str], [dt.date(2026, 1, 2)]),
    ],
)
def test_no_success_breaks_the_published_schema(returns, value):
    """A closed class has no place for what a subclass adds, and pydantic does not look at what went past it."""
    with pytest.raises(ResultError):
        project(value, returns)


def test_the_bound_of_a_result_counts_bytes():
    """180 bytes of text are 180, whether in 180 letters or in 60."""
    wide = "€" * 60
    for returns, value in (
        (str, wide),
        (EMPTY, wide),
        (EMPTY, [wide, Image(b"")]),
        (EMPTY, [File(wide, name="a.txt")]),
    ):
        with pytest.raises(ResultError, match=r"18\d bytes"):
            project(value, returns, max_bytes=100)
        project(value, returns, max_bytes=200)


class Point(msgspec.Struct, array_like=True):
    """A place."""

    x: int
    y: float
    label: str = ""


class Tagged(msgspec.Struct, array_like=True, tag="t", forbid_unknown_fields=True):
    n: int
    inner: Point | None = None


@pytest.mark.parametrize(
    ("returns", "value", "structured"),
    [
        (Point, Point(1, 2.5), [1, 2.5, ""]),
        (list[Point], [Point(1, 2.0, "a")], [[1, 2.0, "a"]]),
        (Tagged, Tagged(1, Point(1, 1)), ["t", 1, [1, 1.0, ""]]),
    ],
)
def test_a_class_that_is_an_array_is_described_as_one(returns, value, structured):
    """The schema, the value, and what older revisions get wrapped, are one truth."""
    for mode in ("exact", "model"):
        plan = plan_result(returns, mode=mode)
        made = plan.project(value, MODERN).structured_content
        assert made == structured
        validator_for(plan.output_schema())(made)
        assert plan.project(value, OBJECT_ONLY).structured_content == {"result": structured}

    def function(p): ...

    function.__annotations__["p"] = returns
    spec = compile_function(function)
    assert spec.bind({"p": structured}) == {"p": value}
    validator_for(spec.input_schema("exact"))({"p": structured})


@pytest.mark.parametrize("returns", [str, EMPTY, ToolResult])
@pytest.mark.parametrize(
    "value",
    [wire.ReadResourceResult([]), wire.GetPromptResult([]), wire.EmptyResult(), wire.ListToolsResult([])],
    ids=lambda v: type(v).__name__,
)
def test_the_result_of_another_request_is_no_tool_result(returns, value):
    """``return await ctx.read_resource(...)``: the client would get a call's answer without content."""
    with pytest.raises(ResultError, match=f"a {type(value).__name__}, the result of another request"):
        plan_result(returns).project(value, MODERN)


@pytest.mark.parametrize("revision", [MODERN, OBJECT_ONLY, TEXT_ONLY], ids=lambda r: r.version)
def test_a_tool_may_return_what_another_tool_gave(revision):
    """``return await ctx.call_tool(...)``: in revisions that wrap it comes wrapped already."""
    plan = plan_result(str)
    given = plan.project("a", revision)
    assert plan.project(given, revision) == given


@pytest.mark.parametrize("revision", [MODERN, OBJECT_ONLY, TEXT_ONLY], ids=lambda r: r.version)
def test_content_beside_data_changes_nothing_of_the_data(revision):
    """A line for the model, or a picture, must not cost a program its structured content."""
    for returns in (EMPTY, list[int], WithContent):
        plan = plan_result(returns, encoder=lambda value: f"encoded {value}")
        alone = plan.project([1, 2], revision)
        beside = plan.project(WithContent([1, 2], ["more", Image(b"x", mime_type="image/png")]), revision)
        assert beside.structured_content == alone.structured_content
        assert beside.content[:1] == alone.content
        assert [block.type for block in beside.content[1:]] == ["text", "image"]
        assert plan.project(WithContent([1, 2]), revision) == alone


def test_content_beside_data_is_checked_with_it():
    plan = plan_result(EMPTY, output_schema={"type": "array"}, max_bytes=100)
    with pytest.raises(ResultError, match="does not fit"):
        plan.project(WithContent({"a": 1}, ["more"]), MODERN)
    with pytest.raises(ResultError, match="at most"):
        plan.project(WithContent([1], ["x" * 200]), MODERN)
