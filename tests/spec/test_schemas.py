"""Our tables and types against the official JSON schemas: the same methods, the same fields, valid messages."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ferrule import types as t
from ferrule.testing.oracle import SchemaOracle
from ferrule.wire.codec import convert, decode, encode
from ferrule.wire.revisions import REVISIONS, Revision, project_params, project_result
from tests.schemas import NO_SCHEMAS, SCHEMAS

pytestmark = pytest.mark.skipif(not SCHEMAS.is_dir(), reason=NO_SCHEMAS)

ALL = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=list(REVISIONS))


@pytest.fixture(scope="module")
def oracle() -> SchemaOracle:
    return SchemaOracle(SCHEMAS)


# --- tables -----------------------------------------------------------------------------------------------------------


def _union(oracle: SchemaOracle, revision: Revision, name: str) -> set[str]:
    """The methods of a union such as ``ClientRequest``; empty where the revision has no such union."""
    definitions = oracle.definitions(revision.version)
    if name not in definitions:
        return set()
    union = definitions[name]
    members = [ref["$ref"].rpartition("/")[2] for ref in union.get("anyOf", ())] or [name]
    if "$ref" in union:
        members = [union["$ref"].rpartition("/")[2]]
    return {definitions[member]["properties"]["method"]["const"] for member in members}


@ALL
@pytest.mark.parametrize(
    ("table", "union"),
    [
        ("requests", "ClientRequest"),
        ("notifications", "ClientNotification"),
        ("server_requests", "ServerRequest"),
        ("server_notifications", "ServerNotification"),
    ],
)
def test_the_method_table_is_that_of_the_schema(
    oracle: SchemaOracle, revision: Revision, table: str, union: str
) -> None:
    """A method absent from a table does not exist in that revision, so a wrong table is a wrong server."""
    assert set(getattr(revision, table)) == _union(oracle, revision, union)


# --- fields -----------------------------------------------------------------------------------------------------------

NAMES: dict[Any, tuple[str, ...]] = {
    t.ToolContentBlock: (
        "TextContent",
        "ImageContent",
        "AudioContent",
        "EmbeddedResource",
        "ResourceLink",
        "ToolUseContent",
        "ToolResultContent",
    ),
    t.ResourceContents: ("TextResourceContents", "BlobResourceContents"),
    t.ToolResult: ("CallToolResult",),
    t.InitializeParams: ("InitializeRequestParams",),
    t.ElicitRequestParams: ("ElicitRequestFormParams", "ElicitRequestURLParams"),
    t.TaskStatusNotificationParams: ("TaskStatusNotificationParams", "Task"),
    t.GetTaskResult: ("GetTaskResult", "Task"),
    t.CancelTaskResult: ("CancelTaskResult", "Task"),
}
"""Where one struct of ours is several definitions, or is called otherwise."""

EXTENSION = {t.DetailedTask, t.TaskNotificationParams, t.UpdateTaskRequestParams}
"""Types of an extension: no core schema has them."""


def _structs() -> list[Any]:
    found = {value for name in t.__all__ if isinstance(value := getattr(t, name), type)}
    own = {v for v in found if issubclass(v, msgspec.Struct) and v.__module__.startswith("ferrule.wire.types.")}
    return sorted(own - EXTENSION, key=lambda struct: struct.__name__)


def _properties(definition: Any, definitions: Any) -> set[str]:
    if "$ref" in definition:
        return _properties(definitions[definition["$ref"].rpartition("/")[2]], definitions)
    names = set(definition.get("properties", {}))
    for member in (*definition.get("allOf", ()), *definition.get("anyOf", ())):
        names |= _properties(member, definitions)
    return names


def _schema_fields(oracle: SchemaOracle, version: str, struct: Any) -> set[str] | None:
    """The wire names that the revision's schema gives a type of ours; ``None`` where it does not have the type."""
    definitions = oracle.definitions(version)
    fields: set[str] = set()
    found = False
    for name in NAMES.get(struct, (struct.__name__,)):
        definition = definitions.get(name)
        if definition is None and name.endswith(("RequestParams", "NotificationParams")):
            # Through 2025-06-18, and for some later, the params are written inside the message.
            whole = definitions.get(name.removesuffix("Params"))
            definition = whole and whole["properties"].get("params")
            if definition is not None and name not in ("RequestParams",):
                fields.add("_meta")
        if definition is not None:
            found = True
            fields |= _properties(definition, definitions)
    return fields if found else None


SKIPPED = {
    "PaginatedResult",  # our base for lists, which are cacheable too; the schema mixes two bases instead
    "ListRootsRequest",  # the official example has an id that its schema has not
}

OF_KIND = {
    "audio": set(),
    "resource_link": {"uri", "name", "title", "description", "size", "icons"},
    "tool_use": {"id", "name", "input"},
    "tool_result": {"toolUseId", "content", "structuredContent", "isError"},
}
"""Fields of the flat block that only these kinds have: where the kind is rewritten, so are they."""


@ALL
def test_the_fields_that_a_revision_has_are_those_of_its_schema(oracle: SchemaOracle, revision: Revision) -> None:
    """The superset less `absent_fields` must be exactly the official type: nothing lost, nothing foreign."""
    wrong: list[str] = []
    compared = 0
    for struct in _structs():
        official = _schema_fields(oracle, revision.version, struct)
        if official is None or struct.__name__ in SKIPPED:
            continue
        lacking = revision.lacks(struct)
        ours = {info.encode_name for info in msgspec.structs.fields(struct) if info.name not in lacking}
        if struct.__struct_config__.tag_field:
            ours.add(struct.__struct_config__.tag_field)
        if struct is t.ToolContentBlock:
            for kind in OF_KIND.keys() - revision.content_kinds - revision.sampling_content_kinds:
                ours -= OF_KIND[kind] - official
        if not revision.is_modern and struct.__name__ in ("CreateMessageRequest", "ElicitRequest"):
            official -= {"id", "jsonrpc"}  # our types are the questions of modern rounds, without the frame
        compared += 1
        if ours != official:
            wrong.append(f"{struct.__name__}: only ours {ours - official}, only theirs {official - ours}")
    assert not wrong, "\n".join(wrong)
    assert compared > 25


@ALL
def test_the_keys_of_open_bundles_are_known(oracle: SchemaOracle, revision: Revision) -> None:
    """An official key without an attribute would be kept, but could not be found by attribute."""
    definitions = oracle.definitions(revision.version)
    for bundle in (t.ClientCapabilities, t.ServerCapabilities, t.ToolAnnotations, t.SubscriptionFilter):
        if bundle.__name__ in definitions:
            assert _properties(definitions[bundle.__name__], definitions) <= bundle.__known_wires__
    for bundle in (t.RequestMetaObject, t.ResultMetaObject, t.NotificationMetaObject):
        if bundle.__name__ in definitions:
            assert _properties(definitions[bundle.__name__], definitions) <= bundle.__known_wires__


# --- instances --------------------------------------------------------------------------------------------------------

ICON = t.Icon("https://example.com/i.png", mime_type="image/png", sizes=["16x16"], theme="dark")
META = {"example.com/x": 1}
NOTES = t.Annotations(audience=["user"], priority=0.5, last_modified="2026-01-01T00:00:00Z")
CONTENTS = t.ResourceContents("file:///a.txt", mime_type="text/plain", text="a", meta=META)
BLOCKS = [
    t.text_block("hello", annotations=NOTES, meta=META),
    t.image_block(b"png", "image/png", meta=META),
    t.audio_block(b"wav", "audio/wav", meta=META),
    t.resource_block(CONTENTS, annotations=NOTES, meta=META),
    t.resource_link_block("file:///b.txt", "b", title="B", icons=[ICON], size=3, meta=META),
]
ENVELOPE = {
    t.META_PROTOCOL_VERSION: "2026-07-28",
    t.META_CLIENT_CAPABILITIES: {},
    t.META_CLIENT_INFO: {"name": "c", "version": "1"},
}
TOOL = t.Tool(
    "add",
    {"type": "object", "properties": {"a": {"type": "integer"}}},
    description="Adds",
    title="Add",
    output_schema={"type": "array", "items": {"$ref": "#/$defs/N"}, "$defs": {"N": {"type": "integer"}}},
    annotations=t.ToolAnnotations(read_only_hint=True),
    icons=[ICON],
    execution=t.ToolExecution("optional"),
    meta=META,
)
CACHED: Any = {"ttl_ms": 1000, "cache_scope": "private", "meta": META, "result_type": "complete"}
PLAIN: Any = {"meta": META, "result_type": "complete"}
PERSON = t.Implementation("n", "1", "N", "a name", "https://example.com", [ICON])
TASK = t.Task("t1", "working", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", 60_000, 500, "on it")
TASK_FIELDS = msgspec.structs.asdict(TASK)
MESSAGES = [t.SamplingMessage("user", [BLOCKS[0], BLOCKS[2]], meta=META)]

RESULTS: dict[str, Any] = {
    "initialize": t.InitializeResult(
        "2025-11-25",
        t.ServerCapabilities(tools=t.ToolsCapability(list_changed=True), logging={}, x={"y": 1}),
        PERSON,
        "be nice",
        **PLAIN,
    ),
    "server/discover": t.DiscoverResult(["2026-07-28"], t.ServerCapabilities(tools={}), "be nice", **CACHED),
    "ping": t.EmptyResult(**PLAIN),
    "tools/list": t.ListToolsResult([TOOL], next_cursor="", **CACHED),
    "tools/call": t.ToolResult(BLOCKS, [1, 2], False, **PLAIN),
    "resources/list": t.ListResourcesResult(
        [t.Resource("file:///a", "a", "A", "d", "text/plain", 3, NOTES, [ICON], META)], **CACHED
    ),
    "resources/templates/list": t.ListResourceTemplatesResult(
        [t.ResourceTemplate("file:///{x}", "x", "X", "d", "text/plain", NOTES, [ICON], META)], **CACHED
    ),
    "resources/read": t.ReadResourceResult([CONTENTS, t.ResourceContents("file:///b", blob="AA==")], **CACHED),
    "resources/subscribe": t.EmptyResult(**PLAIN),
    "resources/unsubscribe": t.EmptyResult(**PLAIN),
    "prompts/list": t.ListPromptsResult(
        [t.Prompt("p", "d", [t.PromptArgument("a", "d", required=True, title="A")], "P", [ICON], META)], **CACHED
    ),
    "prompts/get": t.GetPromptResult([t.PromptMessage("user", block) for block in BLOCKS], "d", **PLAIN),
    "completion/complete": t.CompleteResult(t.Completion(["a"], 1, has_more=False), **PLAIN),
    "logging/setLevel": t.EmptyResult(**PLAIN),
    "subscriptions/listen": t.SubscriptionsListenResult(
        meta={t.META_SUBSCRIPTION_ID: 7, **META}, result_type="complete"
    ),
    "tasks/get": t.GetTaskResult(**TASK_FIELDS, meta=META),
    "tasks/cancel": t.CancelTaskResult(**TASK_FIELDS, meta=META),
    "tasks/list": t.ListTasksResult([TASK], **PLAIN),
    "tasks/result": {"content": [], "_meta": META},
    "sampling/createMessage": t.CreateMessageResult(
        role="assistant", content=[BLOCKS[0]], model="m", stop_reason="endTurn", meta=META
    ),
    "roots/list": t.ListRootsResult([t.Root("file:///r", "r", META)], META),
    "elicitation/create": t.ElicitResult("accept", {"a": "x", "b": 1.5, "c": True}, META),
}

PARAMS: dict[str, Any] = {
    "initialize": t.InitializeParams("2025-11-25", t.ClientCapabilities(roots={}, tasks={}), PERSON, meta=META),
    "server/discover": t.RequestParams(),
    "ping": t.RequestParams(meta={"progressToken": 1}),
    "tools/list": t.PaginatedRequestParams(cursor=""),
    "tools/call": t.CallToolRequestParams(
        "add", {"a": 1}, t.TaskMetadata(1000), input_responses={"k": {"action": "cancel"}}, request_state="s"
    ),
    "resources/list": t.PaginatedRequestParams(cursor="c"),
    "resources/templates/list": t.PaginatedRequestParams(cursor="c"),
    "resources/read": t.ReadResourceRequestParams("file:///a", request_state="s"),
    "resources/subscribe": t.SubscribeRequestParams("file:///a"),
    "resources/unsubscribe": t.UnsubscribeRequestParams("file:///a"),
    "prompts/list": t.PaginatedRequestParams(cursor="c"),
    "prompts/get": t.GetPromptRequestParams("p", {"a": "x"}, request_state="s"),
    "completion/complete": t.CompleteRequestParams(
        t.PromptReference("p", "P"), t.CompletionArgument("a", "x"), t.CompletionContext({"b": "y"})
    ),
    "logging/setLevel": t.SetLevelRequestParams("info"),
    "subscriptions/listen": t.SubscriptionsListenRequestParams(t.SubscriptionFilter(tools_list_changed=True)),
    "tasks/get": t.GetTaskRequestParams("t1"),
    "tasks/cancel": t.CancelTaskRequestParams("t1"),
    "tasks/list": t.PaginatedRequestParams(),
    "tasks/result": t.GetTaskPayloadRequestParams("t1"),
    "sampling/createMessage": t.CreateMessageRequestParams(
        messages=MESSAGES,
        max_tokens=10,
        model_preferences=t.ModelPreferences([t.ModelHint("m")], 0.1, 0.2, 1),
        temperature=0.5,
        metadata={"a": 1},
        tools=[TOOL],
        tool_choice=t.ToolChoice("auto"),
        task=t.TaskMetadata(),
    ),
    "roots/list": t.RequestParams(),
    "elicitation/create": t.ElicitRequestParams(
        message="?", requested_schema={"type": "object", "properties": {"a": {"type": "string"}}}, mode="form"
    ),
    "notifications/initialized": t.NotificationParams(),
    "notifications/cancelled": t.CancelledNotificationParams(7, "why"),
    "notifications/progress": t.ProgressNotificationParams("p", 1, 2.5, "half"),
    "notifications/message": t.LoggingMessageNotificationParams("info", None, "here"),
    "notifications/resources/updated": t.ResourceUpdatedNotificationParams("file:///a"),
    "notifications/resources/list_changed": t.NotificationParams(),
    "notifications/tools/list_changed": t.NotificationParams(),
    "notifications/prompts/list_changed": t.NotificationParams(),
    "notifications/roots/list_changed": t.NotificationParams(),
    "notifications/tasks/status": t.TaskStatusNotificationParams(**TASK_FIELDS),
    "notifications/elicitation/complete": t.ElicitationCompleteNotificationParams("e1"),
    "notifications/subscriptions/acknowledged": t.SubscriptionsAcknowledgedNotificationParams(
        t.SubscriptionFilter(resource_subscriptions=["file:///a"]), meta={t.META_SUBSCRIPTION_ID: "7"}
    ),
}


def _message(**fields: Any) -> Any:
    return decode(encode({"jsonrpc": "2.0", **fields}))


@ALL
def test_results_projected_to_a_revision_match_its_schema(oracle: SchemaOracle, revision: Revision) -> None:
    """One superset serves all revisions only if what is left after projection is valid there, from both forms."""
    for direction, table in (("server_to_client", revision.requests), ("client_to_server", revision.server_requests)):
        for method in table:
            result = RESULTS[method]
            as_json = decode(encode(result))
            for value in (result, as_json):
                projected = project_result(revision, method, value)
                oracle.observe(revision, direction, _message(id=1, result=projected), method=method)  # type: ignore[arg-type]
            assert decode(encode(project_result(revision, method, result))) == decode(
                encode(project_result(revision, method, as_json))
            )


@ALL
def test_params_projected_to_a_revision_match_its_schema(oracle: SchemaOracle, revision: Revision) -> None:
    """The same for requests and notifications, in both directions."""
    tables = (
        ("client_to_server", revision.requests, {"id": 1}),
        ("client_to_server", revision.notifications, {}),
        ("server_to_client", revision.server_requests, {"id": "a"}),
        ("server_to_client", revision.server_notifications, {}),
    )
    for direction, table, id_ in tables:
        for method in table:
            params = PARAMS[method]
            if isinstance(params, t.CreateMessageRequestParams) and not revision.sampling_tools:
                params = msgspec.structs.replace(params, tools=None, tool_choice=None)  # refused there, not dropped
            if revision.is_modern and id_:
                params = msgspec.structs.replace(params, meta=ENVELOPE)
            for value in (params, decode(encode(params))):
                projected = project_params(revision, method, value)
                oracle.observe(revision, direction, _message(**id_, method=method, params=projected))  # type: ignore[arg-type]


def test_every_core_message_was_written_above(oracle: SchemaOracle) -> None:
    """The two tests above must not skip a method of any revision; this counts what the oracle really saw."""
    for revision in REVISIONS.values():
        test_results_projected_to_a_revision_match_its_schema(oracle, revision)
        test_params_projected_to_a_revision_match_its_schema(oracle, revision)
    assert oracle.missing(side="both") == []


def test_input_required_results_are_valid_where_they_exist(oracle: SchemaOracle) -> None:
    """The second shape of a modern answer."""
    result = t.InputRequiredResult(
        input_requests={
            "a": t.ElicitRequest(PARAMS["elicitation/create"]),
            "b": t.CreateMessageRequest(PARAMS["sampling/createMessage"]),
            "c": t.ListRootsRequest(),
        },
        request_state="s",
    )
    projected = project_result(REVISIONS["2026-07-28"], "tools/call", result)
    message = _message(id=1, result=projected)
    oracle.observe("2026-07-28", "server_to_client", message, method="tools/call")
    assert "task" not in message["result"]["inputRequests"]["b"]["params"]
    assert "execution" not in message["result"]["inputRequests"]["b"]["params"]["tools"][0]


@ALL
def test_a_projected_result_is_read_back(revision: Revision) -> None:
    """What we write for a revision our own client must be able to read."""
    for method, (_, result_type) in revision.requests.items():
        written = decode(encode(project_result(revision, method, RESULTS[method])))
        convert(written, result_type)
