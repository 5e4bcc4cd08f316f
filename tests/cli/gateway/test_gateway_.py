"""``ferrule gateway``: what is wrong with a configuration is said before anything is served."""

from __future__ import annotations

from pathlib import Path

from tests.cli.support import ferrule


def test_a_configuration_without_a_usable_server_is_wrong_usage(tmp_path: Path) -> None:
    """The reason of each, and no traceback."""
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"a": {"command": 5}, "b": "x"}}', encoding="utf-8")
    done = ferrule("gateway", str(path), "--port", "0")
    assert done.returncode == 2
    assert "none of the servers can be used" in done.stderr
    assert "a.command is a number" in done.stderr
    assert "b is a text" in done.stderr
    assert "Traceback" not in done.stderr
