"""The options of a client, as the frozen values that its parts carry whole.

A program gives them one by one to `ferrule.Client`, where each is described; here they are grouped by the part that
reads them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ferrule.client.targets import InProcessTarget, Target
from ferrule.wire.types import LoggingMessageNotificationParams

if TYPE_CHECKING:
    import ssl

    from ferrule.auth.client.oauth import OAuth
    from ferrule.client.options import ClientOptions
    from ferrule.kernel.dispatch import OnProgress
    from ferrule.stores.cache import CacheStore
    from ferrule.transports.http.backend import HttpClient, TlsOptions
    from ferrule.transports.http.client import HttpAuth
    from ferrule.wire.types import DiscoverResult, Implementation, Root

__all__ = [
    "DEFAULT_TIMEOUT_S",
    "CacheSettings",
    "ClientSettings",
    "ElicitationHandler",
    "Handlers",
    "HttpSettings",
    "LogHandler",
    "MessageHandler",
    "Roots",
    "SamplingHandler",
    "Timeouts",
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
"""Folders to show: roots, ``file://`` URIs or paths, or a function (sync or async) that returns them."""

LogHandler: TypeAlias = Callable[[LoggingMessageNotificationParams], Any]
"""Takes each log message of the server; sync or async."""

MessageHandler: TypeAlias = Callable[[str, Mapping[str, Any]], Any]
"""Takes each notification of the server as ``(method, params)``, progress excepted; sync or async."""

DEFAULT_TIMEOUT_S: Final = 300.0
"""Seconds without an answer or progress before a call is given up. Long, because tools may be; finite, because a
server may be dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long a client waits; all in seconds.

    Attributes:
        timeout_s: without an answer or progress before a call is given up; ``None``: no bound.
        max_total_s: absolute bound of a call, progress or not; ``None``: no bound.
        reset_on_progress: whether progress restarts ``timeout_s``.
        connect_timeout_s: bounds each step of connecting.
        probe_timeout_s: bounds the probe for the modern era; ``None``: the default of the transport.
    """

    timeout_s: float | None = DEFAULT_TIMEOUT_S
    max_total_s: float | None = None
    reset_on_progress: bool = True
    connect_timeout_s: float = 60.0
    probe_timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """How a client uses HTTP; without meaning for other transports.

    Attributes:
        headers: the headers of every request, beside those of the target.
        auth: ``"oauth"``, a bearer token, an `OAuth`, an `HttpAuth`, or ``None``.
        http: an HTTP client of the program's own, which stays open when the client closes; ``None``: one is made when
            it is first needed.
        tls: how to trust the server; ``None``: the system's trust.
        proxy: URL of a proxy, ``"env"`` (by the environment's variables), or ``None`` for none.
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
        cache: ``True``: in memory; ``False``: nothing is kept; or a store, which may be shared.
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
        elicitation: asks the user. elicitation_modes: what it can do.
        sampling: asks the model. sampling_tools: whether it can offer tools.
        roots: folders to show, or a function that returns them.
        log: takes log messages. log_level: which to ask for; ``"info"`` with a handler.
        progress: takes the progress of every call that has no ``on_progress`` of its own.
        message: takes every notification as ``(method, params)``.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Every option of a client.

    Attributes:
        mode: ``"auto"``, ``"legacy"`` or a revision.
        client_info: name and version of the program; ``None``: Ferrule's.
        extensions: to declare, by identifier.
        timeouts, http, handlers, cache: see each.
        max_rounds: rounds of questions that one call may take.
        restart: open a new session when a call finds the last one ended.
        prior_discover: another client's ``discovered``; ``None``: ask the server.
        fast_path: send plain calls of tools by a shorter path with the same results.
    """

    mode: str = "auto"
    client_info: Implementation | None = None
    extensions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    timeouts: Timeouts = field(default_factory=Timeouts)
    http: HttpSettings = field(default_factory=HttpSettings)
    handlers: Handlers = field(default_factory=Handlers)
    cache: CacheSettings = field(default_factory=CacheSettings)
    max_rounds: int = 16
    restart: bool = True
    prior_discover: DiscoverResult | Mapping[str, Any] | None = None
    fast_path: bool = True


_OPTION_OF: Final = {
    "elicitation": "elicitation_handler",
    "sampling": "sampling_handler",
    "log": "log_handler",
    "progress": "progress_handler",
    "message": "message_handler",
    "partition": "cache_partition",
}
"""Field of a settings value → the option that it holds, where the names differ."""


def settings_of(options: ClientOptions, target: Target) -> ClientSettings:
    """Return options that are named as those of `ferrule.Client` as settings; those that are not given are the
    defaults."""
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None or name in _NONE}
    given.setdefault("timeout_s", default_timeout_s(target))
    parts = {
        "timeouts": _filled(Timeouts, given),
        "http": _filled(HttpSettings, given),
        "handlers": _filled(Handlers, given),
        "cache": _filled(CacheSettings, given),
    }
    own = {each.name: given[each.name] for each in fields(ClientSettings) if each.name in given}
    return ClientSettings(**{**own, **parts})


def default_timeout_s(target: Target) -> float | None:
    """Return the bound of calls where the program sets none; ``None`` for calls into this process, which are function
    calls."""
    return None if isinstance(target, InProcessTarget) else DEFAULT_TIMEOUT_S


_NONE: Final = frozenset({"timeout_s", "proxy"})
"""Options whose ``None`` is not their default."""


def _filled(kind: Any, given: Mapping[str, Any]) -> Any:
    names = {each.name: _OPTION_OF.get(each.name, each.name) for each in fields(kind)}
    return kind(**{name: given[option] for name, option in names.items() if option in given})
