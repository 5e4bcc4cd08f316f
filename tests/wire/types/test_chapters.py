"""The smaller chapters: what each enforces or keeps."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import types as t
from ferrule.wire.codec import convert, decode, encode
from ferrule.wire.faults import ConvertError


def test_a_prompt_message_is_said_by_the_user_or_the_assistant() -> None:
    """Other roles exist in other protocols and must not leak into this one."""
    assert t.PromptMessage.text("user", "hi") == t.PromptMessage("user", t.text_block("hi"))
    with pytest.raises(ValueError, match="system"):
        t.PromptMessage.text("system", "hi")  # type: ignore[arg-type]
    with pytest.raises(ConvertError) as caught:
        convert({"messages": [{"role": "system", "content": {"type": "text", "text": ""}}]}, t.GetPromptResult)
    assert caught.value.path == "$.messages[0].role"


@pytest.mark.parametrize(
    ("wire", "kind"),
    [
        ({"type": "ref/prompt", "name": "p"}, t.PromptReference),
        ({"type": "ref/resource", "uri": "file:///{x}"}, t.ResourceTemplateReference),
    ],
)
def test_a_completion_reference_is_told_by_its_type(wire: Any, kind: type) -> None:
    """Prompt and resource references share a field."""
    params = convert({"ref": wire, "argument": {"name": "a", "value": ""}}, t.CompleteRequestParams)
    assert type(params.ref) is kind
    assert params.ref.type == wire["type"]
    assert decode(encode(params))["ref"] == wire


def test_an_unknown_completion_reference_is_refused() -> None:
    """There is nothing to complete for it."""
    with pytest.raises(ConvertError, match="ref"):
        convert({"ref": {"type": "ref/x"}, "argument": {"name": "a", "value": ""}}, t.CompleteRequestParams)


def test_an_empty_cursor_is_a_cursor() -> None:
    """2026-07-28: `""` is a valid cursor and not the end of the list."""
    assert convert({"cursor": ""}, t.PaginatedRequestParams).cursor == ""
    assert decode(encode(t.ListToolsResult([], next_cursor=""))) == {"tools": [], "nextCursor": ""}


def test_zero_is_a_cache_hint() -> None:
    """0 says stale, absent says nothing."""
    assert decode(encode(t.ListToolsResult([], ttl_ms=0, cache_scope="private"))) == {
        "tools": [],
        "ttlMs": 0,
        "cacheScope": "private",
    }


@pytest.mark.parametrize(
    ("type_", "wire", "field"),
    [
        (t.ListResourcesResult, {"resources": [{"uri": "a:b", "name": "n", "size": 1.0}]}, "resources"),
        (t.ListToolsResult, {"tools": [], "ttlMs": 1.0}, "tools"),
        (t.ToolResult, {"content": [{"type": "resource_link", "uri": "a:b", "name": "n", "size": 1.0}]}, "content"),
        (t.CompleteResult, {"completion": {"values": [], "total": 1.0}}, "completion"),
    ],
)
def test_an_integer_may_be_written_as_a_float(type_: Any, wire: Any, field: str) -> None:
    """`1.0` is an integer to JSON Schema and to JavaScript, and peers without integers write it so."""
    written = decode(encode(convert(wire, type_)))
    assert written[field] == wire[field]
    assert "1.0" not in str(written)


def test_a_fraction_is_no_integer_and_content_keeps_its_floats() -> None:
    """Only the library's own integers are read so: what a tool answered stays as it is."""
    with pytest.raises(ConvertError, match="size"):
        convert({"resources": [{"uri": "a:b", "name": "n", "size": 1.5}]}, t.ListResourcesResult)
    block = {"type": "resource_link", "uri": "a:b", "name": "n", "size": 1.0}
    read = convert({"content": [block], "structuredContent": {"x": 1.0}, "_meta": {"y": 1.0}}, t.ToolResult)
    assert type(read.structured_content["x"]) is float
    assert read.meta is not None
    assert type(read.meta["y"]) is float


@pytest.mark.parametrize("wire", [1, 2.5, 10**20])
def test_numbers_keep_their_kind(wire: Any) -> None:
    """50 must not come back as 50.0."""
    params = convert({"progressToken": "t", "progress": wire}, t.ProgressNotificationParams)
    assert type(params.progress) is type(wire)
    assert params.progress == wire


@pytest.mark.parametrize("priority", [-1, 2, 1.5])
def test_a_priority_lies_between_0_and_1(priority: float) -> None:
    """The schema says so, and hosts sort by it."""
    with pytest.raises(ConvertError) as caught:
        convert({"priority": priority}, t.Annotations)
    assert caught.value.path == "$.priority"


def test_a_progress_token_is_no_truth_value() -> None:
    """`True == 1` in Python, not on the wire."""
    with pytest.raises(ConvertError):
        convert({"progressToken": True, "progress": 1}, t.ProgressNotificationParams)


def test_elicitation_needs_what_its_mode_needs() -> None:
    """A form without a schema, or a page without an address, cannot be shown."""
    schema = {"type": "object", "properties": {}}
    assert t.ElicitRequestParams(message="?", requested_schema=schema).mode is None
    with pytest.raises(ValueError, match="requestedSchema"):
        t.ElicitRequestParams(message="?")
    with pytest.raises(ConvertError, match="`url`"):
        convert({"message": "?", "mode": "url", "requestedSchema": schema}, t.ElicitRequestParams)


def test_questions_are_told_by_their_method() -> None:
    """The three input requests have no frame of their own."""
    wire = {
        "resultType": "input_required",
        "inputRequests": {
            "a": {"method": "elicitation/create", "params": {"message": "?", "mode": "url", "url": "https://e.org"}},
            "b": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
            "c": {"method": "roots/list"},
        },
    }
    result = convert(wire, t.InputRequiredResult)
    assert result.input_requests is not None
    assert [type(q) for q in result.input_requests.values()] == [
        t.ElicitRequest,
        t.CreateMessageRequest,
        t.ListRootsRequest,
    ]
    assert result.input_requests["a"].method == "elicitation/create"
    assert decode(encode(result)) == wire
    with pytest.raises(ConvertError):
        convert({"resultType": "input_required", "inputRequests": {"a": {"method": "x"}}}, t.InputRequiredResult)


def test_an_input_required_result_asks_or_holds_a_state() -> None:
    """2026-07-28: at least one of the two, else the client would repeat the same request for ever."""
    assert t.InputRequiredResult(request_state="s").result_type == "input_required"
    with pytest.raises(ValueError, match="requestState"):
        t.InputRequiredResult()


def test_a_task_that_lives_for_ever_says_so() -> None:
    """`ttl` is required and nullable: null is for ever, absence is an error."""
    wire = {"taskId": "t", "status": "working", "createdAt": "x", "lastUpdatedAt": "x", "ttl": None}
    task = convert(wire, t.Task)
    assert task.ttl_ms is None
    assert decode(encode(task)) == wire
    del wire["ttl"]
    with pytest.raises(ConvertError, match="ttl"):
        convert(wire, t.Task)


def test_the_two_wires_of_tasks_differ_in_their_names() -> None:
    """2025-11-25 says `ttl`, the extension `ttlMs`; Python says `ttl_ms` for both."""
    fields: Any = {"task_id": "t", "status": "working", "created_at": "x", "last_updated_at": "x", "ttl_ms": 5}
    assert decode(encode(t.Task(**fields)))["ttl"] == 5
    assert decode(encode(t.DetailedTask(**fields)))["ttlMs"] == 5


def test_a_filter_keeps_the_keys_of_extensions() -> None:
    """The tasks extension asks for `taskIds` on the same stream."""
    wire = {"notifications": {"toolsListChanged": True, "taskIds": ["t"]}}
    params = convert(wire, t.SubscriptionsListenRequestParams)
    assert params.notifications.tools_list_changed is True
    assert decode(encode(params)) == wire


def test_the_envelope_is_read_and_written_by_name() -> None:
    """The keys of the modern `_meta` are long; their Python names are not."""
    meta = t.RequestMetaObject(protocol_version="2026-07-28", client_capabilities={}, progress_token=1)
    assert meta == {
        t.META_PROTOCOL_VERSION: "2026-07-28",
        t.META_CLIENT_CAPABILITIES: {},
        t.META_PROGRESS_TOKEN: 1,
    }


def test_every_public_name_has_one_home() -> None:
    """`ferrule.types` is the union of the chapters, without a name twice."""
    assert len(set(t.__all__)) == len(t.__all__)
    assert all(hasattr(t, name) for name in t.__all__)


def test_what_a_model_said_is_read_without_asking_for_its_shape() -> None:
    """`content` is one block or many, by revision; an author wants the words."""
    said = {"role": "assistant", "model": "m"}
    one = convert({**said, "content": {"type": "text", "text": "hi"}}, t.CreateMessageResult)
    tool = {"type": "tool_use", "id": "1", "name": "n", "input": {}}
    many = [{"type": "text", "text": "a"}, tool, {"type": "text", "text": "b"}]
    assert one.text == "hi"
    assert convert({**said, "content": many}, t.CreateMessageResult).text == "ab"
    assert convert({**said, "content": [tool]}, t.CreateMessageResult).text == ""
