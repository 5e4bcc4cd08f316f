"""The options of a client, as the frozen values that its parts carry whole.

A program gives them one by one to `ferrule.Client`, where each is described; here they are grouped by the part that
reads them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, Self, TypeAlias, cast

from ferrule.client.targets import InProcessTarget, Target

if TYPE_CHECKING:
    import ssl

    from ferrule.auth.client.oauth import OAuth
    from ferrule.client.options import ClientOptions
    from ferrule.kernel.dispatch import CallOptions, OnProgress, Outbound
    from ferrule.stores.cache import CacheStore
    from ferrule.transports.http.backend import HttpClient, TlsOptions
    from ferrule.transports.http.client import HttpAuth
    from ferrule.wire.types import DiscoverResult, Implementation, Root

__all__ = [
    "DEFAULT_TIMEOUT_S",
    "CacheSettings",
    "ClientMiddleware",
    "ClientSettings",
    "DeclaredExtension",
    "ElicitationHandler",
    "ExtensionRequestHandler",
    "Extensions",
    "Handlers",
    "HttpSettings",
    "LogHandler",
    "MessageHandler",
    "OutgoingRequest",
    "Pins",
    "Roots",
    "SamplingHandler",
    "SendRequest",
    "SkillApprover",
    "Timeouts",
    "declared_settings",
    "default_timeout_s",
    "settings_of",
]

ElicitationHandler: TypeAlias = Callable[..., Any]
"""``(params: ElicitRequestParams, question: ServerQuestion) -> ElicitResult``; a mapping means "accept with this
content", ``None`` means "decline"."""

SamplingHandler: TypeAlias = Callable[..., Any]
"""``(params: CreateMessageRequestParams, question: ServerQuestion) -> CreateMessageResult``; text means an
assistant's message that ends its turn. Raise `SamplingRefused` to refuse."""

Roots: TypeAlias = "Sequence[Root | str | Path] | Callable[[], Any]"
"""The folders that a server may use: roots, ``file://`` URIs or paths, or a function (sync or async) for them."""

LogHandler: TypeAlias = Callable[..., Any]
"""``(params: LoggingMessageNotificationParams)``, sync or async: called with each log message of the server. A
`ferrule.ClientGroup` passes the server's name in the configuration as one more argument, if the function takes it."""

SkillApprover: TypeAlias = Callable[..., Any]
"""``(skill: ServerSkill) -> bool``, sync or async: whether a skill may be loaded and its files read."""

Pins: TypeAlias = "str | Path | Mapping[str, Any]"
"""A snapshot of `ferrule snapshot`: the path of its file, or its content."""

MessageHandler: TypeAlias = Callable[..., Any]
"""``(method: str, params: Mapping[str, Any])``, sync or async: called with each notification of the server but
progress. A `ferrule.ClientGroup` passes the server's name as one more argument, if the function takes it."""

ExtensionRequestHandler: TypeAlias = Callable[..., Any]
"""``(params: Mapping[str, Any], question: ServerQuestion) -> result``, sync or async: answers a request of the server
that an extension defines."""


class DeclaredExtension(Protocol):
    """The client's half of an extension; to write one, subclass `ferrule.extensions.client.ClientExtension`."""

    identifier: ClassVar[str]
    """``reverse.domain/name``."""

    def settings(self) -> Mapping[str, Any]:
        """Return the settings to declare."""
        ...

    def result_types(self) -> Mapping[str, Callable[[str, dict[str, Any], dict[str, Any]], Any]]:
        """Return, by ``resultType``, the function that makes a final result of such a result."""
        ...

    def notifications(self) -> Mapping[str, Callable[[Mapping[str, Any]], Any]]:
        """Return the functions that take the server's notifications, by method."""
        ...

    def requests(self) -> Mapping[str, ExtensionRequestHandler]:
        """Return the functions that answer the server's requests, by method."""
        ...

    def outdates(self) -> Mapping[str, Iterable[str]]:
        """Return, by notification, the methods whose cached results the notification makes outdated."""
        ...

    def bound_to(self, client: Any) -> Self:
        """Return a copy that belongs to a `Client`."""
        ...


Extensions: TypeAlias = "Mapping[str, Mapping[str, Any]] | Iterable[DeclaredExtension]"
"""The extensions that a client declares: settings by identifier, or the client's halves of extensions."""


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """A request that a client is about to send; `dataclasses.replace` makes another one for ``call_next``.

    Attributes:
        method, params: as they go out, with the envelope of the modern era in ``params["_meta"]``.
        options: time-outs and callbacks; ``on_id`` is called with the id of the request.
        channel: the connection that carries it.
        target: the server.
        version: the revision in use; ``None`` while it is being negotiated.
    """

    method: str
    params: Mapping[str, Any] | None
    options: CallOptions
    channel: Outbound
    target: Target
    version: str | None


SendRequest: TypeAlias = Callable[[OutgoingRequest], Awaitable[Any]]
"""``async (request) -> result``: the rest of the chain. The result is the raw one."""


class ClientMiddleware(Protocol):
    """``async (request, call_next) -> result``."""

    def __call__(self, request: OutgoingRequest, call_next: SendRequest, /) -> Awaitable[Any]:
        """Return the raw result, from ``await call_next(request)`` or in its place.

        Raises:
            LocalError, RemoteError: as ``call_next`` does, or to refuse the request.
        """
        ...


DEFAULT_TIMEOUT_S: Final = 300.0
"""Seconds without a response or progress after which a call fails. Tools may take long, but a server may also have
stopped responding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The time limits of a client, in seconds.

    Attributes:
        timeout_s: time without a response or progress after which a call fails; ``None``: no bound.
        max_total_s: absolute bound of a call, progress or not; ``None``: no bound.
        reset_on_progress: whether progress restarts ``timeout_s``.
        connect_timeout_s: maximum time of each step of connecting.
        probe_timeout_s: maximum time of the probe for the modern era; ``None``: the transport's default.
    """

    timeout_s: float | None = DEFAULT_TIMEOUT_S
    max_total_s: float | None = None
    reset_on_progress: bool = True
    connect_timeout_s: float = 60.0
    probe_timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """The settings of a client for HTTP; other transports ignore them.

    Attributes:
        headers: headers of every request, in addition to those of the target.
        auth: ``"oauth"``, a bearer token, an `OAuth`, an `HttpAuth`, or ``None``.
        http: an HTTP client of the program's own, which stays open when the client closes; ``None``: one is made when
            it is first needed.
        tls: the certificates to trust and to send; ``None``: those of the system, and no client certificate.
        proxy: URL of a proxy, ``"env"`` (from environment variables), or ``None`` for no proxy.
        cookies: keep the cookies of the server between requests.
        listen: keep a stream open for what a legacy server sends outside calls.
        max_message_bytes: larger messages are refused.
    """

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    auth: HttpAuth | OAuth | str | None = None
    http: HttpClient | Any = None
    tls: TlsOptions | ssl.SSLContext | None = None
    proxy: str | None = "env"
    cookies: bool = True
    listen: bool = True
    max_message_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Where a client keeps the results that its server allows to be kept.

    Attributes:
        cache: ``True``: keep results in memory; ``False``: keep none; or a store, which may be shared.
        partition: name of the authorization context; ``None``: made from the credential.
        clock: returns seconds since the epoch.
    """

    cache: CacheStore | bool = True
    partition: str | None = None
    clock: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """The functions of the program that a client calls for its server; each may be sync or async.

    Attributes:
        elicitation: asks the user. elicitation_modes: the modes that it supports.
        sampling: asks the model. sampling_tools: whether it can offer tools to the model.
        roots: the folders that the server may use, or a function that returns them.
        log: called with log messages. log_level: the level to request; ``"info"`` with a handler.
        progress: called with the progress of every call that has no ``on_progress`` of its own.
        message: called with every notification as ``(method, params)``.
        approve_skill: decides whether a skill may be loaded.
    """

    elicitation: ElicitationHandler | None = None
    elicitation_modes: Iterable[Literal["form", "url"]] = ("form",)
    sampling: SamplingHandler | None = None
    sampling_tools: bool = False
    roots: Roots | None = None
    log: LogHandler | None = None
    log_level: str | None = None
    progress: OnProgress | None = None
    message: MessageHandler | None = None
    approve_skill: SkillApprover | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Every option of a client.

    Attributes:
        mode: ``"auto"``, ``"legacy"`` or a revision.
        client_info: name and version of the program; ``None``: Ferrule's.
        extensions: the extensions to declare.
        timeouts, http, handlers, cache: see `Timeouts`, `HttpSettings`, `Handlers` and `CacheSettings`.
        max_rounds: maximum number of rounds of questions in one call or task; 0 for none.
        restart: open a new session for a call after the last one has ended.
        prior_discover: another client's ``discovered``; ``None``: send ``server/discover``.
        fast_path: send plain calls of tools by a shorter path with the same results.
        middleware: around every request, outermost first; the list may be changed later.
    """

    mode: str = "auto"
    client_info: Implementation | None = None
    extensions: Extensions = field(default_factory=dict[str, Mapping[str, Any]])
    timeouts: Timeouts = field(default_factory=Timeouts)
    http: HttpSettings = field(default_factory=HttpSettings)
    handlers: Handlers = field(default_factory=Handlers)
    cache: CacheSettings = field(default_factory=CacheSettings)
    max_rounds: int = 16
    restart: bool = True
    prior_discover: DiscoverResult | Mapping[str, Any] | None = None
    fast_path: bool = True
    middleware: list[ClientMiddleware] = field(default_factory=list[ClientMiddleware])


_OPTION_OF: Final = {
    "elicitation": "elicitation_handler",
    "sampling": "sampling_handler",
    "log": "log_handler",
    "progress": "progress_handler",
    "message": "message_handler",
    "partition": "cache_partition",
}
"""Field of a settings value → the option that it stores, where the names differ."""


def settings_of(options: ClientOptions, target: Target) -> ClientSettings:
    """Return options of `ferrule.Client`, by name, as settings; options that are not given have their defaults.

    Raises:
        TypeError: ``pins`` is given, which only a `ferrule.Client` observes.
    """
    if options.get("pins") is not None:
        raise TypeError("pins= is an option of Client: a gateway forwards every definition")
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None or name in _NONE}
    given.setdefault("timeout_s", default_timeout_s(target))
    parts = {
        "timeouts": _filled(Timeouts, given),
        "http": _filled(HttpSettings, given),
        "handlers": _filled(Handlers, given),
        "cache": _filled(CacheSettings, given),
    }
    own = {each.name: given[each.name] for each in fields(ClientSettings) if each.name in given}
    if not isinstance(own.get("middleware", []), list):  # a list is kept, because it may be changed later
        own["middleware"] = list(own["middleware"])
    return ClientSettings(**{**own, **parts})


def default_timeout_s(target: Target) -> float | None:
    """Return the default of ``timeout_s``; ``None`` for a server in this process, whose handlers run directly."""
    return None if isinstance(target, InProcessTarget) else DEFAULT_TIMEOUT_S


def declared_settings(extensions: Extensions) -> dict[str, dict[str, Any]]:
    """Return the settings to declare, by identifier."""
    if isinstance(extensions, Mapping):
        given = cast("Mapping[str, Mapping[str, Any]]", extensions)
        return {name: dict(settings) for name, settings in given.items()}
    return {each.identifier: dict(each.settings()) for each in extensions}


_NONE: Final = frozenset({"timeout_s", "proxy"})
"""Options for which ``None`` is a value and not the default."""


def _filled(kind: Any, given: Mapping[str, Any]) -> Any:
    names = {each.name: _OPTION_OF.get(each.name, each.name) for each in fields(kind)}
    return kind(**{name: given[option] for name, option in names.items() if option in given})
