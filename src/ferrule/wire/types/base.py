"""The types that all chapters use: identity, icons, annotations, ``_meta``, and the envelopes of params and results.

One family of types covers all revisions: it is their superset. What a revision lacks is removed on the way out, by
``ferrule.wire.revisions``; nothing here compares versions. On the way in, a field that a revision lacks is simply
absent.

The rule a newcomer would break: ``_meta`` stays a plain dict on every type, because it passes through the hot path
undecoded; the ``…MetaObject`` bundles are for code that reads or writes its known keys by name.
"""

from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, field

from ferrule.wire.struct import OpenBundle, WireStruct

__all__ = [
    "META_CLIENT_CAPABILITIES",
    "META_CLIENT_INFO",
    "META_LOG_LEVEL",
    "META_PROGRESS_TOKEN",
    "META_PROTOCOL_VERSION",
    "META_RELATED_TASK",
    "META_SERVER_INFO",
    "META_SUBSCRIPTION_ID",
    "Annotations",
    "CacheScope",
    "CacheableResult",
    "EmptyResult",
    "Icon",
    "Implementation",
    "InputResponseRequestParams",
    "MetaObject",
    "NotificationMetaObject",
    "NotificationParams",
    "PaginatedRequestParams",
    "PaginatedResult",
    "Priority",
    "ProgressToken",
    "RequestMetaObject",
    "RequestParams",
    "Result",
    "ResultMetaObject",
    "Role",
    "TaskMetadata",
]

META_PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
"""Request ``_meta``, required from 2026-07-28: the revision this request is written in."""
META_CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
"""Request ``_meta``, required from 2026-07-28: what the client can do for this request; ``{}`` is nothing."""
META_CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
"""Request ``_meta`` from 2026-07-28: the client's `Implementation`; should be sent, may be absent."""
META_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
"""Request ``_meta`` from 2026-07-28: without it the server must not log for this request."""
META_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
"""Result ``_meta`` from 2026-07-28: the server's `Implementation`."""
META_SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
"""``_meta`` of every message on a listen stream, from 2026-07-28: the JSON-RPC id of the listen request."""
META_RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
"""``_meta`` of messages that belong to a task of revision 2025-11-25: ``{"taskId": …}``."""
META_PROGRESS_TOKEN: Final = "progressToken"
"""Request ``_meta``, all revisions: the sender wants ``notifications/progress`` under this token."""

Role: TypeAlias = Literal["user", "assistant"]
"""Whose words they are."""

ProgressToken: TypeAlias = str | int
"""Text or an integer, unique among the sender's active requests."""

CacheScope: TypeAlias = Literal["public", "private"]
"""Who may share a cached result: anyone, or one authorization context only."""

Priority: TypeAlias = Annotated[int, Meta(ge=0, le=1)] | Annotated[float, Meta(ge=0, le=1)]
"""A weight from 0 to 1."""


class Icon(WireStruct):
    """A picture for a user interface (2025-11-25 on).

    ``src`` is an ``https:`` or ``data:`` URI, ``sizes`` are ``"WxH"`` or ``"any"``.
    """

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class Implementation(WireStruct):
    """A program by name and version, with what may be shown of it. For display and logs, never for decisions."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


class Annotations(WireStruct):
    """Hints about a resource or a piece of content: for whom, how important, how recent (ISO 8601)."""

    audience: list[Role] | None = None
    priority: Priority | None = None
    last_modified: str | None = None


class MetaObject(OpenBundle):
    """Any ``_meta`` object: nothing in it is known."""


class RequestMetaObject(
    OpenBundle,
    names={
        "protocol_version": META_PROTOCOL_VERSION,
        "client_capabilities": META_CLIENT_CAPABILITIES,
        "client_info": META_CLIENT_INFO,
        "log_level": META_LOG_LEVEL,
    },
):
    """The ``_meta`` of a request. All revisions know ``progress_token``; the other keys are the modern envelope.

    ``client_capabilities`` and ``client_info`` are raw JSON objects: the envelope's presence is judged before its
    shape. Convert them to `ClientCapabilities` and `Implementation` where they are used.
    """

    protocol_version: str | None
    client_capabilities: dict[str, Any] | None
    client_info: dict[str, Any] | None
    log_level: str | None
    progress_token: ProgressToken | None


class ResultMetaObject(OpenBundle, names={"server_info": META_SERVER_INFO, "subscription_id": META_SUBSCRIPTION_ID}):
    """The ``_meta`` of a result: who answered, and for ``subscriptions/listen`` which subscription ended."""

    server_info: dict[str, Any] | None
    subscription_id: str | int | None


class NotificationMetaObject(OpenBundle, names={"subscription_id": META_SUBSCRIPTION_ID}):
    """The ``_meta`` of a notification: on a listen stream, the subscription it belongs to."""

    subscription_id: str | int | None


class RequestParams(WireStruct, kw_only=True):
    """Params of any request. ``meta`` is ``_meta`` as it came, ``None`` if there was none."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PaginatedRequestParams(RequestParams, kw_only=True):
    """Params of a list request. ``cursor`` is opaque; ``""`` is a cursor too, only ``None`` means the first page."""

    cursor: str | None = None


class InputResponseRequestParams(RequestParams, kw_only=True):
    """Params of a request that may take several rounds (2026-07-28): the answers to the last round's questions.

    ``input_responses`` maps the server's keys to bare results, which do not say of which kind they are: convert each
    with the question at hand. ``request_state`` is the server's own, echoed byte for byte; as untrusted as any input.
    """

    input_responses: dict[str, dict[str, Any]] | None = None
    request_state: str | None = None


class NotificationParams(WireStruct, kw_only=True):
    """Params of any notification, and all that a bare one (``…/list_changed``, ``initialized``) has."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class TaskMetadata(WireStruct, gc=False):
    """2025-11-25 only: run this request as a task and keep its result for ``ttl_ms`` (``ttl`` on the wire)."""

    ttl_ms: int | None = field(name="ttl", default=None)


class Result(WireStruct, kw_only=True):
    """What every result can carry.

    ``result_type`` is ``"complete"``, ``"input_required"`` or an extension's word. ``None``: the handler did not say,
    and the kernel fills in ``"complete"`` where the revision wants it; or a peer left it out, which means the same.
    """

    result_type: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class EmptyResult(Result, kw_only=True):
    """A result without data: of ``ping``, ``logging/setLevel``, ``resources/subscribe`` …"""


class CacheableResult(Result, kw_only=True):
    """A result that says how long (``ttl_ms``, milliseconds from receipt; 0 is stale) and by whom it may be cached.

    ``None`` means that the sender did not say: the kernel fills it in for revisions that require it, a receiver
    takes it for 0 (2026-07-28, "Caching").
    """

    ttl_ms: int | None = None
    cache_scope: CacheScope | None = None


class PaginatedResult(CacheableResult, kw_only=True):
    """One page of a list. ``next_cursor`` is ``None`` on the last page, and only then."""

    next_cursor: str | None = None
