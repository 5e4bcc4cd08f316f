"""The protocol types that the founding documents name, each by its behaviour (``ferrule.types``)."""

from __future__ import annotations

import dataclasses
from enum import IntEnum
from typing import Any, get_args

import pytest

from ferrule import types as t
from ferrule.wire import jsonrpc
from ferrule.wire.codec import convert, decode, encode
from ferrule.wire.faults import ConvertError
from ferrule.wire.uri_template import UriTemplate

NAMES = [
    "JsonRpcRequest",
    "JsonRpcNotification",
    "JsonRpcResponse",
    "JsonRpcError",
    "JsonRpcErrorCode",
    "JsonRpcMessage",
    "parse_message",
    "Implementation",
    "ClientCapabilities",
    "ServerCapabilities",
    "InitializeParams",
    "InitializeResult",
    "Tool",
    "ToolContentBlock",
    "ToolResult",
    "Resource",
    "ResourceTemplate",
    "ResourceContents",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "GetPromptResult",
    "HANDSHAKE_PROTOCOL_VERSIONS",
    "LATEST_HANDSHAKE_VERSION",
    "MODERN_PROTOCOL_VERSIONS",
    "LATEST_MODERN_VERSION",
]


@pytest.mark.parametrize("name", NAMES)
def test_the_name_is_public(name: str) -> None:
    """Importable from `ferrule.types`, and listed."""
    assert hasattr(t, name)
    assert name in t.__all__


# --- JSON-RPC ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id_", ["a", "", 0, -1, 2**70])
def test_a_json_rpc_request_has_an_id(id_: Any) -> None:
    """Text or integer; `1` and `"1"` stay different."""
    request = t.JsonRpcRequest(id_, "ping")
    again = t.parse_message(decode(encode(request)))
    assert again == request
    assert type(again.id) is type(id_)  # type: ignore[union-attr]


@pytest.mark.parametrize("id_", [None, 1.0, True, {}, []])
def test_a_json_rpc_request_refuses_other_ids(id_: Any) -> None:
    """Never null, float, bool or object, neither made nor received."""
    with pytest.raises((TypeError, ValueError)):
        t.JsonRpcRequest(id_, "ping")
    with pytest.raises(ValueError):
        t.parse_message({"jsonrpc": "2.0", "id": id_, "method": "ping"})


def test_a_json_rpc_notification_has_no_id() -> None:
    """And so gets no response."""
    note = t.parse_message({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert note == t.JsonRpcNotification("notifications/initialized")
    assert "id" not in decode(encode(note))
    assert not hasattr(note, "id")


def test_a_json_rpc_response_has_exactly_one_of_result_and_error() -> None:
    """Enforced at construction, and when one is received."""
    error = t.JsonRpcError(-32603, "m")
    assert t.JsonRpcResponse(1, result=None).result is None
    assert t.JsonRpcResponse(1, error=error).error == error
    for wrong in ({}, {"result": 1, "error": error}):
        with pytest.raises(ValueError):
            t.JsonRpcResponse(1, **wrong)  # type: ignore[arg-type]
    for wire in ({}, {"result": {}, "error": {"code": 1, "message": "m"}}):
        with pytest.raises(ValueError):
            t.parse_message({"jsonrpc": "2.0", "id": 1, **wire})


def test_a_json_rpc_error_keeps_codes_outside_the_enum() -> None:
    """`code` is a plain int, so that codes of other programs survive a round trip."""
    wire = {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "user rejected", "data": None}}
    message = t.parse_message(wire)
    assert isinstance(message, t.JsonRpcResponse)
    assert message.error is not None
    assert type(message.error.code) is int
    assert decode(encode(message)) == wire
    assert t.JsonRpcError(1, "m").data is t.UNSET


def test_the_error_codes_are_those_of_json_rpc_and_mcp() -> None:
    """An `IntEnum`, so that members are integers on the wire."""
    assert issubclass(t.JsonRpcErrorCode, IntEnum)
    expected = {-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022, -32002, -32042}
    assert {int(code) for code in t.JsonRpcErrorCode} == expected


def test_json_rpc_message_is_the_union_of_the_three() -> None:
    """What `parse_message` gives."""
    assert set(get_args(t.JsonRpcMessage)) == {t.JsonRpcRequest, t.JsonRpcNotification, t.JsonRpcResponse}


@pytest.mark.parametrize("payload", [{}, {"jsonrpc": "2.0"}, {"jsonrpc": "1.0", "id": 1, "method": "x"}, [], "x", None])
def test_parse_message_refuses_what_has_no_shape(payload: Any) -> None:
    """`ValueError`, which the caller answers with -32600; the byte decoder agrees, for they share a classifier."""
    with pytest.raises(ValueError):
        t.parse_message(payload)
    with pytest.raises(ValueError):
        jsonrpc.decode_message(encode(payload))


# --- handshake and capabilities ---------------------------------------------------------------------------------------


def test_implementation_has_identity_and_display() -> None:
    """Name and version, plus title, description, websiteUrl, icons."""
    wire = {
        "name": "n",
        "version": "1",
        "title": "N",
        "description": "d",
        "websiteUrl": "https://e.org",
        "icons": [{"src": "https://e.org/i.png", "sizes": ["any"], "theme": "dark", "mimeType": "image/png"}],
    }
    assert decode(encode(convert(wire, t.Implementation))) == wire
    with pytest.raises(ConvertError, match="version"):
        convert({"name": "n"}, t.Implementation)


@pytest.mark.parametrize("kind", [t.ClientCapabilities, t.ServerCapabilities])
def test_capabilities_keep_unknown_keys_at_every_level(kind: Any) -> None:
    """Open bundles: what a newer peer declares comes back verbatim, the top level included."""
    wire = {
        "zz": {"a": [1, None]},
        "experimental": {"x": {"y": {}}},
        "extensions": {"e.org/x": {"v": 1}},
        "roots": {"listChanged": True, "zz": 1},
        "tools": {"listChanged": False, "zz": {"a": 1}},
        "tasks": {"requests": {"tools": {"call": {}, "zz": 1}, "sampling": {"zz": 2}}, "zz": 3},
    }
    capabilities = convert(wire, kind)
    assert decode(encode(capabilities)) == wire
    assert dataclasses.replace(capabilities) == wire
    assert capabilities["zz"] == {"a": [1, None]}


def test_capabilities_are_read_by_attribute() -> None:
    """Declared without options is not the same as not declared."""
    capabilities = convert({"roots": {}, "elicitation": {"url": {}}}, t.ClientCapabilities)
    assert capabilities.roots is not None
    assert capabilities.roots.list_changed is None
    assert capabilities.sampling is None
    assert capabilities.elicitation is not None
    assert capabilities.elicitation.url == {}
    assert t.ServerCapabilities(tools=t.ToolsCapability(list_changed=True)) == {"tools": {"listChanged": True}}


def test_the_handshake_round_trips() -> None:
    """`InitializeParams` and `InitializeResult`."""
    ask = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "c", "version": "1"},
    }
    assert decode(encode(convert(ask, t.InitializeParams))) == ask
    answer = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"},
        "instructions": "i",
    }
    assert decode(encode(convert(answer, t.InitializeResult))) == answer
    for missing in ask:
        with pytest.raises(ConvertError, match=missing):
            convert({key: value for key, value in ask.items() if key != missing}, t.InitializeParams)


# --- tools ------------------------------------------------------------------------------------------------------------


def test_a_tool_carries_json_schema_documents_and_hints() -> None:
    """The schemas are documents, not models; `annotations` is the hint bundle."""
    schema = {"type": "object", "properties": {"a": {"type": "integer", "x-mcp-header": "A"}}}
    tool = t.Tool("n", schema, output_schema={"type": "array"}, annotations=t.ToolAnnotations(read_only_hint=True))
    assert tool.input_schema is schema
    assert decode(encode(tool)) == {
        "name": "n",
        "inputSchema": schema,
        "outputSchema": {"type": "array"},
        "annotations": {"readOnlyHint": True},
    }


@pytest.mark.parametrize("kind", ["text", "image", "audio", "resource", "resource_link"])
def test_a_tool_content_block_is_one_flat_type(kind: str) -> None:
    """All kinds are the same class, with `type` as the kind."""
    wires: dict[str, Any] = {
        "text": {"type": "text", "text": "a"},
        "image": {"type": "image", "data": "AA==", "mimeType": "image/png"},
        "audio": {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
        "resource": {"type": "resource", "resource": {"uri": "a:b", "text": "t"}},
        "resource_link": {"type": "resource_link", "uri": "a:b", "name": "n"},
    }
    block = convert(wires[kind], t.ToolContentBlock)
    assert type(block) is t.ToolContentBlock
    assert decode(encode(block)) == wires[kind]


def test_a_tool_content_block_of_an_unknown_type_is_kept() -> None:
    """A newer peer is not refused, and nothing of its block is lost."""
    wire = {"type": "hologram", "depth": 3}
    block = convert(wire, t.ToolContentBlock)
    assert block.type == "hologram"
    assert decode(encode(block)) == wire


def test_a_tool_result_distinguishes_absent_and_null() -> None:
    """And `is_error` is the tool's failure, not a JSON-RPC error."""
    for wire in ({"content": []}, {"content": [], "structuredContent": None}, {"content": [], "isError": True}):
        assert decode(encode(convert(wire, t.ToolResult))) == wire
    assert t.ToolResult([]).structured_content is t.UNSET
    assert t.ToolResult([], None).structured_content is None
    assert not t.ToolResult([]).is_error


# --- resources and prompts --------------------------------------------------------------------------------------------


def test_a_resource_template_is_matched_and_expanded() -> None:
    """RFC 6570 both ways."""
    template = t.ResourceTemplate("file:///{name}.txt", "files")
    assert UriTemplate(template.uri_template).expand(name="a") == "file:///a.txt"
    assert UriTemplate(template.uri_template).match("file:///a.txt") == {"name": "a"}


def test_a_resource_round_trips() -> None:
    """With everything that may describe it."""
    wire = {
        "uri": "file:///a",
        "name": "a",
        "title": "A",
        "description": "d",
        "mimeType": "text/plain",
        "size": 3,
        "annotations": {"audience": ["user", "assistant"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"},
        "icons": [{"src": "https://e.org/i"}],
        "_meta": {"k": 1},
    }
    assert decode(encode(convert(wire, t.Resource))) == wire


def test_resource_contents_hold_text_or_blob() -> None:
    """Never both, and never neither."""
    for wire in ({"uri": "a:b", "text": ""}, {"uri": "a:b", "blob": "AA=="}):
        assert decode(encode(convert(wire, t.ResourceContents))) == wire
    for wrong in ({"uri": "a:b", "text": "", "blob": ""}, {"uri": "a:b"}):
        with pytest.raises(ConvertError):
            convert(wrong, t.ResourceContents)
        with pytest.raises(ValueError):
            t.ResourceContents(**wrong)  # pyright: ignore[reportArgumentType]


def test_a_prompt_message_takes_every_kind_of_content_and_two_roles() -> None:
    """`PromptMessage.text` is the short way; role is enforced."""
    assert t.PromptMessage.text("assistant", "a").content.text == "a"
    for block in (t.image_block(b"", "image/png"), t.resource_link_block("a:b", "n")):
        message = t.PromptMessage("user", block)
        assert convert(decode(encode(message)), t.PromptMessage) == message
    for role in ("system", "", None):
        with pytest.raises(ValueError):
            t.PromptMessage(role, t.text_block("a"))  # type: ignore[arg-type]


def test_prompts_round_trip() -> None:
    """`Prompt`, `PromptArgument` and `GetPromptResult`."""
    prompt = {"name": "p", "arguments": [{"name": "a", "description": "d", "required": False, "title": "A"}]}
    assert decode(encode(convert(prompt, t.Prompt))) == prompt
    result = {"description": "d", "messages": [{"role": "user", "content": {"type": "text", "text": "t"}}]}
    assert decode(encode(convert(result, t.GetPromptResult))) == result


# --- as dataclasses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        t.Implementation("n", "1"),
        t.Tool("n", {}),
        t.text_block("a"),
        t.ToolResult([t.text_block("a")], {"a": 1}),
        t.JsonRpcRequest(1, "m", {"a": 1}),
        t.JsonRpcResponse(1, result={}),
        t.ClientCapabilities(roots=t.RootsCapability(list_changed=True), zz=1),
        t.InitializeParams("v", t.ClientCapabilities(), t.Implementation("n", "1")),
        t.PromptMessage.text("user", "a"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_types_behave_like_dataclasses(value: Any) -> None:
    """The founding text calls them so: fields, replace, asdict, equality, repr and patterns."""
    names = [field.name for field in dataclasses.fields(value)]
    assert set(dataclasses.asdict(value)) == set(names)
    assert dataclasses.replace(value) == value
    assert repr(value).startswith(type(value).__name__)
    assert isinstance(type(value).__match_args__, tuple)
