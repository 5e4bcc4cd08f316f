"""Search in place of too many definitions, for APIs that have none: three tools that find, describe and call the rest.

They have the definitions of a server's search (`ferrule.search.listed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import anyio.to_thread

from ferrule.client.bridges.entries import BridgedTool
from ferrule.client.bridges.turns import ModelCall
from ferrule.search.definitions import (
    CALL_PROBLEM,
    CALL_TOOL,
    DESCRIBE_TOOL,
    MAX_FOUND,
    SEARCH_TOOLS,
    THE_THREE,
    inner_call,
    summary_of,
)
from ferrule.search.index import ToolIndex, indexed_definition
from ferrule.search.listed import DEFINITIONS
from ferrule.wire.codec import encode_str
from ferrule.wire.types import Tool

__all__ = ["OwnSearch", "search_definitions"]

_DEFAULT_LIMIT: Final = 8


def search_definitions() -> list[Tool]:
    """Return the definitions of the three tools."""
    return [
        Tool(name, DEFINITIONS[name]["inputSchema"], DEFINITIONS[name]["description"].replace(" of this server", ""))
        for name in THE_THREE
    ]


class OwnSearch:
    """Answers calls of the three tools.

    Args:
        tools: the tools that are found, by their names for the model.
    """

    def __init__(self, tools: Mapping[str, BridgedTool]) -> None:
        self._tools = tools
        self._index: ToolIndex | None = None

    def answers(self, name: str) -> bool:
        """Return whether a name is that of the search or of the description."""
        return name in (SEARCH_TOOLS, DESCRIBE_TOOL)

    async def answer(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Return the text for a call of the search or of the description, and whether it is an error."""
        if name == SEARCH_TOOLS:
            return await self._found(arguments)
        wanted: Any = arguments.get("name")
        found = self._tools.get(wanted) if isinstance(wanted, str) else None
        if found is None:
            return f"There is no tool {str(wanted)[:100]!r}; find tools with {SEARCH_TOOLS}", True
        entry = found.entry
        return encode_str({"name": entry.name, "description": entry.description, "inputSchema": entry.schema}), False

    def inner(self, call: ModelCall) -> ModelCall:
        """Return the call that a call of ``call_tool`` stands for; any other unchanged."""
        if call.name != CALL_TOOL or call.arguments is None:
            return call
        named = inner_call(call.arguments)
        if named is None:
            return ModelCall(call.id, call.name, None, CALL_PROBLEM, call.origin)
        return ModelCall(call.id, named[0], named[1] or {}, None, call.origin)

    async def _found(self, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        query, limit, offset = arguments.get("query"), arguments.get("limit"), arguments.get("offset")
        if not isinstance(query, str):
            return "The search needs `query`, a text", True
        limit = min(limit, MAX_FOUND) if isinstance(limit, int) and limit > 0 else _DEFAULT_LIMIT
        offset = offset if isinstance(offset, int) and offset > 0 else 0
        names = list(self._tools) if not query.strip() else await anyio.to_thread.run_sync(self._ranked, query)
        shown = [self._tools[name].entry for name in names[offset : offset + limit]]
        tools = [summary_of(entry.name, entry.description, entry.schema) for entry in shown]
        return encode_str({"tools": tools, "total": len(names)}), False

    def _ranked(self, query: str) -> list[str]:
        if self._index is None:
            self._index = ToolIndex(
                [
                    indexed_definition(
                        {"name": name, "description": each.entry.description, "inputSchema": each.entry.schema}
                    )
                    for name, each in self._tools.items()
                ]
            )
        return self._index.search(query)
