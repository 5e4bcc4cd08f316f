"""The mounts between the server that is asked and the server that a mounted component was registered with.

Each mount is a `MountPoint`; those on the way to one component are its `MountPath`. Calls of the component go along the
path, so that they see the middleware, the names and the lifespan state of the server that it comes from. Mount points
without middleware and without a lifespan cost a call nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, cast

from ferrule.kernel.server import CallNext, ServerMiddleware, ServerRequestContext

__all__ = ["MountPath", "MountPoint", "MountedServer"]

CallComponent: TypeAlias = Callable[[ServerRequestContext[Any], Mapping[str, Any]], Awaitable[Any]]
"""``await call(ctx, params)``: the component itself, with the params as middleware left them."""


class MountedServer(Protocol):
    """What a mount path needs of a server; an `MCPServer`, which describes each member."""

    lifespan_state: Any

    @property
    def own_lifespan(self) -> Callable[[Any], AbstractAsyncContextManager[Any]] | None: ...


@dataclass(frozen=True, slots=True)
class MountPoint:
    """One server mounted in another.

    Attributes:
        server: the mounted one.
        middleware: its own, as it was when it was mounted.
        local_name: name of a tool or prompt in the server around it → its name in the mounted server.
        local_uri: the same for URIs.
    """

    server: MountedServer
    middleware: tuple[ServerMiddleware[Any], ...]
    local_name: Callable[[str], str]
    local_uri: Callable[[str], str]

    @property
    def has_state(self) -> bool:
        """Whether the mounted server has a lifespan of its own."""
        return self.server.own_lifespan is not None

    def localize(self, ctx: ServerRequestContext[Any]) -> ServerRequestContext[Any]:
        """Return a request as the mounted server would have received it: its names, its state."""
        params = cast("dict[str, Any]", ctx.params)
        if "ref" in params:
            params = {**params, "ref": self._with_local_names(params["ref"])}
        return replace(
            ctx,
            params=self._with_local_names(params),
            lifespan_context=self.server.lifespan_state if self.has_state else ctx.lifespan_context,
            home=self.server,
        )

    def _with_local_names(self, params: dict[str, Any]) -> dict[str, Any]:
        if "uri" in params:
            return {**params, "uri": self.local_uri(params["uri"])}
        return {**params, "name": self.local_name(params["name"])} if "name" in params else params


class MountPath:
    """The mounts on the way to a component, or to a completer.

    Args:
        points: the outermost mount first.

    Attributes:
        points: as given.
        server: the innermost server, with which the component was registered.
        has_middleware: whether a server on the way has middleware.
    """

    __slots__ = ("_stateful", "has_middleware", "points", "server")

    def __init__(self, points: tuple[MountPoint, ...]) -> None:
        self.points = points
        self.has_middleware = any(point.middleware for point in points)
        self.server = points[-1].server
        self._stateful = next((point.server for point in reversed(points) if point.has_state), None)

    @property
    def has_state(self) -> bool:
        """Whether a server on the way has a lifespan of its own."""
        return self._stateful is not None

    @classmethod
    def through(cls, point: MountPoint, rest: MountPath | None) -> MountPath:
        """Return the path through ``point`` and then along ``rest``; ``None`` for a component of its own server."""
        return cls((point, *(() if rest is None else rest.points)))

    def with_state(self, ctx: ServerRequestContext[Any]) -> ServerRequestContext[Any]:
        """Return the request as one of the innermost server, with the state of the innermost server that has any."""
        stateful = self._stateful
        # Spelt out: `dataclasses.replace` costs as much as all the rest of a call here.
        return ServerRequestContext(
            ctx.session,
            ctx.lifespan_context if stateful is None else stateful.lifespan_state,
            ctx.method,
            ctx.params,
            ctx.request_id,
            ctx.meta,
            ctx.protocol_version,
            ctx.transport,
            ctx.server,
            self.server,
        )

    def run(
        self, ctx: ServerRequestContext[Any], method: str, params: dict[str, Any], call: CallComponent
    ) -> Awaitable[Any]:
        """Call the component through the middleware on the way; each sees names, params and state of its own server.

        Args:
            ctx: the request. Its method may be another one: that of a function which uses this component.
            method: the method that the component serves.
            params: of that method.
            call: gets the request with its own method and params, and the state of the innermost server.
        """
        if not self.has_middleware:
            return call(self.with_state(ctx), params)

        def call_component(inner: ServerRequestContext[Any]) -> Awaitable[Any]:
            return call(replace(inner, method=ctx.method, params=ctx.params), inner.params)

        if ctx.meta:
            params = {**params, "_meta": ctx.meta}
        return self._run_from(0, replace(ctx, method=method, params=params), call_component)

    def _run_from(self, depth: int, ctx: ServerRequestContext[Any], call_component: CallNext) -> Awaitable[Any]:
        if depth == len(self.points):
            return call_component(ctx)
        point = self.points[depth]
        call: CallNext = lambda inner: self._run_from(depth + 1, inner, call_component)  # noqa: E731
        for middleware in reversed(point.middleware):
            call = _wrapped(middleware, call)
        return call(point.localize(ctx))


def _wrapped(middleware: ServerMiddleware[Any], call: CallNext) -> CallNext:
    return lambda ctx: middleware(ctx, call)
