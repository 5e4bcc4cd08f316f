"""Lines of a recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.testing.recordings.lines import Line, read_recording
from ferrule.wire.codec import encode


def test_messages_and_other_lines(tmp_path: Path) -> None:
    """A line that is no message has none."""
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"at_s": 0.5, "from": "client", "message": {"id": 1}}\n{"at_s": 1, "from": "server", "raw": "x"}\n'
    )
    assert read_recording(path) == [Line(0.5, "client", {"id": 1}), Line(1.0, "server", None)]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_line_ends_of_text_stand_in_a_line(tmp_path: Path, separator: str) -> None:
    """As ``ferrule trace`` writes what a tool has returned, such as a page of the web."""
    message = {"id": 1, "result": f"a{separator}b"}
    path = tmp_path / "x.jsonl"
    path.write_bytes(encode({"at_s": 0.5, "from": "server", "message": message}) + b"\n")
    assert read_recording(path) == [Line(0.5, "server", message)]


@pytest.mark.parametrize("text", ["[]", "1", '{"at_s": "x", "from": "client"}', '{"at_s": 1, "from": "host"}'])
def test_a_malformed_line_is_named(tmp_path: Path, text: str) -> None:
    """By file and number."""
    path = tmp_path / "x.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.jsonl:1"):
        read_recording(path)
