"""The published schemas: stored, checked by the profile's rules, and valid 2020-12."""

from __future__ import annotations

import datetime as dt
import enum
import json
import os
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import jsonschema_rs
import msgspec
import pydantic
import pytest
from typing_extensions import TypeAliasType

from ferrule import Field
from ferrule.app.results.result_plan import plan_result
from ferrule.app.signatures.annotations import shape_of
from ferrule.app.signatures.coercion import InvalidArguments
from ferrule.app.signatures.function import compile_function
from ferrule.app.signatures.json_schema import exact_schema
from ferrule.app.signatures.schema_profile import schema_problems
from ferrule.wire.revisions import REVISIONS
from tests.app.forty_functions import FUNCTIONS

SNAPSHOTS = Path(__file__).with_name("snapshots")


@pytest.mark.parametrize("mode", ["model", "exact"])
def test_the_schemas_of_forty_functions_are_the_stored_ones(mode):
    """A schema that changes is a change for every model that reads it; FERRULE_UPDATE=1 stores the new ones."""
    schemas = {function.__name__: compile_function(function).input_schema(mode) for function in FUNCTIONS}
    assert len(schemas) == 40
    path = SNAPSHOTS / f"forty_{mode}.json"
    text = json.dumps(schemas, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("FERRULE_UPDATE"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_schema_follows_the_profile_and_is_valid(function):
    """One schema that a model API refuses makes all tools of a user unusable."""
    schema = compile_function(function).input_schema()
    assert schema_problems(schema) == []
    jsonschema_rs.meta.validate(schema)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_the_exact_schema_is_valid_too(function):
    """Turning the profile off must not publish something that no validator accepts."""
    schema = compile_function(function).input_schema("exact")
    jsonschema_rs.meta.validate(schema)
    jsonschema_rs.validator_for(schema)  # no dangling reference


def test_reading_a_schema_twice_gives_equal_and_independent_results():
    """The memo of shared leaves must not leak one function's description into another's."""

    def first(a: str): ...

    def second(a: str): ...

    one = compile_function(first).input_schema()
    one["properties"]["a"]["description"] = "mine"
    assert compile_function(second).input_schema()["properties"]["a"] == {"type": "string"}


def test_a_parameters_description_comes_from_the_annotation_before_the_docstring():
    """The annotation stands at the parameter and is more particular."""

    def function(a: Annotated[int, Field("from the annotation")], b: int):
        """Do.

        Args:
            a: from the docstring
            b: also from the docstring
        """

    properties = compile_function(function).input_schema()["properties"]
    assert properties["a"]["description"] == "from the annotation"
    assert properties["b"]["description"] == "also from the docstring"


def test_a_tool_without_parameters_has_properties_all_the_same():
    """Some model APIs refuse every tool for one schema without them."""
    for mode in ("model", "exact"):
        schema = compile_function(lambda: None).input_schema(mode)
        assert schema == {"type": "object", "properties": {}, "additionalProperties": False}


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


def test_the_tag_of_a_discriminated_union_is_required():
    """pydantic demands it although the field has a default, so a model must know."""

    def function(one: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")], more: list[Pets]): ...

    for mode in ("model", "exact"):
        schema = compile_function(function).input_schema(mode)
        validator = jsonschema_rs.validator_for(schema)
        dog = {"kind": "dog", "name": "x"}
        assert validator.is_valid({"one": dog, "more": [{"kind": "cat"}]})
        assert not validator.is_valid({"one": {"name": "x"}, "more": []})
        assert not validator.is_valid({"one": dog, "more": [{}]})
    model = compile_function(function).input_schema()
    assert [part["required"] for part in model["properties"]["one"]["anyOf"]] == [["kind"], ["name", "kind"]]


Pets = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


class Moments(pydantic.BaseModel):
    at: dt.datetime
    clock: dt.time
    span: dt.timedelta
    price: Decimal
    aware: pydantic.AwareDatetime


@dataclass
class PlainMoments:
    at: dt.datetime
    clock: dt.time
    span: dt.timedelta
    price: Decimal
    aware: Annotated[dt.datetime, msgspec.Meta(tz=True)]


@pytest.mark.parametrize("hint", [PlainMoments, Moments])
def test_no_format_is_announced_that_a_value_may_break(hint):
    """A time without offset is not an RFC 3339 time; clients that check formats refuse the whole call."""
    schema = exact_schema(shape_of(hint), output=True)
    formats = {name: part.get("format") for name, part in schema["properties"].items()}
    assert formats.pop("aware") == "date-time"
    assert set(formats.values()) == {None}
    known = {"date-time", "date", "time", "duration", "uuid", None}
    accepted = exact_schema(shape_of(hint))["properties"].values()
    assert {part.get("format") for part in accepted} <= known


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (dt.time, ["03:04:05", "03:04:05Z", "23:59:59.5+02:00"], ["24:00:00", "3:4", "03:04:05+2"]),
        (dt.timedelta, ["P1D", "PT1.5S", "-P1DT2H3M", "PT5M"], ["P", "PT", "P1DT", "P1Y", "P1W", "5"]),
        (Decimal, ["1", "-1.5", ".5", "1e5"], ["", "x", "0x1", "1,5"]),
        (bytes, ["", "aGk=", "YQ=="], ["a", "YQ=", "a-_b"]),
    ],
)
def test_patterns_match_accepted_values(hint, good, bad):
    """For types without a suitable format."""

    def function(p): ...

    function.__annotations__["p"] = hint
    spec = compile_function(function)
    for mode in ("model", "exact"):
        validator = jsonschema_rs.validator_for(spec.input_schema(mode))
        for text in good:
            assert validator.is_valid({"p": text})
            spec.bind({"p": text})
        for text in bad:
            assert not validator.is_valid({"p": text})
            with pytest.raises(InvalidArguments):
                spec.bind({"p": text})


def test_keys_that_are_no_text_are_described():
    """JSON has text keys only: those of a ``dict[int, …]`` are digits."""

    def function(numbers: dict[int, str], flags: dict[bool, str], named: dict[Literal[1, 2], str]): ...

    properties = compile_function(function).input_schema("exact")["properties"]
    assert properties["numbers"]["propertyNames"] == {"pattern": "^-?(0|[1-9][0-9]*)$"}
    assert properties["flags"]["propertyNames"] == {"pattern": "^(true|false)$"}
    assert properties["named"]["propertyNames"] == {"enum": ["1", "2"]}


@attrs.define
class Aliased:
    _hidden: int
    n: int = attrs.field(alias="count", default=3)


@dataclass
class Around:
    inner: list[Aliased]


class Boxed(msgspec.Struct, rename="camel", tag="b"):
    the_inner: Aliased


class Row(msgspec.Struct, array_like=True):
    inner: Aliased


def test_attrs_fields_are_sent_by_the_alias_that_is_published():
    """As they are described and built; msgspec would leave private ones out."""
    for hint, value, expected in (
        (Aliased, Aliased(1, 2), {"hidden": 1, "count": 2}),
        (list[Aliased], [Aliased(1)], [{"hidden": 1, "count": 3}]),
        (Around, Around([Aliased(1)]), {"inner": [{"hidden": 1, "count": 3}]}),
        (dict[str, Aliased | None], {"k": Aliased(1)}, {"k": {"hidden": 1, "count": 3}}),
        (Boxed, Boxed(Aliased(1)), {"type": "b", "theInner": {"hidden": 1, "count": 3}}),
        (tuple[Row, int], (Row(Aliased(1)), 1), [[{"hidden": 1, "count": 3}], 1]),
    ):
        plan = plan_result(hint)
        made = plan.project(value, REVISIONS["2026-07-28"]).structured_content
        assert made == expected
        assert jsonschema_rs.validator_for(plan.output_schema() or {}).is_valid(made)


class Even:
    """A class of a library that supports pydantic, as many do."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return handler.generate_schema(Annotated[int, pydantic.Field(multiple_of=2)])


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (pydantic.AwareDatetime, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05"),
        (pydantic.AnyUrl, "https://example.org/a", "no url"),
        (Even, 2, 3),
        (list[Even] | None, [2, 4], [1]),
    ],
)
def test_classes_that_only_define_a_validation_are_served(hint, good, bad):
    """Their values are not their instances."""

    def function(p): ...

    function.__annotations__["p"] = hint
    spec = compile_function(function)
    jsonschema_rs.validator_for(spec.input_schema()).validate({"p": good})
    taken = spec.bind({"p": good})["p"]
    with pytest.raises(InvalidArguments):
        spec.bind({"p": bad})
    assert plan_result(hint).project(taken, REVISIONS["2026-07-28"]).structured_content == good


Tree = TypeAliasType("Tree", "int | list[Tree]")
Named = TypeAliasType("Named", dict[str, "Tree"])


@pytest.mark.parametrize(("hint", "good", "bad"), [(Tree, [1, [2]], ["x"]), (Named, {"a": [1]}, {"a": "x"})])
def test_an_alias_may_name_itself_and_later_types_in_text(hint, good, bad):
    """Its text is evaluated where it was written."""

    def function(p): ...

    function.__annotations__["p"] = hint
    spec = compile_function(function)
    validator = jsonschema_rs.validator_for(spec.input_schema())
    assert spec.bind({"p": good}) == {"p": good}
    assert validator.is_valid({"p": good})
    assert not validator.is_valid({"p": bad})
    with pytest.raises(InvalidArguments):
        spec.bind({"p": bad})


def test_the_length_of_bytes_is_published_in_letters_of_base64():
    """Four letters stand for three bytes."""

    def function(p: Annotated[bytes, Field(min_length=3, max_length=6)]): ...

    assert (
        compile_function(function).input_schema("exact")["properties"]["p"].items()
        >= {
            "minLength": 4,
            "maxLength": 8,
        }.items()
    )
    assert compile_function(function).bind({"p": "aGVsbG8h"}) == {"p": b"hello!"}


class Rights(enum.Flag):
    READ = 1
    WRITE = 4


class Kept(enum.IntFlag):
    A = 1


@pytest.mark.parametrize(("hint", "good", "bad"), [(Rights, [0, 1, 4, 5], [2, 3, -1, 8]), (Kept, [0, 1, 6], ["x"])])
def test_a_flag_is_described_by_its_combinations(hint, good, bad):
    """A strict flag has no other bits."""

    def function(p): ...

    function.__annotations__["p"] = hint
    spec = compile_function(function)
    validator = jsonschema_rs.validator_for(spec.input_schema())
    for number in good:
        assert plan_result(list[hint]).project([hint(number)], REVISIONS["2026-07-28"]).structured_content == [number]
        assert validator.is_valid({"p": number})
        assert spec.bind({"p": number}) == {"p": hint(number)}
    for number in bad:
        assert not validator.is_valid({"p": number})
        with pytest.raises(InvalidArguments):
            spec.bind({"p": number})
