"""TypedDict: which keys may be missing, in every spelling and under postponed annotations (which this file has)."""

from __future__ import annotations

import typing
import typing as T  # noqa: N812 - the spelling is the case
from typing import Annotated, Any, NotRequired, Required, TypedDict

import pytest
import typing_extensions
import typing_extensions as te

from ferrule import Client, Field, MCPServer
from ferrule.app.signatures.coercion import InvalidArguments
from ferrule.app.signatures.function import compile_function
from ferrule.app.signatures.validation import problems_by

pytestmark = pytest.mark.anyio


class Total(TypedDict):
    must: int
    bare: NotRequired[int]
    module: typing.NotRequired[int]
    alias: T.NotRequired[int]
    extension: te.NotRequired[int]
    long: typing_extensions.NotRequired[int]
    inside: Annotated[NotRequired[int], "d"]
    outside: NotRequired[Annotated[int, Field("d", ge=0)]]
    frozen: te.ReadOnly[te.NotRequired[int]]
    frozen_inside: te.NotRequired[te.ReadOnly[int]]


class Partial(TypedDict, total=False):
    must: Required[int]
    alias_must: T.Required[int]
    inside_must: Annotated[te.Required[int], "d"]
    may: int


class Extended(Total, total=False):
    may: int
    also: Required[int]


class Extension(te.TypedDict):
    must: int
    may: te.NotRequired[int]


class Closed(te.TypedDict, closed=True):  # type: ignore[call-arg, unused-ignore]
    must: int
    may: te.NotRequired[int]


CASES: list[tuple[Any, set[str], set[str]]] = [
    (
        Total,
        {"must"},
        {"bare", "module", "alias", "extension", "long", "inside", "outside", "frozen", "frozen_inside"},
    ),
    (Partial, {"must", "alias_must", "inside_must"}, {"may"}),
    (
        Extended,
        {"must", "also"},
        {"may", "bare", "module", "alias", "extension", "long", "inside", "outside", "frozen", "frozen_inside"},
    ),
    (Extension, {"must"}, {"may"}),
    (Closed, {"must"}, {"may"}),
]


def spec_of(hint: Any) -> Any:
    def function(p): ...

    function.__annotations__["p"] = hint
    return compile_function(function)


@pytest.mark.parametrize(("hint", "required", "optional"), CASES)
def test_only_not_required_keys_may_be_missing(hint, required, optional):
    """The class's own key sets are wrong where a qualifier is inside a string."""
    schema = spec_of(hint).input_schema("exact")["properties"]["p"]
    described = spec_of(hint).input_schema("exact")["$defs"][hint.__name__] if "$ref" in schema else schema
    assert set(described["required"]) == required
    assert set(described["properties"]) == required | optional


@pytest.mark.parametrize(("hint", "required", "optional"), CASES)
def test_conversion_and_schema_agree_on_missing_keys(hint, required, optional):
    """For each key left out, alone."""
    spec = spec_of(hint)
    problems = problems_by(spec.input_schema("exact"))
    whole = dict.fromkeys(required | optional, 1)
    for name in [None, *whole]:
        value = {key: number for key, number in whole.items() if key != name}
        if problems({"p": value}):
            assert name in required
            with pytest.raises(InvalidArguments, match=name):
                spec.bind({"p": value})
        else:
            assert name not in required
            assert spec.bind({"p": value}) == {"p": value}


def test_a_closed_dict_refuses_other_keys():
    """PEP 728; others leave unknown keys open."""
    spec = spec_of(Closed)
    with pytest.raises(InvalidArguments, match="other"):
        spec.bind({"p": {"must": 1, "other": 2}})
    assert problems_by(spec.input_schema("exact"))({"p": {"must": 1, "other": 2}})


@pytest.mark.parametrize(("hint", "required", "optional"), CASES)
async def test_a_client_takes_a_result_without_the_optional_keys(hint, required, optional):
    """The client checks results by the published schema."""
    app = MCPServer("x")

    def make() -> Any:
        return dict.fromkeys(required, 1)

    make.__annotations__["return"] = hint
    app.tool(make)
    async with Client(app) as client:
        result = await client.call_tool("make")
        assert result.structured_content == dict.fromkeys(required, 1)
