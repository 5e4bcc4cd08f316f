"""The tools behind a search: of a server that lists ``search_tools`` in place of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ferrule.wire.json_types import is_list, is_object

__all__ = ["MAX_SHOWN", "BehindSearch", "tools_behind_search"]

MAX_SHOWN: Final = 20_000
"""Tools behind a search that are asked for."""

_PAGE: Final = 50


@dataclass(slots=True)
class BehindSearch:
    """What stands behind a search.

    Attributes:
        tools: name, description and names of arguments of each, at most `MAX_SHOWN`.
        total: how many there are.
    """

    tools: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    total: int = 0


async def tools_behind_search(client: Any, listed: Sequence[Any]) -> BehindSearch | None:
    """Return the tools that an empty query finds, page by page; ``None`` where the list has no search like ours.

    Args:
        client: connected.
        listed: the tools of its server's list.
    """
    if not _has_search(listed):
        return None
    found = BehindSearch()
    names: set[str] = set()
    while len(found.tools) < MAX_SHOWN:
        arguments = {"query": "", "limit": _PAGE, "offset": len(found.tools)}
        result = await client.call_tool("search_tools", arguments)
        page = result.structured_content if result.has_structured_content else _decoded(result.text)
        tools = page.get("tools") if is_object(page) else None
        if result.is_error or not is_list(tools):
            break
        fresh = [each for each in tools if is_object(each) and isinstance(each.get("name"), str)]
        fresh = [each for each in fresh if each["name"] not in names]
        if not fresh:
            break
        names.update(each["name"] for each in fresh)
        found.tools += fresh
        total = page.get("total") if is_object(page) else None
        found.total = max(total if isinstance(total, int) else 0, len(found.tools))
    return found


def _has_search(listed: Sequence[Any]) -> bool:
    """Return whether a list has the three tools of a search, and that which would be called only reads."""
    by_name = {tool.name: tool for tool in listed}
    search = by_name.get("search_tools")
    if search is None or "describe_tool" not in by_name or "call_tool" not in by_name:
        return False
    properties: Any = search.input_schema.get("properties")
    return is_object(properties) and {"query", "limit", "offset"} <= properties.keys()


def _decoded(text: str) -> Any:
    from ferrule.wire.codec import decode
    from ferrule.wire.faults import DecodeError

    try:
        return decode(text.encode("utf-8", "surrogatepass"))
    except DecodeError:
        return None
