"""``search_tools``, ``describe_tool`` and ``call_tool`` in place of the tools behind a proxy or a gateway.

They are the same three tools as those of a server (`ferrule.app.search.tools`), over the lists of other servers. A call
through ``call_tool`` becomes the call of the tool in it before the middleware, and is forwarded like a direct call:
with questions, progress, tasks, errors and unknown members. A client finds and calls the tools that its own list would
have, which the servers behind decide.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final

import anyio
from msgspec import Meta, Struct

from ferrule._options import suggestion
from ferrule.client.gateway.backend_sessions import shared_key
from ferrule.client.gateway.catalogue import Catalogue, CatalogueStore, KnownList
from ferrule.client.gateway.pages import ANNOUNCED_S, MAX_KEPT_S, hints_of
from ferrule.kernel.changes.bus import Event
from ferrule.kernel.serving.members import member_filter
from ferrule.kernel.session import THROUGH_SEARCH
from ferrule.protocol.errors import FerruleError, InvalidParams
from ferrule.search.definitions import (
    CALL_PROBLEM,
    CALL_TOOL,
    MAX_FOUND,
    MAX_OFFSET,
    SEARCH_TOOLS,
    THE_THREE,
    ToolSearchMode,
    described_for,
    inner_call,
    most_listed,
)
from ferrule.search.listed import DEFINITIONS
from ferrule.wire.codec import convert, encode_str
from ferrule.wire.faults import ConvertError
from ferrule.wire.json_types import is_mapping

if TYPE_CHECKING:
    from ferrule.client.gateway.pages import RawList
    from ferrule.kernel.server import Server, ServerRequestContext
    from ferrule.transports.background import Background

__all__ = ["GatewaySearch"]

logger = logging.getLogger("ferrule.client.gateway")

MAX_REREAD: Final = 8
"""Maximum number of clients whose lists are read again after a change, to compare the lists that clients get."""

_SHOWN_CHARS: Final = 200


class _Search(Struct, forbid_unknown_fields=True):
    query: str
    limit: Annotated[int, Meta(ge=1, le=MAX_FOUND)] = 8
    offset: Annotated[int, Meta(ge=0, le=MAX_OFFSET)] = 0


class _Described(Struct, forbid_unknown_fields=True):
    name: str


class _ThroughSearch(dict[str, Any]):
    """The ``_meta`` of a request that was received as a call of ``call_tool``.

    Attributes:
        params: the params as received.
    """

    params: Mapping[str, Any]


class GatewaySearch:
    """The search of one proxy or gateway.

    Args:
        server: the server in front.
        mode: see `ToolSearchMode`.
        read: returns the whole list of tools that the sender of a request would get.
        call: forwards a call under the name in it.
        announces: whether the servers behind announce changes of their tools.
        background: runs tasks.
        rereads: read the list for each request, because it depends on unknown facts about the sender.

    Attributes:
        lists: the cached lists.

    Raises:
        ValueError: there is no such mode.
    """

    def __init__(
        self,
        server: Server[Any],
        mode: ToolSearchMode,
        read: Callable[[ServerRequestContext[Any]], Awaitable[RawList]],
        call: Callable[[ServerRequestContext[Any]], Awaitable[Any]],
        *,
        announces: Callable[[], bool],
        background: Callable[[], Background],
        rereads: bool = False,
    ) -> None:
        most = most_listed(mode)
        if most is None:
            raise ValueError("tool_search=False has no search")
        self._server = server
        self._most_listed = most
        self._read = read
        self._call = call
        self._announces = announces
        self._background = background
        self._rereads = rereads
        self.lists = CatalogueStore()
        self._sessions: set[int] = set()
        server.unwrap_request = self.unwrap

    # -- what is served ---------------------------------------------------------------------------------------------

    async def list_tools(self, ctx: ServerRequestContext[Any]) -> Any:
        """Serve ``tools/list``: the search, or the tools behind as one page where they are few enough.

        Raises:
            InvalidParams: a cursor is given, and this list has only one page.
        """
        if ctx.params.get("cursor") is not None:
            raise InvalidParams("Invalid cursor: this list has one page")
        if self._most_listed < 0:
            known = await self._list_of(ctx, fresh=True)
            if known.is_searched:
                return {"tools": _listed(known.catalogue)}
        known, found = await self._read_list(ctx)
        return {"tools": _listed(known.catalogue)} if known.is_searched else {**found.rest, "tools": found.items}

    async def call_tool(self, ctx: ServerRequestContext[Any]) -> Any:
        """Serve ``tools/call``: of a tool of the search, through ``call_tool``, or of a tool behind by its own name."""
        through = ctx.meta
        if isinstance(through, _ThroughSearch):
            return await self._called_through(replace(ctx, meta=dict(through)), through.params)
        name: Any = ctx.params.get("name")
        if name not in THE_THREE:
            return await self._call(ctx)
        known = await self._list_of(ctx, fresh=name != CALL_TOOL)
        if not known.is_searched or name in known.catalogue:
            return await self._call(ctx)
        arguments: Any = ctx.params.get("arguments") or {}
        if name == CALL_TOOL:  # one that fits was unwrapped
            return _error(CALL_PROBLEM)
        try:
            if name == SEARCH_TOOLS:
                return await _found(known.catalogue, convert(arguments, _Search))
            return await _described(ctx, known.catalogue, convert(arguments, _Described).name)
        except ConvertError as error:
            return _error(f"Invalid arguments for tool `{name}`: {error}")

    def unwrap(self, ctx: ServerRequestContext[Any]) -> ServerRequestContext[Any]:
        """Return a call of ``call_tool`` as the call of the tool in it, for middleware; any other request unchanged.

        Args:
            ctx: the request, with raw params.
        """
        params: Any = ctx.params
        if ctx.method != "tools/call" or not is_mapping(params) or params.get("name") != CALL_TOOL:
            return ctx
        known = None if self._rereads else self.lists.get(_party_of(ctx), fresh=False)
        found = inner_call(params.get("arguments"))
        if found is None or (known is not None and CALL_TOOL in known.catalogue):
            return ctx
        ctx.session.notes |= {THROUGH_SEARCH}
        meta = _ThroughSearch(ctx.meta)
        meta.params = params
        return replace(ctx, params={**params, "name": found[0], "arguments": found[1] or {}}, meta=meta)

    async def _called_through(self, ctx: ServerRequestContext[Any], came_as: Mapping[str, Any]) -> Any:
        name: str = ctx.params["name"]
        known = None if self._rereads else self.lists.get(_party_of(ctx), fresh=False)
        if known is None or name not in known.catalogue:
            known = await self._list_of(ctx, fresh=True)
        if not known.is_searched or CALL_TOOL in known.catalogue:
            return await self._call(replace(ctx, params=came_as))
        if known.catalogue.is_found(name):
            return await self._call(ctx)
        if name in THE_THREE:
            return _error(f"`{name}` is called directly, not through `{CALL_TOOL}`")
        return _error(_unknown(known.catalogue, name))

    # -- what there is ----------------------------------------------------------------------------------------------

    async def _list_of(self, ctx: ServerRequestContext[Any], *, fresh: bool) -> KnownList:
        known = self.lists.get(_party_of(ctx), fresh=fresh or self._rereads)
        return (await self._read_list(_as_list(ctx)))[0] if known is None else known

    async def _read_list(self, ctx: ServerRequestContext[Any]) -> tuple[KnownList, RawList]:
        """Read the list of a client, and cache it."""
        generation = self.lists.generation  # a change while it is read makes it old at once
        found = await self._read(ctx)
        catalogue = Catalogue(found.items)
        has_search = all(name in catalogue for name in THE_THREE)  # of its own, which is as good
        known = KnownList(
            catalogue=catalogue,
            is_searched=catalogue.count > self._most_listed and not has_search,
            ctx=ctx,
            generation=generation,
            expires=monotonic() + self._reusable_s(found.rest),
        )
        party = _party_of(ctx)
        if isinstance(party, int) and party not in self._sessions:
            self._sessions.add(party)
            ctx.session.connection.on_closing(lambda: self._forget(party))
        self.lists.keep(party, known)
        return known, found

    def _forget(self, session: int) -> None:
        self._sessions.discard(session)
        self.lists.forget(session)

    def _reusable_s(self, rest: Mapping[str, Any]) -> float:
        if self._rereads:
            return 0.0
        allowed_s = hints_of(rest)
        return min(allowed_s or (ANNOUNCED_S if self._announces() else 0.0), MAX_KEPT_S)

    # -- changes ----------------------------------------------------------------------------------------------------

    def note_change(self) -> bool:
        """Note a change of the tools behind, and return whether the clients' lists have certainly changed.

        A search lists the same three tools after any change, unless tools with pages are listed beside it. If the tools
        may now be few enough to list them, the lists are read again in the background, and clients are notified if
        their lists have changed.
        """
        self.lists.generation += 1
        known = self.lists.known()
        if any(not each.is_searched or each.catalogue.listed for _, each in known):
            return True
        if self._most_listed < 0:
            return False
        if not known or len(known) > MAX_REREAD:
            return True
        self._background().start(self._tell_if_listed([each for _, each in known]), "ferrule-gateway-search")
        return False

    async def _tell_if_listed(self, known: list[KnownList]) -> None:
        for each in known:
            try:
                now, _ = await self._read_list(each.ctx)
            except (FerruleError, OSError) as error:
                logger.debug("A list of tools cannot be read again: %s", error)
                continue
            if not now.is_searched:
                self._server.bus.publish(Event.list_changed("tools"))
                return


def _as_list(ctx: ServerRequestContext[Any]) -> ServerRequestContext[Any]:
    """Return a request for the list by the sender of another one."""
    meta = {key: value for key, value in ctx.meta.items() if key != "progressToken"}
    return replace(ctx, method="tools/list", params={}, meta=meta)


def _party_of(ctx: ServerRequestContext[Any]) -> Any:
    """Return the key of a request's list: its session, or its principal and capabilities."""
    connection = ctx.session.connection
    if connection.revision.has_sessions and connection.client_params is not None:
        return id(connection)
    return shared_key(ctx)


def _listed(catalogue: Catalogue) -> list[dict[str, Any]]:
    """Return the definitions of the search, behind those of `Catalogue.listed`.

    ``call_tool`` can be a task if a tool behind can.
    """
    found = [definition for name, definition in DEFINITIONS.items() if name not in catalogue]
    if catalogue.has_tasks:
        task = {"execution": {"taskSupport": "optional"}}
        found = [{**each, **task} if each["name"] == CALL_TOOL else each for each in found]
    beside = [catalogue.definition(name) for name in catalogue.listed]
    return [*(each for each in beside if each is not None), *found]


async def _found(catalogue: Catalogue, asked: _Search) -> dict[str, Any]:
    # In a thread: making the index of thousands of tools takes seconds.
    names = await anyio.to_thread.run_sync(catalogue.ranked, asked.query)
    total = catalogue.found
    if member_filter.get() is not None:
        names = [name for name in names if await _is_shown(catalogue, name)]
        total = len([name for name in catalogue.names if await _is_shown(catalogue, name)])
    shown = [catalogue.summary(name) for name in names[asked.offset : asked.offset + asked.limit]]
    return _answer({"tools": shown, "found": len(names), "total": total})


async def _is_shown(catalogue: Catalogue, name: str) -> bool:
    """Return whether the middleware of the gateway shows a tool to the sender of the request."""
    shown = member_filter.get()
    if shown is None:
        return True
    annotations: Any = (catalogue.definition(name) or {}).get("annotations")
    return await shown.keeps("tool", name, annotations if is_mapping(annotations) else {}, frozenset())


async def _described(ctx: ServerRequestContext[Any], catalogue: Catalogue, name: str) -> dict[str, Any]:
    definition = catalogue.definition(name) if catalogue.is_found(name) else None
    if definition is None or not await _is_shown(catalogue, name):
        return _error(_unknown(catalogue, name))
    return _answer(described_for(ctx.revision, definition))


def _unknown(catalogue: Catalogue, name: str) -> str:
    close = suggestion(name, catalogue.names) if member_filter.get() is None else None
    shown = name if len(name) <= _SHOWN_CHARS else f"{name[:_SHOWN_CHARS]}…"
    return f"Unknown tool: {shown}" + (f"; did you mean {close!r}?" if close else "")


def _answer(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": encode_str(value)}], "structuredContent": value}


def _error(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": True}
