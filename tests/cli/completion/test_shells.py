"""In the real shells: what Tab and Enter run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ferrule.cli.completion.known import remember
from ferrule.cli.completion.shells import SHELLS, register
from ferrule.wire.types import Resource, Tool
from tests.cli.completion.support import STARTS, completions, interactive, shell_environment
from tests.cli.support import ferrule

HOSTILE = [
    "a$(touch ran)", "b`touch ran`", "c;touch ran", "d|touch ran", "e'touch ran", 'f"touch ran', "g touch ran",
    "i&touch ran", "j*", "k\\k", "l>ran", "n(", "o{a,b}", "p#p", "q:r", "r=t", "s\u00e9 \u00fc", "${HOME}", "~",
]  # fmt: skip
CONTROLS = ["ua\nb", "va\x1b[2Jb", "wa\tb", "xa\u202eb", "ya\rb"]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a server whose names are known, some of them hostile."""
    monkeypatch.setenv("FERRULE_COMPLETION_CACHE", str(tmp_path / "names"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.py").write_text("")
    schema: dict[str, Any] = {"properties": {"color": {"enum": ["red", "it's"]}, "pinned": {"type": "boolean"}}}
    tools = [Tool("add", schema, description="a: 'quoted' $(touch ran)")]
    # Each begins with a letter of its own, so that one Tab is enough.
    tools += [Tool(f"{chr(66 + at)}{name}", {}, title=name) for at, name in enumerate(HOSTILE + CONTROLS)]
    remember("notes.py", {"tools": tools, "resources": [Resource("memo://today", "today")]})
    return tmp_path


@pytest.mark.parametrize("shell", list(STARTS))
def test_a_name_that_a_server_chose_stays_a_word(shell: str, names: Path) -> None:
    """Whatever it contains, in quotes or not: Enter runs ``ferrule`` with exactly this name, and nothing else."""
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    before = {*os.listdir(names), "bin", "ran.jsonl", "config", "data"}
    with interactive(shell, names) as press:
        assert press("ferrule cal\tnotes.py ad\tcolor=r\t") == ["call", "notes.py", "add", "color=red"]
        assert press("ferrule call notes.py add pi\tt\t") == ["call", "notes.py", "add", "pinned=true"]
        assert press("ferrule read notes.py memo:\t") == ["read", "notes.py", "memo://today"]
        for at, name in enumerate(HOSTILE):
            for quote in ("", "'", '"') if at < 9 else ("",):
                got = press(f"ferrule call notes.py {quote}{chr(66 + at)}\t")
                assert got == ["call", "notes.py", f"{chr(66 + at)}{name}"], (name, quote)
    assert set(os.listdir(names)) <= before


def test_names_with_control_characters_are_not_offered(names: Path) -> None:
    """They could rewrite the screen, or end the line."""
    offered = completions("ferrule call notes.py ", shell_environment(names))
    assert len(offered) == 1 + len(HOSTILE)
    assert {name[0] for name in offered} == {"a", *(chr(66 + at) for at in range(len(HOSTILE)))}


@pytest.mark.parametrize("shell", list(SHELLS))
def test_each_shell_gets_a_script_of_its_own(shell: str) -> None:
    """It calls the variable that the program reads."""
    done = ferrule("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_FERRULE_COMPLETE={shell}_complete" in done.stdout


def test_click_uses_them_once_registered() -> None:
    """Its own scripts would put a name into the line as it is."""
    from click.shell_completion import get_completion_class

    register()
    assert {name: get_completion_class(name) for name in SHELLS} == SHELLS
