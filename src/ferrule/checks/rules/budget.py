"""The rules about what the tools cost a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ferrule.checks.picture import ServerPicture
from ferrule.checks.table import RuleFinding
from ferrule.checks.tokens import tokens_of_tool

__all__ = ["LIST_BUDGET", "MAX_TOOLS", "TOOL_BUDGET", "check_budget"]

TOOL_BUDGET: Final = 2_000
"""Tokens of one tool that are ordinary: nine of ten tools of published servers have fewer than 600."""
LIST_BUDGET: Final = 20_000
"""Tokens of a list above which hosts begin to offer a search in its place."""
MAX_TOOLS: Final = 128


def check_budget(picture: ServerPicture, tool_budget: int | None, list_budget: int | None) -> Iterator[RuleFinding]:
    """Return the findings about cost: F60 to F62.

    Args:
        picture: the server.
        tool_budget: the most tokens of one tool; ``None`` for `TOOL_BUDGET`.
        list_budget: the most tokens of the list; ``None`` for `LIST_BUDGET`.
    """
    one = TOOL_BUDGET if tool_budget is None else tool_budget
    every = LIST_BUDGET if list_budget is None else list_budget
    total = 0
    for kind, name, definition in picture.named():
        if kind != "tools":
            continue
        cost = tokens_of_tool(definition)
        total += cost
        if cost > one:
            yield RuleFinding("F60", kind, name, "", f"costs about {cost:,} tokens; the budget is {one:,}")
    if total > every:
        yield RuleFinding(
            "F61", "server", "", "/tools", f"the tools cost about {total:,} tokens; the budget is {every:,}"
        )
    if len(picture.tools) > MAX_TOOLS:
        yield RuleFinding("F62", "server", "", "/tools", f"has {len(picture.tools):,} tools")
