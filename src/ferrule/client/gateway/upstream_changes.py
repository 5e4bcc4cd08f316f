"""Changes at the backend of a proxy: of lists, and of single resources that clients subscribe to.

With a modern backend one connection subscribes for every client, once per resource, and changes are published on the
server's bus. With a legacy backend they come on the session of the client that subscribed
(`ferrule.client.gateway.backend_sessions`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from ferrule.client.calls.subscriptions import Subscription
from ferrule.kernel.changes.bus import Event
from ferrule.kernel.server import ServerRequestContext
from ferrule.kernel.standard_methods import listen as builtin_listen
from ferrule.kernel.standard_methods import subscribe as builtin_subscribe
from ferrule.kernel.standard_methods import unsubscribe as builtin_unsubscribe
from ferrule.protocol.errors import FerruleError, InvalidParams, MCPError, RemoteError
from ferrule.protocol.inbound import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY, PROTOCOL_VERSION_KEY
from ferrule.wire.codec import convert
from ferrule.wire.faults import ConvertError
from ferrule.wire.types import META_SUBSCRIPTION_ID
from ferrule.wire.uri_template import normal_uri

if TYPE_CHECKING:
    from ferrule.client.gateway.proxy import Proxy
    from ferrule.kernel.connection import Connection
    from ferrule.kernel.server import Server

__all__ = ["UpstreamChanges", "meta_of", "params_of", "typed"]

logger = logging.getLogger("ferrule.client.gateway.proxy")

READY_S: Final = 5.0
"""Seconds that the start waits for a modern backend to acknowledge the subscription to its lists."""
_HOP: Final = frozenset(
    {"progressToken", PROTOCOL_VERSION_KEY, CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY}
)
"""Keys of a request's ``_meta`` that each hop writes for itself."""


class UpstreamChanges:
    """The subscriptions of one proxy at its backend, and the clients that they are for."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._watched: dict[str, tuple[int, Subscription]] = {}
        self._heard: dict[tuple[int, str], AsyncExitStack] = {}
        self._attempts: dict[tuple[int, str], anyio.Event] = {}

    def clear(self) -> None:
        """Forget every subscription, after the sessions have closed."""
        self._watched.clear()
        self._heard.clear()

    def _is_unchecked(self, connection: Connection) -> bool:
        """Return whether to forward a subscription unchecked, because the backend announced none and answers itself."""
        proxy = self._proxy
        return not proxy.server.resource_updates and proxy.is_session(connection) and proxy.facts.has_sessions

    async def subscribe(self, ctx: ServerRequestContext[Any]) -> Any:
        """Serve ``resources/subscribe`` of a legacy client."""
        connection = ctx.session.connection
        if self._is_unchecked(connection):
            return await self._proxy.forward(ctx)
        asked = typed(ctx)
        uri = str(asked.params.uri)
        key, result = await self._noted(connection, asked)
        if key in self._heard:
            return result
        stack, attempt = AsyncExitStack(), anyio.Event()
        self._attempts[key] = attempt
        try:
            if not self._proxy.facts.has_sessions or not self._proxy.is_session(connection):
                await stack.enter_async_context(self.forwarding(ctx, [uri]))
            else:
                backend = await self._proxy.own_backend(connection)
                result = await backend.subscribe(uri, params_of(ctx), meta_of(ctx))
                stack.callback(self._start, backend.unsubscribe, uri)
            self._heard[key] = stack
        except BaseException as error:
            # Whatever the reason, a cancellation included: else the client's next attempt would change nothing.
            await builtin_unsubscribe(asked)
            if isinstance(error, RemoteError):
                raise MCPError(error.message, code=error.code, data=error.data) from error
            raise
        finally:
            del self._attempts[key]
            attempt.set()
        stack.callback(connection.on_closing(lambda: self._forget_heard(key)))
        return result

    async def _noted(self, connection: Connection, asked: ServerRequestContext[Any]) -> tuple[tuple[int, str], Any]:
        """Note a subscription at the proxy; return its key in `_heard`, and the result of the request.

        A client may cancel a request and repeat it at once: the second one waits until the first has ended."""
        while True:
            result = await builtin_subscribe(asked)  # which refuses URIs that are too long to compare
            key = id(connection), normal_uri(str(asked.params.uri))
            attempt = self._attempts.get(key)
            if attempt is None:
                return key, result
            await attempt.wait()

    def _forget_heard(self, key: tuple[int, str]) -> None:
        stack = self._heard.pop(key, None)
        if stack is not None:
            self._proxy.background.start(stack.aclose(), "ferrule-proxy-unwatch")

    async def unsubscribe(self, ctx: ServerRequestContext[Any]) -> Any:
        """Serve ``resources/unsubscribe`` of a legacy client."""
        connection = ctx.session.connection
        if self._is_unchecked(connection):
            return await self._proxy.forward(ctx)
        asked = typed(ctx)
        uri = str(asked.params.uri)
        key = id(connection), normal_uri(uri)
        while (attempt := self._attempts.get(key)) is not None:
            await attempt.wait()
        result = await builtin_unsubscribe(asked)
        stack = self._heard.pop(key, None) or AsyncExitStack()
        async with stack:
            backend = self._proxy.sessions.get(id(connection))
            if backend is not None and uri in backend.subscribed:
                result = await backend.unsubscribe(uri, params_of(ctx), meta_of(ctx))
        return result

    async def follow(self, server: Server[Any]) -> None:
        """Forward changes of lists of a modern backend, from now on."""
        kinds = server.list_changed
        if not kinds:
            return
        changes = self._proxy.main.subscriptions.subscription(
            tools="tools" in kinds, prompts="prompts" in kinds, resources="resources" in kinds
        )
        self._proxy.background.start(self._forward(changes, set(kinds)), "ferrule-proxy-changes")
        with anyio.move_on_after(READY_S):
            try:
                await changes.ready()
            except MCPError as error:
                logger.warning("Changes of %s will not be forwarded: %s", self._proxy.main.label, error)

    async def _forward(self, changes: Subscription, kinds: set[str]) -> None:
        try:
            async for event in changes:
                if event.kind == "gap":
                    for kind in kinds:
                        self._publish(Event.list_changed(kind))
                    for uri in changes.uris if not kinds else ():
                        self._proxy.server.bus.publish(Event.resource_updated(uri))
                elif event.kind in kinds or (event.uri is not None and not kinds):
                    self._publish(Event(event.method, event.uri or event.method, _bare(event.params)))
        except (FerruleError, OSError) as error:  # who waits for the subscription gets the error as well
            logger.debug("A subscription at %s has ended: %s", self._proxy.main.label, error)

    def _publish(self, event: Event) -> None:
        if self._proxy.tells_change(event.method):
            self._proxy.server.bus.publish(event)

    async def listen(self, ctx: ServerRequestContext[Any]) -> Any:
        """Serve ``subscriptions/listen`` of a modern client."""
        uris = [str(uri) for uri in ctx.params.notifications.resource_subscriptions or ()]
        async with self.forwarding(ctx, uris if self._proxy.server.resource_updates else []):
            return await builtin_listen(ctx)

    @asynccontextmanager
    async def forwarding(self, ctx: ServerRequestContext[Any], uris: Iterable[str]) -> AsyncGenerator[None]:
        """Publish changes on the server's bus while the block runs.

        Those that come on the session of one client go to that client instead.

        Args:
            ctx: the request that subscribes.
            uris: the single resources.

        Raises:
            RemoteError: the backend refuses one of them.
        """
        connection = ctx.session.connection
        async with AsyncExitStack() as stack:
            if not self._proxy.facts.has_sessions:
                for uri in uris:
                    await self._watch(uri)
                    stack.callback(self._start, self._unwatch, uri)
            else:
                if self._proxy.is_session(connection):
                    backend = await self._proxy.own_backend(connection)
                else:
                    backend = await stack.enter_async_context(self._proxy.shared_backend(ctx, exclusive=False))
                for uri in uris:
                    await backend.subscribe(uri, {"uri": uri}, meta_of(ctx))
                    stack.callback(self._start, backend.unsubscribe, uri)
            yield

    def _start(self, work: Callable[[str], Any], uri: str) -> None:
        self._proxy.background.start(self._end(work, uri), "ferrule-proxy-unwatch")

    async def _end(self, work: Callable[[str], Any], uri: str) -> None:
        try:
            await work(uri)
        except (FerruleError, OSError) as error:  # the session has ended, and the subscription with it
            logger.debug("The subscription to %s at %s was not ended: %s", uri, self._proxy.main.label, error)

    async def _watch(self, uri: str) -> None:
        count, subscription = self._watched.get(uri, (0, None))
        # One that has ended with an error is replaced; who subscribed earlier gets the changes again, too.
        if subscription is None or subscription.is_over:
            subscription = self._proxy.main.subscriptions.subscription(uris=[uri])
            self._proxy.background.start(self._forward(subscription, set()), "ferrule-proxy-updates")
        self._watched[uri] = (count + 1, subscription)
        try:
            await subscription.ready()
        except BaseException:
            left = self._leave(uri)  # now, so that the next attempt makes another one
            if left is not None:
                self._proxy.background.start(left.aclose(), "ferrule-proxy-unwatch")
            raise

    async def _unwatch(self, uri: str) -> None:
        subscription = self._leave(uri)
        if subscription is not None:
            await subscription.aclose()

    def _leave(self, uri: str) -> Subscription | None:
        """Remove one subscriber of a resource; return the subscription at the backend if that was the last one."""
        count, subscription = self._watched.get(uri, (0, None))
        if count > 1 and subscription is not None:
            self._watched[uri] = (count - 1, subscription)
            return None
        self._watched.pop(uri, None)
        return subscription


def params_of(ctx: ServerRequestContext[Any]) -> dict[str, Any]:
    """Return a request's raw params without ``_meta``."""
    return {key: value for key, value in cast("Mapping[str, Any]", ctx.params).items() if key != "_meta"}


def typed(ctx: ServerRequestContext[Any]) -> ServerRequestContext[Any]:
    """Return the request with params of its method's type.

    Raises:
        InvalidParams: they have another shape.
    """
    try:
        return replace(ctx, params=convert(ctx.params, ctx.revision.requests[ctx.method][0]))
    except ConvertError as error:
        raise InvalidParams(f"Invalid params for {ctx.method}: {error}") from error


def meta_of(ctx: ServerRequestContext[Any]) -> dict[str, Any]:
    """Return a request's ``_meta`` without the keys that belong to one hop."""
    return without_hop(ctx.meta)


def without_hop(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``_meta`` without the keys that belong to one hop."""
    return {key: value for key, value in meta.items() if key not in _HOP}


def _bare(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the params of a notification without the id of the subscription at the backend."""
    found = dict(params or {})
    meta = found.get("_meta")
    if isinstance(meta, Mapping):
        rest = {key: value for key, value in cast("Mapping[str, Any]", meta).items() if key != META_SUBSCRIPTION_ID}
        found.pop("_meta")
        if rest:
            found["_meta"] = rest
    return found
