"""Keyword arguments that several signatures share, written once for type checkers and editors.

`Client.__init__` has the same options as `ClientOptions`, which a test checks. `Client` and `Client.call_tool` describe
their meaning, units and defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Mapping

    from ferrule.auth.client.oauth import OAuth
    from ferrule.client.settings import (
        ClientMiddleware,
        ElicitationHandler,
        Extensions,
        LogHandler,
        MessageHandler,
        Pins,
        Roots,
        SamplingHandler,
        SkillApprover,
    )
    from ferrule.kernel.dispatch import OnProgress
    from ferrule.stores.cache import CacheStore
    from ferrule.transports.http.backend import HttpClient, TlsOptions
    from ferrule.transports.http.client import HttpAuth
    from ferrule.wire.types import DiscoverResult, Implementation

__all__ = [
    "ClientOptions",
    "CompleteOptions",
    "GetPromptOptions",
    "ReadResourceOptions",
    "StartToolOptions",
    "ToolCallOptions",
]


class ClientOptions(TypedDict, total=False):
    """The options of `Client`, without its target."""

    mode: str
    client_info: Implementation | None
    elicitation_handler: ElicitationHandler | None
    elicitation_modes: Iterable[Literal["form", "url"]]
    sampling_handler: SamplingHandler | None
    sampling_tools: bool
    roots: Roots | None
    log_handler: LogHandler | None
    log_level: str | None
    progress_handler: OnProgress | None
    message_handler: MessageHandler | None
    approve_skill: SkillApprover | None
    extensions: Extensions | None
    timeout_s: float | None
    max_total_s: float | None
    reset_on_progress: bool
    connect_timeout_s: float
    probe_timeout_s: float | None
    max_rounds: int
    raise_on_error: bool
    pins: Pins | None
    validate_output: bool
    cache: CacheStore | bool
    cache_partition: str | None
    clock: Callable[[], float]
    restart: bool
    prior_discover: DiscoverResult | Mapping[str, Any] | None
    headers: Mapping[str, str] | None
    auth: HttpAuth | OAuth | str | None
    http: HttpClient | Any
    tls: TlsOptions | ssl.SSLContext | None
    proxy: str | None
    cookies: bool
    listen: bool
    max_message_bytes: int
    fast_path: bool
    middleware: Iterable[ClientMiddleware]


class ReadResourceOptions(TypedDict, total=False):
    """The options of `Client.read_resource`, without the URI."""

    timeout_s: float | None
    on_progress: OnProgress | None
    meta: Mapping[str, Any] | None


class GetPromptOptions(TypedDict, total=False):
    """The options of `Client.get_prompt`, without name and arguments."""

    timeout_s: float | None
    meta: Mapping[str, Any] | None


class CompleteOptions(TypedDict, total=False):
    """The options of `Client.complete`, without reference, argument and value."""

    context: Mapping[str, str] | None
    timeout_s: float | None


class ToolCallOptions(TypedDict, total=False):
    """The options of `Client.call_tool`, without name and arguments."""

    timeout_s: float | None
    max_total_s: float | None
    on_progress: OnProgress | None
    result_type: Any
    raise_on_error: bool | None
    meta: Mapping[str, Any] | None
    input_responses: Mapping[str, Any] | None
    request_state: str | None


class StartToolOptions(TypedDict, total=False):
    """The options of `Client.start_tool`, without name and arguments."""

    ttl_s: float | None
    timeout_s: float | None
    result_type: Any
    meta: Mapping[str, Any] | None
