"""From a target to a settled session: make the channel, negotiate over it, complete the handshake.

The decisions are `ferrule.client.connection.negotiation`'s; this module carries them out and knows what can go wrong on
each kind of channel. Remembered eras are an assumption with an expiry: a failure probes again.
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
    SseChannel,
    StdioChannel,
)
from ferrule.client.connection.negotiation import (
    Answered,
    Closed,
    Failed,
    Handshake,
    HttpRefused,
    NegotiationFailed,
    Negotiator,
    OpenSse,
    Outcome,
    Probe,
    RpcRefused,
    Settled,
    Silent,
    SseOpened,
    Step,
    Unreachable,
    error_of,
)
from ferrule.client.errors import BadServerResponse
from ferrule.client.targets import HttpTarget, InProcessTarget, PairTarget, StdioTarget
from ferrule.kernel.dispatch import OnNotify, OnRequest
from ferrule.protocol.errors import ConnectionClosed, LocalError, RemoteError, RequestTimeout
from ferrule.protocol.inbound import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, PROTOCOL_VERSION_KEY
from ferrule.transports.background import Background
from ferrule.wire.codec import convert, to_builtins
from ferrule.wire.faults import ConvertError, FerruleError
from ferrule.wire.revisions import MODERN_PROTOCOL_VERSIONS, REVISIONS, Revision, project_value, read_value
from ferrule.wire.types import META_SERVER_INFO, ClientCapabilities, Implementation, ServerCapabilities

if TYPE_CHECKING:
    from ferrule.transports.http.backend import HttpClient
    from ferrule.transports.http.client import HttpAuth

__all__ = ["Connector", "Session", "forget_eras"]

logger = logging.getLogger("ferrule.client")

PROBE_TIMEOUT_S: Final = {"stdio": 5.0, "http": 15.0}
"""Seconds to wait for the answer to a probe. A server that is still starting is probed again after its handshake."""
# A server may be updated; after this time it is probed again ("Versioning").
ERA_TTL_S: Final = 600.0
# Servers without a GET stream may leave the request unanswered, and connecting must not depend on it.
LISTEN_WAIT_S: Final = 2.0
"""Seconds to wait for the standing stream where the server may ask something: some servers ask there, and a question
without a stream is lost. A server that sends no head before its first event costs this once."""

_legacy_until: dict[str, float] = {}


def forget_eras() -> None:
    """Clear the cache of servers that were found to be legacy."""
    _legacy_until.clear()


@dataclass(slots=True)
class Session:
    """A channel to a server, and what was negotiated over it.

    Attributes:
        channel: carries the messages.
        revision: the one in use.
        capabilities: those of the server.
        server_info: the server's name and version; ``None`` if it does not say.
        instructions: for the model, from the server.
        raw: the `DiscoverResult` or `InitializeResult` as JSON.
        meta: the envelope that every modern request carries; empty in the legacy era.
        is_lost: the server no longer has the session (legacy HTTP); the channel may get another one.
    """

    channel: ClientChannel
    revision: Revision
    capabilities: ServerCapabilities
    server_info: Implementation | None
    instructions: str | None
    raw: Mapping[str, Any]
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    is_lost: bool = False

    @property
    def is_modern(self) -> bool:
        """Whether the revision belongs to the modern era."""
        return self.revision.is_modern

    @property
    def version(self) -> str:
        """The revision's version string."""
        return self.revision.version

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
    """

    target: InProcessTarget | PairTarget | HttpTarget | StdioTarget
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

    async def open(self, background: Background) -> Session:
        """Connect, negotiate and return the session.

        Raises:
            LocalError: there is no connection, or no common revision.
            RemoteError: the server refused the handshake.
        """
        channel: ClientChannel | None = None
        try:
            channel = await self._make_channel(background)
            return await self._negotiate(channel, background)
        except BaseException:
            if channel is not None:
                await _let_go(channel)
            raise

    async def reinitialize(self, session: Session) -> Session:
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
        outcome = await self._handshake(channel, session.version)
        if not isinstance(outcome, Answered):
            raise error_of(outcome) or BadServerResponse("No handshake")
        version = cast("Mapping[str, Any]", outcome.result).get("protocolVersion")
        if version not in REVISIONS or REVISIONS[cast("str", version)].is_modern:
            raise NegotiationFailed(f"The server now answers with the revision {version!r}", [session.version])
        return await self._settle(channel, Settled(cast("str", version), outcome.result))

    # -- channels ------------------------------------------------------------------------------------------------------

    def _stream_options(self, background: Background) -> dict[str, Any]:
        return {
            "on_request": self.on_request,
            "on_notify": self.on_notify,
            "background": background,
        }

    async def _make_channel(self, background: Background) -> ClientChannel:
        target = self.target
        if isinstance(target, HttpTarget):
            return self._http_channel(target, background)
        if isinstance(target, StdioTarget):
            return await StdioChannel.open(target.server, **self._stream_options(background))
        if isinstance(target, PairTarget):
            return PairChannel(target, **self._stream_options(background))
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
        return MemoryPairChannel(target.server, self.life, **self._stream_options(background))

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

    async def _open_sse(self, background: Background) -> ClientChannel:
        from ferrule.transports.sse.client import connect_sse

        target = cast("HttpTarget", self.target)
        connection = await connect_sse(
            target.url,
            self.http(),
            background=background,
            headers={**target.headers, **self.headers},
            auth=self.auth,
            max_message_bytes=self.max_message_bytes,
            timeout_s=self.connect_timeout_s,
        )
        return SseChannel(connection, **self._stream_options(background))

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
            ValueError: it is unknown; see `Negotiator.for_mode`.
        """
        self._negotiator()

    def _negotiator(self) -> Negotiator:
        key = self._era_key
        # Saves the probe, which legacy servers answer with an error.
        known = key is not None and _legacy_until.get(key, 0.0) > time.monotonic()
        return Negotiator.for_mode(self.mode, has_sse=isinstance(self.target, HttpTarget), known_legacy=known)

    async def _negotiate(self, channel: ClientChannel, background: Background) -> Session:
        if self.prior_discover is not None:
            return await self._settle(channel, self._from_prior(self.prior_discover))
        negotiator = self._negotiator()
        target = self.target
        if isinstance(channel, DirectChannel):
            negotiator.legacy = ()  # a channel that supports one era has no fallback
        if isinstance(target, HttpTarget) and target.is_sse:
            channel = await self._open_sse(background)
            negotiator = Negotiator(modern=(), legacy=negotiator.legacy or ("2024-11-05",))
        step = negotiator.start()
        try:
            while not isinstance(step, Settled | Failed):
                if isinstance(step, OpenSse):
                    channel, outcome = await self._try_sse(channel, background)
                # Some legacy servers end, or become unusable, after an unknown first request (the probe).
                elif isinstance(step, Handshake) and step.fresh:
                    await channel.aclose()
                    channel = await self._make_channel(background)
                    outcome = await self._handshake(channel, step.version)
                else:
                    outcome = await self._do(channel, step)
                logger.debug("%s: %s -> %s", target.label, step, outcome)
                step = negotiator.next_step(outcome)
            if isinstance(step, Failed):
                raise step.error
            return await self._settle(channel, step)
        except BaseException:
            await _let_go(channel)
            raise

    def _from_prior(self, prior: Mapping[str, Any]) -> Settled:
        supported = cast("list[str]", prior.get("supportedVersions") or [])
        pinned = REVISIONS.get(self.mode)
        offered = (self.mode,) if pinned is not None and pinned.is_modern else MODERN_PROTOCOL_VERSIONS
        for version in reversed(offered):
            if version in supported:
                return Settled(version, prior)
        raise NegotiationFailed("prior_discover names no revision of this client", offered, supported)

    async def _do(self, channel: ClientChannel, step: Step) -> Outcome:
        if isinstance(step, Handshake):
            return await self._handshake(channel, step.version)
        assert isinstance(step, Probe)
        kind = "http" if isinstance(self.target, HttpTarget) else "stdio"
        timeout_s = self.probe_timeout_s or min(PROBE_TIMEOUT_S[kind], self.connect_timeout_s)
        params = {"_meta": self._envelope(step.version)}
        return await _outcome(channel, "server/discover", params, timeout_s, is_probe=True)

    async def _handshake(self, channel: ClientChannel, version: str) -> Outcome:
        params = {
            "protocolVersion": version,
            "capabilities": self.capabilities(REVISIONS[version]),
            "clientInfo": to_builtins(self.client_info),
        }
        return await _outcome(channel, "initialize", params, self.connect_timeout_s, is_probe=False)

    async def _try_sse(self, channel: ClientChannel, background: Background) -> tuple[ClientChannel, Outcome]:
        try:
            opened = await self._open_sse(background)
        except (FerruleError, OSError) as error:
            return channel, Closed(error)
        await channel.aclose()
        return opened, SseOpened()

    def _envelope(self, version: str) -> dict[str, Any]:
        revision = REVISIONS[version]
        return {
            PROTOCOL_VERSION_KEY: version,
            CLIENT_CAPABILITIES_KEY: project_value(revision, ClientCapabilities, self.capabilities(revision)),
            CLIENT_INFO_KEY: project_value(revision, Implementation, to_builtins(self.client_info)),
        }

    async def _settle(self, channel: ClientChannel, settled: Settled) -> Session:
        from ferrule.transports.http.client import StreamableHttp

        raw = settled.result
        revision = REVISIONS[settled.version]
        capabilities = read_value(revision, ServerCapabilities, raw.get("capabilities") or {})
        if self._era_key is not None:
            if revision.is_modern:
                _legacy_until.pop(self._era_key, None)
            elif self.mode == "auto":  # only the search finds out what a server cannot do
                _legacy_until[self._era_key] = time.monotonic() + ERA_TTL_S
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
            )
        except ConvertError as error:
            raise BadServerResponse(f"The server introduces itself in a malformed way: {error}") from error
        if revision.is_modern:
            session.meta = self._envelope(settled.version)
        else:
            with anyio.move_on_after(self.connect_timeout_s):
                await channel.notify("notifications/initialized")
            if self.listens and isinstance(channel, StreamableHttp):
                channel.start_listening()
                if self.capabilities(revision):
                    await channel.wait_listening(min(LISTEN_WAIT_S, self.connect_timeout_s))
        return session


async def _let_go(channel: ClientChannel) -> None:
    """Close a channel, also where the caller was cancelled: a process and its pipes must not outlive the attempt."""
    with anyio.CancelScope(shield=True):
        await channel.aclose()


async def _outcome(
    channel: ClientChannel, method: str, params: dict[str, Any], timeout_s: float, *, is_probe: bool
) -> Outcome:
    """Send one message of the negotiation and say what came of it."""
    from ferrule.transports.http.backend import HttpConnectFailed
    from ferrule.transports.http.errors import HttpRemoteError, HttpStatusError, SessionLost

    try:
        return Answered(await channel.send_raw_request(method, params, {"timeout_s": timeout_s}))
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
