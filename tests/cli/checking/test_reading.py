"""A picture of a snapshot or of a server."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from ferrule.cli.checking.reading import read_snapshot


def test_what_is_no_snapshot_is_left_to_the_others(tmp_path: Path) -> None:
    """A configuration, another file, a URL."""
    config = tmp_path / "mcp.json"
    config.write_text('{"mcpServers": {}}', encoding="utf-8")
    assert read_snapshot(str(config)) is None
    config.write_text('{\n  // mine\n  "mcpServers": {},\n}', encoding="utf-8-sig")
    assert read_snapshot(str(config)) is None
    assert read_snapshot("https://tools.example/x.json") is None
    assert read_snapshot(str(tmp_path)) is None


def test_a_file_that_is_no_json(tmp_path: Path) -> None:
    """The error names it."""
    path = tmp_path / "x.json"
    for text in ("{", "[" * 100_000):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(click.UsageError, match=r"x\.json"):
            read_snapshot(str(path))
