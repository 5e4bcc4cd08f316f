"""The methods that every server serves: handshake, discovery, ping, log level, subscriptions.

They are ordinary handlers: middleware sees them and may change or refuse them, and a server may replace them. The state
of the handshake is changed by the runner only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ferrule.kernel.changes.bus import UNBOUND, Event, ListenFilter, SubscriptionBus
from ferrule.kernel.concurrency.yielding import yield_to_loop
from ferrule.kernel.connection import unguarded
from ferrule.kernel.dispatch import NotifiesAfterResult, SendsEncoded
from ferrule.protocol.errors import InternalError, InvalidParams, MethodNotFound, ResourceNotFound
from ferrule.wire.codec import encode
from ferrule.wire.jsonrpc import encode_notification
from ferrule.wire.revisions import REVISIONS, Revision, project_params
from ferrule.wire.types import (
    META_SUBSCRIPTION_ID,
    DiscoverResult,
    EmptyResult,
    InitializeResult,
    SubscriptionFilter,
    SubscriptionsListenResult,
)
from ferrule.wire.uri_template import normal_uri

if TYPE_CHECKING:
    from ferrule.kernel.connection import InitializationOptions
    from ferrule.kernel.server import Server, ServerRequestContext

__all__ = ["SUBSCRIPTION_ID_KEY", "check_uris", "granted_filter", "listen", "register_builtins", "set_level"]

SUBSCRIPTION_ID_KEY: Final = META_SUBSCRIPTION_ID

MAX_SUBSCRIBED: Final = 10_000
MAX_SUBSCRIBED_CHARS: Final = 8000
MAX_ALL_SUBSCRIBED_CHARS: Final = 1 << 20
"""Bounds of the URIs that the server keeps for a legacy connection or a modern subscription: their number, the length
of one in characters, and the length of all together. More is refused with -32602."""

MAX_SUBSCRIBED_OF_SERVER: Final = 100_000
MAX_SUBSCRIBED_CHARS_OF_SERVER: Final = 16 << 20
MAX_STREAMS: Final = 10_000
"""Bounds of what one server keeps for all clients: URIs, their length in characters, and modern subscriptions. More is
refused with -32603, over HTTP with 503."""


class TooManySubscriptions(InternalError):
    """The server has as many subscriptions as it can keep; over HTTP the status is 503.

    An internal error and no error of the params: the same request can succeed later.
    """

    http_status = 503
    http_headers: Iterable[tuple[str, str]] = ()

    def __init__(self) -> None:
        super().__init__("Too many subscriptions")


def register_builtins(server: Server[Any]) -> None:
    """Register these handlers with a new server."""
    for method, handler in {
        "initialize": initialize,
        "server/discover": discover,
        "ping": ping,
        "logging/setLevel": set_level,
        "resources/subscribe": subscribe,
        "resources/unsubscribe": unsubscribe,
        "subscriptions/listen": listen,
    }.items():
        # All of them in both eras: the tables of the revisions decide which of them a connection can call.
        server.add_request_handler(method, handler, trusted=True)


async def initialize(ctx: ServerRequestContext[Any]) -> InitializeResult:
    """Return the negotiated revision; it is applied when the response has passed all middleware."""
    # Only at a handshake: this folder may be gone, and modern connections need none of it.
    from ferrule.protocol.legacy.handshake import negotiate_initialize

    negotiation = negotiate_initialize(ctx.params)
    options = _options(ctx, REVISIONS[negotiation.protocol_version])
    return InitializeResult(
        protocol_version=negotiation.protocol_version,
        capabilities=options.capabilities,
        server_info=options.server_info,
        instructions=options.instructions,
    )


async def discover(ctx: ServerRequestContext[Any]) -> DiscoverResult:
    """Return the server's modern revisions, capabilities and instructions (2026-07-28, "Discovery").

    Handshake revisions are left out: a client would use them with an envelope.
    """
    options = _options(ctx, ctx.revision)
    return DiscoverResult(
        supported_versions=list(ctx.server.modern_versions),
        capabilities=options.capabilities,
        instructions=options.instructions,
    )


def _options(ctx: ServerRequestContext[Any], revision: Revision) -> InitializationOptions:
    """Return the identity and capabilities to announce: those given to the driver, else those of the server."""
    return ctx.session.connection.init_options or ctx.server.create_initialization_options(revision)


async def ping(ctx: ServerRequestContext[Any]) -> EmptyResult:
    """Return an empty result."""
    return EmptyResult()


async def set_level(ctx: ServerRequestContext[Any]) -> EmptyResult:
    """Set the threshold of this connection's log messages (legacy era).

    Raises:
        MethodNotFound: the server sends no log messages.
    """
    if not ctx.server.announces_logging:
        raise MethodNotFound(ctx.method)
    ctx.session.connection.log_level = ctx.params.level
    return EmptyResult()


async def subscribe(ctx: ServerRequestContext[Any]) -> EmptyResult:
    """Add a resource to this connection's listener (legacy era).

    Raises:
        MethodNotFound: the server has no subscriptions.
        InvalidParams: the connection cannot receive updates, or the subscriptions exceed a bound.
        ResourceNotFound: there is no such resource for this client.
    """
    if not ctx.server.resource_updates:
        raise MethodNotFound(ctx.method)
    listener = ctx.session.connection.listener
    # As for a legacy HTTP request without a session: no update could be sent after its response.
    if listener is None:
        raise InvalidParams("Updates cannot reach this connection: it has no channel outside its requests")
    # At the request and not at the start: over HTTP the principal is known with each request only.
    _bind(ctx, listener.filter)
    uris = listener.filter.uris
    if len(ctx.params.uri) > MAX_SUBSCRIBED_CHARS:  # refuse it before the work of normalizing it
        _check_size(1, len(ctx.params.uri), 0)
    uri = normal_uri(ctx.params.uri)
    # A repeated subscription is not an error and counts once.
    if uri not in uris:
        _check_size(len(uris) + 1, len(uri), listener.uri_chars + len(uri))
        _check_room(ctx.server, 1, len(uri))
        exists = ctx.server.has_resource
        if exists is not None and not exists(ctx, ctx.params.uri):
            raise ResourceNotFound(ctx.params.uri, code=ctx.revision.missing_resource_code)
        listener.add_uri(uri)
    return EmptyResult()


async def unsubscribe(ctx: ServerRequestContext[Any]) -> EmptyResult:
    """Remove a resource from this connection's listener (legacy era).

    Raises:
        MethodNotFound: the server has no subscriptions.
    """
    if not ctx.server.resource_updates:
        raise MethodNotFound(ctx.method)
    listener = ctx.session.connection.listener
    if listener is not None:
        listener.discard_uri(normal_uri(ctx.params.uri))
    return EmptyResult()


def _check_size(count: int, longest: int, in_all: int) -> None:
    """Refuse subscriptions above a bound; lengths in characters."""
    if count > MAX_SUBSCRIBED or longest > MAX_SUBSCRIBED_CHARS or in_all > MAX_ALL_SUBSCRIBED_CHARS:
        raise InvalidParams(f"A subscription has at most {MAX_SUBSCRIBED} resources, with URIs of usual length")


def check_uris(uris: Sequence[str]) -> None:
    """Refuse the URIs of one subscription if they exceed a bound; before any work for each of them.

    Raises:
        InvalidParams: they are too many or too long.
    """
    lengths = [len(uri) for uri in uris]
    _check_size(len(lengths), max(lengths, default=0), sum(lengths))


def _check_room(server: Server[Any], count: int, chars: int) -> None:
    """Refuse subscriptions above the bounds of the whole server.

    Raises:
        TooManySubscriptions: there is no room for ``count`` more URIs of ``chars`` characters.
    """
    bus = server.bus
    if bus.uri_count + count > MAX_SUBSCRIBED_OF_SERVER or bus.uri_chars + chars > MAX_SUBSCRIBED_CHARS_OF_SERVER:
        raise TooManySubscriptions


def _bind(ctx: ServerRequestContext[Any], filter: ListenFilter) -> None:
    """Limit a filter to the resources that the sender may see; a sender that is not on a network may see all.

    The rights of the newest request hold, since a token may be refreshed with fewer or more scopes. Only another
    principal over the same connection changes nothing: it must not widen what the first one may see.
    """
    from ferrule.kernel.serving.members import member_filter

    principal = ctx.transport.principal
    if filter.principal is not UNBOUND and filter.principal != principal:
        return
    filter.bind(principal, ctx.server.resource_visibility if ctx.transport.is_network else None)
    shown = member_filter.get()
    if shown is not None:
        filter.allows = shown.updates(None, lambda uri: normal_uri(uri) in filter.uris)


def granted_filter(
    server: Server[Any], wanted: SubscriptionFilter, revision: Revision
) -> tuple[dict[str, Any], ListenFilter]:
    """Return the part of a listen filter that this server supports.

    Args:
        server: publishes the changes.
        wanted: the client's filter.
        revision: the revision of the client; changes for which it has no notification are not granted.

    Returns:
        Its wire form for the acknowledgement, and a `ListenFilter` that matches events.

    Raises:
        InvalidParams: the URIs exceed the bounds of one client.
        TooManySubscriptions: the URIs exceed the bounds of all clients.
    """
    granted: dict[str, Any] = {}
    kinds: list[str] = []
    changing = server.changing_lists(revision)
    for kind, is_requested in (
        ("tools", wanted.tools_list_changed),
        ("prompts", wanted.prompts_list_changed),
        ("resources", wanted.resources_list_changed),
    ):
        if is_requested is True and kind in changing:
            granted[f"{kind}ListChanged"] = True
            kinds.append(kind)
    uris: list[str] = []
    if isinstance(wanted.resource_subscriptions, list) and server.resource_updates:
        check_uris(wanted.resource_subscriptions)
        # Before the copies below, which a peer could make as large as its message may be.
        count, chars = len(wanted.resource_subscriptions), sum(map(len, wanted.resource_subscriptions))
        _check_room(server, count, chars)
        uris = list(dict.fromkeys(wanted.resource_subscriptions))
        granted["resourceSubscriptions"] = uris
    return granted, ListenFilter(kinds, uris)


_MAX_ENCODED: Final = 16
"""Maximum number of encoded events that are kept; all streams send an event within a few iterations of the loop."""

_ID_PLACE: Final = os.urandom(16).hex()
"""Placeholder for the id of the subscription in an event that is encoded once for all; random, so that no event
contains it."""


def _encoded_parts(bus: SubscriptionBus, event: Event, revision: Revision) -> list[bytes] | None:
    """Return the parts of an event's message before and after the id of the subscription, encoded once for all.

    ``None`` for a notification that the revision itself does not define.
    """
    # By identity, because the events of one `publish` are one object, and comparing the params of a large event is
    # slow.
    key = id(event), revision.version
    found = bus.encoded.get(key)
    if found is not None:
        return found[1]
    if event.method not in revision.server_notifications:
        return None
    params = project_params(revision, event.method, _with_meta(event, {SUBSCRIPTION_ID_KEY: _ID_PLACE}))
    parts = encode_notification(event.method, params).split(b'"%s"' % _ID_PLACE.encode())
    if len(bus.encoded) >= _MAX_ENCODED:
        del bus.encoded[next(iter(bus.encoded))]
    bus.encoded[key] = event, parts  # with the event, so that its id stands for no other
    return parts


def _with_meta(event: Event, meta: dict[str, Any]) -> dict[str, Any]:
    own = event.params.get("_meta")
    return {**event.params, "_meta": {**own, **meta} if own else meta}


async def listen(ctx: ServerRequestContext[Any]) -> SubscriptionsListenResult:
    """Send an acknowledgement, then a notification for each change, until the subscription ends (modern era).

    It ends by an exception when the client cancels it. It ends with a result, after which a client listens again, when
    the server ends the listener, or when the listener's buffer is full. On stdio ``notifications/cancelled`` follows
    the result: one page of the revision requires the result, another the notification.

    Raises:
        InvalidParams: the URIs exceed a bound.
    """
    # Each keeps its request, its task and its response stream open.
    if len(ctx.server.bus) >= MAX_STREAMS:
        raise TooManySubscriptions
    granted, filter = granted_filter(ctx.server, ctx.params.notifications, ctx.revision)
    _bind(ctx, filter)
    for key, grant in ctx.server.filter_grants.items():
        if key in ctx.params.notifications:
            value, topics = await grant(ctx, ctx.params.notifications[key])
            # Still free to change: the bus has no listener with this filter yet.
            filter.topics = {*filter.topics, *topics}
            if value is not None:
                granted[key] = value
    meta = {SUBSCRIPTION_ID_KEY: ctx.request_id}
    session = ctx.session
    with ctx.server.bus.listen(filter) as listener:
        undo = session.connection.on_closing(listener.end)
        try:
            # Listening has begun before it, so that no change after the acknowledgement is lost. The acknowledgement is
            # the first message of a subscription (2026-07-28, "Subscriptions").
            await session.notify("notifications/subscriptions/acknowledged", {"notifications": granted, "_meta": meta})
            carrier = unguarded(session.dispatch)
            sender = carrier if isinstance(carrier, SendsEncoded) else None
            own_id, bus = encode(ctx.request_id), ctx.server.bus
            del granted, ctx, filter, carrier  # a subscription may last for hours: free the rest
            # Not ``async for``: one more coroutine for each stream, and for each event on it.
            while (event := await listener.next()) is not None:
                parts = None if sender is None else _encoded_parts(bus, event, session.connection.revision)
                if sender is None or parts is None:
                    await session.notify(event.method, _with_meta(event, meta))
                else:
                    await yield_to_loop(session)
                    await sender.send_encoded(own_id.join(parts))
        finally:
            undo()
    dispatch = session.dispatch
    # On other transports the end of the stream marks the end of the subscription (2026-07-28, CancelledNotification).
    if dispatch.transport.kind == "stdio":
        carrier = unguarded(dispatch)
        if isinstance(carrier, NotifiesAfterResult):
            cancelled = {"requestId": meta[SUBSCRIPTION_ID_KEY], "_meta": dict(meta)}
            carrier.notify_after_result("notifications/cancelled", cancelled)
    return SubscriptionsListenResult(meta=dict(meta))
