"""2027-01-01, a revision that does not exist: one new request, renamed fields, two notifications that are gone."""

from ferrule.wire.revisions.base import follow, merge, without
from ferrule.wire.revisions.r2026_07_28 import REVISION as OLDER
from ferrule.wire.types.base import RequestParams, Result
from ferrule.wire.types.capabilities import ElicitationCapability, ToolsCapability
from ferrule.wire.types.server_features.tools import Tool, ToolAnnotations

__all__ = ["REVISION"]


class ArchiveToolParams(RequestParams, kw_only=True):
    """Params of ``tools/archive``."""

    tool_name: str


class ArchiveToolResult(Result, kw_only=True):
    """The tool as it was archived."""

    tool: Tool


REVISION = follow(
    OLDER,
    "2027-01-01",
    requests=merge(OLDER.requests, {"tools/archive": (ArchiveToolParams, ArchiveToolResult)}),
    server_notifications=without(
        OLDER.server_notifications, {"notifications/message", "notifications/prompts/list_changed"}
    ),
    renamed={
        Tool: {"title": "displayTitle"},
        ToolAnnotations: {"read_only_hint": "readOnly"},
        ToolsCapability: {"list_changed": "tellsChanges"},
        ElicitationCapability: {"form": "forms"},
    },
    cacheable_methods=OLDER.cacheable_methods - {"prompts/list"},
    input_required_methods=OLDER.input_required_methods - {"prompts/get"},
)
