"""2026-07-28, the first modern revision: no handshake, every request carries its own envelope.

Against 2025-11-25: server-to-client requests travel inside results (`InputRequiredResult`), change notifications on
``subscriptions/listen``, results say ``resultType`` and cache hints, structured output is any JSON value, tasks have
moved to an extension. Sources: schema 2026-07-28 (ClientRequest, ClientNotification, ServerNotification), changelog.
"""

from types import MappingProxyType

from ferrule.wire.revisions.base import CHANGE_NOTIFICATIONS, LISTS_AND_CALLS, Revision, merge
from ferrule.wire.types.base import RequestParams
from ferrule.wire.types.client_features.elicitation import ElicitRequestParams, ElicitResult
from ferrule.wire.types.client_features.roots import ListRootsResult
from ferrule.wire.types.client_features.sampling import CreateMessageRequestParams
from ferrule.wire.types.content import CONTENT_KINDS, SAMPLING_CONTENT_KINDS
from ferrule.wire.types.discover import DiscoverResult
from ferrule.wire.types.notifications import CancelledNotificationParams
from ferrule.wire.types.server_features.tools import CallToolRequestParams, Tool
from ferrule.wire.types.subscriptions import (
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)

__all__ = ["REVISION"]

REVISION = Revision(
    version="2026-07-28",
    is_modern=True,
    has_sessions=False,
    has_rounds=True,
    has_extensions=True,
    requests=merge(
        LISTS_AND_CALLS,
        {
            "server/discover": (RequestParams, DiscoverResult),
            "subscriptions/listen": (SubscriptionsListenRequestParams, SubscriptionsListenResult),
        },
    ),
    notifications=MappingProxyType({"notifications/cancelled": CancelledNotificationParams}),
    server_requests=MappingProxyType({}),
    server_notifications=merge(
        CHANGE_NOTIFICATIONS,
        {"notifications/subscriptions/acknowledged": SubscriptionsAcknowledgedNotificationParams},
    ),
    absent_fields=MappingProxyType(
        {
            Tool: frozenset({"execution"}),
            CallToolRequestParams: frozenset({"task"}),
            # The three questions and their answers are not messages of their own any more.
            CreateMessageRequestParams: frozenset({"meta", "task"}),
            ElicitRequestParams: frozenset({"meta", "task", "elicitation_id"}),
            ElicitResult: frozenset({"meta"}),
            ListRootsResult: frozenset({"meta"}),
        }
    ),
    content_kinds=CONTENT_KINDS,
    sampling_content_kinds=SAMPLING_CONTENT_KINDS,
    structured_output="any",
    has_batches=False,
    has_result_type=True,
    has_cache_hints=True,
    cacheable_methods=frozenset(
        {
            "server/discover",
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
            "resources/read",
        }
    ),
    input_required_methods=frozenset({"tools/call", "prompts/get", "resources/read"}),
    task_methods=frozenset(),
    missing_resource_code=-32602,
    has_url_elicitation_error=False,
    has_rich_forms=True,
    sampling_tools=True,
    has_completions_capability=True,
    has_progress_message=True,
    http="stateless",
    has_polling_streams=False,
    requires_version_header=True,
    mirrors_headers=True,
)
