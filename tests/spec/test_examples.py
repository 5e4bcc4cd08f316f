"""The examples that the specification publishes decode into our types and come back as the same JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ferrule import types as t
from ferrule.wire.codec import convert, decode, encode
from ferrule.wire.jsonrpc import parse_message
from ferrule.wire.revisions import REVISIONS
from tests.schemas import SCHEMAS

MODERN = REVISIONS["2026-07-28"]
EXAMPLES = SCHEMAS / "examples-2026-07-28"

TYPES: dict[str, Any] = {
    "AudioContent": t.ToolContentBlock,
    "BlobResourceContents": t.ResourceContents,
    "BooleanSchema": t.PrimitiveSchemaDefinition,
    "CallToolRequestParams": t.CallToolRequestParams,
    "CallToolResult": t.ToolResult,
    "CancelledNotificationParams": t.CancelledNotificationParams,
    "ClientCapabilities": t.ClientCapabilities,
    "CompleteRequestParams": t.CompleteRequestParams,
    "CompleteResult": t.CompleteResult,
    "CreateMessageRequest": t.CreateMessageRequest,
    "CreateMessageRequestParams": t.CreateMessageRequestParams,
    "CreateMessageResult": t.CreateMessageResult,
    "DiscoverResult": t.DiscoverResult,
    "ElicitRequest": t.ElicitRequest,
    "ElicitRequestFormParams": t.ElicitRequestParams,
    "ElicitRequestURLParams": t.ElicitRequestParams,
    "ElicitResult": t.ElicitResult,
    "EmbeddedResource": t.ToolContentBlock,
    "GetPromptRequestParams": t.GetPromptRequestParams,
    "GetPromptResult": t.GetPromptResult,
    "ImageContent": t.ToolContentBlock,
    "InputRequests": t.InputRequests,
    "InputRequiredResult": t.InputRequiredResult,
    "InputResponses": t.InputResponses,
    "InternalError": t.JsonRpcError,
    "InvalidParamsError": t.JsonRpcError,
    "ListPromptsResult": t.ListPromptsResult,
    "ListResourceTemplatesResult": t.ListResourceTemplatesResult,
    "ListResourcesResult": t.ListResourcesResult,
    "ListRootsRequest": t.ListRootsRequest,
    "ListRootsResult": t.ListRootsResult,
    "ListToolsResult": t.ListToolsResult,
    "LoggingMessageNotificationParams": t.LoggingMessageNotificationParams,
    "MethodNotFoundError": t.JsonRpcError,
    "ModelPreferences": t.ModelPreferences,
    "NumberSchema": t.PrimitiveSchemaDefinition,
    "PaginatedRequestParams": t.PaginatedRequestParams,
    "ParseError": t.JsonRpcError,
    "ProgressNotificationParams": t.ProgressNotificationParams,
    "ReadResourceResult": t.ReadResourceResult,
    "Resource": t.Resource,
    "ResourceLink": t.ToolContentBlock,
    "ResourceUpdatedNotificationParams": t.ResourceUpdatedNotificationParams,
    "Root": t.Root,
    "SamplingMessage": t.SamplingMessage,
    "ServerCapabilities": t.ServerCapabilities,
    "StringSchema": t.PrimitiveSchemaDefinition,
    "SubscriptionsListenResult": t.SubscriptionsListenResult,
    "TextContent": t.ToolContentBlock,
    "TextResourceContents": t.ResourceContents,
    "TitledMultiSelectEnumSchema": t.PrimitiveSchemaDefinition,
    "TitledSingleSelectEnumSchema": t.PrimitiveSchemaDefinition,
    "Tool": t.Tool,
    "ToolResultContent": t.ToolContentBlock,
    "ToolUseContent": t.ToolContentBlock,
    "UntitledMultiSelectEnumSchema": t.PrimitiveSchemaDefinition,
    "UntitledSingleSelectEnumSchema": t.PrimitiveSchemaDefinition,
}
"""Folders of bare values."""

RESULT_RESPONSES: dict[str, str] = {
    "CallToolResultResponse": "tools/call",
    "CompleteResultResponse": "completion/complete",
    "DiscoverResultResponse": "server/discover",
    "GetPromptResultResponse": "prompts/get",
    "ListPromptsResultResponse": "prompts/list",
    "ListResourceTemplatesResultResponse": "resources/templates/list",
    "ListResourcesResultResponse": "resources/list",
    "ListToolsResultResponse": "tools/list",
    "ReadResourceResultResponse": "resources/read",
    "SubscriptionsListenResultResponse": "subscriptions/listen",
}
"""Folders of whole success responses, with the request they answer."""

ERROR_RESPONSES: dict[str, Any] = {
    "HeaderMismatchError": None,
    "MissingRequiredClientCapabilityError": t.MissingRequiredClientCapabilityData,
    "UnsupportedProtocolVersionError": t.UnsupportedProtocolVersionData,
}
"""Folders of whole error responses, with the type of ``error.data``."""


def _examples() -> list[Any]:
    if not EXAMPLES.is_dir():
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"{EXAMPLES.name} is not beside this clone"))]
    return [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in sorted(EXAMPLES.glob("*/*.json"))]


def _same_json(left: Any, right: Any) -> bool:
    """Equal as JSON: ``1``, ``1.0`` and ``true`` are different values, the order of keys is not."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def _round_trip(folder: str, data: bytes) -> Any:
    """The example through our types, as bytes again."""
    value = decode(data)
    if folder in TYPES:
        return encode(convert(value, TYPES[folder]))
    message = parse_message(value)
    if isinstance(message, t.JsonRpcRequest):
        params = convert(message.params, MODERN.requests[message.method][0])
        return encode({"jsonrpc": "2.0", "id": message.id, "method": message.method, "params": params})
    if isinstance(message, t.JsonRpcNotification):
        if message.params is None:
            return encode(message)
        params = convert(message.params, MODERN.server_notifications[message.method])
        return encode({"jsonrpc": "2.0", "method": message.method, "params": params})
    if folder in RESULT_RESPONSES:
        result = convert(message.result, MODERN.requests[RESULT_RESPONSES[folder]][1])
        return encode({"jsonrpc": "2.0", "id": message.id, "result": result})
    data_type = ERROR_RESPONSES[folder]
    assert message.error is not None
    error: Any = {"code": message.error.code, "message": message.error.message}
    if data_type is not None:
        error["data"] = convert(message.error.data, data_type)
    return encode({"jsonrpc": "2.0", "id": message.id, "error": error})


@pytest.mark.parametrize("path", _examples())
def test_a_published_example_comes_back_unchanged(path: Path) -> None:
    """What the specification shows must survive us in every value, not only in those we understand."""
    data = path.read_bytes()
    again = decode(_round_trip(path.parent.name, data))
    assert _same_json(again, json.loads(data))


def test_all_published_examples_are_there() -> None:
    """A lost file would make the test above quietly weaker."""
    if not EXAMPLES.is_dir():
        pytest.skip(f"{EXAMPLES.name} is not beside this clone")
    assert len(list(EXAMPLES.glob("*/*.json"))) == 129


def test_the_comparison_distinguishes_numbers() -> None:
    """Python takes 1, 1.0 and True for equal; the comparison that the examples rest on must not."""
    assert _same_json({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not _same_json({"a": 1}, {"a": 1.0})
    assert not _same_json({"a": 1}, {"a": True})
