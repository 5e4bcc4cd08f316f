"""Writing for an older peer."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import types as t
from ferrule.wire.codec import Encoded, decode, encode, to_builtins
from ferrule.wire.revisions import (
    LATEST_MODERN_VERSION,
    REVISIONS,
    NotExpressible,
    needs_output_wrapping,
    project_params,
    project_result,
    project_value,
    read_params,
    read_result,
    read_value,
    wrap_output_schema,
)
from ferrule.wire.revisions import project as project_module
from ferrule.wire.revisions.base import follow
from ferrule.wire.revisions.project import projection_of

R24, R0326, R0618, R1125, R26 = REVISIONS.values()
OLD = [R24, R0326]

TOOL = t.Tool(
    "n", {"type": "object"}, title="N", icons=[t.Icon("https://e.org/i")], execution=t.ToolExecution("optional")
)
LINK = t.resource_link_block("file:///a", "a", title="A", description="the letter")


def _json(value: Any) -> Any:
    return decode(encode(value))


def _call(revision: Any, result: Any) -> Any:
    return _json(project_result(revision, "tools/call", result))


# --- identity ---------------------------------------------------------------------------------------------------------


def test_nothing_to_do_gives_the_same_object() -> None:
    """The usual case costs a lookup and no copy."""
    modern = t.ToolResult([t.text_block("a"), LINK], [1], result_type="complete")
    assert project_result(R26, "tools/call", modern) is modern
    plain = t.ToolResult([t.text_block("a")])
    for revision in REVISIONS.values():
        assert project_result(revision, "tools/call", plain) is plain
        as_json = _json(plain)
        assert project_result(revision, "tools/call", as_json) is as_json
    listed = t.ListToolsResult([t.Tool("n", {"type": "object"}, description="d")])
    assert project_result(R24, "tools/list", listed) is listed


def test_the_argument_is_never_changed() -> None:
    """A handler may return the same cached result for every revision at once."""
    result = t.ListToolsResult([TOOL], ttl_ms=1, cache_scope="public", meta={"a": 1}, result_type="complete")
    as_json = _json(result)
    before = encode(result)
    for revision in REVISIONS.values():
        project_result(revision, "tools/list", result)
        project_result(revision, "tools/list", as_json)
    assert encode(result) == before
    assert as_json == decode(before)


def test_finished_bytes_and_foreign_values_pass_through() -> None:
    """They were encoded for the revision."""
    for value in (Encoded(b"{}"), None, 5):
        assert project_result(R24, "tools/call", value) is value
        assert project_params(R24, "tools/call", value) is value


def test_results_of_extension_methods_pass_through() -> None:
    """No core table describes them."""
    assert project_result(R26, "tasks/get", {"execution": 1}) == {"execution": 1}


# --- dropped ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["struct", "mapping", "mixed"])
def test_fields_of_newer_revisions_are_dropped_at_every_level(form: str) -> None:
    """From structs, from JSON and from JSON that holds structs."""
    page = t.ListToolsResult([TOOL], ttl_ms=1, cache_scope="public", meta={"a": 1}, result_type="complete")
    value: Any = page
    if form == "mapping":
        value = _json(page)
    elif form == "mixed":
        value = {**_json(page), "tools": [TOOL]}
    left = {revision.version: _json(project_result(revision, "tools/list", value)) for revision in REVISIONS.values()}
    assert left["2024-11-05"] == {"tools": [{"name": "n", "inputSchema": {"type": "object"}}], "_meta": {"a": 1}}
    assert set(left["2025-06-18"]["tools"][0]) == {"name", "inputSchema", "title"}
    assert set(left["2025-11-25"]["tools"][0]) == {"name", "inputSchema", "title", "icons", "execution"}
    assert set(left["2026-07-28"]["tools"][0]) == {"name", "inputSchema", "title", "icons"}
    assert set(left["2026-07-28"]) == {"tools", "_meta", "resultType", "ttlMs", "cacheScope"}


def test_blocks_lose_the_meta_that_old_revisions_lack() -> None:
    """`_meta` came to content in 2025-06-18; on the result itself it always was."""
    result = t.ToolResult([t.text_block("a", meta={"x": 1})], meta={"y": 1})
    assert _call(R0326, result) == {"content": [{"type": "text", "text": "a"}], "_meta": {"y": 1}}
    assert _call(R0618, result)["content"][0]["_meta"] == {"x": 1}


def test_blocks_inside_blocks_are_reached() -> None:
    """A tool result in a sampling message holds content of its own, to any depth."""
    inner = t.tool_result_block("c", [t.resource_link_block("a:b", "n", icons=[t.Icon("https://e.org/i")])])
    outer = t.SamplingMessage("user", [t.tool_result_block("d", [inner])])
    params = t.CreateMessageRequestParams(messages=[outer], max_tokens=1)
    assert project_params(R1125, "sampling/createMessage", params) is params
    (message,) = _json(project_params(R0618, "sampling/createMessage", params))["messages"]
    assert message["content"]["type"] == "text"
    assert "[tool result d]" in message["content"]["text"]


# --- rewritten --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [lambda value: value, _json])
def test_kinds_that_a_revision_lacks_become_text_that_names_them(form: Any) -> None:
    """A peer that validates would refuse the whole answer for one block."""
    notes = t.Annotations(audience=["user"])
    result = form(t.ToolResult([LINK, t.audio_block(b"a", "audio/wav", annotations=notes), t.text_block("t")]))
    content = _call(R24, result)["content"]
    assert [block["type"] for block in content] == ["text", "text", "text"]
    assert content[0]["text"] == "[resource link] A <file:///a>: the letter"
    assert "audio/wav" in content[1]["text"]
    assert content[1]["annotations"] == {"audience": ["user"]}
    assert [block["type"] for block in _call(R0326, result)["content"]] == ["text", "audio", "text"]
    assert [block["type"] for block in _call(R0618, result)["content"]] == ["resource_link", "audio", "text"]


def test_kinds_that_no_revision_defines_are_kept() -> None:
    """They belong to an extension that both sides have agreed on."""
    newer = t.UnknownContentBlock(type="hologram", _meta={"a": 1})
    result: Any = t.ToolResult([newer])  # type: ignore[list-item]
    assert _call(R24, result)["content"] == [{"type": "hologram", "_meta": {"a": 1}}]


@pytest.mark.parametrize("form", [lambda value: value, _json])
def test_structured_content_is_an_object_or_inside_one(form: Any) -> None:
    """2025-06-18 and 2025-11-25 allow objects only; a list is wrapped, and text is added if there is none."""
    for revision in (R0618, R1125):
        wrapped = _call(revision, form(t.ToolResult([], [1, 2])))
        assert wrapped == {"content": [{"type": "text", "text": "[1,2]"}], "structuredContent": {"result": [1, 2]}}
        assert _call(revision, form(t.ToolResult([], None)))["structuredContent"] == {"result": None}
        as_is = form(t.ToolResult([], {"a": 1}))
        assert project_result(revision, "tools/call", as_is) is as_is
    assert _call(R26, form(t.ToolResult([], [1, 2])))["structuredContent"] == [1, 2]


def test_encoded_structured_content_is_judged_by_its_json() -> None:
    """A handler may give bytes; an object in another object would break the tool's output schema."""
    for revision in (R0618, R1125):
        for data, sent in {b' {"a":1}': {"a": 1}, b"[1]": {"result": [1]}, b"null": {"result": None}}.items():
            result = project_result(revision, "tools/call", t.ToolResult([], Encoded(data)))
            assert decode(encode(result))["structuredContent"] == sent


@pytest.mark.parametrize("revision", OLD, ids=lambda revision: revision.version)
@pytest.mark.parametrize("form", [lambda value: value, _json])
def test_structured_content_becomes_text_where_there_is_none(revision: Any, form: Any) -> None:
    """The answer must not vanish with the field that held it; text that is there stays as it is."""
    assert _call(revision, form(t.ToolResult([], {"a": 1}))) == {"content": [{"type": "text", "text": '{"a":1}'}]}
    assert _call(revision, form(t.ToolResult([t.text_block("one")], {"a": 1}))) == {
        "content": [{"type": "text", "text": "one"}]
    }


def test_output_schemas_are_wrapped_like_their_values() -> None:
    """A schema that says array beside a value that is an object would fail every client that validates."""
    array = {"type": "array", "items": {"$ref": "#/$defs/N"}, "$defs": {"N": {"type": "integer"}}, "$schema": "s"}
    page = t.ListToolsResult([t.Tool("n", {"type": "object"}, output_schema=array)])
    (tool,) = _json(project_result(R0618, "tools/list", page))["tools"]
    assert tool["outputSchema"] == {
        "$schema": "s",
        "$defs": {"N": {"type": "integer"}},
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/N"}}},
        "required": ["result"],
    }
    assert "outputSchema" not in _json(project_result(R0326, "tools/list", page))["tools"][0]
    assert project_result(R26, "tools/list", page) is page


def test_references_to_the_old_root_follow_it() -> None:
    """A recursive schema refers to `#`, which is another place after wrapping."""
    tree = {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}}, {"$ref": "#/anyOf/0"}]}
    wrapped = wrap_output_schema(tree)
    assert wrapped["properties"]["result"]["anyOf"][1]["items"]["$ref"] == "#/properties/result"
    assert wrapped["properties"]["result"]["anyOf"][2]["$ref"] == "#/properties/result/anyOf/0"
    assert tree["anyOf"][2] == {"$ref": "#/anyOf/0"}
    assert needs_output_wrapping(tree)
    assert not needs_output_wrapping(wrapped)


def test_sampling_messages_are_split_where_a_message_is_one_block() -> None:
    """Before 2025-11-25 a message holds one block; several in a row say the same."""
    messages = [t.SamplingMessage("user", [t.text_block("a"), t.text_block("b")]), t.SamplingMessage("assistant", LINK)]
    params = t.CreateMessageRequestParams(messages=messages, max_tokens=1, task=t.TaskMetadata(1))
    left = _json(project_params(R0618, "sampling/createMessage", params))
    assert [message["role"] for message in left["messages"]] == ["user", "user", "assistant"]
    assert set(left) == {"messages", "maxTokens"}


def test_a_sampling_answer_of_several_blocks_is_one_text_or_refused() -> None:
    """The peer expects one block; two texts can be joined, a picture cannot."""
    answer = t.CreateMessageResult(role="assistant", content=[t.text_block("a"), t.text_block("b")], model="m")
    joined = _json(project_result(R0618, "sampling/createMessage", answer))
    assert joined["content"] == {"type": "text", "text": "a\nb"}
    one = t.CreateMessageResult(role="assistant", content=[t.image_block(b"a", "image/png")], model="m")
    assert _json(project_result(R0618, "sampling/createMessage", one))["content"]["type"] == "image"
    mixed = t.CreateMessageResult(role="assistant", content=[t.text_block("a"), one.content[0]], model="m")  # type: ignore[index]
    with pytest.raises(NotExpressible):
        project_result(R0618, "sampling/createMessage", mixed)


def test_a_page_to_visit_is_refused_where_only_forms_exist() -> None:
    """Dropping the URL would leave a question without an answer."""
    params = t.ElicitRequestParams(message="?", mode="url", url="https://e.org", elicitation_id="e")
    assert project_params(R1125, "elicitation/create", params) is params
    assert "elicitationId" not in _json(project_params(R26, "elicitation/create", params))
    for form in (params, _json(params)):
        with pytest.raises(NotExpressible, match="form"):
            project_params(R0618, "elicitation/create", form)


@pytest.mark.parametrize("form", [lambda value: value, _json])
@pytest.mark.parametrize("said", [{"tools": [TOOL]}, {"tool_choice": t.ToolChoice("auto")}])
def test_tools_for_the_model_are_refused_where_sampling_has_none(form: Any, said: Any) -> None:
    """Without them the model would answer another question."""
    params = form(t.CreateMessageRequestParams(messages=[], max_tokens=1, **said))
    assert project_params(R1125, "sampling/createMessage", params) is params
    for revision in (R24, R0326, R0618):
        with pytest.raises(NotExpressible, match="tools"):
            project_params(revision, "sampling/createMessage", params)


@pytest.mark.parametrize("form", [lambda value: value, _json])
def test_choices_with_titles_have_the_form_of_the_revision(form: Any) -> None:
    """An older client would show ``oneOf`` as a field for free text."""
    titled = {"type": "string", "title": "Size", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l"}]}
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "size": titled}}
    params = form(t.ElicitRequestParams(message="?", requested_schema=schema))
    for revision in (R1125, R26):
        assert project_params(revision, "elicitation/create", params) is params
    left = _json(project_params(R0618, "elicitation/create", params))["requestedSchema"]["properties"]
    assert left["n"] == {"type": "integer"}
    assert left["size"] == {"type": "string", "title": "Size", "enum": ["s", "l"], "enumNames": ["Small", "l"]}
    several = {"type": "array", "items": {"type": "string", "enum": ["a"]}}
    params = form(t.ElicitRequestParams(message="?", requested_schema={"properties": {"tags": several}}))
    assert project_params(R1125, "elicitation/create", params) is params
    with pytest.raises(NotExpressible, match="tags"):
        project_params(R0618, "elicitation/create", params)


@pytest.mark.parametrize("form", [lambda value: value, _json])
def test_questions_inside_results_are_refused_in_the_legacy_era(form: Any) -> None:
    """A legacy client would take the question for the answer."""
    questions = t.InputRequiredResult(input_requests={"a": t.ListRootsRequest()})
    assert project_result(R26, "tools/call", questions) is questions
    with pytest.raises(NotExpressible, match="2025-11-25"):
        project_result(R1125, "tools/call", form(questions))


@pytest.mark.parametrize("form", [lambda value: value, _json])
def test_a_new_task_is_written_in_the_wire_of_the_revision(form: Any) -> None:
    """Nested with `ttl` in 2025-11-25, flat with `ttlMs` in the extension, nowhere else."""
    nested = t.CreateTaskResult(t.Task("t", "working", "x", "y", 5, 6), meta={"a": 1})
    flat = {
        "resultType": "task",
        "taskId": "t",
        "status": "working",
        "createdAt": "x",
        "lastUpdatedAt": "y",
        "ttlMs": 5,
        "pollIntervalMs": 6,
        "_meta": {"a": 1},
    }
    assert _call(R26, form(nested)) == flat
    assert _call(R1125, form(nested)) == _json(nested)
    detailed = t.DetailedTask(
        result_type="task",
        task_id="t",
        status="working",
        created_at="x",
        last_updated_at="y",
        ttl_ms=5,
        poll_interval_ms=6,
        meta={"a": 1},
    )
    assert _json(detailed) == flat
    assert _call(R1125, form(detailed)) == _json(nested)
    for value in (nested, detailed):
        with pytest.raises(NotExpressible, match="tasks"):
            project_result(R0618, "tools/call", form(value))


def test_params_lose_what_the_revision_lacks_in_both_directions() -> None:
    """For a client of an old server, and for a server of an old client."""
    call = t.CallToolRequestParams("n", task=t.TaskMetadata(1), request_state="s")
    assert _json(project_params(R26, "tools/call", call)) == {"name": "n", "requestState": "s"}
    assert _json(project_params(R1125, "tools/call", _json(call))) == {"name": "n", "task": {"ttl": 1}}
    progress = t.ProgressNotificationParams("p", 1, message="m")
    assert _json(project_params(R24, "notifications/progress", progress)) == {"progressToken": "p", "progress": 1}
    assert project_params(R0326, "notifications/progress", progress) is progress
    hello = t.InitializeParams("2024-11-05", t.ClientCapabilities(x=1), t.Implementation("n", "1", title="N"))
    assert _json(project_params(R24, "initialize", hello))["clientInfo"] == {"name": "n", "version": "1"}
    assert _json(project_params(R24, "initialize", hello))["capabilities"] == {"x": 1}


@pytest.mark.parametrize("version", REVISIONS)
def test_a_plan_does_not_depend_on_the_order_of_requests(version, monkeypatch):
    """A type that holds itself used to leave a plan behind that does nothing, and each tool result paid for it."""
    revision = REVISIONS[version]
    types = sorted({pair[1] for pair in revision.requests.values() if pair[1]} | {t.ToolResult}, key=repr)
    types += [t.CreateMessageRequestParams, t.InputRequiredResult]

    def idle(order: list[Any]) -> set[Any]:
        monkeypatch.setattr(project_module, "_plans", {})
        return {type_ for type_ in order if projection_of(revision, type_) is None}

    first = idle(types)
    assert idle(types[::-1]) == first
    assert idle([t.CreateMessageRequestParams, *types]) == first
    if version == LATEST_MODERN_VERSION:
        assert t.ToolResult in first


# --- fields with another name --------------------------------------------------------------------------------------

RENAMING = follow(
    REVISIONS[LATEST_MODERN_VERSION],
    "2999-01-01",
    renamed={t.Tool: {"title": "displayTitle"}, t.CallToolRequestParams: {"name": "tool", "arguments": "name"}},
)
"""One plain new name, and one name that another field had before."""


def test_a_renamed_field_is_written_under_its_new_name() -> None:
    """In structs and in mappings, at every depth; Python code keeps reading the name of the superset."""
    tool = t.Tool(name="a", input_schema={}, title="A")
    written = project_result(RENAMING, "tools/list", t.ListToolsResult(tools=[tool]))
    assert to_builtins(written)["tools"] == [{"name": "a", "inputSchema": {}, "displayTitle": "A"}]
    assert isinstance(written.tools[0], t.Tool)
    assert written.tools[0].title == "A"
    raw = {"tools": [{"name": "a", "inputSchema": {}, "title": "A"}]}
    assert project_result(RENAMING, "tools/list", raw)["tools"] == to_builtins(written)["tools"]
    assert raw["tools"][0]["title"] == "A", "what was given was changed"


def test_a_renamed_field_is_read_under_its_new_name() -> None:
    """The old name is an unknown key there, even beside the new one."""
    sent = {"tools": [{"name": "a", "inputSchema": {}, "displayTitle": "A", "title": "B"}, {"name": "b", "title": "C"}]}
    assert read_result(RENAMING, "tools/list", sent) == {
        "tools": [{"name": "a", "inputSchema": {}, "title": "A"}, {"name": "b"}]
    }


BUNDLES = follow(
    REVISIONS[LATEST_MODERN_VERSION],
    "2999-01-02",
    absent={t.ToolAnnotations: {"title"}},
    renamed={t.ToolAnnotations: {"read_only_hint": "readOnly"}, t.SamplingCapability: {"tools": "functions"}},
)
"""New names for known keys of bundles, and one key that is gone."""


def test_known_keys_of_bundles_are_renamed_and_dropped_as_fields_are() -> None:
    """Inside a struct and inside another bundle; unknown keys stay."""
    hints = {"title": "T", "readOnlyHint": True, "x": 1}
    tool = t.Tool(name="a", input_schema={}, annotations=t.ToolAnnotations(hints))
    written = to_builtins(project_result(BUNDLES, "tools/list", t.ListToolsResult(tools=[tool])))
    assert written["tools"][0]["annotations"] == {"readOnly": True, "x": 1}
    assert dict(tool.annotations or {}) == hints, "what was given was changed"
    read = read_result(BUNDLES, "tools/list", written)
    assert read["tools"][0]["annotations"] == {"readOnlyHint": True, "x": 1}


def test_a_part_that_no_params_reach_is_projected_by_its_type() -> None:
    """The capabilities of a client are in ``_meta``, which is plain JSON."""
    declared = {"sampling": {"tools": {}}, "roots": {}}
    written = project_value(BUNDLES, t.ClientCapabilities, declared)
    assert written == {"sampling": {"functions": {}}, "roots": {}}
    assert read_value(BUNDLES, t.ClientCapabilities, written) == declared
    assert project_value(REVISIONS[LATEST_MODERN_VERSION], t.ClientCapabilities, declared) is declared
    assert read_value(REVISIONS[LATEST_MODERN_VERSION], t.ClientCapabilities, declared) is declared


def test_a_name_may_move_from_one_field_to_another() -> None:
    """Renaming one key after the other would write the first value twice."""
    params = t.CallToolRequestParams(name="add", arguments={"a": 1})
    written = to_builtins(project_params(RENAMING, "tools/call", params))
    assert written == {"tool": "add", "name": {"a": 1}}
    assert project_params(RENAMING, "tools/call", to_builtins(params)) == written
    assert read_params(RENAMING, "tools/call", written) == {"name": "add", "arguments": {"a": 1}}


def test_reading_changes_nothing_where_no_field_has_another_name() -> None:
    """The very same object: it is called for each message of such a revision."""
    raw = {"tools": [{"name": "a", "title": "A"}]}
    assert all(read_result(revision, "tools/list", raw) is raw for revision in REVISIONS.values())
    assert read_params(RENAMING, "prompts/list", raw) is raw
    assert read_result(RENAMING, "tools/list", None) is None
