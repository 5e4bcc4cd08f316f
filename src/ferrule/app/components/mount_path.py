"""The way into the server that a mounted component comes from: past its middleware, to its lifespan state.

Between the component and the server that is asked there may be several: each mount on the way is a `Level`. What they
have is settled when a component is mounted, so that a call goes through no level that has nothing to say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ferrule.kernel.context import CallNext, ServerMiddleware, ServerRequestContext

if TYPE_CHECKING:
    from ferrule.app.server import MCPServer

__all__ = ["Home", "Level", "home_of"]

Then: TypeAlias = Callable[[ServerRequestContext[Any], Mapping[str, Any]], Awaitable[Any]]
"""``await then(ctx, params)``: the component itself, with the params as middleware left them."""


@dataclass(frozen=True, slots=True)
class Level:
    """One mounted server.

    Attributes:
        guest: the server.
        middleware: its own, as it was when it was mounted.
        own_name, own_uri: what a tool or prompt, or a URI, is called in it, by the name in the server around it.
    """

    guest: MCPServer[Any]
    middleware: tuple[ServerMiddleware[Any], ...]
    own_name: Callable[[str], str]
    own_uri: Callable[[str], str]

    @property
    def has_state(self) -> bool:
        """Whether it has a lifespan of its own."""
        return self.guest.own_lifespan is not None

    def arrive(self, ctx: ServerRequestContext[Any]) -> ServerRequestContext[Any]:
        """A request as this server would have got it."""
        params = cast("dict[str, Any]", ctx.params)
        if "ref" in params:
            params = {**params, "ref": self._renamed(params["ref"])}
        return replace(
            ctx,
            params=self._renamed(params),
            lifespan_context=self.guest.lifespan_state if self.has_state else ctx.lifespan_context,
            home=self.guest,
        )

    def _renamed(self, named: dict[str, Any]) -> dict[str, Any]:
        if "uri" in named:
            return {**named, "uri": self.own_uri(named["uri"])}
        return {**named, "name": self.own_name(named["name"])} if "name" in named else named


class Home:
    """Where a mounted component, or a completer, comes from.

    Args:
        levels: the mounts on the way, the outermost first.

    Attributes:
        guest: the innermost server, where the component was registered.
    """

    __slots__ = ("_stateful", "guest", "has_middleware", "levels")

    def __init__(self, levels: tuple[Level, ...]) -> None:
        self.levels = levels
        self.has_middleware = any(level.middleware for level in levels)
        self.guest = levels[-1].guest
        self._stateful = next((level.guest for level in reversed(levels) if level.has_state), None)

    @property
    def has_state(self) -> bool:
        """Whether a server on the way has a lifespan of its own."""
        return self._stateful is not None

    def lead(self, ctx: ServerRequestContext[Any]) -> ServerRequestContext[Any]:
        """The request as one of the innermost server, with the state of the innermost that has any."""
        stateful = self._stateful
        return ServerRequestContext(  # spelt out: `dataclasses.replace` costs as much as all the rest of a call here
            ctx.session,
            ctx.lifespan_context if stateful is None else stateful.lifespan_state,
            ctx.method,
            ctx.params,
            ctx.request_id,
            ctx.meta,
            ctx.protocol_version,
            ctx.transport,
            ctx.server,
            self.guest,
        )

    def enter(self, ctx: ServerRequestContext[Any], method: str, params: dict[str, Any], then: Then) -> Awaitable[Any]:
        """Go through the middleware on the way, each seeing names, params and state of its own server.

        Args:
            ctx: the request, perhaps of another method, whose function uses this component.
            method, params: what the component is asked.
            then: gets the request as it was, but for the state and the home.
        """
        if not self.has_middleware:
            return then(self.lead(ctx), params)

        def arrived(inner: ServerRequestContext[Any]) -> Awaitable[Any]:
            return then(replace(inner, method=ctx.method, params=ctx.params), inner.params)

        if ctx.meta:
            params = {**params, "_meta": ctx.meta}
        return self._descend(0, replace(ctx, method=method, params=params), arrived)

    def _descend(self, depth: int, ctx: ServerRequestContext[Any], arrived: CallNext) -> Awaitable[Any]:
        if depth == len(self.levels):
            return arrived(ctx)
        level = self.levels[depth]
        call: CallNext = lambda inner: self._descend(depth + 1, inner, arrived)  # noqa: E731
        for middleware in reversed(level.middleware):
            call = _around(middleware, call)
        return call(level.arrive(ctx))


def home_of(level: Level, inner: Home | None) -> Home:
    """The home of what ``level`` has, or has from ``inner``."""
    return Home((level, *(() if inner is None else inner.levels)))


def _around(middleware: ServerMiddleware[Any], call: CallNext) -> CallNext:
    return lambda ctx: middleware(ctx, call)
