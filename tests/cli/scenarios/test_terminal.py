"""The command line in a pseudo-terminal: tables, bars, questions, Ctrl-C, hostile text."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import PROBE, ferrule, terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")


def test_a_table_is_drawn_where_rich_is_installed() -> None:
    """The extra ``cli``; in a pipe the same command prints plain text (see the other tests)."""
    pytest.importorskip("rich")
    with terminal("list", PROBE, "tools") as screen:
        assert screen.wait() == 0
        assert "━" in screen.seen
        assert "Add two integers." in screen.seen


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
def test_a_question_is_answered_at_the_terminal(mode: str) -> None:
    """Field by field, by type, in either era; a value of the wrong type is asked for again."""
    with terminal("call", PROBE, "greet", "--mode", mode) as screen:
        screen.read_until("asks: Who are you?")
        screen.read_until("name")
        screen.type("Ada")
        screen.read_until("age")
        screen.type("many")
        screen.read_until("does not fit")
        screen.type("36")
        screen.read_until("Send this?")
        screen.type("y")
        assert screen.wait() == 0
        assert "Hello, Ada (36)" in screen.seen


def test_a_question_is_declined() -> None:
    """The server gets the answer "decline", and its result shows that."""
    with terminal("call", PROBE, "greet") as screen:
        screen.read_until("name")
        screen.type("Ada")
        screen.read_until("age")
        screen.type("36")
        screen.read_until("Send this?")
        screen.type("n")
        assert screen.wait() == 0
        assert "Nobody: decline" in screen.seen


def test_progress_is_a_bar() -> None:
    """Drawn over itself, and gone before the result is printed."""
    with terminal("call", PROBE, "steps", "count=4") as screen:
        assert screen.wait() == 0
        assert "4/4 step 4" in screen.seen
        assert "[########################]" in screen.seen
        assert screen.seen.rstrip().endswith("done")


def test_ctrl_c_cancels_the_call_and_notifies_the_server(tmp_path: Path) -> None:
    """Status 130, no traceback, no server left behind."""
    record = tmp_path / "record"
    with terminal("call", PROBE, "linger", f"record={record}") as screen:
        while not record.exists() or record.read_text() != "began":
            assert screen.process.poll() is None
        screen.press(b"\x03")
        assert screen.wait() == 130
        assert "Traceback" not in screen.seen
    assert record.read_text() == "cancelled"


def test_hostile_text_is_shown_and_not_obeyed() -> None:
    """On a terminal an escape sequence is written out; in a pipe a program gets what the server sent."""
    with terminal("call", PROBE, "hostile") as screen:
        assert screen.wait() == 0
        assert "\\x1b[2Jgone \\u202eright to left" in screen.seen
    assert ferrule("call", PROBE, "hostile").stdout == "\x1b[2Jgone \u202eright to left\n"


def test_hostile_names_of_a_configuration_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    """Complaints and warnings repeat what they complain of, too."""
    (tmp_path / "mcp.json").write_text(
        json.dumps({"mcpServers": {"a\x1b]0;PWN\x07": {"command": "true"}, "b\x9bm": {"url": "ftp://\x1b[2J"}}})
    )
    for command in ("list", "run"):  # the first ends, the second serves and tries again
        with terminal(command, str(tmp_path / "mcp.json")) as screen:
            screen.read_until("\\x1b]0;PWN")
            assert not any(hostile in screen.seen for hostile in ("\x1b]0;", "\x9b", "\x1b[2J"))


@pytest.mark.parametrize("how", ["log", "quit", "error"])
def test_no_way_to_complain_obeys(how: str, capsys: pytest.CaptureFixture[str], caplog: Any) -> None:
    """A warning without a logging setup, the last words of a command, an exception."""
    import logging

    import click

    from ferrule.cli.exits import Quit, run_guarded

    @click.command()
    def bad() -> int:
        if how == "quit":
            raise Quit(3, "\x1b]0;PWN\x07")
        if how == "error":
            raise OSError("\x1b]0;PWN\x07")
        record = logging.LogRecord("x", logging.WARNING, "f", 1, "%s", ("\x1b]0;PWN\x07",), None)
        assert logging.lastResort is not None
        logging.lastResort.handle(record)
        return 0

    run_guarded(bad, [])
    shown = capsys.readouterr().err
    assert "\\x1b]0;PWN\\x07" in shown
    assert "\x1b" not in shown


def test_hostile_questions_and_names_are_shown_and_not_obeyed() -> None:
    """Control characters of a server must not hide from the user what is asked."""
    with terminal("call", PROBE, "trick") as screen:
        screen.read_until("asks: \\x1b[2JYour\\u202e name?")
        assert "\x1b[2J" not in screen.raw
        screen.press(b"\x04")
        assert screen.wait() == 0
        assert "cancel" in screen.seen
    with terminal("call", PROBE, "tric\x1b[2Jk", "a=1") as screen:
        assert screen.wait() == 2
        assert "\x1b[2J" not in screen.raw
        assert "did you mean trick" in screen.seen


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
def test_a_person_answers_in_the_models_place(mode: str) -> None:
    """A server that samples can be tried without a model; an empty line refuses."""
    with terminal("call", PROBE, "think", "about=brass", "--mode", mode) as screen:
        screen.read_until("asks your model (at most 50 tokens):\n  user: brass\n")
        screen.read_until("an empty line refuses")
        screen.type("an alloy")
        assert screen.wait() == 0
        assert "It thinks: an alloy" in screen.seen
    with terminal("call", PROBE, "think", "about=brass", "--mode", mode) as screen:
        screen.read_until("an empty line refuses")
        screen.type("")
        assert screen.wait() != 0
        assert "Traceback" not in screen.seen


@pytest.mark.parametrize(
    ("arguments", "words", "status"),
    [
        (("call", PROBE, "greet"), "name (string):", 130),
        (("listen", PROBE), "listening", 130),
        (("doctor", PROBE), "ok ", 130),
        (("run", PROBE), "being loaded", 130),
        (("run", f"{sys.executable} {PROBE}"), "being loaded", 130),
        (("run", PROBE, "--http", "--port", "0"), "serving", 0),
        (("run", PROBE, "--http", "--port", "0", "--reload"), "serving", 0),
        (("run", f"{sys.executable} {PROBE}", "--http", "--port", "0"), "serving", 0),
    ],
)
def test_ctrl_c_ends_every_command(arguments: tuple[str, ...], words: str, status: int) -> None:
    """At a question, too: a thread that waits for a line must not keep the program. An HTTP server has drained then."""
    with terminal(*arguments) as screen:
        screen.read_until(words)
        screen.press(b"\x03")
        assert screen.wait() == status
        assert "Traceback" not in screen.seen


def test_no_color_is_respected() -> None:
    """NO_COLOR=1: a table without styles, and a dumb terminal gets none either."""
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        variables: Any = {name: value}
        with terminal("list", PROBE, "tools", **variables) as screen:
            assert screen.wait() == 0
            assert "\x1b[3" not in screen.raw
            assert "Add two integers." in screen.seen
