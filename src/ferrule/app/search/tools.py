"""``search_tools``, ``describe_tool`` and ``call_tool``: what a server lists in place of too many tools.

All tools stay callable under their own names. A caller finds, sees described and calls here exactly what it could list
and call without search: each tool's own guard decides, for the sender of the request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from ferrule.app.components.options import ToolOptions
from ferrule.app.errors import SignatureError, ToolError
from ferrule.app.execution.context import Context
from ferrule.app.search.index import IndexedTool, ToolIndex
from ferrule.app.signatures.fields import Field
from ferrule.protocol.errors import InvalidParams
from ferrule.wire.codec import to_builtins
from ferrule.wire.json_types import is_mapping, is_object

if TYPE_CHECKING:
    from ferrule.app.components.tools import ToolComponent, ToolSet
    from ferrule.kernel.server import ServerRequestContext

__all__ = ["ALWAYS_LISTED", "MAX_LISTED", "ToolSearch", "ToolSearchMode"]

logger = logging.getLogger(__name__)

ToolSearchMode: TypeAlias = Literal["auto"] | bool
"""Whether a server offers search in place of its list; ``"auto"``: when it has more than `MAX_LISTED` tools."""

MAX_LISTED = 60
"""Tools that are listed before ``"auto"`` offers search instead."""

ALWAYS_LISTED = "always-listed"
"""The tag of tools that are listed beside the search."""

MAX_FOUND = 50
"""Tools of one answer."""

_SUMMARY_CHARS = 200

_FIRST_NUMBER = 10**16
"""Position of the first of the three tools in the list, behind all others: cursors are positions."""


class ToolSearch:
    """Search over the tools of a server.

    Args:
        tools: the tools of the server.
        make: makes a component of a function without registering it.
        mode: see `ToolSearchMode`.
        max_listed: tools that are listed before ``"auto"`` offers search.
    """

    def __init__(
        self,
        tools: ToolSet,
        make: Callable[[Callable[..., Any], ToolOptions], ToolComponent],
        mode: ToolSearchMode,
        max_listed: int = MAX_LISTED,
    ) -> None:
        self._tools = tools
        self._mode = mode
        self._max_listed = max_listed
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
        # Straight to the tool, past a body of its own: questions, steps and tasks are those of the tool.
        self.components["call_tool"].run = self._call
        tools.index.followers.append(self._forget)

    def unwrap(self, ctx: ServerRequestContext[Any]) -> ServerRequestContext[Any]:
        """Return a call of ``call_tool`` as the call of the tool in it, for middleware; any other request as it is.

        Middleware that refuses, counts or records calls by name must see the tool that runs. A call that is wrong, or
        of a tool that its sender may not see, stays a call of ``call_tool``, whose result says what is wrong.

        Args:
            ctx: with raw params.
        """
        params: Any = ctx.params
        if ctx.method != "tools/call" or not is_mapping(params) or params.get("name") != "call_tool":
            return ctx
        if self.find("call_tool") is None or "call_tool" in self._tools.index.live:
            return ctx
        found = _inner_call(params.get("arguments"))
        if found is None or self._visible_tool(ctx, found[0]) is None:
            return ctx
        return replace(ctx, params={**params, "name": found[0], "arguments": found[1] or {}})

    @property
    def is_on(self) -> bool:
        """Whether the list is replaced by the search now."""
        return self._mode is True or (self._mode == "auto" and len(self._tools.index.live) > self._max_listed)

    def listed(self) -> list[ToolComponent] | None:
        """Return what is listed: tools with the tag `ALWAYS_LISTED`, and the search; ``None`` for all tools."""
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
        offset: Annotated[int, Field(ge=0, le=1_000_000)] = 0,
    ) -> dict[str, Any]:
        """Find tools of this server by what they do. Then see one with describe_tool and use it with call_tool."""
        visible = self._visible(ctx.request)
        if query.strip():
            names = [name for name in self._indexed().search(query) if name in visible]
        else:
            names = sorted(visible)
        shown = [_summary(visible[name]) for name in names[offset : offset + limit]]
        return {"tools": shown, "found": len(names), "total": len(visible)}

    async def describe_tool(self, ctx: Context[Any], name: str) -> dict[str, Any]:
        """Return the description and the arguments (JSON Schema) of a tool that search_tools found."""
        tool = self._visible_tool(ctx.request, name)
        if tool is None:
            raise ToolError(self._tools.index.unknown(name, ctx.request).message)
        described: dict[str, Any] = to_builtins(tool.definition(ctx.request.session.connection.revision))
        return described

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Call a tool that search_tools found, with arguments as describe_tool describes them."""
        raise NotImplementedError  # `_call` runs in its place

    async def _call(self, ctx: ServerRequestContext[Any], arguments: dict[str, Any] | None) -> Any:
        from ferrule.app.results.result_plan import error_result

        found = _inner_call(arguments)
        if found is None:
            return error_result(
                "Invalid arguments for tool `call_tool`: give `name` (a text) and `arguments` (an object)"
            )
        name, inner = found
        if name in self.components and name not in self._tools.index.live:
            return error_result(f"`{name}` is called directly, not through `call_tool`")
        try:
            return await self._tools.call_as(ctx, name, inner)
        except InvalidParams as error:
            return error_result(error.message)

    # -- what there is ---------------------------------------------------------------------------------------------

    def _visible(self, ctx: ServerRequestContext[Any]) -> dict[str, ToolComponent]:
        """Return the tools that the sender of a request may list."""
        self._tools.index.refresh()
        live = self._tools.index.live
        if not self._tools.index.is_guarded:
            return live
        return {name: tool for name, tool in live.items() if tool.guard is None or tool.guard.is_visible(ctx)}

    def _visible_tool(self, ctx: ServerRequestContext[Any], name: str) -> ToolComponent | None:
        index = self._tools.index
        tool = index.live.get(name) or index.look_again(name)
        return tool if tool is None or tool.guard is None or tool.guard.is_visible(ctx) else None

    def _indexed(self) -> ToolIndex:
        if self._index is None:
            self._index = ToolIndex(_indexed_tool(tool) for tool in self._tools.index.live.values())
        return self._index

    def _forget(self) -> None:
        """Make the index anew with the next search: tools came or went."""
        self._index = None


def _inner_call(arguments: Any) -> tuple[str, dict[str, Any] | None] | None:
    """Return name and arguments of the tool that ``call_tool`` is asked to call; ``None`` for other arguments."""
    given: Any = arguments or {}
    if not is_object(given) or given.keys() - {"name", "arguments"}:
        return None
    name, inner = given.get("name"), given.get("arguments")
    if not isinstance(name, str) or not (inner is None or is_object(inner)):
        return None
    return name, inner


def _summary(tool: ToolComponent) -> dict[str, Any]:
    text = " ".join((tool.description or tool.options.title or "").split())
    if len(text) > _SUMMARY_CHARS:
        text = f"{text[: _SUMMARY_CHARS - 1]}…"
    made: dict[str, Any] = {"name": tool.name}
    try:
        required, optional = _argument_names(tool)
    except SignatureError as error:  # registered while the server runs, when no start checks it
        logger.error("Tool %r cannot be described: %s", tool.name, error)
        required = optional = []
    if text:
        made["description"] = text
    if required:
        made["required"] = required
    if optional:
        made["optional"] = optional
    return made


def _argument_names(tool: ToolComponent) -> tuple[list[str], list[str]]:
    schema = tool.input_schema()
    names: list[str] = list(schema.get("properties", {}))
    required = [name for name in names if name in schema.get("required", ())]
    return required, [name for name in names if name not in required]


def _indexed_tool(tool: ToolComponent) -> IndexedTool:
    if tool.has_own_schema:  # a schema made of a signature costs more than the words in it are worth
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
