"""``subscriptions/listen`` of a gateway: one stream for the changes of all servers behind it.

Each server is asked in a task of its own, so that one that does not respond holds up neither the stream nor the others.
A server that connects later is added then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import anyio

from ferrule.kernel.standard_methods import listen as builtin_listen
from ferrule.protocol.errors import FerruleError

if TYPE_CHECKING:
    from ferrule.client.gateway.routes import GatewayRoutes
    from ferrule.client.gateway.upstreams.upstream import Upstream
    from ferrule.kernel.server import ServerRequestContext
    from ferrule.transports.background import Background

__all__ = ["UpstreamListener"]

logger = logging.getLogger("ferrule.client.gateway")


class UpstreamListener:
    """One stream of a client.

    Args:
        ctx: the request.
        routes: knows the servers of URIs.
        background: runs the tasks.
    """

    def __init__(
        self,
        ctx: ServerRequestContext[Any],
        routes: GatewayRoutes,
        background: Background,
    ) -> None:
        self._ctx = ctx
        self._routes = routes
        self._background = background
        self._wanted = [str(uri) for uri in ctx.params.notifications.resource_subscriptions or ()]
        self._ended = anyio.Event()
        self._held: set[str] = set()

    def add(self, upstream: Upstream) -> anyio.Event:
        """Subscribe at a connected server, in a task; return what is set when that has ended."""
        done = anyio.Event()
        if upstream.name in self._held or self._ended.is_set():
            done.set()
        else:
            self._held.add(upstream.name)
            self._background.start(self._hold(upstream, done), "ferrule-gateway-listen")
        return done

    async def _hold(self, upstream: Upstream, done: anyio.Event) -> None:
        assert upstream.proxy is not None
        uris = [self._routes.spelled(uri) for uri in self._wanted if self._routes.of_uri(uri) in (None, upstream)]
        if not upstream.proxy.server.resource_updates:
            uris = []
        try:
            async with upstream.proxy.changes.forwarding(self._ctx, uris):
                done.set()
                await self._ended.wait()
        except (FerruleError, OSError) as error:
            logger.warning("Changes of the server %r will not be forwarded: %s", upstream.name, error)
        finally:
            self._held.discard(upstream.name)
            done.set()

    async def serve(self, upstreams: Iterable[Upstream], moment_s: float) -> Any:
        """Serve the stream until it ends.

        Args:
            upstreams: the servers that are connected.
            moment_s: seconds that the begin of the stream waits for them.
        """
        try:
            started = [self.add(upstream) for upstream in upstreams]
            with anyio.move_on_after(moment_s):
                for each in started:
                    await each.wait()
            return await builtin_listen(self._ctx)
        finally:
            self._ended.set()
