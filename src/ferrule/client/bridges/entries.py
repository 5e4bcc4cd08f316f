"""Tools of servers as entries for a model API: names, schemas, and the way back from a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from ferrule.client.bridges.apis.api import ModelApi, ToolEntry
from ferrule.client.bridges.names import fitting_names
from ferrule.client.bridges.parts import well_formed
from ferrule.client.bridges.schemas.dialects import Dialect
from ferrule.client.bridges.schemas.limits import excess, sizes_of
from ferrule.client.bridges.schemas.restoring import ArgumentPlan
from ferrule.client.bridges.schemas.rewriting import MAX_NODES, SchemaNotExpressible, rewritten
from ferrule.wire.codec import encode
from ferrule.wire.types import Tool

__all__ = ["MAX_DESCRIPTION_CHARS", "BridgedTool", "bridged_tools", "tokens_of"]

MAX_DESCRIPTION_CHARS: Final = 4000
"""Maximum number of characters of a description; a longer one is cut."""

_BYTES_PER_TOKEN = 4

_MAX_LIST_NODES = 400_000
_MIN_NODES = 50
"""Nodes that the references of all schemas of a list may add, and those of one; a server writes both."""


@dataclass(frozen=True, slots=True)
class BridgedTool:
    """A tool, how a model sees it, and how its arguments come back.

    Attributes:
        tool: the tool under the name that `call_tool` takes.
        entry: the tool for the API.
        plan: makes arguments of the model into arguments of the tool.
    """

    tool: Tool
    entry: ToolEntry
    plan: ArgumentPlan


def bridged_tools(
    tools: Iterable[Tool],
    api: ModelApi,
    *,
    strict: bool = False,
    reserved: Iterable[str] = (),
    servers: Mapping[str, str] = MappingProxyType({}),
    known: dict[str, BridgedTool] | None = None,
) -> dict[str, BridgedTool]:
    """Return name for the model → tool, in the order of these names.

    Args:
        tools: the tools; of several with one name, the first counts.
        api: the API.
        strict: whether each tool whose schema allows it gets the API's strict mode.
        reserved: names that are taken.
        servers: the beginnings of names that say whose tool it is, such as ``"docs_"`` → the name of the server.
        known: tools of the last time, which are taken again if they have not changed.
    """
    by_name: dict[str, Tool] = {}
    for tool in tools:
        by_name.setdefault(tool.name, tool)
    names = fitting_names(by_name, reserved)
    found: dict[str, BridgedTool] = {}
    left = list(api.max_strict) if strict and api.max_strict is not None else None
    max_nodes = min(MAX_NODES, max(_MIN_NODES, _MAX_LIST_NODES // max(len(by_name), 1)))
    for name in sorted(names):
        tool = by_name[names[name]]
        last = None if known is None or left is not None else known.get(name)
        if last is not None and last.tool == tool:
            found[name] = last
            continue
        prefix = max((each for each in servers if tool.name.startswith(each)), key=len, default=None)
        entry = _entry(tool, name, "" if prefix is None else servers[prefix])
        made = _bridged(tool, entry, api.dialect, api.strict if strict else None, max_nodes)
        if made.entry.is_strict and left is not None and not _fits(made.entry.schema, left):
            made = _bridged(tool, entry, api.dialect, None, max_nodes)
        found[name] = made
    return found


def tokens_of(definitions: Any) -> int:
    """Return about how many tokens definitions take in a request: a quarter of the bytes of their JSON."""
    return -(-len(encode(definitions)) // _BYTES_PER_TOKEN)


def _entry(tool: Tool, name: str, server: str) -> ToolEntry:
    text = well_formed((tool.description or tool.title or "").strip())
    if len(text) > MAX_DESCRIPTION_CHARS:
        text = f"{text[: MAX_DESCRIPTION_CHARS - 1]}…"
    return ToolEntry(name, server, text, tool.input_schema)


def _bridged(
    tool: Tool, entry: ToolEntry, dialect: Dialect | None, strict: Dialect | None, max_nodes: int
) -> BridgedTool:
    if strict is not None:
        try:
            schema, plan = rewritten(tool.input_schema, strict, max_nodes)
        except SchemaNotExpressible:
            pass
        else:
            if excess(schema, strict) is None:
                return BridgedTool(tool, replace(entry, schema=schema, is_strict=True), plan)
    if dialect is None:
        return BridgedTool(tool, entry, ArgumentPlan())
    schema, plan = rewritten(tool.input_schema, dialect, max_nodes)
    return BridgedTool(tool, replace(entry, schema=schema), plan)


def _fits(schema: dict[str, Any], left: list[int]) -> bool:
    """Take a strict tool off what a request may have; ``False`` if there is not enough left."""
    sizes = sizes_of(schema)
    needs = [1, sizes.optional, sizes.unions]
    if any(need > have for need, have in zip(needs, left, strict=True)):
        return False
    left[:] = [have - need for need, have in zip(needs, left, strict=True)]
    return True
