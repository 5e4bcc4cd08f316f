"""The changelog, put together from the fragments in ``changes/`` (see ``changes/README.md``).

``scripts/changelog.py`` prints the section of the next release, ``--write`` puts it into ``CHANGELOG.md`` as not yet
released, and ``--check`` only says which fragments could not be released. ``scripts/release`` does the real thing:
the same section with a date, and the fragments are gone.

A page of our own instead of a changelog tool: our fragments are named by topic and not by issue, and nothing else of
such a tool would be used.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Kind -> heading, in the order of a section: first what makes somebody act.
KINDS = {"security": "Security", "removed": "Removed", "changed": "Changed", "added": "Added", "fixed": "Fixed"}
NAME = re.compile(r"(?P<topic>[a-z0-9-]+)\.(?P<kind>[a-z]+)\.md")
HEAD = """# Changes

What users see of each release, newest first.
What may change from one release to the next, and what may not, is in [COMPATIBILITY.md](COMPATIBILITY.md).
"""
UNRELEASED = "not yet released"


class ChangesError(Exception):
    """The fragments or the changelog are not as they must be; the text says which and why."""


@dataclass(frozen=True)
class Fragment:
    """One file of ``changes/``."""

    path: Path
    topic: str
    kind: str
    text: str

    def bullet(self) -> str:
        """As an item of a list, whatever its lines."""
        return "- " + "\n  ".join(self.text.splitlines())


def read_fragments(folder: Path) -> list[Fragment]:
    """Every fragment, by topic.

    Raises:
        ChangesError: a name or a text is none; all of them are said at once.
    """
    found: list[Fragment] = []
    problems: list[str] = []
    for path in sorted(folder.iterdir()):
        if path.name == "README.md":
            continue
        name = NAME.fullmatch(path.name)
        text = path.read_text(encoding="utf-8").strip()
        if name is None or name["kind"] not in KINDS:
            problems.append(f"{path.name}: the name is not <topic>.<kind>.md with a kind of {', '.join(KINDS)}")
        elif not text.endswith(".") or text.startswith(("#", "-", "*")):
            problems.append(f"{path.name}: not sentences (no heading, no list, a full stop at the end)")
        else:
            found.append(Fragment(path, name["topic"], name["kind"], text))
    if problems:
        raise ChangesError("\n".join(problems))
    return found


def section(version: str, when: str, fragments: list[Fragment]) -> str:
    """The section of one release.

    Args:
        when: an ISO date, or `UNRELEASED`.

    Raises:
        ChangesError: there is nothing to tell.
    """
    if not fragments:
        raise ChangesError("changes/ holds no fragment: a release without changes that users see")
    parts = [f"## {version} ({when})\n"]
    for kind, heading in KINDS.items():
        bullets = [fragment.bullet() for fragment in fragments if fragment.kind == kind]
        if bullets:
            parts.append(f"### {heading}\n\n" + "\n".join(bullets) + "\n")
    return "\n".join(parts)


def with_section(changelog: str, version: str, text: str) -> str:
    """The changelog with a section on top; the one that is not yet released, if there is one, is replaced.

    Raises:
        ChangesError: the version was released before.
    """
    kept: list[str] = []
    for part in re.split(r"^(?=## )", changelog, flags=re.MULTILINE)[1:]:
        heading = part.splitlines()[0]
        if heading.endswith(f"({UNRELEASED})"):
            continue
        if heading.split()[1] == version:
            raise ChangesError(f"CHANGELOG.md has {version} already; raise the version in src/ferrule/_version.py")
        kept.append(part.strip() + "\n")
    return "\n".join([HEAD, text, *kept])


def read_version(root: Path = ROOT) -> str:
    """The version in the source, read without importing anything."""
    text = (root / "src" / "ferrule" / "_version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise ChangesError("src/ferrule/_version.py holds no version")
    return found[1]


def write_changelog(root: Path, when: str, *, drop_fragments: bool) -> None:
    """Put the section of the next release into ``CHANGELOG.md``; ``drop_fragments``: it is released now."""
    path = root / "CHANGELOG.md"
    changelog = path.read_text(encoding="utf-8") if path.exists() else ""
    fragments = read_fragments(root / "changes")
    version = read_version(root)
    path.write_text(with_section(changelog, version, section(version, when, fragments)), encoding="utf-8")
    if drop_fragments:
        for fragment in fragments:
            fragment.path.unlink()


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description="The changelog, from the fragments in changes/.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--write", action="store_true", help="put the section into CHANGELOG.md as not yet released")
    choice.add_argument("--check", action="store_true", help="only say which fragments could not be released")
    options = parser.parse_args()
    try:
        if options.write:
            write_changelog(ROOT, UNRELEASED, drop_fragments=False)
        elif options.check:
            read_fragments(ROOT / "changes")
        else:
            print(section(read_version(), UNRELEASED, read_fragments(ROOT / "changes")), end="")
    except ChangesError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
