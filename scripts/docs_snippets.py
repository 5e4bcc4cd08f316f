"""Code on the pages: a comment above a code block names the file that the block is copied from.

A page shows a part of a file that the tests run::

    <!-- code: docs/snippets/tools.py:code -->
    ```python
    (the section "code" of docs/snippets/tools.py)
    ```

The comment does not show, neither on the site nor where a Git host or an editor shows the source of the page, and the
code is in the page itself, so that it can be read in all three places. ``scripts/docs --write`` copies the files into
the pages, ``scripts/check`` fails where a page differs from its files.

The block is what is copied: the lines between the fences, as indented as the comment. A section is what stands
between ``--8<-- [start:NAME]`` and ``--8<-- [end:NAME]`` in the file, without its common indentation; lines with such
a marker are never shown. To add a block, write the comment and two fences with nothing between them; the line
``--8<-- "FILE:SECTION"`` alone between two fences is short for it, and ``--write`` replaces it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"^(?P<indent> *)<!-- code: (?P<path>[^\s:]+)(?::(?P<section>[\w-]+))? -->\n"
    r"(?P<open>(?P=indent)(?P<fence>`{3,})[^`\n]*\n)"
    r"(?P<body>(?:(?!(?P=indent)(?P=fence)$).*\n)*?)"
    r"(?P<close>(?P=indent)(?P=fence))$",
    re.MULTILINE,
)
SHORT = re.compile(
    r"^(?P<indent> *)(?P<open>(?P<fence>`{3,})[^`\n]*)\n"
    r'(?P=indent)--8<-- "(?P<name>[^"\n]+)"\n(?P<close>(?P=indent)(?P=fence))$',
    re.MULTILINE,
)
COMMENT = re.compile(r"^ *<!-- code: .*\n", re.MULTILINE)
MARKER = re.compile(r"^.*--8<-- \[(?:start|end):.*\n?", re.MULTILINE)


class BadSnippet(ValueError):
    """A page names a file or a section that is not there, or has no code block below the comment."""


class Named(NamedTuple):
    """A file, or one section of it, that a page shows."""

    path: str
    section: str | None


def pages(root: Path = ROOT) -> list[Path]:
    """The Markdown files whose code is checked: the README and all pages."""
    snippets = root / "docs" / "snippets"
    return [root / "README.md", *sorted(p for p in (root / "docs").rglob("*.md") if snippets not in p.parents)]


def named_in(markdown: str) -> Iterator[Named]:
    """Return what the comments of a page name, in order."""
    for found in BLOCK.finditer(markdown):
        yield Named(found["path"], found["section"])


def section_of(text: str, section: str | None) -> str:
    """Return a file, or one section of it, without the markers, ending with one line feed.

    Raises:
        BadSnippet: the file has no such section.
    """
    if section is not None:
        start = re.search(rf"^.*--8<-- \[start:{re.escape(section)}\].*\n", text, re.MULTILINE)
        end = re.search(rf"^.*--8<-- \[end:{re.escape(section)}\]", text, re.MULTILINE)
        if start is None or end is None or end.start() < start.end():
            raise BadSnippet(f"there is no section {section!r}")
        text = textwrap.dedent(text[start.end() : end.start()])
    return MARKER.sub("", text).strip("\n") + "\n"


def written(markdown: str, root: Path = ROOT) -> str:
    """Return a page with the code of its files in its blocks.

    Raises:
        BadSnippet: a comment names no file or section, or stands above no code block.
    """

    def put(found: re.Match[str]) -> str:
        name, section = found["path"], found["section"]
        try:
            code = section_of((root / name).read_text(encoding="utf-8"), section)
        except (OSError, BadSnippet) as error:
            raise BadSnippet(f"{name}: {error}") from error
        if re.search(rf"^{found['fence']}", code, re.MULTILINE):
            raise BadSnippet(f"{name} has a fence of its own: use a longer one")
        indented = textwrap.indent(code, found["indent"])
        return f"{found[0].partition(chr(10))[0]}\n{found['open']}{indented}{found['close']}"

    markdown = SHORT.sub(r"\g<indent><!-- code: \g<name> -->\n\g<indent>\g<open>\n\g<close>", markdown)
    if len(COMMENT.findall(markdown)) != len(BLOCK.findall(markdown)):
        alone = next(line for line in COMMENT.findall(BLOCK.sub("", markdown)))
        raise BadSnippet(f"no code block stands below {alone.strip()}")
    return BLOCK.sub(put, markdown)


def shown(markdown: str) -> str:
    """Return a page without the comments, as the site and ``llms-full.txt`` show it."""
    return COMMENT.sub("", markdown)


def differing(root: Path = ROOT, *, write: bool = False) -> list[str]:
    """Return what is wrong, a line for each page whose code differs from its files.

    Args:
        root: the folder of the project.
        write: write the code into the pages; then only what cannot be written is returned.
    """
    wrong: list[str] = []
    for page in pages(root):
        name = page.relative_to(root).as_posix()
        text = page.read_text(encoding="utf-8")
        try:
            new = written(text, root)
        except BadSnippet as error:
            wrong.append(f"{name}: {error}")
            continue
        if new == text:
            continue
        if write:
            page.write_text(new, encoding="utf-8")
        else:
            wrong.append(f"{name}: its code is not that of its files: scripts/docs --write")
    return wrong
