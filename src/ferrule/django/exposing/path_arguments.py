"""The arguments in a path of a URLconf: ``<path:name>``, ``(?P<name>.+)``, and ``{path:name}`` of Django Ninja."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from django.urls.converters import get_converters

__all__ = ["arguments_of"]

_ARGUMENT = re.compile(r"\(\?P<(\w+)>|<(?:(\w+):)?(\w+)>|\{(?:(\w+):)?([A-Za-z_]\w*)\}")


@lru_cache(maxsize=1024)  # asked in each call
def arguments_of(route: str) -> Mapping[str, bool]:
    """Return the names of the arguments of a path, in their order, and whether a value may have slashes.

    Args:
        route: a route of Django or of Django Ninja, or the regular expression of one.
    """
    return dict(_arguments(route))


def _arguments(route: str) -> Iterator[tuple[str, bool]]:
    converters: Any = get_converters()
    at = 0
    while found := _ARGUMENT.search(route, at):
        at = found.end()
        group, kind, name, ninja_kind, ninja_name = found.groups()
        if group is not None:
            end = _end_of_group(route, at)
            regex, at = route[at:end], end
        else:
            converter = converters.get(kind or ninja_kind or "str")
            regex = "" if converter is None else converter.regex
        yield group or name or ninja_name, _takes_slashes(regex)


def _end_of_group(route: str, at: int) -> int:
    """Return where a group of a regular expression ends whose contents begin at ``at``."""
    depth, in_set = 1, False
    while at < len(route):
        character = route[at]
        if character == "\\":
            at += 1
        elif in_set:
            in_set = character != "]"
        elif character == "[":
            in_set = True
        elif character in "()":
            depth += 1 if character == "(" else -1
            if not depth:
                break
        at += 1
    return at


def _takes_slashes(regex: str) -> bool:
    try:
        return re.fullmatch(regex, "a/b") is not None
    except re.error:  # a part of an expression that cannot stand alone
        return False
