"""Finds a tool by its name: of one server, or the one server of a configuration that has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from ferrule.cli.completion.known import remember
from ferrule.cli.configured.servers import ask_each, servers_of
from ferrule.cli.output import say, terminal_safe

if TYPE_CHECKING:
    from ferrule.cli.connect import ConnectionOptions
    from ferrule.client.client import Client
    from ferrule.wire.types import Tool

__all__ = ["find_tool", "server_with_tool", "similar_names"]


async def find_tool(connection: ConnectionOptions, client: Client, name: str) -> tuple[Tool | None, list[str]]:
    """Return a tool of the server's list, or behind the search that is listed in its place.

    Returns:
        The tool, ``None`` if there is none; and, if there is none, the names of all tools.
    """
    tools = await client.list_tools()
    remember(connection.target, {"tools": tools})
    found = next((each for each in tools if each.name == name), None)
    if found is not None:
        return found, []
    names = [each.name for each in tools]
    if "search_tools" not in names:  # most servers have no search: the import is saved
        return None, names
    from ferrule.client.groups.behind_search import definition_behind_search, has_search, tools_behind_search

    if has_search(tools):
        found = await definition_behind_search(client, name)
    behind = None if found is not None else await tools_behind_search(client, tools)
    return found, names + ([] if behind is None else [each["name"] for each in behind.tools])


def similar_names(name: str, names: Iterable[str]) -> str:
    """Return what to say where there is no tool of a name."""
    from difflib import get_close_matches

    known = list(dict.fromkeys(names))
    near = get_close_matches(name, known, n=3)
    return f"did you mean {' or '.join(near)}?" if near else f"it has {len(known)}: see ferrule list"


async def server_with_tool(connection: ConnectionOptions, name: str) -> ConnectionOptions:
    """Return how to connect to the one server of a configuration that has a tool; each of them is asked.

    Raises:
        click.UsageError: no server has it, or several have.
    """

    async def find(one: ConnectionOptions, client: Client) -> tuple[Tool | None, list[str]]:
        return await find_tool(one, client, name)

    outcomes = await ask_each(servers_of(connection), find, connection.progress())
    failed = [f"{outcome.server.name} ({outcome.problem})" for outcome in outcomes if outcome.state == "failed"]
    have: list[Any] = [outcome.server for outcome in outcomes if outcome.value is not None and outcome.value[0]]
    if len(have) > 1:
        names = ", ".join(server.name for server in have)
        raise click.UsageError(
            terminal_safe(f"Several servers have a tool {name!r}: {names}. Choose one with --server NAME")
        )
    if failed:
        say(f"not asked: {'; '.join(failed)}")
    if not have:
        every = [each for outcome in outcomes if outcome.value is not None for each in outcome.value[1]]
        raise click.UsageError(
            terminal_safe(f"No server of {connection.target} has a tool {name!r}; {similar_names(name, every)}")
        )
    found: ConnectionOptions = have[0].connection
    return found
