"""2025-06-18: structured output, elicitation by form, resource links, titles; batches are gone again.

It does not have yet, against 2025-11-25: icons, URL elicitation, rich choices in forms, tools in sampling,
tasks.
"""

from ferrule.wire.revisions.base import derive, without
from ferrule.wire.revisions.r2025_11_25 import REVISION as NEWER
from ferrule.wire.revisions.r2025_11_25 import TASK_METHODS
from ferrule.wire.types.base import Implementation
from ferrule.wire.types.client_features.elicitation import ElicitRequestParams
from ferrule.wire.types.client_features.sampling import CreateMessageRequestParams, SamplingMessage
from ferrule.wire.types.content import ToolContentBlock
from ferrule.wire.types.server_features.prompts import Prompt
from ferrule.wire.types.server_features.resources import Resource, ResourceTemplate
from ferrule.wire.types.server_features.tools import CallToolRequestParams, Tool

__all__ = ["REVISION"]

REVISION = derive(
    NEWER,
    "2025-06-18",
    absent={
        Implementation: {"description", "website_url", "icons"},
        Tool: {"icons", "execution"},
        Prompt: {"icons"},
        Resource: {"icons"},
        ResourceTemplate: {"icons"},
        ToolContentBlock: {"icons"},
        CallToolRequestParams: {"task"},
        SamplingMessage: {"meta"},
        CreateMessageRequestParams: {"tools", "tool_choice", "task"},
        ElicitRequestParams: {"mode", "url", "elicitation_id", "task"},
    },
    requests=without(NEWER.requests, TASK_METHODS),
    notifications=without(NEWER.notifications, {"notifications/tasks/status"}),
    server_requests=without(NEWER.server_requests, TASK_METHODS),
    server_notifications=without(
        NEWER.server_notifications, {"notifications/tasks/status", "notifications/elicitation/complete"}
    ),
    sampling_content_kinds=frozenset({"text", "image", "audio"}),
    task_methods=frozenset(),
    has_url_elicitation_error=False,
    has_rich_forms=False,
    sampling_tools=False,
    has_polling_streams=False,
)
