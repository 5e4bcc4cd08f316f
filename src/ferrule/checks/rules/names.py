"""The rules about names: their form, what model APIs refuse, and names that are easily confused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ferrule.checks.picture import ServerPicture
from ferrule.checks.table import RuleFinding
from ferrule.wire.patterns import pattern

__all__ = ["MAX_NAME", "check_names", "name_problems"]

MAX_NAME: Final = 64
"""Maximum number of characters of a tool name in model APIs."""
PREFIX: Final = 16
"""Characters of the prefix that hosts commonly add (``mcp__SERVER__``), for which a name should leave room."""

_PLAIN = pattern(r"[A-Za-z0-9_-]*")
_SPECIFIED = pattern(r"[A-Za-z0-9_.-]{1,128}")
_FIRST = pattern(r"[A-Za-z_]")


def name_problems(name: str) -> list[str]:
    """Return the reasons why hosts or model APIs may refuse a tool's name; empty if there are none."""
    found: list[str] = []
    if len(name) > MAX_NAME:
        found.append(f"{len(name)} characters; model APIs take {MAX_NAME}")
    elif len(name) > MAX_NAME - PREFIX:
        found.append(f"{len(name)} characters; with a host's prefix more than the {MAX_NAME} that model APIs take")
    if not _PLAIN.fullmatch(name):
        found.append(
            "characters other than letters, digits, _ and -; the specification allows a dot too, model APIs do not"
        )
    return found


def check_names(picture: ServerPicture) -> Iterator[RuleFinding]:
    """Return the findings about names: F01 to F05."""
    seen: set[tuple[str, str]] = set()
    spelled: dict[str, str] = {}
    for kind, name, _ in picture.named():
        if (kind, name) in seen:
            yield RuleFinding("F02", kind, name, "", f"{name!r} is listed twice")
        elif kind == "tools":
            key = name.lower().replace("-", "_").replace(".", "_")
            if key in spelled:
                yield RuleFinding("F04", kind, name, "", f"hardly differs from {spelled[key]!r}")
            spelled[key] = name
        seen.add((kind, name))
        if kind == "tools":
            yield from _tool_name(name)


def _tool_name(name: str) -> Iterator[RuleFinding]:
    if not _SPECIFIED.fullmatch(name):
        what = "no characters" if not name else f"{len(name)} characters" if len(name) > 128 else "other characters"
        yield RuleFinding(
            "F01", "tools", name, "/name", f"has {what}: 1 to 128 letters, digits, _, - and dots are the form"
        )
    for problem in name_problems(name):
        yield RuleFinding("F05" if "prefix" in problem else "F03", "tools", name, "/name", problem)
    if name and not _FIRST.match(name):
        yield RuleFinding("F03", "tools", name, "/name", "does not begin with a letter or _, as Gemini demands")
