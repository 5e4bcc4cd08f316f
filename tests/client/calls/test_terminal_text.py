"""ferrule.client.calls.terminal_text: what a server wrote cannot steer a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.client.calls.terminal_text import terminal_safe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\n\tlines", "two\n\tlines"),
        ("Grüße, 日本 🎉", "Grüße, 日本 🎉"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("over\rwritten\x08", "over\\x0dwritten\\x08"),
        ("\x9b31m", "\\x9b31m"),  # the same escape in one byte
        ("safe\u202etxt.exe", "safe\\u202etxt.exe"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("half \ud800", "half \\ud800"),
        ("tag\U000e0041", "tag\\U000e0041"),  # letters that only a model reads
        ("line\u2028end\u206a", "line\\u2028end\\u206a"),
        ("👩\u200d💻 می\u200cخواهم", "👩\u200d💻 می\u200cخواهم"),
    ],
)
def test_what_steers_is_written_out(text: str, shown: str) -> None:
    """Escape sequences, carriage returns and direction marks; letters of any script stay as they are."""
    assert terminal_safe(text) == shown


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    """Only line ends and tabs; and what is harmless already is not changed again."""
    shown = terminal_safe(text)
    assert not any((ord(each) < 32 and each not in "\n\t") or 0x7F <= ord(each) < 0xA0 for each in shown)
    assert terminal_safe(shown) == shown
