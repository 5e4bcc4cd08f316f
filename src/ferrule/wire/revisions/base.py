"""`Revision`: the tables and flags of one revision of the protocol, as a frozen value.

Code outside this package uses these tables and flags and never compares version strings (a test forbids it). A method
that is absent from a table does not exist in that revision.

Each ``r….py`` beside this file defines one revision and has one line in ``index.py``. 2026-07-28 and 2025-11-25 are
written in full. Each older one is made with `derive` from the next one, so that the oldest can be deleted in one
commit; a newer one is made with `follow` from the one before it.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Struct, structs

from ferrule.wire.struct import OpenBundle
from ferrule.wire.types.base import NotificationParams, PaginatedRequestParams
from ferrule.wire.types.client_features.elicitation import ElicitRequestParams
from ferrule.wire.types.notifications import CancelledNotificationParams, ProgressNotificationParams
from ferrule.wire.types.server_features.completion import CompleteRequestParams, CompleteResult
from ferrule.wire.types.server_features.logging import LoggingMessageNotificationParams
from ferrule.wire.types.server_features.prompts import GetPromptRequestParams, GetPromptResult, ListPromptsResult
from ferrule.wire.types.server_features.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    ResourceUpdatedNotificationParams,
)
from ferrule.wire.types.server_features.tools import CallToolRequestParams, ListToolsResult, Tool, ToolResult

__all__ = [
    "CHANGE_NOTIFICATIONS",
    "LISTS_AND_CALLS",
    "AbsentFields",
    "NotificationTable",
    "RenamedFields",
    "RequestTable",
    "Reshape",
    "ReshapedTypes",
    "Revision",
    "Shape",
    "derive",
    "follow",
    "merge",
    "without",
]

_V = TypeVar("_V")

RequestTable: TypeAlias = Mapping[str, tuple[Any, Any]]
"""Method to (type of its params, type of its complete result)."""

NotificationTable: TypeAlias = Mapping[str, Any]
"""Method to the type of its params."""

Shape: TypeAlias = type[Struct] | type[OpenBundle]
"""A type of JSON objects: a struct with fields, or a bundle with known keys."""

AbsentFields: TypeAlias = Mapping[Shape, frozenset[str]]
"""Type to the Python names of fields that the revision lacks; an entry holds for subclasses too."""

RenamedFields: TypeAlias = Mapping[Shape, Mapping[str, str]]
"""Type to Python name of a field to its wire name in the revision; an entry holds for subclasses too."""

_NO_RENAMED_FIELDS: RenamedFields = MappingProxyType({})


class Reshape(Struct, frozen=True):
    """The form of a type's objects in a revision that arranges their keys in another way than the superset.

    Attributes:
        write: converts a JSON object of the superset, whose parts have the form of the revision already.
        read: the inverse, for JSON of a peer: it must accept any value under any key.
    """

    write: Callable[[dict[str, Any]], dict[str, Any]]
    read: Callable[[dict[str, Any]], dict[str, Any]]


ReshapedTypes: TypeAlias = Mapping[type[Struct], Reshape]
"""Type to its form in the revision; an entry holds for subclasses too."""

_NO_RESHAPED_TYPES: ReshapedTypes = MappingProxyType({})


def _warn_of(flag: str) -> None:
    message = f"Revision.{flag} is not a field any more and goes in 0.3; ask Revision.absent_fields"
    warnings.warn(message, DeprecationWarning, stacklevel=3)


class Revision(Struct, frozen=True, kw_only=True, eq=False):
    """One revision of the protocol.

    Attributes:
        version: the version string.
        is_modern: every request has its envelope and there is no handshake (2026-07-28 on).
        has_sessions: a connection begins with a handshake and keeps state between requests, such as the log level;
            without sessions each request carries its envelope in ``_meta``.
        has_rounds: servers ask their client in results (`InputRequiredResult`), and never by requests.
        has_extensions: both sides declare extensions in their capabilities, and a server may require one.
        requests: requests of the client. The result type is the complete one; see ``input_required_methods``.
        notifications: notifications of the client.
        server_requests: requests of the server; empty in modern revisions.
        server_notifications: notifications of the server.
        absent_fields: fields to leave out of messages for this revision.
        content_kinds: kinds of content in tool results and prompt messages.
        sampling_content_kinds: kinds of content in sampling messages.
        structured_output: whether a tool result may have ``structuredContent`` (with an ``outputSchema``): not at
            all, as an object, or as any JSON value.
        has_batches: peers may send arrays of messages (2025-03-26 only).
        has_result_type: every result has ``resultType``.
        has_cache_hints: the results of ``cacheable_methods`` have ``ttlMs`` and ``cacheScope``.
        cacheable_methods: requests whose complete results are cacheable.
        input_required_methods: requests that may first get an `InputRequiredResult`.
        task_methods: requests that may become tasks by the core protocol (2025-11-25 only).
        missing_resource_code: the JSON-RPC error code for an unknown resource.
        has_url_elicitation_error: -32042 exists (2025-11-25 only).
        has_rich_forms: a form may offer choices with titles (``oneOf``) and choices of several (2025-11-25 on).
        sampling_tools: sampling may offer tools, a message may have several blocks, and a client declares whether it
            includes context.
        has_completions_capability: completion is declared by a capability.
        has_progress_message: progress notifications may have a text.
        http: the HTTP binding: ``"sse"`` (two endpoints), ``"sessions"`` (Streamable HTTP with sessions) or
            ``"stateless"`` (one POST per request).
        has_polling_streams: a server may close an event stream that the client then resumes, and opens each with an
            empty event that has an id (SEP-1699; 2025-11-25 only, older clients fail at the empty event).
        requires_version_header: HTTP requests after the handshake have the version in a header.
        mirrors_headers: HTTP headers repeat the method, the name and annotated arguments.
        renamed_fields: fields that this revision writes under another name. `project_result` and `project_params`
            write that name, `read_result` and `read_params` read it.
        reshaped_types: types whose objects have another form than renamed and dropped fields can give; likewise.
        has_own_forms: whether a message has another form than in the superset, so that one of a peer has to pass
            `read_result` or `read_params`; set by `follow`.
    """

    version: str
    is_modern: bool
    has_sessions: bool
    has_rounds: bool
    has_extensions: bool
    requests: RequestTable
    notifications: NotificationTable
    server_requests: RequestTable
    server_notifications: NotificationTable
    absent_fields: AbsentFields
    content_kinds: frozenset[str]
    sampling_content_kinds: frozenset[str]
    structured_output: Literal["none", "object", "any"]
    has_batches: bool
    has_result_type: bool
    has_cache_hints: bool
    cacheable_methods: frozenset[str]
    input_required_methods: frozenset[str]
    task_methods: frozenset[str]
    missing_resource_code: int
    has_url_elicitation_error: bool
    has_rich_forms: bool
    sampling_tools: bool
    has_completions_capability: bool
    has_progress_message: bool
    http: Literal["sse", "sessions", "stateless"]
    has_polling_streams: bool
    requires_version_header: bool
    mirrors_headers: bool
    renamed_fields: RenamedFields = _NO_RENAMED_FIELDS
    reshaped_types: ReshapedTypes = _NO_RESHAPED_TYPES
    has_own_forms: bool = False

    @property
    def has_titles(self) -> bool:
        """Deprecated: ask `absent_fields` for the field that is meant. It goes in 0.3."""
        _warn_of("has_titles")
        return "title" not in self.lacks(Tool)

    @property
    def has_icons(self) -> bool:
        """Deprecated: ask `absent_fields` for the field that is meant. It goes in 0.3."""
        _warn_of("has_icons")
        return "icons" not in self.lacks(Tool)

    @property
    def elicitation_modes(self) -> frozenset[str]:
        """Deprecated: ask `server_requests` and `absent_fields`. It goes in 0.3."""
        _warn_of("elicitation_modes")
        if "elicitation/create" not in self.server_requests and not self.input_required_methods:
            return frozenset()
        return frozenset({"form"} if "url" in self.lacks(ElicitRequestParams) else {"form", "url"})

    def lacks(self, type_: Shape) -> frozenset[str]:
        """Return the Python names of ``type_``'s fields that this revision does not have, its bases' included."""
        names: set[str] = set()
        for base in type_.__mro__:
            names |= self.absent_fields.get(base, frozenset())
        return frozenset(names)

    def renames(self, type_: Shape) -> dict[str, str]:
        """Return the fields of ``type_`` with another name here: Python name to wire name, its bases' included."""
        names: dict[str, str] = {}
        for base in reversed(type_.__mro__):
            names.update(self.renamed_fields.get(base, {}))
        return names

    def reshapes(self, type_: Shape) -> Reshape | None:
        """Return the form of ``type_``'s objects here; ``None`` if it is that of the superset."""
        return next((self.reshaped_types[base] for base in type_.__mro__ if base in self.reshaped_types), None)


LISTS_AND_CALLS: RequestTable = MappingProxyType(
    {
        "tools/list": (PaginatedRequestParams, ListToolsResult),
        "tools/call": (CallToolRequestParams, ToolResult),
        "resources/list": (PaginatedRequestParams, ListResourcesResult),
        "resources/templates/list": (PaginatedRequestParams, ListResourceTemplatesResult),
        "resources/read": (ReadResourceRequestParams, ReadResourceResult),
        "prompts/list": (PaginatedRequestParams, ListPromptsResult),
        "prompts/get": (GetPromptRequestParams, GetPromptResult),
        "completion/complete": (CompleteRequestParams, CompleteResult),
    }
)
"""The requests that every revision has."""

CHANGE_NOTIFICATIONS: NotificationTable = MappingProxyType(
    {
        "notifications/cancelled": CancelledNotificationParams,
        "notifications/progress": ProgressNotificationParams,
        "notifications/message": LoggingMessageNotificationParams,
        "notifications/resources/updated": ResourceUpdatedNotificationParams,
        "notifications/resources/list_changed": NotificationParams,
        "notifications/tools/list_changed": NotificationParams,
        "notifications/prompts/list_changed": NotificationParams,
    }
)
"""The notifications from the server that every revision has."""


def merge(*tables: Mapping[str, _V]) -> Mapping[str, _V]:
    """Return one read-only table of all entries; of two entries for a method the later one holds."""
    merged: dict[str, _V] = {}
    for table in tables:
        merged.update(table)
    return MappingProxyType(merged)


def without(table: Mapping[str, _V], methods: Iterable[str]) -> Mapping[str, _V]:
    """Return ``table`` without ``methods``.

    Raises:
        KeyError: a method is not in the table.
    """
    left = dict(table)
    for method in methods:
        del left[method]
    return MappingProxyType(left)


def derive(newer: Revision, version: str, *, absent: Mapping[Shape, set[str]], **changes: Any) -> Revision:
    """Return the revision before ``newer``.

    Args:
        newer: the revision to start from.
        version: the version string.
        absent: the fields that ``version`` does not have yet.
        changes: the tables and flags that differ.
    """
    return structs.replace(newer, version=version, absent_fields=_add_fields(newer, absent), **changes)


def follow(
    older: Revision,
    version: str,
    *,
    absent: Mapping[Shape, set[str]] | None = None,
    renamed: Mapping[Shape, Mapping[str, str]] | None = None,
    reshaped: ReshapedTypes | None = None,
    **changes: Any,
) -> Revision:
    """Return the revision after ``older``.

    Args:
        older: the revision to start from.
        version: the version string.
        absent: the fields that ``version`` has no longer.
        renamed: the fields with another name on the wire than in ``older``: type to Python name to wire name.
        reshaped: the types with another form than in ``older``.
        changes: the tables and flags that differ.
    """
    names: dict[Shape, Mapping[str, str]] = dict(older.renamed_fields)
    for type_, table in (renamed or {}).items():
        names[type_] = {**names.get(type_, {}), **table}
    forms = {**older.reshaped_types, **(reshaped or {})}
    return structs.replace(
        older,
        version=version,
        absent_fields=_add_fields(older, absent or {}),
        renamed_fields=MappingProxyType(names),
        reshaped_types=MappingProxyType(forms),
        has_own_forms=bool(names or forms),
        **changes,
    )


def _add_fields(revision: Revision, absent: Mapping[Shape, set[str]]) -> AbsentFields:
    fields: dict[Shape, frozenset[str]] = dict(revision.absent_fields)
    for type_, names in absent.items():
        fields[type_] = fields.get(type_, frozenset()) | names
    return MappingProxyType(fields)
