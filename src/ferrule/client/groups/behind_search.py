"""The tools behind a search: of a server that lists ``search_tools`` in place of all of them.

Such a server lists three tools (`ferrule.search.listed`). An empty query finds all others, page by page;
``describe_tool`` returns the definition of one; each can be called by its own name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from ferrule.protocol.errors import RemoteError
from ferrule.search.definitions import DESCRIBE_TOOL, MAX_FOUND, SEARCH_TOOLS, THE_THREE
from ferrule.wire.codec import convert, decode
from ferrule.wire.faults import ConvertError, DecodeError
from ferrule.wire.json_types import is_list, is_object
from ferrule.wire.types import Tool

if TYPE_CHECKING:
    from ferrule.client.calls.results import ToolCallResult

__all__ = [
    "MAX_SHOWN",
    "BehindSearch",
    "CallsTools",
    "definition_behind_search",
    "found_by_search",
    "has_search",
    "tools_behind_search",
]

MAX_SHOWN: Final = 20_000
"""Maximum number of tools behind a search that are read."""


class CallsTools(Protocol):
    """An object with the method `call_tool` of a client."""

    def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None, /) -> Awaitable[ToolCallResult]:
        """Call a tool; see `ferrule.Client.call_tool`."""
        ...


@dataclass(slots=True)
class BehindSearch:
    """The tools behind a search.

    Attributes:
        tools: name, description and names of arguments of each tool, for at most `MAX_SHOWN` tools.
        total: the number of all tools.
    """

    tools: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    total: int = 0


async def tools_behind_search(client: CallsTools, listed: Sequence[Tool]) -> BehindSearch | None:
    """Return the tools that an empty query finds, page by page; ``None`` if the list has not Ferrule's search tools.

    Args:
        client: a connected client.
        listed: the tools in the server's list.
    """
    if not has_search(listed):
        return None
    found = BehindSearch()
    names: set[str] = set()
    while len(found.tools) < MAX_SHOWN:
        arguments = {"query": "", "limit": MAX_FOUND, "offset": len(found.tools)}
        page = _value(await client.call_tool(SEARCH_TOOLS, arguments))
        if page is None:
            break
        fresh = [each for each in _summaries(page) if each["name"] not in names]
        if not fresh:
            break
        names.update(each["name"] for each in fresh)
        found.tools += fresh
        total: Any = page.get("total")
        found.total = max(total if isinstance(total, int) else 0, len(found.tools))
    return found


async def found_by_search(client: CallsTools, query: str, limit: int) -> list[dict[str, Any]]:
    """Return the tools that a search finds: name, description and names of arguments of each.

    Args:
        client: a client of a server whose list `has_search`.
        query: the words to search for.
        limit: maximum number of tools, at most 50.
    """
    return _summaries(_value(await client.call_tool(SEARCH_TOOLS, {"query": query, "limit": limit})) or {})[:limit]


async def definition_behind_search(client: CallsTools, name: str) -> Tool | None:
    """Return the definition of a tool behind a search; ``None`` if the server has no such tool.

    Args:
        client: a client of a server whose list `has_search`.
        name: the name of the tool.
    """
    try:
        found = _value(await client.call_tool(DESCRIBE_TOOL, {"name": name}))
        return None if found is None else convert({**found, "name": name}, Tool)
    except (RemoteError, ConvertError):
        return None


def has_search(listed: Sequence[Tool]) -> bool:
    """Return whether a list has the three tools of a search, with those that are called here marked as read-only."""
    by_name = {tool.name: tool for tool in listed}
    if not all(name in by_name for name in THE_THREE):
        return False
    properties: Any = by_name[SEARCH_TOOLS].input_schema.get("properties")
    return is_object(properties) and {"query", "limit", "offset"} <= properties.keys()


def _summaries(page: Mapping[str, Any]) -> list[dict[str, Any]]:
    tools: Any = page.get("tools")
    found = [each for each in tools if is_object(each)] if is_list(tools) else []
    return [each for each in found if isinstance(each.get("name"), str)]


def _value(result: ToolCallResult) -> dict[str, Any] | None:
    """Return the object in a result, from the structured content or, in revisions without it, from the text."""
    if result.is_error:
        return None
    found: Any = result.structured_content if result.has_structured_content else _decoded(result.text)
    return found if is_object(found) else None


def _decoded(text: str) -> Any:
    try:
        return decode(text.encode("utf-8", "surrogatepass"))
    except DecodeError:
        return None
