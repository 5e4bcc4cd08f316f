"""Which components a user sees, and who the user is over stdio and in process.

A user sees the tools of exposed views whose permission classes allow the request, as far as these decide without an
object, and the components whose ``allow=`` is one of `ferrule.django.permissions`. All of them are asked for a list;
for a call, only those of the component that is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ferrule.app.authorization.guards import Guard
from ferrule.app.execution.threads import WorkerThreads
from ferrule.django.access.authentication import REQUEST_KEY
from ferrule.django.access.principals import DjangoPrincipal, local_principal
from ferrule.django.exposing.targets import outer_request
from ferrule.django.permissions import UserCheck
from ferrule.django.threads import without_transaction
from ferrule.search.definitions import SEARCH_TOOLS
from ferrule.transports.asgi.context import HttpContext
from ferrule.wire.json_types import is_list, is_mapping

if TYPE_CHECKING:
    from ferrule.app.server import MCPServer
    from ferrule.django.exposing.exposures import DjangoExposures

__all__ = ["Visibility"]


class Visibility:
    """A middleware: before a request is served, finds what the sender may see of the components it is about.

    Args:
        server: whose components they are.
        exposures: the exposed views.
        threads: runs the permission classes.
    """

    def __init__(self, server: MCPServer[Any], exposures: DjangoExposures, threads: WorkerThreads) -> None:
        self._server = server
        self._exposures = exposures
        self._threads = threads

    async def serve(self, ctx: Any, call_next: Any) -> Any:
        """Serve one request."""
        return await call_next(await self.prepare(ctx))

    async def prepare(self, ctx: Any) -> Any:
        """Return the context of a request whose sender is known, and whose components know whether they are shown."""
        local = None if ctx.transport.is_network else local_principal.get()
        if local is not None:  # as a user of the project, for guards, functions and views alike
            # A principal of its own for each request: permissions may change while a program runs.
            principal = DjangoPrincipal(local.user, local.auth, is_forced=local.is_forced)
            ctx = replace(ctx, transport=replace(ctx.transport, is_network=True, principal=principal))
        if ctx.method not in _CHOSEN:
            return ctx
        if self._exposures.waiting:
            await self._threads.run(self._exposures.read, {})
        if isinstance(ctx.transport.principal, DjangoPrincipal):
            await self._ask(ctx, ctx.transport.principal)
        search = self._server.tools.search
        # Further middleware sees the tool in a call of `call_tool`, which was not known to be visible before.
        return ctx if search is None else search.unwrap(ctx)

    def ask_about_tool(self, name: str, request: Any, principal: DjangoPrincipal) -> None:
        """Find whether the sender of a request may see a tool, if there is one of that name; blocks."""
        tool = None if self._exposures.waiting else self._server.tools.index.live.get(name)
        check = None if tool is None or tool.guard is None else tool.guard.allow
        if isinstance(check, UserCheck):
            outer = outer_request.set(request)
            try:
                check.ask(principal)
            finally:
                outer_request.reset(outer)

    async def _ask(self, ctx: Any, principal: DjangoPrincipal) -> None:
        params: Any = ctx.params
        checks: list[UserCheck] = []

        def take(guard: Guard | None) -> bool:
            check = None if guard is None else guard.allow
            if isinstance(check, UserCheck) and check not in principal.answers:
                checks.append(check)
            return False

        _CHOSEN[ctx.method](self._server, params if is_mapping(params) else {}, take)
        if checks:
            outer = outer_request.set(
                ctx.transport.scope.get(REQUEST_KEY) if isinstance(ctx.transport, HttpContext) else None
            )
            try:
                await self._threads.run(_ask_all, {"checks": checks, "principal": principal})
            finally:
                outer_request.reset(outer)


@without_transaction  # it changes nothing; with ``ATOMIC_REQUESTS`` a transaction would cost two more queries a list
def _ask_all(checks: list[UserCheck], principal: DjangoPrincipal) -> None:
    for check in checks:
        check.ask(principal)


_Take = Callable[[Guard | None], bool]
_Params = Mapping[str, Any]


def _every(components: Iterable[Any], take: _Take) -> None:
    for component in components:
        take(component.guard)


def _listed_tools(server: MCPServer[Any], _: _Params, take: _Take) -> None:
    _every(server.tools.index.live.values(), take)


def _called_tool(server: MCPServer[Any], params: _Params, take: _Take) -> None:
    """Take the tool that is called; of the search the tool that is meant, or all where it looks at all."""
    live = server.tools.index.live
    name = params.get("name")
    if name in live:
        take(live[name].guard)
        return
    search = server.tools.search
    if search is None or not isinstance(name, str) or search.find(name) is None:
        return
    arguments = params.get("arguments")
    inner = arguments.get("name") if is_mapping(arguments) else None
    if name == SEARCH_TOOLS:
        _listed_tools(server, params, take)
    elif isinstance(inner, str) and inner in live:
        take(live[inner].guard)


def _listed_prompts(server: MCPServer[Any], _: _Params, take: _Take) -> None:
    _every(server.prompts.index.live.values(), take)


def _named_prompt(server: MCPServer[Any], params: _Params, take: _Take) -> None:
    found = server.prompts.index.live.get(str(params.get("name")))
    take(None if found is None else found.guard)


def _listed_resources(server: MCPServer[Any], _: _Params, take: _Take) -> None:
    _every(server.resources.fixed.live.values(), take)


def _listed_templates(server: MCPServer[Any], _: _Params, take: _Take) -> None:
    _every(server.resources.templates.live.values(), take)


def _named_resource(server: MCPServer[Any], params: _Params, take: _Take) -> None:
    uri = params.get("uri")
    if isinstance(uri, str):
        server.resources.find(uri, take)


def _completed(server: MCPServer[Any], params: _Params, take: _Take) -> None:
    reference = params.get("ref")
    if not is_mapping(reference):
        return
    _named_prompt(server, reference, take)
    found = server.resources.templates.live.get(str(reference.get("uri")))
    take(None if found is None else found.guard)
    _named_resource(server, reference, take)


def _listened(server: MCPServer[Any], params: _Params, take: _Take) -> None:
    wanted = params.get("notifications")
    uris = wanted.get("resourceSubscriptions") if is_mapping(wanted) else None
    for uri in uris if is_list(uris) else ():
        _named_resource(server, {"uri": uri}, take)


_CHOSEN: dict[str, Callable[[MCPServer[Any], _Params, _Take], None]] = {
    "tools/list": _listed_tools,
    "tools/call": _called_tool,
    "prompts/list": _listed_prompts,
    "prompts/get": _named_prompt,
    "resources/list": _listed_resources,
    "resources/templates/list": _listed_templates,
    "resources/read": _named_resource,
    "resources/subscribe": _named_resource,
    "subscriptions/listen": _listened,
    "completion/complete": _completed,
}
"""Per method: takes the guards of the components that a request is about."""
