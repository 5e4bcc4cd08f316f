"""The members of the servers behind a gateway, for middleware that decides about them; a `MemberDirectory`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ferrule.client.gateway.backend_sessions import party_of
from ferrule.client.gateway.pages import LISTS
from ferrule.kernel.serving.members import MemberKind, ServedMember
from ferrule.search.definitions import THE_THREE
from ferrule.wire.json_types import is_mapping

if TYPE_CHECKING:
    from ferrule.client.gateway.gateway import Gateway
    from ferrule.client.gateway.pages import RawList
    from ferrule.client.gateway.routes import GatewayRoutes
    from ferrule.client.gateway.upstreams.upstream import Upstream
    from ferrule.kernel.server import ServerRequestContext

__all__ = ["GatewayMembers"]

_LIST_OF: Final[Mapping[MemberKind, str]] = {
    "tool": "tools/list",
    "prompt": "prompts/list",
    "resource": "resources/list",
    "resource_template": "resources/templates/list",
}
_MAX_INDEXED: Final = 256
"""Lists whose definitions are indexed by name."""


class GatewayMembers:
    """Finds members in the last lists of their servers; if a name is in none, the lists are read again.

    Args:
        gateway: the gateway.
        routes: returns its names and URIs.
        searches: whether a search stands in place of its tools.
    """

    def __init__(self, gateway: Gateway, routes: GatewayRoutes, *, searches: bool) -> None:
        self._gateway = gateway
        self._routes = routes
        self._searches = searches
        self._indexed: OrderedDict[int, tuple[RawList, dict[str, Mapping[str, Any]]]] = OrderedDict()

    async def find(self, ctx: ServerRequestContext[Any], kind: MemberKind, name: str, /) -> ServedMember | None:
        """See `MemberDirectory`."""
        found = self._known(ctx, kind, name)
        if found is not None:
            return found
        methods = (_LIST_OF[kind], *(("resources/templates/list",) if kind == "resource" else ()))
        for method in methods:
            mark = f"{method} was read"
            # Once for each request: one that names many resources would ask the servers as often.
            if mark not in ctx.session.notes and ctx.server.get_request_handler(method) is not None:
                ctx.session.notes |= {mark}
                await self._gateway.merged_list(replace(ctx, method=method, params={}))
        return self._known(ctx, kind, name)

    def is_search(self, name: str, /) -> bool:
        """See `MemberDirectory`."""
        return self._searches and name in THE_THREE and not self._routes.is_listed(name)

    def _known(self, ctx: ServerRequestContext[Any], kind: MemberKind, name: str) -> ServedMember | None:
        if kind in ("tool", "prompt"):
            if kind == "tool" and self._gateway.is_own_tool(name):
                return ServedMember(kind, name, {"readOnlyHint": True})
            route = None if self._routes.is_open(f"{kind}s", name) else self._routes.of_name(f"{kind}s", name)
            return None if route is None else self._listed(ctx, *route, kind, name)
        if kind == "resource":
            name = self._routes.spelled(name)
        owner = self._routes.of_template(name) if kind == "resource_template" else self._routes.of_uri(name)
        if owner is None:
            return None
        found = self._listed(ctx, owner, name, kind, name)
        if found is not None or kind == "resource_template":
            return found
        template = self._routes.template_of(name)
        served = None if template is None else self._listed(ctx, owner, template, "resource_template", template)
        # A resource that is in no list, of a server that has been found to have it.
        return (
            ServedMember(kind, name, {}) if served is None else replace(served, kind=kind, name=name, template=template)
        )

    def _listed(
        self, ctx: ServerRequestContext[Any], upstream: Upstream, own: str, kind: MemberKind, name: str
    ) -> ServedMember | None:
        method = _LIST_OF[kind]
        listed = upstream.lists.get(party_of(ctx), method)
        definition = None if listed is None else self._index(listed, LISTS[method][1]).get(own)
        if definition is None:
            return None
        annotations: Any = definition.get("annotations")
        return ServedMember(
            kind,
            name,
            annotations if is_mapping(annotations) else {},
            definition=lambda: definition,
            source=definition,
        )

    def _index(self, listed: RawList, field: str) -> Mapping[str, Mapping[str, Any]]:
        found = self._indexed.get(id(listed))
        if found is None or found[0] is not listed:
            made = {str(item.get(field)): item for item in reversed(listed.items) if is_mapping(item)}
            found = self._indexed[id(listed)] = (listed, made)
            while len(self._indexed) > _MAX_INDEXED:
                self._indexed.popitem(last=False)
        return found[1]
