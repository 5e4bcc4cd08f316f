"""Opens a session with a target: makes the channel, negotiates over it, completes the handshake.

`ferrule.client.connection.negotiation` decides the steps; this module performs them and handles the errors of each kind
of channel. The era of a server is remembered for a limited time; if the remembered one fails, the server is probed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast
from warnings import warn

import anyio

from ferrule.client.connection.channels import (
    ClientChannel,
    DirectChannel,
    MemoryPairChannel,
    PairChannel,
    ServerLifespan,
    StdioChannel,
    UnixChannel,
)
from ferrule.client.connection.middleware import send_through
from ferrule.client.connection.negotiation import (
    Answered,
    Closed,
    Failed,
    HttpRefused,
    NegotiationFailed,
    Negotiator,
    Outcome,
    Probe,
    RpcRefused,
    Settled,
    Silent,
    Unreachable,
    offered_versions,
)
from ferrule.client.errors import BadServerResponse
from ferrule.client.settings import ClientMiddleware, OutgoingRequest
from ferrule.client.targets import HttpTarget, InProcessTarget, PairTarget, StdioTarget, UnixTarget
from ferrule.kernel.dispatch import CallOptions, OnNotify, OnRequest
from ferrule.protocol.errors import ConnectionClosed, LocalError, RemoteError, RequestTimeout
from ferrule.protocol.inbound import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, PROTOCOL_VERSION_KEY
from ferrule.transports.background import Background
from ferrule.wire.codec import convert, to_builtins
from ferrule.wire.faults import ConvertError
from ferrule.wire.revisions import MODERN_PROTOCOL_VERSIONS, REVISIONS, Revision, project_value, read_value
from ferrule.wire.types import META_SERVER_INFO, ClientCapabilities, Implementation, ServerCapabilities

if TYPE_CHECKING:
    from ferrule.transports.http.backend import HttpClient
    from ferrule.transports.http.client import HttpAuth

__all__ = ["Connector", "Session", "forget_eras", "negotiator_for", "outcome_of"]

logger = logging.getLogger("ferrule.client")

PROBE_TIMEOUT_S: Final = {"stdio": 5.0, "http": 15.0}
"""Seconds to wait for the answer to a probe. A server that is still starting is probed again after its handshake."""
# A server may be updated; after this time it is probed again ("Versioning").
ERA_TTL_S: Final = 600.0

_legacy_until: dict[str, float] = {}


def forget_eras() -> None:
    """Clear the cache of servers that were found to be legacy."""
    _legacy_until.clear()


def negotiator_for(mode: str, *, has_sse: bool = False, known_legacy: bool = False) -> Negotiator:
    """Return the negotiation for a client's ``mode``.

    Args:
        mode: ``"auto"``, ``"legacy"`` or a revision.
        has_sse: whether the transport of 2024-11-05 can be tried (HTTP only).
        known_legacy: start with the handshake: the server's era is remembered.

    Raises:
        ValueError: neither ``"auto"``, ``"legacy"`` nor a revision that this library supports.
    """
    modern, legacy = offered_versions(mode)
    if not legacy:
        return Negotiator(modern)
    from ferrule.client.connection.legacy.negotiation import DualEraNegotiator

    return DualEraNegotiator(modern, legacy=legacy, has_sse=has_sse, known_legacy=known_legacy)


@dataclass(slots=True)
class Session:
    """A channel to a server, and what was negotiated over it.

    Attributes:
        channel: carries the messages.
        revision: the revision in use.
        capabilities: the server's capabilities.
        server_info: the server's name and version; ``None`` if it does not say.
        instructions: for the model, from the server.
        raw: the `DiscoverResult` or `InitializeResult` as JSON.
        meta: the envelope that every modern request carries; empty in the legacy era.
        is_lost: the server no longer has the session (legacy HTTP); the channel may get another one.
        connector: has opened it; ``None`` for one that a test has made.
    """

    channel: ClientChannel
    revision: Revision
    capabilities: ServerCapabilities
    server_info: Implementation | None
    instructions: str | None
    raw: Mapping[str, Any]
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    is_lost: bool = False
    connector: Connector | None = None

    @property
    def is_modern(self) -> bool:
        """Whether the revision belongs to the modern era."""
        return self.revision.is_modern

    @property
    def version(self) -> str:
        """The revision's version string."""
        return self.revision.version

    async def send_raw_request(self, method: str, params: Mapping[str, Any] | None, options: CallOptions) -> Any:
        """Send a request through the middleware of the client, and return its raw result."""
        if self.connector is None:
            return await self.channel.send_raw_request(method, params, options)
        return await self.connector.send(self.channel, method, params, options, self.version)

    @property
    def link(self) -> ClientChannel:
        """The old name of ``channel``, deprecated; ferrule 0.3 removes it."""
        warn("Session.link is now Session.channel; ferrule 0.3 removes the old name", DeprecationWarning, stacklevel=2)
        return self.channel

    @property
    def session_id(self) -> str | None:
        """The id of a legacy session over HTTP; ``None`` elsewhere."""
        from ferrule.transports.http.client import StreamableHttp

        return self.channel.session_id if isinstance(self.channel, StreamableHttp) else None


@dataclass(slots=True)
class Connector:
    """Opens sessions with one server.

    Attributes:
        target: the server (never a group).
        mode: ``"auto"``, ``"legacy"`` or a revision.
        client_info: name and version of this program.
        capabilities: ``(revision) -> capabilities`` to declare.
        on_request, on_notify: handle requests and notifications of the server.
        connect_timeout_s: maximum time of each step in seconds.
        probe_timeout_s: maximum time of the probe in seconds; ``None`` for the transport's default, if that is less.
        http: returns the HTTP client; called on first use.
        headers, auth, max_message_bytes: for HTTP.
        listens: keep a GET stream open in the legacy era.
        prior_discover: the result of an earlier ``server/discover``, used instead of a probe.
        life: the lifespan of a server in this process, once it has been entered.
        middleware: around every request; outermost first. The list may be changed later.
    """

    target: InProcessTarget | PairTarget | HttpTarget | StdioTarget | UnixTarget
    mode: str
    client_info: Implementation
    capabilities: Callable[[Revision], dict[str, Any]]
    on_request: OnRequest
    on_notify: OnNotify
    connect_timeout_s: float
    probe_timeout_s: float | None
    http: Callable[[], HttpClient]
    headers: Mapping[str, str]
    auth: HttpAuth | None
    max_message_bytes: int
    listens: bool
    prior_discover: Mapping[str, Any] | None = None
    life: ServerLifespan | None = None
    middleware: list[ClientMiddleware] = field(default_factory=list[ClientMiddleware])

    async def send(
        self,
        channel: ClientChannel,
        method: str,
        params: Mapping[str, Any] | None,
        options: CallOptions,
        version: str | None = None,
    ) -> Any:
        """Send a request over a channel, through the middleware if there is any, and return its raw result.

        Raises:
            LocalError, RemoteError: see `ferrule.kernel.dispatch.Outbound`.
        """
        if not self.middleware:
            return await channel.send_raw_request(method, params, options)
        request = OutgoingRequest(method, params, options, channel, self.target, version)
        return await send_through(self.middleware, request)

    async def open(self, background: Background) -> Session:
        """Connect, negotiate and return the session.

        Raises:
            LocalError: the connection failed, or there is no common revision.
            RemoteError: the server refused the handshake.
        """
        channel: ClientChannel | None = None
        try:
            channel = await self.make_channel(background)
            return await self._negotiate(channel, background)
        except BaseException:
            if channel is not None:
                await _close_shielded(channel)
            raise

    async def reinitialize(self, session: Session) -> Session:
        """Return a new session: a legacy handshake on the same HTTP channel, after its session was lost.

        Raises:
            LocalError: there is no response, or the server now answers with another era.
            RemoteError: the server refused the handshake.
        """
        from ferrule.client.connection.legacy.handshake import reinitialize

        return await reinitialize(self, session)

    # -- channels ------------------------------------------------------------------------------------------------------

    def stream_options(self, background: Background) -> dict[str, Any]:
        """Return the options of a channel over streams."""
        return {
            "on_request": self.on_request,
            "on_notify": self.on_notify,
            "background": background,
        }

    async def make_channel(self, background: Background) -> ClientChannel:
        """Return a new channel to the target, over which nothing is negotiated yet."""
        target = self.target
        if isinstance(target, HttpTarget):
            return self._http_channel(target, background)
        if isinstance(target, StdioTarget):
            return await StdioChannel.open(target.server, **self.stream_options(background))
        if isinstance(target, UnixTarget):
            return await UnixChannel.open(target.path, **self.stream_options(background))
        if isinstance(target, PairTarget):
            return PairChannel(target, **self.stream_options(background))
        # Once for all sessions of this client: a restart of the session must not restart the server.
        if self.life is None:
            self.life = ServerLifespan(target.server)
            try:
                await self.life.start(background)
            except BaseException:
                self.life = None
                raise
        if self._is_direct(target):
            return DirectChannel(target.server, self.life, on_notify=self.on_notify, origin=target.origin)
        if target.origin is not None:
            raise LocalError(
                "A legacy session in this process belongs to one caller and cannot carry the requests of others"
            )
        return MemoryPairChannel(target.server, self.life, **self.stream_options(background))

    def _is_direct(self, target: InProcessTarget) -> bool:
        if self.mode == "auto":
            return bool(target.server.modern_versions)
        revision = REVISIONS.get(self.mode)
        return revision is not None and revision.is_modern

    def _http_channel(self, target: HttpTarget, background: Background) -> ClientChannel:
        from ferrule.transports.http.client import StreamableHttp

        return StreamableHttp(
            target.url,
            self.http(),
            on_request=self.on_request,
            on_notify=self.on_notify,
            background=background,
            headers={**target.headers, **self.headers},
            auth=self.auth,
            max_message_bytes=self.max_message_bytes,
        )

    # -- negotiation ------------------------------------------------------------------------------------------------

    @property
    def _era_key(self) -> str | None:
        target = self.target
        # The era belongs to the server and not to one request, so that the query does not count. Processes are started
        # anew.
        return target.url.partition("?")[0] if isinstance(target, HttpTarget) else None

    def check_mode(self) -> None:
        """Check the mode.

        Raises:
            ValueError: it is unknown; see `offered_versions`.
        """
        offered_versions(self.mode)

    def _negotiator(self, channel: ClientChannel) -> Negotiator:
        if isinstance(channel, DirectChannel):  # it supports one era and has no fallback
            return Negotiator(offered_versions(self.mode)[0])
        key = self._era_key
        # Saves the probe, which legacy servers answer with an error.
        known = key is not None and _legacy_until.get(key, 0.0) > time.monotonic()
        return negotiator_for(self.mode, has_sse=isinstance(self.target, HttpTarget), known_legacy=known)

    async def _negotiate(self, channel: ClientChannel, background: Background) -> Session:
        if self.prior_discover is not None:
            return await self.settle(channel, self._from_prior(self.prior_discover))
        target = self.target
        negotiator = self._negotiator(channel)
        if isinstance(target, HttpTarget) and target.is_sse:
            from ferrule.client.connection.legacy.handshake import open_sse

            channel, negotiator = await open_sse(self, negotiator, background)
        step = negotiator.start()
        try:
            while not isinstance(step, Settled | Failed):
                if isinstance(step, Probe):
                    outcome = await self._probe(channel, step)
                else:
                    from ferrule.client.connection.legacy.handshake import channel_for, perform

                    channel = await channel_for(self, channel, step, background)
                    channel, outcome = await perform(self, channel, step, background)
                logger.debug("%s: %s -> %s", target.label, step, outcome)
                step = negotiator.next_step(outcome)
            if isinstance(step, Failed):
                raise step.error
            return await self.settle(channel, step)
        except BaseException:
            await _close_shielded(channel)
            raise

    def _from_prior(self, prior: Mapping[str, Any]) -> Settled:
        supported = cast("list[str]", prior.get("supportedVersions") or [])
        pinned = REVISIONS.get(self.mode)
        offered = (self.mode,) if pinned is not None and pinned.is_modern else MODERN_PROTOCOL_VERSIONS
        for version in reversed(offered):
            if version in supported:
                return Settled(version, prior)
        raise NegotiationFailed("prior_discover names no revision of this client", offered, supported)

    async def _probe(self, channel: ClientChannel, step: Probe) -> Outcome:
        kind = "http" if isinstance(self.target, HttpTarget) else "stdio"
        timeout_s = self.probe_timeout_s or min(PROBE_TIMEOUT_S[kind], self.connect_timeout_s)
        params = {"_meta": self._envelope(step.version)}
        return await outcome_of(self, channel, "server/discover", params, timeout_s, is_probe=True)

    def _envelope(self, version: str) -> dict[str, Any]:
        revision = REVISIONS[version]
        return {
            PROTOCOL_VERSION_KEY: version,
            CLIENT_CAPABILITIES_KEY: project_value(revision, ClientCapabilities, self.capabilities(revision)),
            CLIENT_INFO_KEY: project_value(revision, Implementation, to_builtins(self.client_info)),
        }

    async def settle(self, channel: ClientChannel, settled: Settled) -> Session:
        """Return the session that was negotiated over a channel.

        Raises:
            BadServerResponse: the server introduces itself in a malformed way.
        """
        raw = settled.result
        revision = REVISIONS[settled.version]
        capabilities = read_value(revision, ServerCapabilities, raw.get("capabilities") or {})
        if self._era_key is not None:
            if revision.is_modern:
                _legacy_until.pop(self._era_key, None)
            elif self.mode == "auto":  # in mode "legacy" the server was not probed
                _legacy_until[self._era_key] = time.monotonic() + ERA_TTL_S
        if isinstance(self.target, HttpTarget):  # others need no module of HTTP
            from ferrule.transports.http.client import StreamableHttp

            if isinstance(channel, StreamableHttp):
                channel.version = settled.version
        try:
            meta = cast("Mapping[str, Any]", raw.get("_meta") or {})
            info = meta.get(META_SERVER_INFO) if revision.is_modern else raw.get("serverInfo")
            session = Session(
                channel,
                revision,
                convert(capabilities, ServerCapabilities),
                None if info is None else convert(info, Implementation),
                cast("str | None", raw.get("instructions")),
                raw,
                connector=self,
            )
        except ConvertError as error:
            raise BadServerResponse(f"The server introduces itself in a malformed way: {error}") from error
        if revision.is_modern:
            session.meta = self._envelope(settled.version)
        else:
            from ferrule.client.connection.legacy.handshake import complete

            await complete(self, channel, revision)
        return session


async def _close_shielded(channel: ClientChannel) -> None:
    """Close a channel, also if the caller was cancelled: a process and its pipes must not outlive the attempt."""
    with anyio.CancelScope(shield=True):
        await channel.aclose()


async def outcome_of(
    connector: Connector,
    channel: ClientChannel,
    method: str,
    params: dict[str, Any],
    timeout_s: float,
    *,
    is_probe: bool,
) -> Outcome:
    """Send one message of the negotiation, and return its outcome."""
    from ferrule.transports.http.backend import HttpConnectFailed
    from ferrule.transports.http.errors import HttpRemoteError, HttpStatusError, SessionLost

    try:
        return Answered(await connector.send(channel, method, params, {"timeout_s": timeout_s}))
    except RemoteError as error:
        return RpcRefused(
            error.code, error, error.data, error.http_status if isinstance(error, HttpRemoteError) else None
        )
    except HttpStatusError as error:
        return HttpRefused(error.status, error)
    except SessionLost as error:
        return HttpRefused(404, error)
    except RequestTimeout as error:
        return Silent(error) if is_probe else Closed(error)
    except HttpConnectFailed as error:
        return Unreachable(error)
    except ConnectionClosed as error:
        return Closed(error)
    except LocalError as error:
        return Unreachable(error)
