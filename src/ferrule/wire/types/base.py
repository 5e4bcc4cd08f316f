"""The types that all chapters use: identity, icons, annotations, ``_meta``, and the base types of params and results.

One family of types covers all revisions: each type has the fields of all of them. ``ferrule.wire.revisions`` removes
the fields that a revision lacks before a message is sent; no version is compared here. In a received message such a
field is absent.

``_meta`` is a plain dict in every type and must stay one: the path of each request passes it on without decoding it.
The ``…MetaObject`` bundles are for code that reads or writes its known keys by name.
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
"""Request ``_meta``, required from 2026-07-28 on: the revision of this request."""
META_CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
"""Request ``_meta``, required from 2026-07-28 on: the client's capabilities for this request; ``{}`` for none."""
META_CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
"""Request ``_meta`` from 2026-07-28 on: the client's `Implementation`; it should be sent, and may be absent."""
META_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
"""Request ``_meta`` from 2026-07-28 on: the lowest level of log messages; without it the server must send none."""
META_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
"""Result ``_meta`` from 2026-07-28 on: the server's `Implementation`."""
META_SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
"""``_meta`` of every message of a subscription, from 2026-07-28 on: the JSON-RPC id of its listen request."""
META_RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
"""``_meta`` of messages that belong to a task of revision 2025-11-25: ``{"taskId": …}``."""
META_PROGRESS_TOKEN: Final = "progressToken"
"""Request ``_meta``, all revisions: the sender wants ``notifications/progress`` under this token."""

Role: TypeAlias = Literal["user", "assistant"]
"""The author of a message."""

ProgressToken: TypeAlias = str | int
"""Text or an integer, unique among the sender's active requests."""

CacheScope: TypeAlias = Literal["public", "private"]
"""Which caches may keep a result: any cache, or one of a single authorization context."""

Priority: TypeAlias = Annotated[int, Meta(ge=0, le=1)] | Annotated[float, Meta(ge=0, le=1)]
"""A weight from 0 (not important) to 1 (most important)."""


class Icon(WireStruct):
    """A picture for a user interface (2025-11-25 on).

    ``src`` is an ``https:`` or ``data:`` URI, ``sizes`` are ``"WxH"`` or ``"any"``.
    """

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class Implementation(WireStruct):
    """The name and version of a program, and texts and icons to show. For display and logs, never for decisions."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


class Annotations(WireStruct):
    """Hints about a resource or a content block: its audience, its importance, and its last change (ISO 8601)."""

    audience: list[Role] | None = None
    priority: Priority | None = None
    last_modified: str | None = None


class MetaObject(OpenBundle):
    """Any ``_meta`` object, without known keys."""


class RequestMetaObject(
    OpenBundle,
    names={
        "protocol_version": META_PROTOCOL_VERSION,
        "client_capabilities": META_CLIENT_CAPABILITIES,
        "client_info": META_CLIENT_INFO,
        "log_level": META_LOG_LEVEL,
    },
):
    """The ``_meta`` of a request. All revisions define ``progress_token``; the other keys are the modern envelope.

    ``client_capabilities`` and ``client_info`` are raw JSON objects, because the presence of the envelope is checked
    before its shape. Convert them to `ClientCapabilities` and `Implementation` where they are used.
    """

    protocol_version: str | None
    client_capabilities: dict[str, Any] | None
    client_info: dict[str, Any] | None
    log_level: str | None
    progress_token: ProgressToken | None


class ResultMetaObject(OpenBundle, names={"server_info": META_SERVER_INFO, "subscription_id": META_SUBSCRIPTION_ID}):
    """The ``_meta`` of a result: the server's identity, and for ``subscriptions/listen`` the ended subscription."""

    server_info: dict[str, Any] | None
    subscription_id: str | int | None


class NotificationMetaObject(OpenBundle, names={"subscription_id": META_SUBSCRIPTION_ID}):
    """The ``_meta`` of a notification: the id of the subscription that it belongs to, if any."""

    subscription_id: str | int | None


class RequestParams(WireStruct, kw_only=True):
    """Params of any request. ``meta`` is the unchanged ``_meta``; ``None`` if there is none."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PaginatedRequestParams(RequestParams, kw_only=True):
    """Params of a list request. ``cursor`` is opaque, and may be ``""``; only ``None`` means the first page."""

    cursor: str | None = None


class InputResponseRequestParams(RequestParams, kw_only=True):
    """Params of a request that may need several rounds (2026-07-28): the answers to the questions of the last round.

    ``input_responses`` maps the keys of the questions to results without a type member: convert each by the type of its
    question. ``request_state`` is the value that the server sent, unchanged; treat it as untrusted input.
    """

    input_responses: dict[str, dict[str, Any]] | None = None
    request_state: str | None = None


class NotificationParams(WireStruct, kw_only=True):
    """Params of any notification; those without further params (``…/list_changed``, ``initialized``) use this type."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)


class TaskMetadata(WireStruct, gc=False):
    """2025-11-25 only: run this request as a task and keep its result for ``ttl_ms`` (``ttl`` on the wire)."""

    ttl_ms: int | None = field(name="ttl", default=None)


class Result(WireStruct, kw_only=True):
    """The members that every result may have.

    ``result_type`` is ``"complete"``, ``"input_required"`` or the value of an extension. ``None`` means ``"complete"``:
    the kernel adds that value to a handler's result where the revision requires it, and a peer may leave it out.
    """

    result_type: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class EmptyResult(Result, kw_only=True):
    """A result without data: of ``ping``, ``logging/setLevel``, ``resources/subscribe`` …"""


class CacheableResult(Result, kw_only=True):
    """A result with cache hints: ``ttl_ms`` (milliseconds from receipt; 0 for no reuse) and the scope of caches.

    ``None`` means that the sender set no hint: the kernel adds the default for revisions that require one, and a
    receiver treats it as 0 (2026-07-28, "Caching").
    """

    ttl_ms: int | None = None
    cache_scope: CacheScope | None = None


class PaginatedResult(CacheableResult, kw_only=True):
    """One page of a list. ``next_cursor`` is ``None`` on the last page, and only then."""

    next_cursor: str | None = None
