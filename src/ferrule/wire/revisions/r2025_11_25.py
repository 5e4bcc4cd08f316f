"""2025-11-25, the newest revision with a handshake: icons, URL elicitation, tools in sampling, tasks in the core.

Sources: schema 2025-11-25 (ClientRequest, ServerRequest, ClientNotification, ServerNotification), changelog.
"""

from types import MappingProxyType
from typing import Any

from ferrule.wire.revisions.base import CHANGE_NOTIFICATIONS, LISTS_AND_CALLS, Revision, merge
from ferrule.wire.types.base import (
    CacheableResult,
    EmptyResult,
    InputResponseRequestParams,
    NotificationParams,
    PaginatedRequestParams,
    RequestParams,
    Result,
)
from ferrule.wire.types.client_features.elicitation import (
    ElicitationCompleteNotificationParams,
    ElicitRequestParams,
    ElicitResult,
)
from ferrule.wire.types.client_features.roots import ListRootsResult
from ferrule.wire.types.client_features.sampling import CreateMessageRequestParams, CreateMessageResult
from ferrule.wire.types.content import CONTENT_KINDS, SAMPLING_CONTENT_KINDS
from ferrule.wire.types.initialize import InitializeParams, InitializeResult
from ferrule.wire.types.notifications import CancelledNotificationParams, ProgressNotificationParams
from ferrule.wire.types.server_features.logging import SetLevelRequestParams
from ferrule.wire.types.server_features.resources import SubscribeRequestParams, UnsubscribeRequestParams
from ferrule.wire.types.tasks import (
    CancelTaskRequestParams,
    CancelTaskResult,
    GetTaskPayloadRequestParams,
    GetTaskRequestParams,
    GetTaskResult,
    ListTasksResult,
    TaskStatusNotificationParams,
)

__all__ = ["REVISION", "TASK_METHODS"]

TASK_METHODS = MappingProxyType(
    {
        "tasks/get": (GetTaskRequestParams, GetTaskResult),
        # The result is that of the request which became the task; only the sender of that request knows its type.
        "tasks/result": (GetTaskPayloadRequestParams, dict[str, Any]),
        "tasks/list": (PaginatedRequestParams, ListTasksResult),
        "tasks/cancel": (CancelTaskRequestParams, CancelTaskResult),
    }
)
"""Tasks go both ways: a server may poll a task of the client."""

_STATUS = MappingProxyType({"notifications/tasks/status": TaskStatusNotificationParams})

REVISION = Revision(
    version="2025-11-25",
    is_modern=False,
    has_sessions=True,
    has_rounds=False,
    has_extensions=False,
    requests=merge(
        LISTS_AND_CALLS,
        TASK_METHODS,
        {
            "initialize": (InitializeParams, InitializeResult),
            "ping": (RequestParams, EmptyResult),
            "resources/subscribe": (SubscribeRequestParams, EmptyResult),
            "resources/unsubscribe": (UnsubscribeRequestParams, EmptyResult),
            "logging/setLevel": (SetLevelRequestParams, EmptyResult),
        },
    ),
    notifications=merge(
        _STATUS,
        {
            "notifications/initialized": NotificationParams,
            "notifications/cancelled": CancelledNotificationParams,
            "notifications/progress": ProgressNotificationParams,
            "notifications/roots/list_changed": NotificationParams,
        },
    ),
    server_requests=merge(
        TASK_METHODS,
        {
            "ping": (RequestParams, EmptyResult),
            "sampling/createMessage": (CreateMessageRequestParams, CreateMessageResult),
            "roots/list": (RequestParams, ListRootsResult),
            "elicitation/create": (ElicitRequestParams, ElicitResult),
        },
    ),
    server_notifications=merge(
        CHANGE_NOTIFICATIONS, _STATUS, {"notifications/elicitation/complete": ElicitationCompleteNotificationParams}
    ),
    absent_fields=MappingProxyType(
        {
            Result: frozenset({"result_type"}),
            CacheableResult: frozenset({"ttl_ms", "cache_scope"}),
            InputResponseRequestParams: frozenset({"input_responses", "request_state"}),
        }
    ),
    content_kinds=CONTENT_KINDS,
    sampling_content_kinds=SAMPLING_CONTENT_KINDS,
    structured_output="object",
    has_batches=False,
    has_result_type=False,
    has_cache_hints=False,
    cacheable_methods=frozenset(),
    input_required_methods=frozenset(),
    task_methods=frozenset({"tools/call", "sampling/createMessage", "elicitation/create"}),
    missing_resource_code=-32002,
    has_url_elicitation_error=True,
    has_rich_forms=True,
    sampling_tools=True,
    has_completions_capability=True,
    has_progress_message=True,
    http="sessions",
    has_polling_streams=True,
    requires_version_header=True,
    mirrors_headers=False,
)
