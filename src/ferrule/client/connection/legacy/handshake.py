"""The steps of the handshake era on the client's side: ``initialize``, the transport of 2024-11-05, a lost session.

`ferrule.client.connection.connector` carries out the steps of both eras and calls these functions for its own part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from ferrule.client.connection.channels import ClientChannel
from ferrule.client.connection.connector import Session, outcome_of
from ferrule.client.connection.legacy.negotiation import SSE_VERSION, DualEraNegotiator, Handshake, SseOpened
from ferrule.client.connection.legacy.sse_channel import SseChannel
from ferrule.client.connection.negotiation import (
    Answered,
    Closed,
    NegotiationFailed,
    Negotiator,
    Outcome,
    Settled,
    Step,
    error_of,
)
from ferrule.client.errors import BadServerResponse
from ferrule.client.targets import HttpTarget
from ferrule.protocol.era import is_handshake_version
from ferrule.transports.background import Background
from ferrule.transports.sse.client import connect_sse
from ferrule.wire.codec import to_builtins
from ferrule.wire.faults import FerruleError
from ferrule.wire.revisions import REVISIONS, Revision

if TYPE_CHECKING:
    from ferrule.client.connection.connector import Connector

__all__ = ["channel_for", "complete", "open_sse", "perform", "reinitialize"]

# Servers without a GET stream may leave the request unanswered, and connecting must not depend on it.
LISTEN_WAIT_S: Final = 2.0
"""Seconds to wait for the response head of the GET stream, if the server may send requests: some servers send them
there and lose them without a stream. A server that sends the head with its first event delays connecting by this time
once."""


async def channel_for(
    connector: Connector, channel: ClientChannel, step: Step, background: Background
) -> ClientChannel:
    """Return the channel on which a step is done: a new one where the last one ended.

    Some legacy servers end, or become unusable, after an unknown first request (the probe).
    """
    if not (isinstance(step, Handshake) and step.fresh):
        return channel
    await channel.aclose()
    return await connector.make_channel(background)


async def perform(
    connector: Connector, channel: ClientChannel, step: Step, background: Background
) -> tuple[ClientChannel, Outcome]:
    """Do a step; return the channel to go on with, and what came of the step."""
    if isinstance(step, Handshake):
        return channel, await _handshake(connector, channel, step.version)
    try:
        opened = await _connect_sse(connector, background)
    except (FerruleError, OSError) as error:
        return channel, Closed(error)
    await channel.aclose()
    return opened, SseOpened()


async def open_sse(
    connector: Connector, negotiator: Negotiator, background: Background
) -> tuple[ClientChannel, Negotiator]:
    """Return the two-endpoint transport that the configuration names, and the negotiation over it."""
    channel = await _connect_sse(connector, background)
    legacy = negotiator.legacy if isinstance(negotiator, DualEraNegotiator) else (SSE_VERSION,)
    return channel, DualEraNegotiator((), legacy=legacy)


async def complete(connector: Connector, channel: ClientChannel, revision: Revision) -> None:
    """End a handshake that succeeded: say that the client is initialized, and open the standing stream over HTTP."""
    from ferrule.transports.http.client import StreamableHttp

    with anyio.move_on_after(connector.connect_timeout_s):
        await channel.notify("notifications/initialized")
    if connector.listens and isinstance(channel, StreamableHttp):
        channel.start_listening()
        if connector.capabilities(revision):
            await channel.wait_listening(min(LISTEN_WAIT_S, connector.connect_timeout_s))


async def _handshake(connector: Connector, channel: ClientChannel, version: str) -> Outcome:
    params = {
        "protocolVersion": version,
        "capabilities": connector.capabilities(REVISIONS[version]),
        "clientInfo": to_builtins(connector.client_info),
    }
    return await outcome_of(connector, channel, "initialize", params, connector.connect_timeout_s, is_probe=False)


async def _connect_sse(connector: Connector, background: Background) -> ClientChannel:
    target = cast("HttpTarget", connector.target)
    connection = await connect_sse(
        target.url,
        connector.http(),
        background=background,
        headers={**target.headers, **connector.headers},
        auth=connector.auth,
        max_message_bytes=connector.max_message_bytes,
        timeout_s=connector.connect_timeout_s,
    )
    return SseChannel(connection, **connector.stream_options(background))


async def reinitialize(connector: Connector, session: Session) -> Session:
    """Return a new session: a legacy handshake on the same HTTP channel, after its session was lost.

    Raises:
        LocalError: there is no response, or the server now answers with another era.
        RemoteError: the server refused the handshake.
    """
    from ferrule.transports.http.client import StreamableHttp

    channel = session.channel
    assert isinstance(channel, StreamableHttp)
    channel.stop_listening()
    channel.session_id = None
    # The new handshake must not carry headers of the lost session.
    channel.version = None
    outcome = await _handshake(connector, channel, session.version)
    if not isinstance(outcome, Answered):
        raise error_of(outcome) or BadServerResponse("No handshake")
    version = cast("Mapping[str, Any]", outcome.result).get("protocolVersion")
    if not is_handshake_version(version):
        raise NegotiationFailed(f"The server now answers with the revision {version!r}", [session.version])
    return await connector.settle(channel, Settled(cast("str", version), outcome.result))
