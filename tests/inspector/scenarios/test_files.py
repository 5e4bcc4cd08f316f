"""The page's files: complete, small, from nowhere else, and without the ways in which a page runs what it is shown."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import resources

import pytest

FILES = {
    entry.name: entry.read_text(encoding="utf-8")
    for entry in resources.files("ferrule.inspector").joinpath("static").iterdir()
    if entry.is_file()
}
MAX_BYTES = 310_000
# Each would make an element, or run a program, from text.
FORBIDDEN = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser",
    "srcdoc", "createContextualFragment", "setAttribute(\"style\"", "localhost", "importScripts",
)  # fmt: skip


def test_every_named_file_is_there() -> None:
    """In the page and in the modules; a file that nothing names would be dead weight."""
    named = {"index.html"}
    for name, text in FILES.items():
        if name.endswith(".js"):
            named |= set(re.findall(r'(?:from|import\()\s*"\./([^"]+)"', text))
        if name == "index.html":
            named |= set(re.findall(r'(?:href|src)="/([^"]+)"', text))
    assert named == set(FILES)


def test_the_page_is_small() -> None:
    """It is loaded anew each time, and is part of every installation."""
    assert sum(map(len, FILES.values())) < MAX_BYTES


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_names_no_other_origin(name: str) -> None:
    """Namespaces are names, not addresses."""
    found = re.findall(r"""["'(](?:https?:)?//[^"')\s]+""", FILES[name])
    assert [each for each in found if "www.w3.org" not in each] == []


@pytest.mark.parametrize("name", sorted(name for name in FILES if name.endswith((".js", ".html"))))
def test_a_file_cannot_turn_text_into_a_program(name: str) -> None:
    """The content security policy would refuse it as well; this is the first defence."""
    assert [word for word in FORBIDDEN if word in FILES[name].replace("no innerHTML in this page", "")] == []


def test_the_page_has_no_inline_style_or_script() -> None:
    """The policy allows neither."""
    text = FILES["index.html"]
    assert not re.search(r"\sstyle=|\son\w+=|<style", text)
    assert re.findall(r"<script[^>]*>([^<]*)</script>", text) == [""]


@pytest.mark.parametrize(
    "program", ["import ferrule, ferrule.client.client", "from ferrule.cli import main; main(['-h'])"]
)
def test_nothing_else_loads_the_inspector(program: str) -> None:
    """Neither the library nor the command line's help pays for it."""
    code = (
        f"{program}\nimport sys, json; print(json.dumps([n for n in sys.modules if n.startswith('ferrule.inspector')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []
