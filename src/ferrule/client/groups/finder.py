"""Finding tools of a group by words: one ranking over all servers.

The index is made anew when a list has changed. A server that lists a search in place of its tools is asked with the
same words, and what it finds is ranked with the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import anyio
from msgspec.structs import replace

from ferrule.client.concurrent import gather
from ferrule.client.groups.behind_search import CallsTools, definition_behind_search, found_by_search
from ferrule.protocol.errors import FerruleError
from ferrule.search.definitions import MAX_FOUND, THE_THREE, is_for_models, shown_arguments
from ferrule.search.index import IndexedTool, ToolIndex, indexed_definition
from ferrule.wire.codec import to_builtins
from ferrule.wire.types import Tool

__all__ = ["MAX_INDEXED", "ToolFinder"]

logger = logging.getLogger("ferrule.client")

MAX_INDEXED: Final = 20_000
"""Tools of a group that are searched."""


_Found: TypeAlias = tuple[str, str, dict[str, Any]]
"""The prefix of a server with a search, the own name of a tool behind it, and what the search shows of it."""


class ToolFinder:
    """Finds tools of one group."""

    def __init__(self) -> None:
        self._tools: list[Tool] = []
        self._index: ToolIndex | None = None

    async def find(self, tools: list[Tool], searching: Mapping[str, CallsTools], query: str, limit: int) -> list[Tool]:
        """Return the tools that a query finds, the best first.

        Args:
            tools: the tools that the servers list, under prefixed names.
            searching: prefix → client, of the servers that list a search in place of their tools.
            query: what is looked for.
            limit: how many are returned at most.
        """
        of_search = {prefix + name for prefix in searching for name in THE_THREE}
        listed = {tool.name: tool for tool in tools if tool.name not in of_search and is_for_models(tool.meta)}
        behind = await _found_behind(searching, query, limit)
        names = await anyio.to_thread.run_sync(self._ranked, list(listed.values())[:MAX_INDEXED], behind, query)

        async def whole(name: str) -> Tool | None:
            if name in listed:
                return listed[name]
            prefix, own, _ = behind[name]
            found = await definition_behind_search(searching[prefix], own)
            return None if found is None else replace(found, name=name)

        return [tool for tool in await gather([whole(name) for name in names[:limit]]) if tool is not None]

    def _ranked(self, tools: list[Tool], behind: Mapping[str, _Found], query: str) -> list[str]:
        if not behind and self._index is not None and tools == self._tools:
            return self._index.search(query)
        indexed = [indexed_definition(to_builtins(tool)) for tool in tools]
        indexed += [_indexed(name, summary) for name, (_, _, summary) in behind.items()]
        index = ToolIndex(indexed)
        if not behind:
            self._tools, self._index = tools, index
        return index.search(query)


async def _found_behind(searching: Mapping[str, CallsTools], query: str, limit: int) -> dict[str, _Found]:
    """Return prefixed name → prefix, own name and summary, of what servers with a search find."""

    async def one(prefix: str, client: CallsTools) -> list[tuple[str, dict[str, Any]]]:
        try:
            return [(prefix, each) for each in await found_by_search(client, query, min(limit, MAX_FOUND))]
        except FerruleError as error:
            logger.warning("The server of %r did not search: %s", prefix, error)
            return []

    answers = await gather([one(prefix, client) for prefix, client in searching.items()])
    return {prefix + each["name"]: (prefix, each["name"], each) for found in answers for prefix, each in found}


def _indexed(name: str, summary: Mapping[str, Any]) -> IndexedTool:
    required, optional = shown_arguments(summary)
    schema = {"properties": dict.fromkeys([*required, *optional])}
    return indexed_definition({"name": name, "description": summary.get("description"), "inputSchema": schema})
