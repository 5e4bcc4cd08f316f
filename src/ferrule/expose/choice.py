"""The choice of the operations to expose; by default none.

A pattern is one of

============================  ==========================================
``"*"``                       every operation
``"GET"``                     every operation of a method
``"GET /users/{id}"``         one operation; ``*`` stands for one step of the path, ``**`` for any
``"/users/**"``               every method of these paths
``"tag:users"``               every operation with a tag
``"list_*"``, ``"getUser"``   operations by id or by the name of the tool
============================  ==========================================

and a function of an `Operation` decides by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TypeAlias

from ferrule._options import suggestion
from ferrule.expose.operations import Operation

__all__ = ["Include", "NothingMatches", "choose_operations", "matcher"]

Include: TypeAlias = "str | Callable[[Operation], bool] | Iterable[str | Callable[[Operation], bool]]"
"""One pattern or function, or several of which one must match."""

_METHOD = re.compile(r"(?i:get|put|post|delete|options|head|patch|query)")


class NothingMatches(ValueError):
    """A pattern that matches no operation: it is misspelt, or the API has changed."""


def choose_operations(
    operations: Iterable[Operation], include: Include, exclude: Include = (), *, strict: bool = True
) -> list[Operation]:
    """Return the operations that ``include`` names and ``exclude`` does not, in their order.

    Args:
        operations: all of the API.
        include, exclude: patterns; see `matcher`.
        strict: raise an error for a pattern that matches nothing; otherwise it is ignored.

    Raises:
        NothingMatches: ``strict``, and a pattern matches nothing.
    """
    every = list(operations)
    excluded = {operation.label for rule in _rules(exclude) for operation in _matching(every, rule, strict)}
    wanted = {operation.label for rule in _rules(include) for operation in _matching(every, rule, strict)}
    return [operation for operation in every if operation.label in wanted and operation.label not in excluded]


def _rules(given: Include) -> list[str | Callable[[Operation], bool]]:
    return [given] if isinstance(given, str) or callable(given) else list(given)


def _matching(operations: list[Operation], rule: str | Callable[[Operation], bool], strict: bool) -> list[Operation]:
    matches = rule if callable(rule) else matcher(rule)
    found = [operation for operation in operations if matches(operation)]
    if not found and strict and not callable(rule):
        known = [text for operation in operations for text in (operation.label, operation.name, *operation.tags)]
        near = suggestion(rule.removeprefix("tag:"), known)
        hint = "" if near is None else f"; did you mean {near!r}?"
        raise NothingMatches(f"the pattern {rule!r} matches none of {len(operations)} operations{hint}")
    return found


def matcher(pattern: str) -> Callable[[Operation], bool]:
    """Return a function that decides whether an operation matches a pattern.

    Args:
        pattern: ``"*"``, a method, a method and a path, a path, ``"tag:NAME"``, or an operation's id or tool name.
    """
    if pattern == "*":
        return lambda operation: True
    if pattern.startswith("tag:"):
        tag = pattern.removeprefix("tag:")
        return lambda operation: any(fnmatchcase(own, tag) for own in operation.tags)
    method, _, path = pattern.partition(" ")
    if _METHOD.fullmatch(pattern):
        return lambda operation: operation.method == pattern.upper()
    if pattern.startswith("/"):
        paths = _path_pattern(pattern)
        return lambda operation: paths.fullmatch(operation.path) is not None
    if path.startswith("/"):
        paths, wanted = _path_pattern(path), method.upper()
        return lambda operation: wanted in ("*", operation.method) and paths.fullmatch(operation.path) is not None
    return lambda operation: fnmatchcase(operation.name, pattern) or fnmatchcase(operation.operation_id or "", pattern)


def _path_pattern(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*|\*)", pattern)
    made = {"**": ".*", "*": "[^/]*"}
    return re.compile("".join(made.get(part, re.escape(part)) for part in parts))
