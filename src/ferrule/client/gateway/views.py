"""Views of a gateway: parts of a gateway, each for some callers or at a path of its own.

`GatewayViews` is a middleware of the gateway's server. In a view, lists have only what it shows, and what it does not
show cannot be used: a call, a read or a subscription is answered as if there were no such thing. Requests that the
gateway has no handler for (tasks, methods of the servers themselves) reach only the servers of the view, as do
notifications. A caller whom some view names gets only views that name that caller, whatever path it uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Protocol

from ferrule.protocol.errors import InvalidParams, MCPError, MethodNotFound, ResourceNotFound
from ferrule.wire.codec import to_builtins
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.jsonrpc import JsonRpcErrorCode

if TYPE_CHECKING:
    from ferrule.kernel.server import CallNext, ServerRequestContext

__all__ = ["MAX_VIEWS", "GatewayViews", "View", "ViewedGateway", "views_of"]

MAX_VIEWS: Final = 200
"""GatewayViews of one gateway."""

_LISTS: Final[Mapping[str, tuple[str, str]]] = {
    "tools/list": ("tools", "name"),
    "prompts/list": ("prompts", "name"),
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate"),
    "skills/list": ("skills", "uri"),
}
_NAMED: Final[Mapping[str, str]] = {"tools/call": "tools", "prompts/get": "prompts"}
_WITH_URI: Final = frozenset(
    {
        *("resources/read", "resources/subscribe", "resources/unsubscribe", "resources/directory/read"),
        "skills/get",
    }
)
_OF_THE_GATEWAY: Final = frozenset({"ping", "logging/setLevel", "subscriptions/listen"})
"""Requests with a handler that name nothing of a server, or whose names are taken out of them."""


@dataclass(frozen=True, slots=True)
class View:
    """One view.

    Attributes:
        name: its name, the last part of its path.
        servers: the servers that it shows; ``None``: all.
        include: patterns of shown names of tools (``github_*``); ``None``: all of these servers.
        exclude: patterns of tools to leave out of those.
        subjects, clients: the subjects and client ids of tokens whose callers it names.
        scopes: a caller whose token has one of these scopes is named, too.
    """

    name: str
    servers: frozenset[str] | None = None
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    subjects: frozenset[str] = frozenset()
    clients: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()

    @property
    def names_callers(self) -> bool:
        """Whether it is for some callers only."""
        return bool(self.subjects or self.clients or self.scopes)

    def names(self, principal: Any) -> bool:
        """Return whether it names a caller; a principal without these members is never named."""
        # A principal may be an object of the program's own verifier.
        subject, client = getattr(principal, "subject", None), getattr(principal, "client_id", None)
        scopes: Any = getattr(principal, "scopes", None) or ()  # as above
        return subject in self.subjects or client in self.clients or not self.scopes.isdisjoint(scopes)

    def shows_server(self, server: str) -> bool:
        """Return whether it shows a server."""
        return self.servers is None or server in self.servers

    def shows(self, kind: str, server: str | None, name: str) -> bool:
        """Return whether it shows an item.

        Args:
            kind: ``"tools"``, ``"prompts"``, ``"resources"`` …
            server: the name of its server; ``None`` for what belongs to the gateway itself, or to no known server.
            name: its name or URI as clients see it.
        """
        if server is None or not self.shows_server(server):
            return False
        if kind != "tools":
            return True
        if self.include is not None and not any(fnmatchcase(name, pattern) for pattern in self.include):
            return False
        return not any(fnmatchcase(name, pattern) for pattern in self.exclude)


class ViewedGateway(Protocol):
    """The members of a `Gateway` that views use."""

    def owner(self, kind: str, name: str) -> str | None:
        """Return the server of an item by the last lists; ``None`` if none is known.

        Args:
            kind: ``"tools"``, ``"prompts"``, ``"resources"`` or ``"resourceTemplates"``.
            name: the name or URI as clients see it.
        """
        ...

    async def merged_list(self, ctx: ServerRequestContext[Any]) -> list[Any]:
        """Return the items of a list of all servers, also where a search stands in its place."""
        ...

    def instructions_for(self, servers: frozenset[str] | None) -> str | None:
        """Return the instructions of some servers, of all for ``None``; ``None`` if there are none."""
        ...


class GatewayViews:
    """The views of one gateway, as a middleware.

    Args:
        gateway: the gateway.
        views: the views, in the order in which they are looked for; may be replaced.
        default: the view of requests to the main path by callers whom no view names; ``None``: everything.
        path: the main path.
    """

    def __init__(
        self,
        gateway: ViewedGateway,
        views: Mapping[str, View] | None = None,
        default: str | None = None,
        path: str = "/mcp",
    ) -> None:
        self._gateway = gateway
        self.path = path.rstrip("/")
        self.views: Mapping[str, View] = {}
        self.default: str | None = None
        self.replace(views or {}, default)

    def replace(self, views: Mapping[str, View], default: str | None) -> None:
        """Take other views.

        Raises:
            ValueError: there is no view ``default``, or there are too many.
        """
        if default is not None and default not in views:
            raise ValueError(f"There is no view {default!r}; there are {', '.join(views) or 'none'}")
        if len(views) > MAX_VIEWS:
            raise ValueError(f"A gateway has at most {MAX_VIEWS} views")
        self.views, self.default = dict(views), default

    def name_in(self, path: str) -> str | None:
        """Return the view that a path below the mounting prefix names; ``None`` for other paths."""
        if not path.startswith(f"{self.path}/"):
            return None
        name = path[len(self.path) + 1 :].rstrip("/")
        return name if name in self.views else None

    def view_of(self, context: Any) -> View | None:
        """Return the view of a request; ``None``: it sees everything.

        Args:
            context: its transport context.

        Raises:
            MCPError: the view of its path is not for this caller.
        """
        if not self.views:
            return None
        path, root = str(getattr(context, "path", "")), ""  # only requests over HTTP have a path
        if path:
            root = str(context.scope.get("root_path", "")).rstrip("/")
            path = path[len(root) :] if root and path.startswith(f"{root}/") else path
        named = [view for view in self.views.values() if view.names(context.principal)]
        asked = self.name_in(path) if path else None
        if asked is not None:
            view = self.views[asked]
            if view in named or not (named or view.names_callers):
                return view
            raise MCPError(f"The view {asked!r} is not for this caller", code=JsonRpcErrorCode.INVALID_REQUEST)
        if named:
            return named[0]
        return None if self.default is None else self.views[self.default]

    async def __call__(self, ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        """See `ferrule.kernel.server.ServerMiddleware`."""
        view = self.view_of(ctx.transport)
        if view is None:
            return await call_next(ctx)
        if ctx.method in ("initialize", "server/discover"):
            return self._introduced(view, await call_next(ctx))
        if ctx.method in _LISTS:
            return await self._listed(view, ctx)
        if ctx.request_id is not None:
            await self._check(view, ctx)
        if ctx.method == "subscriptions/listen":
            ctx = self._listening(view, ctx)
        return await call_next(ctx)

    def _introduced(self, view: View, result: Any) -> Any:
        made: Any = to_builtins(result)
        if is_mapping(made) and "instructions" in made:
            text = self._gateway.instructions_for(view.servers)
            made = {key: value for key, value in made.items() if key != "instructions"}
            return made if text is None else {**made, "instructions": text}
        return made

    async def _listed(self, view: View, ctx: ServerRequestContext[Any]) -> Any:
        from ferrule.kernel.finish import finish_result

        key, name = _LISTS[ctx.method]
        items = await self._gateway.merged_list(ctx)
        owner = self._gateway.owner
        kept = [item for item in items if view.shows(key, owner(key, item[name]), item[name])]
        return finish_result(ctx.server, ctx.session.connection, ctx.method, {key: kept})

    async def _check(self, view: View, ctx: ServerRequestContext[Any]) -> None:
        """Refuse what the view does not show, as the gateway refuses what is not there."""
        params: Any = ctx.params if is_mapping(ctx.params) else {}
        kind = _NAMED.get(ctx.method)
        if kind is not None:
            name: Any = params.get("name")
            if not isinstance(name, str) or not await self._shows(view, ctx, kind, name):
                # The same words as of a policy, so that they do not tell what another view shows.
                raise InvalidParams(f"Unknown {kind[:-1]}: {str(name)[:200]}")
        elif ctx.method in _WITH_URI:
            uri: Any = params.get("uri")
            if not isinstance(uri, str) or not await self._shows(view, ctx, "resources", uri):
                raise ResourceNotFound(str(uri), code=ctx.revision.missing_resource_code)
        elif ctx.method == "completion/complete":
            reference: Any = params.get("ref")
            # By its type, as the gateway forwards it: a reference may have members of both.
            is_prompt = is_mapping(reference) and reference.get("type") == "ref/prompt"
            named: Any = reference.get("name" if is_prompt else "uri") if is_mapping(reference) else None
            what = "prompts" if is_prompt else "resourceTemplates"
            if not isinstance(named, str) or not await self._shows(view, ctx, what, named):
                raise InvalidParams(f"Unknown reference: {str(named)[:200]!r}")
        elif ctx.method not in _OF_THE_GATEWAY and ctx.server.get_request_handler(ctx.method) is not None:
            # What has no handler is forwarded to the servers of the view; of another handler nothing is known.
            raise MethodNotFound(ctx.method)

    async def _shows(self, view: View, ctx: ServerRequestContext[Any], kind: str, name: str) -> bool:
        owner = self._gateway.owner(kind, name)
        if owner is None:  # the lists were not read yet, or have changed
            for method in _list_methods(kind):
                if ctx.server.get_request_handler(method) is not None:
                    await self._gateway.merged_list(replace(ctx, method=method, params={}))
            owner = self._gateway.owner(kind, name)
        return view.shows(kind, owner, name)

    def _listening(self, view: View, ctx: ServerRequestContext[Any]) -> ServerRequestContext[Any]:
        """Return a request for changes without the resources that the view does not show."""
        params: Any = ctx.params
        wanted: Any = params.get("notifications") if is_mapping(params) else None
        uris: Any = wanted.get("resourceSubscriptions") if is_mapping(wanted) else None
        if not is_list(uris):
            return ctx
        kept = [uri for uri in uris if view.shows("resources", self._gateway.owner("resources", str(uri)), str(uri))]
        return replace(ctx, params={**params, "notifications": {**wanted, "resourceSubscriptions": kept}})


def views_of(ctx: ServerRequestContext[Any]) -> list[View]:
    """Return the views that a request is served in, wherever they stand in the middleware; none: it sees everything.

    Raises:
        MCPError: a view of its path is not for this caller.
    """
    found = [each.view_of(ctx.transport) for each in ctx.server.middleware if isinstance(each, GatewayViews)]
    return [view for view in found if view is not None]


def _list_methods(kind: str) -> tuple[str, ...]:
    if kind == "resources":
        return "resources/list", "resources/templates/list"
    return (next(method for method, (key, _) in _LISTS.items() if key == kind),)
