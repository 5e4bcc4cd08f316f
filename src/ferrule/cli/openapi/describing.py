"""Shows the tools that an OpenAPI description would have: ``ferrule list openapi.json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferrule.checks.tokens import estimate_tokens
from ferrule.cli.openapi.descriptions import usable_operations

__all__ = ["picture_of"]


def picture_of(description: Any, chosen: Sequence[Any]) -> dict[str, Any]:
    """Return the operations that are exposed, as JSON: names, skipped ones, repairs, size of the list.

    Args:
        description: the description.
        chosen: the operations that are exposed.
    """
    operations: list[dict[str, Any]] = []
    repaired: list[dict[str, Any]] = []
    tools: list[dict[str, Any]] = []
    usable, unusable = usable_operations(chosen)
    skipped = [{"method": each.method, "path": each.path, "reason": each.reason} for each in description.skipped]
    skipped += [{"method": each.method, "path": each.path, "reason": reason} for each, reason in unusable]
    for operation in usable:
        schemas = operation.schemas()
        operations.append(
            {
                "name": operation.name,
                "method": operation.method,
                "path": operation.path,
                "title": operation.title,
                "tags": list(operation.tags),
                "deprecated": operation.deprecated,
                "include": operation.label,
            }
        )
        notes = list(dict.fromkeys([*operation.notes, *schemas.notes]))
        if notes:
            repaired.append({"name": operation.name, "notes": notes})
        tools.append(
            {"name": operation.name, "description": operation.description or "", "input_schema": schemas.input}
        )
    return {
        "title": description.title,
        "version": description.version,
        "openapi": description.openapi,
        "servers": list(description.servers),
        "operations": operations,
        "skipped": skipped,
        "repaired": repaired,
        "size": _size(tools),
    }


def _size(tools: list[dict[str, Any]]) -> dict[str, Any]:
    from ferrule.search.definitions import MAX_LISTED
    from ferrule.wire.codec import encode_str

    text = encode_str(tools)
    made: dict[str, Any] = {
        "bytes": len(text.encode("utf-8", "surrogatepass")),
        "tokens": estimate_tokens(text),
        "isSearched": len(tools) > MAX_LISTED,
    }
    if made["isSearched"]:
        shown = encode_str(_search_tools())
        made["searchBytes"], made["searchTokens"] = len(shown.encode()), estimate_tokens(shown)
    return made


def _search_tools() -> list[dict[str, Any]]:
    """Return the tools of a search as hosts hand them to a model."""
    from ferrule.app.server import MCPServer

    search = MCPServer("search", tool_search=True).tools.search
    listed = None if search is None else search.listed()
    return [
        {"name": tool.name, "description": tool.description or "", "input_schema": tool.input_schema()}
        for tool in listed or ()
    ]
