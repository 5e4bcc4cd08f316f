"""``ferrule completion``, in the shell of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.completion.support import completions
from tests.cli.support import environment, ferrule


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_in_use_is_taken(shell: str) -> None:
    """Without a name."""
    done = ferrule("completion", SHELL=f"/usr/bin/{shell}")
    assert f"_FERRULE_COMPLETE={shell}_complete" in done.stdout
    done = ferrule("completion", SHELL="/bin/csh")
    assert (done.returncode, "Name a shell: bash, zsh, fish" in done.stderr) == (2, True)


def test_commands_options_hosts_and_files(tmp_path: Path) -> None:
    """What needs no server."""
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text('{"mcpServers": {"weather": {"command": "x"}}}')
    variables = environment(tmp_path)
    assert completions("ferrule ins", variables) == ["inspect", "install"]
    assert completions("ferrule call --tim", variables) == ["--timeout"]
    assert completions("ferrule list curs", variables) == ["cursor:weather"]
    assert completions("ferrule install vsc", variables) == ["vscode"]
