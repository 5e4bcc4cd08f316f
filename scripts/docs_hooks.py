"""Hooks of mkdocs: links out of ``docs/``, and ``llms.txt``.

Pages link to files of the repository (examples, bench results) by relative paths, so that the links work where the
repository is browsed. The site gets a copy of each such file, and the link leads there.

``llms.txt`` lists every page with its first sentence; ``llms-full.txt`` holds the text of all of them, snippets
included, for readers that take the whole thing at once.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from docs_snippets import shown
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(((?:\.\./)+)([^)#]+)(#[^)]*)?\)")
RESULTS = "<!-- results -->"

_copied: set[str] = set()
_texts: dict[str, tuple[str, str]] = {}


def outside(page: str, dots: str, path: str) -> str | None:
    """The repository path that a link means, when it leads out of ``docs/`` to a file that exists."""
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), dots, path))
    if target.startswith(("docs/", "..")) or not (ROOT / target).is_file():
        return None
    return target


def on_files(files: Any, config: Any) -> Any:
    """Add the files that pages link to."""
    _copied.clear()
    _texts.clear()
    for file in list(files.documentation_pages()):
        text = Path(file.abs_src_path).read_text(encoding="utf-8")
        for dots, path, _ in LINK.findall(text):
            target = outside(file.src_uri, dots, path)
            if target is not None and target not in _copied:
                _copied.add(target)
                name = f"files/{target}" + (".txt" if not target.endswith((".md", ".txt", ".json")) else "")
                name = name.removesuffix(".md") + ".txt" if name.endswith(".md") else name
                files.append(File.generated(config, name, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links out of ``docs/`` to the copies, and keep the text for ``llms-full.txt``."""
    here = page.file.src_uri

    def lead(found: re.Match[str]) -> str:
        target = outside(here, found[1], found[2])
        if target is None:
            return found[0]
        name = f"files/{target}"
        name = name.removesuffix(".md") + ".txt" if name.endswith(".md") else name
        name += ".txt" if not name.endswith((".txt", ".json")) else ""
        return f"]({posixpath.relpath(name, posixpath.dirname(here) or '.')})"

    markdown = shown(markdown).replace(RESULTS, measured())
    _texts[here] = (page.file.url, markdown)
    return LINK.sub(lead, markdown)


def measured() -> str:
    """The published figures: what stands in ``bench/RESULTS.md`` between its heading and its last sentence."""
    text = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8").partition("\n")[2]
    found = text.partition("\nHow each row is measured")[0].strip()
    if "\n|" not in found:
        raise ValueError("bench/RESULTS.md holds no table")
    return found


def first_sentence(markdown: str) -> str:
    """What a page is about: its first line of prose."""
    for line in markdown.splitlines():
        if line and not line.startswith(("#", "|", "-", "`", "!", "=", ":", "<", " ")):
            return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", line)
    return ""


def title_of(markdown: str) -> str:
    """A page's first heading."""
    return next((line[2:] for line in markdown.splitlines() if line.startswith("# ")), "")


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    """Remember the order of the pages."""
    config["extra"]["page_order"] = [page.file.src_uri for page in nav.pages]
    return nav


def on_post_build(config: Any) -> None:
    """Write ``llms.txt`` and ``llms-full.txt``."""
    site = Path(config["site_dir"])
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}", ""]
    whole: list[str] = []
    folder = ""
    for name in config["extra"]["page_order"]:
        url, text = _texts[name]
        head = name.partition("/")[0] if "/" in name else ""
        if head != folder:
            folder = head
            lines += ["", f"## {folder.replace('-', ' ').capitalize() or 'More'}", ""]
        lines.append(f"- [{title_of(text)}]({url or './'}): {first_sentence(text)}")
        if folder != "reference":
            whole.append(text.strip())
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(whole) + "\n", encoding="utf-8")
