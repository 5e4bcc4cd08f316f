"""A tool of a configuration with several servers."""

from __future__ import annotations

from pathlib import Path

from tests.cli.configured.support import write_configuration
from tests.cli.support import ferrule


def test_the_server_that_has_the_tool_is_called(tmp_path: Path) -> None:
    """No choice is needed where there is none; who could not be asked is named."""
    write_configuration(tmp_path)
    done = ferrule("call", "mcp.json", "order", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "order\n")
    assert "not asked: broken (Cannot start" in done.stderr


def test_a_tool_of_several_servers_needs_a_choice(tmp_path: Path) -> None:
    """Calling the wrong one could change something; nothing is called."""
    write_configuration(tmp_path)
    done = ferrule("call", "mcp.json", "add", "text=x", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Several servers have a tool 'add': notes, shop. Choose one with --server NAME" in done.stderr
    done = ferrule("call", "mcp.json", "--server", "shop", "add", "text=x", cwd=tmp_path)
    assert done.stdout == "shopx\n"


def test_a_tool_of_no_server_is_looked_for_by_similar_names(tmp_path: Path) -> None:
    """Of all of them."""
    write_configuration(tmp_path)
    done = ferrule("call", "mcp.json", "ordre", cwd=tmp_path)
    assert (done.returncode, "did you mean order?" in done.stderr) == (2, True)
    done = ferrule("call", "mcp.json", "zzz", cwd=tmp_path)
    assert "No server of mcp.json has a tool 'zzz'; it has 3: see ferrule list" in done.stderr
