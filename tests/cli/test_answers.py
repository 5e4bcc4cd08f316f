"""Questions of a server answered on the command line."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from ferrule.cli.answers import TypedAnswers
from tests.cli.support import PROBE, ferrule, terminal

SERVER = """\
from typing import Literal
from ferrule import Context, MCPServer

app = MCPServer("notes")

@app.tool
async def drop(note: int, ctx: Context) -> str:
    return f"{note} {await ctx.confirm('Delete it?')}"

@app.tool
async def size(ctx: Context) -> str:
    first = await ctx.elicit("Which size?", Literal["S", "M"])
    second = await ctx.elicit("How many?", int)
    return f"{first.data} {second.data}"

@app.tool
async def page(ctx: Context) -> str:
    return (await ctx.elicit_url("Sign in", "https://example.com/x")).action
"""


@pytest.fixture
def server(tmp_path: Path) -> str:
    """A server that asks."""
    (tmp_path / "notes.py").write_text(SERVER, encoding="utf-8")
    return str(tmp_path / "notes.py")


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize(
    ("tool", "options", "shown"),
    [
        ("greet", ["--answer", "name=Ada", "--answer", "age=36"], "Hello, Ada (36)\n"),
        ("greet", ["--answer", '{"name": "Ada", "age": 36}'], "Hello, Ada (36)\n"),
        ("greet", ["--answer", "name=36", "--answer", "age:=36"], "Hello, 36 (36)\n"),
        ("greet", ["--decline"], "Nobody: decline\n"),
    ],
)
def test_a_form_is_answered(mode: str, tool: str, options: list[str], shown: str) -> None:
    """By field with the type of the field, as an object, or not at all."""
    done = ferrule("call", PROBE, tool, "--mode", mode, *options)
    assert (done.returncode, done.stdout) == (0, shown), done.stderr


def test_yes_and_no(server: str) -> None:
    """``--yes`` confirms, and takes what has a default."""
    assert ferrule("call", server, "drop", "note=3", "--yes").stdout == "3 True\n"
    assert ferrule("call", server, "drop", "note=3", "--decline").stdout == "3 False\n"
    assert ferrule("call", server, "drop", "note=3", "--answer", "confirm=no").stdout == "3 False\n"
    assert ferrule("call", server, "page", "--yes").stdout == "accept\n"


def test_several_questions(server: str) -> None:
    """Objects answer one question each, in their order."""
    done = ferrule("call", server, "size", "--answer", '{"value": "M"}', "--answer", '{"value": 4}')
    assert done.stdout == "M 4\n", done.stderr


def test_what_is_not_answered_is_named() -> None:
    """With the options that would answer it; the status is that of an open question."""
    done = ferrule("call", PROBE, "greet", "--answer", "name=Ada")
    assert done.returncode == 6, done.stdout + done.stderr
    assert "'Who are you?' was not answered; --answer age=" in done.stderr
    assert ferrule("call", PROBE, "greet", "--yes").returncode == 6


def test_a_person_is_asked_what_was_not_answered() -> None:
    """Where there is a terminal."""
    with terminal("call", PROBE, "greet", "--answer", "name=Ada") as screen:
        screen.read_until("name")
        screen.type("Grace")
        screen.read_until("age")
        screen.type("85")
        screen.read_until("Send this?")
        screen.type("y")
        assert screen.wait() == 0
        assert "Hello, Grace (85)" in screen.seen


@pytest.mark.parametrize("answers", [["x"], ["{"], ["=x"], ["[1]"]])
def test_a_malformed_answer(answers: list[str]) -> None:
    """Wrong usage, before anything is started."""
    with pytest.raises(click.UsageError, match="--answer"):
        TypedAnswers(answers, yes=False, declines=False)


def test_declining_and_answering_at_once() -> None:
    """One of the two is a mistake."""
    with pytest.raises(click.UsageError, match="--decline"):
        TypedAnswers([], yes=True, declines=True)
