"""Code on the pages is that of the files which the tests run, and stands in the Markdown itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import docs_snippets as copied

SOURCE = """\
import os  # the whole file begins here
# --8<-- [start:body]
class A:
    # --8<-- [start:method]
    def f(self):

        return 1
    # --8<-- [end:method]
# --8<-- [end:body]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one file of code and an empty page."""
    (tmp_path / "docs" / "snippets").mkdir(parents=True)
    (tmp_path / "docs" / "snippets" / "a.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "README.md").write_text("# A\n", encoding="utf-8")
    return tmp_path


def block(name: str, body: str = "", indent: str = "") -> str:
    """A comment and a code block, as a page has them."""
    lines = [f"<!-- code: docs/snippets/{name} -->", "```python", *body.splitlines(), "```"]
    return "".join(f"{indent}{line}".rstrip() + "\n" for line in lines)


def test_every_page_has_the_code_of_its_files() -> None:
    """`scripts/docs --write` puts it there."""
    assert copied.differing() == []


def test_pages_name_files() -> None:
    """The check above compares something: most pages show files."""
    named = {name for page in copied.pages() for name in copied.named_in(page.read_text(encoding="utf-8"))}
    assert len(named) > 150
    assert copied.Named("docs/snippets/tools.py", "code") in named


@pytest.mark.parametrize(
    ("name", "indent", "body"),
    [
        ("a.py:method", "", "def f(self):\n\n    return 1"),
        ("a.py:body", "    ", "class A:\n    def f(self):\n\n        return 1"),
        ("a.py", "", "import os  # the whole file begins here\nclass A:\n    def f(self):\n\n        return 1"),
    ],
)
def test_a_block_gets_the_code_of_its_file(project: Path, name: str, indent: str, body: str) -> None:
    """A section loses its indentation and gets that of the page; markers are never shown; twice is as once."""
    page = project / "docs" / "page.md"
    page.write_text("# A\n\n" + block(name, "x = 'old'", indent) + "\nText.\n", encoding="utf-8")
    assert len(copied.differing(project)) == 1
    assert copied.differing(project, write=True) == []
    assert page.read_text(encoding="utf-8") == "# A\n\n" + block(name, body, indent) + "\nText.\n"
    assert copied.differing(project) == []


def test_the_short_form_is_replaced(project: Path) -> None:
    """One line between two fences, as other tools include files."""
    page = project / "docs" / "page.md"
    page.write_text('# A\n\n```python\n--8<-- "docs/snippets/a.py:method"\n```\n', encoding="utf-8")
    assert len(copied.differing(project)) == 1
    copied.differing(project, write=True)
    assert page.read_text(encoding="utf-8") == "# A\n\n" + block("a.py:method", "def f(self):\n\n    return 1")


@pytest.mark.parametrize(
    ("markdown", "reason"),
    [
        (block("b.py"), "b.py: .*No such file"),
        (block("a.py:other"), "a.py: there is no section 'other'"),
        ("<!-- code: docs/snippets/a.py -->\n\nText.\n", "no code block stands below"),
    ],
)
def test_a_hole_is_reported_and_not_written(project: Path, markdown: str, reason: str) -> None:
    """A file that was renamed must not empty a page."""
    page = project / "docs" / "page.md"
    page.write_text(markdown, encoding="utf-8")
    (wrong,) = copied.differing(project, write=True)
    assert re.search(reason, wrong)
    assert page.read_text(encoding="utf-8") == markdown


def test_a_fence_in_the_code_needs_a_longer_one(project: Path) -> None:
    """Else the code would end the block."""
    (project / "docs" / "snippets" / "a.py").write_text('"""\n```\n"""\n', encoding="utf-8")
    with pytest.raises(copied.BadSnippet, match="a longer one"):
        copied.written(block("a.py"), project)
    longer = block("a.py").replace("```", "````")
    assert '"""\n```\n"""' in copied.written(longer, project)


def test_the_site_shows_no_comment() -> None:
    """The comments are for the script."""
    page = copied.written(block("tutorial/calculator.py", indent="    "))
    assert "<!--" not in copied.shown(page)
    assert "    def add" in copied.shown(page)
