"""Variables for the server that a command starts."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from ferrule.cli.environment import read_environment
from tests.cli.support import ferrule

FILE = """\
# a comment
A=1
export B = two words # a comment
C='single # quoted'
D="line\\nbreak"
E=

"""


def test_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotes, comments, ``export``; the command line wins, and a name alone takes the value from here."""
    (tmp_path / ".env").write_text(FILE, encoding="utf-8")
    monkeypatch.setenv("HERE", "x")
    found = read_environment(["A=2", "HERE"], [tmp_path / ".env"])
    expected = {"A": "2", "B": "two words", "C": "single # quoted", "D": "line\nbreak", "E": "", "HERE": "x"}
    assert found == expected


@pytest.mark.parametrize("pair", ["=x", "A B=1", "NOT_SET_ANYWHERE", "1A=x"])
def test_a_wrong_pair(pair: str) -> None:
    """The sentence shows how it is written."""
    with pytest.raises(click.UsageError, match="--env"):
        read_environment([pair], [])


def test_a_wrong_line_is_named(tmp_path: Path) -> None:
    """By file and number."""
    (tmp_path / ".env").write_text("A=1\nnonsense\n", encoding="utf-8")
    with pytest.raises(click.UsageError, match=r"\.env:2"):
        read_environment([], [tmp_path / ".env"])
    with pytest.raises(click.UsageError, match="--env-file"):
        read_environment([], [tmp_path / "gone"])


def test_the_server_gets_them(tmp_path: Path) -> None:
    """And a URL, which is not started, refuses them."""
    (tmp_path / "s.py").write_text(
        "import os\nfrom ferrule import MCPServer\napp = MCPServer('s')\n"
        "@app.tool\ndef show() -> str:\n    return os.environ['A'] + os.environ['B']\n"
    )
    (tmp_path / ".env").write_text("A=from file\nB=x\n")
    done = ferrule("call", "s.py", "show", "--env-file", ".env", "--env", "B=, from option", cwd=tmp_path)
    assert done.stdout == "from file, from option\n", done.stderr
    done = ferrule("list", "http://127.0.0.1:9/mcp", "--env", "A=1")
    assert (done.returncode, "not for a URL" in done.stderr) == (2, True)
