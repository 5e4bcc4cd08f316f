"""Tracebacks in the lines of stderr: those that Python writes, whole, chained and in groups, and text like them."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from ferrule.inspector.crashes.reader import MAX_LINES, MAX_RAISED, Crash, CrashReader, is_own_file


def crashes_in(text: str) -> list[Crash]:
    """The crashes of a text, each once."""
    found: list[Crash] = []
    reader = CrashReader(lambda crash: None if crash in found else found.append(crash))
    for line in text.splitlines():
        reader.feed(line)
    return found


def printed(source: str, folder: Path) -> str:
    """What Python writes when the source fails."""
    path = folder / "own.py"
    path.write_text(source, encoding="utf-8")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False)
    return done.stderr


def test_a_traceback_of_python_itself(tmp_path: Path) -> None:
    """File, line, function and source of each frame; own frames come before those of a library, the innermost first."""
    source = "import json\n\ndef outer():\n    json.loads('{')\n\nouter()\n"
    (crash,) = crashes_in("Tool 'x' failed\n" + printed(source, tmp_path))
    (raised,) = crash.describe()["exceptions"]
    assert crash.heading == "Tool 'x' failed"
    assert raised["type"] == "json.decoder.JSONDecodeError"
    assert raised["message"].startswith("Expecting property name")
    own = [frame for frame in raised["frames"] if frame["is_own"]]
    assert [(frame["line"], frame["function"], frame["source"]) for frame in own] == [
        (4, "outer", "json.loads('{')"),
        (6, "<module>", "outer()"),
    ]
    assert raised["frames"][: len(own)] == own
    assert Path(raised["frames"][-1]["file"]).name == "__init__.py"


def test_chained_exceptions_are_one_crash(tmp_path: Path) -> None:
    """The exception that was raised last is first; one that comes later is another crash."""
    source = "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('bad') from error\n"
    text = printed(source, tmp_path)
    found = crashes_in(text + "next line\n" + text)
    assert [[each["type"] for each in crash.describe()["exceptions"]] for crash in found] == [
        ["ValueError", "ZeroDivisionError"]
    ] * 2
    assert found[1].heading == "next line"


def test_a_group_of_exceptions(tmp_path: Path) -> None:
    """Python draws lines beside the inner tracebacks."""
    source = "raise ExceptionGroup('all', [ValueError('one'), KeyError('two')])\n"
    (crash,) = crashes_in(printed(source, tmp_path))
    assert [each["type"] for each in crash.describe()["exceptions"]][-1] == "ExceptionGroup"
    assert crash.describe()["exceptions"][-1]["frames"][0]["line"] == 1


def test_lines_after_the_traceback_are_not_part_of_it(tmp_path: Path) -> None:
    """A server goes on writing."""
    (crash,) = crashes_in(printed("raise ValueError('bad')", tmp_path) + "listening\n  indented\n")
    assert crash.lines[-1] == "ValueError: bad"


def test_an_endless_traceback_is_bounded() -> None:
    """A process may write frames for ever."""
    frame = '  File "/srv/own.py", line 3, in again\n    again()\n'
    end = "RecursionError: " + "x" * 100_000 + "\n"
    last = '  File "/srv/own.py", line 9, in last\n    raise\n'
    (crash,) = crashes_in("Traceback (most recent call last):\n" + frame * 5000 + last + end)
    assert crash.raised[0].frames[-1]["function"] == "last"
    assert crash.lines[-1].startswith("RecursionError: ")
    assert len(crash.lines) == MAX_LINES
    assert len(json.dumps(crash.describe())) < 60_000
    chain = "During handling of the above exception, another exception occurred:\n"
    found = crashes_in(("Traceback (most recent call last):\n" + frame + "ValueError: x\n" + chain) * 1000)
    assert {len(crash.raised) for crash in found} == {MAX_RAISED}


def test_text_that_only_begins_like_one() -> None:
    """No exception line, no crash."""
    assert crashes_in("Traceback (most recent call last):\nTraceback (most recent call last):\n") == []


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("/srv/app/server.py", True),
        ("server.py", True),
        ("/srv/.venv/lib/python3.12/site-packages/httpx/_client.py", False),
        ("C:\\app\\.venv\\Lib\\site-packages\\httpx\\_client.py", False),
        (json.__file__, False),
        (traceback.__file__, False),
        (is_own_file.__code__.co_filename, False),
        ("<frozen runpy>", False),
        ("<string>", False),
    ],
)
def test_own_files(file: str, own: Any) -> None:
    """Not those of libraries, of Python and of Ferrule."""
    assert is_own_file(file) is own
