"""``search_tools``, ``describe_tool`` and ``call_tool``, which a server lists in place of too many tools.

All tools can still be called by their own names. A client finds and calls here the same tools that it could list and
call without search: each tool's guard is checked for the sender of the request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from ferrule.app.components.deferred_schema import DeferredSchema
from ferrule.app.components.options import ToolOptions
from ferrule.app.errors import SignatureError, ToolError
from ferrule.app.execution.context import Context
from ferrule.app.signatures.fields import Field
from ferrule.kernel.serving.members import member_filter
from ferrule.kernel.session import THROUGH_SEARCH
from ferrule.protocol.errors import InvalidParams
from ferrule.search.definitions import (
    ALWAYS_LISTED,
    CALL_PROBLEM,
    CALL_TOOL,
    MAX_FOUND,
    MAX_OFFSET,
    NEVER_FOUND,
    ToolSearchMode,
    described_for,
    inner_call,
    most_listed,
    summary_of,
)
from ferrule.search.index import IndexedTool, ToolIndex
from ferrule.wire.codec import to_builtins
from ferrule.wire.json_types import is_mapping, is_object

if TYPE_CHECKING:
    from ferrule.app.components.tools import ToolComponent, ToolSet
    from ferrule.kernel.server import ServerRequestContext

__all__ = ["ALWAYS_LISTED", "ToolSearch"]

logger = logging.getLogger(__name__)

_FIRST_NUMBER = 10**16
"""Position of the first of the three tools in the list, behind all others: cursors are positions."""


class ToolSearch:
    """Search over the tools of a server.

    Args:
        tools: the tools of the server.
        make: makes a component of a function without registering it.
        mode: see `ToolSearchMode`.

    Raises:
        ValueError: there is no such mode.
    """

    def __init__(
        self,
        tools: ToolSet,
        make: Callable[[Callable[..., Any], ToolOptions], ToolComponent],
        mode: ToolSearchMode,
    ) -> None:
        self._tools = tools
        self._most_listed = most_listed(mode)
        self._index: ToolIndex | None = None
        self.components: dict[str, ToolComponent] = {}
        for function, hints in (
            (self.search_tools, {"readOnlyHint": True, "openWorldHint": False}),
            (self.describe_tool, {"readOnlyHint": True, "openWorldHint": False}),
            (self.call_tool, {}),
        ):
            component = make(function, ToolOptions(annotations=hints))
            component.number = _FIRST_NUMBER + len(self.components)
            self.components[component.name] = component
        # The tool runs in place of a function for `call_tool`, so that questions, steps and tasks belong to the tool.
        self.components["call_tool"].execute = self._call
        tools.index.followers.append(self._forget)

    def unwrap(self, ctx: ServerRequestContext[Any]) -> ServerRequestContext[Any]:
        """Return a call of ``call_tool`` as the call of the tool in it, for middleware; any other request as it is.

        Middleware that refuses, counts or records calls by name must get the name of the tool that runs. A malformed
        call, or one of a tool that its sender may not see, stays a call of ``call_tool``, whose result is the error.

        Args:
            ctx: the request, with raw params.
        """
        params: Any = ctx.params
        if ctx.method != "tools/call" or not is_mapping(params) or params.get("name") != CALL_TOOL:
            return ctx
        if self.find("call_tool") is None or "call_tool" in self._tools.index.live:
            return ctx
        found = inner_call(params.get("arguments"))
        if found is None or self._visible_tool(ctx, found[0]) is None:
            return ctx
        ctx.session.notes |= {THROUGH_SEARCH}
        return replace(ctx, params={**params, "name": found[0], "arguments": found[1] or {}})

    @property
    def is_on(self) -> bool:
        """Whether the list is replaced by the search now."""
        return self.replaces(len(self._tools.index.live))

    def replaces(self, count: int) -> bool:
        """Return whether the search replaces the list of a server with so many tools."""
        return self._most_listed is not None and count > self._most_listed

    def listed(self) -> list[ToolComponent] | None:
        """Return the listed tools: those with the tag `ALWAYS_LISTED`, and the search; ``None`` for all tools."""
        if not self.is_on:
            return None
        live = self._tools.index.live
        shown = [tool for tool in live.values() if ALWAYS_LISTED in tool.tags]
        return [*shown, *(tool for name, tool in self.components.items() if name not in live)]

    def find(self, name: str) -> ToolComponent | None:
        """Return one of the three tools; ``None`` for another name, and while there is no search."""
        return self.components.get(name) if self.is_on else None

    # -- the three tools -------------------------------------------------------------------------------------------

    async def search_tools(
        self,
        ctx: Context[Any],
        query: Annotated[str, Field(description="What is to be done, in a few words; empty for all tools")],
        limit: Annotated[int, Field(ge=1, le=MAX_FOUND)] = 8,
        offset: Annotated[int, Field(ge=0, le=MAX_OFFSET)] = 0,
    ) -> dict[str, Any]:
        """Find tools of this server by what they do. Then see one with describe_tool and use it with call_tool."""
        visible = await self._allowed(self._visible(ctx.request))
        if query.strip():
            names = [name for name in self._indexed().search(query) if name in visible]
        else:
            names = sorted(visible)
        shown = [_summary(visible[name]) for name in names[offset : offset + limit]]
        return {"tools": shown, "found": len(names), "total": len(visible)}

    async def describe_tool(self, ctx: Context[Any], name: str) -> dict[str, Any]:
        """Return the description and the arguments (JSON Schema) of a tool that search_tools found."""
        tool = self._visible_tool(ctx.request, name)
        if tool is None or not await self._allowed({name: tool}):
            raise ToolError(self._tools.index.unknown(name, ctx.request).message)
        revision = ctx.request.session.connection.revision
        try:
            found = tool.definition(revision)
        except SignatureError as error:
            logger.error("Tool %r cannot be described: %s", tool.name, error)
            raise ToolError(f"Tool `{tool.name}` cannot be used: {error.reason}") from error
        described: dict[str, Any] = to_builtins(found)
        return described_for(revision, described)

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Call a tool that search_tools found, with arguments as describe_tool describes them."""
        raise NotImplementedError  # `_call` runs in its place

    async def _call(self, ctx: ServerRequestContext[Any], arguments: dict[str, Any] | None) -> Any:
        from ferrule.app.results.result_plan import error_result

        found = inner_call(arguments)
        if found is None:
            return error_result(CALL_PROBLEM)
        name, inner = found
        if name in self.components and name not in self._tools.index.live:
            return error_result(f"`{name}` is called directly, not through `call_tool`")
        tool = self._tools.index.live.get(name)
        if tool is not None and NEVER_FOUND in tool.tags:
            return error_result(self._tools.index.unknown(name, ctx).message)
        try:
            return await self._tools.call_as(ctx, name, inner)
        except InvalidParams as error:
            return error_result(error.message)

    # -- what there is ---------------------------------------------------------------------------------------------

    def _visible(self, ctx: ServerRequestContext[Any]) -> dict[str, ToolComponent]:
        """Return the tools that the sender of a request may list."""
        self._tools.index.refresh()
        return {name: tool for name, tool in self._tools.index.live.items() if _may_find(ctx, tool)}

    async def _allowed(self, tools: dict[str, ToolComponent]) -> dict[str, ToolComponent]:
        """Return the tools that the middleware of the server shows to the sender of the request."""
        shown = member_filter.get()
        if shown is None:
            return tools
        return {
            name: tool
            for name, tool in tools.items()
            if await shown.keeps("tool", name, to_builtins(tool.options.annotations or {}), tool.tags)
        }

    def _visible_tool(self, ctx: ServerRequestContext[Any], name: str) -> ToolComponent | None:
        index = self._tools.index
        tool = index.live.get(name) or index.look_again(name)
        return tool if tool is None or _may_find(ctx, tool) else None

    def _indexed(self) -> ToolIndex:
        if self._index is None:
            self._index = ToolIndex(_indexed_tool(tool) for tool in self._tools.index.live.values())
        return self._index

    def _forget(self) -> None:
        """Discard the index, since tools were added or removed; the next search makes a new one."""
        self._index = None


def _may_find(ctx: ServerRequestContext[Any], tool: ToolComponent) -> bool:
    return NEVER_FOUND not in tool.tags and (tool.guard is None or tool.guard.is_visible(ctx))


def _summary(tool: ToolComponent) -> dict[str, Any]:
    try:
        schema = tool.input_schema()
    except SignatureError as error:  # it was registered while the server runs, after the check at the start
        logger.error("Tool %r cannot be described: %s", tool.name, error)
        schema = {}
    return summary_of(tool.name, tool.description or tool.options.title or "", schema)


def _indexed_tool(tool: ToolComponent) -> IndexedTool:
    given = tool.options.input_schema
    if isinstance(given, DeferredSchema):
        names, texts = list(given.arguments), list(given.arguments.values())
    elif tool.has_own_schema:  # making the schema from a signature takes longer than its words are worth for the search
        properties: dict[str, Any] = tool.input_schema().get("properties", {})
        names = list(properties)
        texts = [str(part.get("description", "")) for part in properties.values() if is_object(part)]
    else:
        names, texts = [part.name for part in tool.spec.parameters], []
    return IndexedTool(
        name=tool.name,
        title=tool.options.title or "",
        description=tool.description or "",
        tags=" ".join(tool.tags),
        arguments=" ".join(names),
        argument_texts=" ".join(texts),
    )
