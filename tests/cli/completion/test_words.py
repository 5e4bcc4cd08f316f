"""The line before the cursor, and words in the user's quotes."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from ferrule.cli.completion.words import quote_for_bash, read_line

BREAKS = " \t\n\"'@><=;|&(:"
HOSTILE = [
    "$(touch ran)", "`touch ran`", "a;touch ran", "a|touch ran", "a&touch ran", "a>ran", "a\\b", "a'b", 'a"b', "a b",
    "~", "*", "a{b,c}", "#a", "a:b=c@d", "é ü", "${HOME}", "\\", "(a)", "[a]", "^a^b",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words", "current", "quote", "kept"),
    [
        ("", [], "", "", 0),
        ("ferrule", [], "ferrule", "", 0),
        ("ferrule call ", ["ferrule", "call"], "", "", 0),
        ("ferrule  call 'npx -y x' a", ["ferrule", "call", "npx -y x"], "a", "", 0),
        ('ferrule call "npx -y', ["ferrule", "call"], "npx -y", '"', 0),
        ("ferrule call a\\ b c\\:d", ["ferrule", "call", "a b"], "c:d", "", 0),
        ("f memo://t", ["f"], "memo://t", "", 5),
        ("f color=r", ["f"], "color=r", "", 6),
        ("f color='r", ["f"], "color=r", "'", 6),
        ("f 'a:b'", ["f"], "a:b", "", 0),
        ('f "a\\"b\\c', ["f"], 'a"b\\c', '"', 0),
        ("f ''", ["f"], "", "", 0),
        ("f a\\", ["f"], "a\\", "", 0),
    ],
)
def test_a_line_is_read_as_the_shell_does(text: str, words: list[str], current: str, quote: str, kept: int) -> None:
    """Quotation marks may be open, and bash begins a word anew at characters that are no space."""
    found = read_line(text, BREAKS)
    assert (found.words, found.current, found.quote, found.kept) == (words, current, quote, kept)


@pytest.mark.parametrize("quote", ["", "'", '"'])
@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_quoted_is_read_back(text: str, quote: str) -> None:
    """By the same rules."""
    quoted = quote_for_bash(text, quote)
    assert quoted is not None
    assert read_line(f"f {quote}{quoted}{quote} ").words == ["f", text]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_reads_it_back(tmp_path: object) -> None:
    """The oracle: bash gets each word unchanged and runs nothing."""
    words = [f"{quote}{quote_for_bash(text, quote)}{quote}" for text in HOSTILE for quote in ("", "'", '"')]
    done = subprocess.run(
        ["bash", "--norc", "-c", f"printf '%s\\0' {' '.join(words)}"],
        capture_output=True,
        text=True,
        check=True,
        cwd=str(tmp_path),
    )
    assert done.stdout.split("\0")[:-1] == [text for text in HOSTILE for _ in range(3)]


def test_what_double_quotes_cannot_hold_is_left_out() -> None:
    """bash replaces ``!`` there by a line of its history, and a backslash before it would stay in the word."""
    assert quote_for_bash("a!b", '"') is None
    assert quote_for_bash("a!b", "") == "a\\!b"
