"""What the pages show is run: every snippet checks itself in both eras, and every page includes only such files."""

from __future__ import annotations

import contextlib
import inspect
import re
import shlex
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest

from scripts.docs_snippets import BLOCK
from tests.modules import load_file

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SNIPPETS = sorted(path for path in (DOCS / "snippets").glob("*.py"))
PAGES = sorted(path for path in DOCS.rglob("*.md") if DOCS / "snippets" not in path.parents)
TUTORIAL = DOCS / "snippets" / "tutorial"


def load(path: Path) -> Any:
    """The module in a file."""
    return load_file(path, f"snippet_{path.stem}")


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("path", SNIPPETS, ids=lambda path: path.stem)
async def test_a_snippet_does_what_its_page_says(path: Path, mode: str) -> None:
    """Each file ends with a ``check`` that its page does not show."""
    check = load(path).check
    assert inspect.iscoroutinefunction(check)
    await check(mode)


@pytest.mark.parametrize("path", SNIPPETS, ids=lambda path: path.stem)
def test_a_snippet_is_shown(path: Path) -> None:
    """A snippet that no page shows is of no use."""
    name = path.relative_to(ROOT).as_posix()
    assert any(re.search(rf"<!-- code: {name}[ :]", page.read_text(encoding="utf-8")) for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_a_page_begins_with_what_it_is_for(page: Path) -> None:
    """The line below the heading is its purpose, which ``llms.txt`` uses."""
    heading, blank, first, *_ = page.read_text(encoding="utf-8").split("\n")
    assert heading.startswith("# ")
    assert not blank
    assert first[:1].isalpha()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_lines_of_python_on_a_page_hold(page: Path) -> None:
    """What is too small for a file is run as well; only names that the page does not define may be missing."""
    written_here = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for indent, block in re.findall(r"^( *)```python\n(.*?)^ *```", written_here, re.M | re.S):
        code = compile(textwrap.dedent(indent + block), str(page), "exec")
        with contextlib.suppress(NameError), warnings.catch_warnings():
            exec(code, {"__name__": "a_page"})


@pytest.mark.parametrize(
    "page",
    [
        *sorted(set((DOCS / "tutorial").glob("*.md")) - {DOCS / "tutorial" / "notes.md"}),
        DOCS / "topics" / "compatibility.md",
    ],
    ids=lambda page: page.stem,
)
def test_the_commands_of_the_tutorial_print_what_it_shows(page: Path) -> None:
    """A newcomer compares line by line."""
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            words = command.replace("python ", f"{sys.executable} ", 1)
            if words.startswith("ferrule "):
                words = words.replace("ferrule ", f"{sys.executable} -m ferrule ", 1)
            done = subprocess.run(shlex.split(words), cwd=TUTORIAL, capture_output=True, text=True, timeout=60)
            assert done.stdout.strip() == shown.strip(), done.stderr
