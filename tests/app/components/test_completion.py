"""Completion: by type, by function, bounded, and announced only where something completes."""

from __future__ import annotations

import enum
from typing import Literal

import pytest

from ferrule import Context, MCPServer
from ferrule.app.errors import RegistrationError, SignatureError
from ferrule.protocol.errors import InvalidParams
from ferrule.types import Completion
from tests.app.support import V2024, ask

pytestmark = pytest.mark.anyio


class Metal(enum.Enum):
    BRASS = "brass"
    BRONZE = "bronze"
    STEEL = "steel"


@pytest.fixture
def app() -> MCPServer:
    app = MCPServer("x")

    @app.prompt
    def quote(metal: Metal, size: Literal["small", "large"] = "small", city: str = ""):
        return "x"

    @app.resource("data://{metal}/{part}")
    def part(metal: Literal["zinc"], part: str):
        return "x"

    return app


async def complete(app, argument, value, ref=None, context=None):
    params = {
        "ref": ref or {"type": "ref/prompt", "name": "quote"},
        "argument": {"name": argument, "value": value},
    }
    if context is not None:
        params["context"] = {"arguments": context}
    return (await ask(app, "completion/complete", params))["completion"]


async def test_enums_and_literals_complete_themselves(app):
    """The type has all values."""
    assert (await complete(app, "metal", "br"))["values"] == ["brass", "bronze"]
    assert (await complete(app, "size", ""))["values"] == ["small", "large"]
    assert (await complete(app, "city", "x"))["values"] == []


async def test_a_function_completes_with_what_is_filled_in(app):
    """The arguments so far narrow the choice."""

    @app.complete("quote", "city")
    async def cities(typed: str, arguments: dict[str, str], ctx: Context) -> list[str]:
        assert ctx.method == "completion/complete"
        return [f"{typed}-{arguments.get('metal')}"]

    assert (await complete(app, "city", "O", context={"metal": "brass"}))["values"] == ["O-brass"]
    assert (await complete(app, "city", "O"))["values"] == ["O-None"]


async def test_templates_complete_by_their_text(app):
    """A template's variable is an argument too."""
    ref = {"type": "ref/resource", "uri": "data://{metal}/{part}"}

    @app.complete("data://{metal}/{part}", "part")
    def parts(typed: str):
        return ["nut", "bolt"]

    assert (await complete(app, "metal", "", ref))["values"] == ["zinc"]
    assert (await complete(app, "part", "", ref))["values"] == ["nut", "bolt"]


async def test_at_most_a_hundred_values_go_out(app):
    """At most 100 go out (2026-07-28, "Completion"); the rest is counted."""

    @app.complete("quote", "city")
    def cities(typed: str):
        return (str(number) for number in range(250))

    found = await complete(app, "city", "")
    assert (len(found["values"]), found["total"], found["hasMore"]) == (100, 250, True)


async def test_a_completion_of_ones_own_passes_and_is_bounded(app):
    """Total and hasMore may come from a database."""

    @app.complete("quote", "city")
    def cities(typed: str) -> Completion:
        return Completion([typed] * (101 if typed == "x" else 1), total=7, has_more=True)

    assert (await complete(app, "city", "y")) == {"values": ["y"], "total": 7, "hasMore": True}
    assert len((await complete(app, "city", "x"))["values"]) == 100


@pytest.mark.parametrize(
    ("argument", "ref"),
    [
        ("nope", None),
        ("metal", {"type": "ref/prompt", "name": "nope"}),
        ("metal", {"type": "ref/resource", "uri": "data://nope"}),
    ],
)
async def test_unknown_owners_and_arguments_are_invalid_params(app, argument, ref):
    """What cannot be completed is -32602 (2026-07-28, "Completion", error handling)."""
    with pytest.raises(InvalidParams):
        await complete(app, argument, "", ref)


async def test_one_value_may_be_returned_as_text(app):
    """It is not taken for a list of its letters."""
    app.complete("quote", "city")(lambda typed: "Rome")
    assert (await complete(app, "city", "R"))["values"] == ["Rome"]


async def test_an_unknown_argument_is_named_in_short(app):
    """As other unknown names."""
    with pytest.raises(InvalidParams) as caught:
        await complete(app, "x" * 100_000, "")
    assert "has no argument 'xxx" in str(caught.value)
    assert len(str(caught.value)) < 300


async def test_the_capability_is_there_only_when_something_completes():
    """What is advertised is answered; the first revision has no such capability."""
    app = MCPServer("x")

    @app.prompt
    def free(city: str):
        return "x"

    assert "completions" not in (await ask(app, "server/discover"))["capabilities"]
    app.complete(free, "city")(lambda typed: [typed])
    assert (await ask(app, "server/discover"))["capabilities"]["completions"] == {}
    from ferrule.wire.revisions import REVISIONS

    assert "completions" not in app.lowlevel.capabilities(REVISIONS[V2024])


def test_wrong_completers_are_refused_at_registration(app):
    """A misspelt argument would never be asked for."""
    for owner, argument in (("nope", "city"), ("quote", "nope"), ("data://x", "part")):
        with pytest.raises(RegistrationError):
            app.complete(owner, argument)
    with pytest.raises(SignatureError):
        app.complete("quote", "city")(lambda *, arguments: [])
    with pytest.raises(SignatureError):
        app.complete("quote", "city")(lambda typed, other: [])
    app.complete("quote", "city")(lambda typed: [])
    with pytest.raises(RegistrationError, match="already"):
        app.complete("quote", "city")(lambda typed: [])


class Odd(enum.Enum):
    TEXT = "true"
    YES = True
    HALF = 0.5


@pytest.mark.parametrize(
    ("hint", "offered"),
    [
        (Literal[True, "x"], ["x"]),
        (Literal[True, False], ["true", "false"]),
        (Literal[1, 2], ["1", "2"]),
        (Literal["a", "b"] | None, ["a", "b"]),
        (Metal | None, ["brass", "bronze", "steel"]),
        (Odd, ["true"]),
        (enum.IntEnum("Level", {"LOW": 1, "HIGH": 2}), ["1", "2"]),
        (enum.Enum("Half", {"A": 0.5, "B": 1.5}), ["0.5", "1.5"]),
    ],
)
async def test_what_is_offered_is_taken(hint, offered):
    """And as it is written in JSON: ``true``, not ``True``."""
    app = MCPServer("x")

    def ask_for(p):
        return "x"

    ask_for.__annotations__["p"] = hint
    app.prompt(ask_for)
    answer = await complete(app, "p", "", {"type": "ref/prompt", "name": "ask_for"})
    assert answer["values"] == offered
    for text in offered:
        await ask(app, "prompts/get", {"name": "ask_for", "arguments": {"p": text}})
