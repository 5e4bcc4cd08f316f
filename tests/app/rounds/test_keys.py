"""Keys: stable from round to round, and never the same for two questions."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ferrule import Context
from ferrule.app.rounds.errors import RoundsError
from ferrule.app.rounds.keys import (
    Occurrences,
    check_key,
    content_digest,
    current_scope,
    digest_of_texts,
    question_base,
    scoped,
)
from ferrule.app.rounds.questions import elicit_question
from tests.app.rounds.driving import Call, accept, both, served


@pytest.mark.parametrize("key", ["", "k#1", "a/k", "step:k", "ü", "a b", "k" * 65, "k\n"])
def test_keys_that_could_be_taken_for_another_are_refused(key):
    """`k#2` would be the second `k`, `a/k` the `k` of scope `a`."""
    with pytest.raises(RoundsError):
        check_key(key)


def test_occurrences_count_from_the_second():
    counts = Occurrences()
    assert [counts.next("k"), counts.next("j"), counts.next("k"), counts.next("k")] == ["k", "j", "k#2", "k#3"]


def test_scopes_nest_and_end():
    with scoped("a"):
        with scoped("b"):
            assert current_scope() == "a/b/"
        assert current_scope() == "a/"
    assert current_scope() == ""


def test_a_key_is_the_authors_or_method_and_digest():
    assert question_base("mine", "roots/list", "d") == "mine"
    assert question_base(None, "elicitation/create", "d") == "elicitation-create:d"


def test_one_and_one_point_zero_are_one_number():
    """JSON of another client may write either."""
    assert content_digest({"a": 1, "b": 2}) == content_digest({"b": 2.0, "a": 1.0})
    assert content_digest(1) != content_digest("1")
    assert len(content_digest({})) == 16
    assert len(content_digest({}, digits=64)) == 64


def test_texts_do_not_run_into_each_other():
    assert digest_of_texts("ab", "c") != digest_of_texts("a", "bc")


PROGRAM = """
from typing import Literal
from enum import Enum
from ferrule.app.rounds.questions import elicit_question
words = {"red", "green", "blue", "cyan", "black", "white"}
by_hand = {"type": "object", "properties": {"value": {"type": "string", "enum": list(words)}}, "required": list(words)}
print(elicit_question("x", by_hand).digest, elicit_question("x", Enum("Colour", [(w, w) for w in words])).digest,
      elicit_question("x", Literal[tuple(words)]).digest)
"""


def test_a_choice_built_from_a_set_is_the_same_question_in_every_process():
    """The order of a set differs from process to process; the retry may reach another one."""
    seen = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout
        for seed in "12345"
    }
    assert len(seen) == 1


def test_other_choices_are_another_question():
    """Only the order is forgotten."""
    one, other = (elicit_question("x", {"type": "object", "properties": {"v": {"enum": e}}}) for e in ("ab", "ac"))
    assert one.digest != other.digest


@pytest.mark.anyio
@pytest.mark.parametrize("key", ["k#1", "a/b", "elicitation-create:0"])
async def test_ask_refuses_a_bad_key_in_both_eras(key):
    app = served()

    @app.tool
    async def body(ctx: Context) -> str:
        await ctx.elicit("?", int, key=key)
        return "asked"

    assert "RoundsError" in await both(app, lambda method, params: accept(1))


@pytest.mark.anyio
async def test_the_same_key_again_is_its_next_occurrence():
    """A loop that repeats a question gets a new answer each time."""
    app = served()
    answers = iter([1, 2, 3, 1, 2, 3])

    @app.tool
    async def body(ctx: Context) -> list[int]:
        return [(await ctx.elicit("?", int, key="k")).data or 0 for _ in range(3)]

    assert await both(app, lambda method, params: accept(next(answers))) == "[1,2,3]"
    call = await Call(app).send()
    assert list(call.requests) == ["k"]
    assert list((await call.reply(accept(5))).requests) == ["k#2"]


@pytest.mark.parametrize("texts", [(), ("a",), ("a", "b"), ("\ud800",)])
def test_a_digest_of_texts_has_sixteen_digits(texts: tuple[str, ...]) -> None:
    """It is part of keys, which are sent; and of states of a call that an upgraded server continues."""
    assert len(digest_of_texts(*texts)) == 16
    assert int(digest_of_texts(*texts), 16) >= 0
