"""The mounts between the server that received a request and the server that registered the requested component.

Each mount is a `MountPoint`; the mount points between a server and a component are the component's `MountPath`. A call
follows the path: the middleware, the names and the lifespan state of each server on it apply. Mount points without
middleware and without a lifespan add no cost to a call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, cast

from ferrule.kernel.server import CallNext, ComponentServer, ServerMiddleware, ServerRequestContext

__all__ = ["MountPath", "MountPoint", "MountedServer"]

CallComponent: TypeAlias = Callable[[ServerRequestContext[Any], Mapping[str, Any]], Awaitable[Any]]
"""``await call(ctx, params)`` calls the component, with the params as the middleware changed them."""


class MountedServer(ComponentServer, Protocol):
    """The members of a server that a mount path uses; implemented by `MCPServer`, which describes them."""

    lifespan_state: Any

    @property
    def own_lifespan(self) -> Callable[[Any], AbstractAsyncContextManager[Any]] | None: ...


@dataclass(frozen=True, slots=True)
class MountPoint:
    """One server mounted in another.

    Attributes:
        server: the mounted server.
        middleware: its middleware at the time of mounting.
        local_name: function from the name of a tool or prompt in the parent to its name in the mounted server.
        local_uri: the same for URIs.
        outer_uri: function from a URI in the mounted server to the URI in the parent.
    """

    server: MountedServer
    middleware: tuple[ServerMiddleware[Any], ...]
    local_name: Callable[[str], str]
    local_uri: Callable[[str], str]
    outer_uri: Callable[[str], str]

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
            component_server=self.server,
        )

    def _with_local_names(self, params: dict[str, Any]) -> dict[str, Any]:
        if "uri" in params:
            return {**params, "uri": self.local_uri(params["uri"])}
        return {**params, "name": self.local_name(params["name"])} if "name" in params else params


class MountPath:
    """The mounts between a server and a component or completer.

    Args:
        points: the outermost mount first.

    Attributes:
        points: as given.
        server: the innermost server, with which the component was registered.
        has_middleware: whether a server on the path has middleware.
    """

    __slots__ = ("_stateful", "has_middleware", "points", "server")

    def __init__(self, points: tuple[MountPoint, ...]) -> None:
        self.points = points
        self.has_middleware = any(point.middleware for point in points)
        self.server = points[-1].server
        self._stateful = next((point.server for point in reversed(points) if point.has_state), None)

    @property
    def has_state(self) -> bool:
        """Whether a server on the path has a lifespan of its own."""
        return self._stateful is not None

    def outer_uri(self, uri: str) -> str:
        """Return the URI that a resource of the innermost server has in the outermost one."""
        for point in reversed(self.points):
            uri = point.outer_uri(uri)
        return uri

    @classmethod
    def through(cls, point: MountPoint, rest: MountPath | None) -> MountPath:
        """Return the path with ``point`` before ``rest``, which is ``None`` for the mounted server's own component."""
        return cls((point, *(() if rest is None else rest.points)))

    def with_state(self, ctx: ServerRequestContext[Any]) -> ServerRequestContext[Any]:
        """Return the request as one of the innermost server, with the state of the innermost server that has any."""
        stateful = self._stateful
        # The constructor instead of `dataclasses.replace`, which costs as much as the rest of a call.
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
        """Call the component through the middleware on the path, and return its result.

        Each middleware sees the names, params and state of its own server.

        Args:
            ctx: the request. Its method differs from ``method`` when another component's function uses this one.
            method: the method that the component serves.
            params: the params of ``method``.
            call: called with the request (its own method and params, the innermost server's state) and ``params``.
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
