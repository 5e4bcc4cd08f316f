"""Rewrites values for an older peer that dropping fields would make useless.

Kinds of content that the revision lacks become text that names them. Structured content that it does not allow becomes
text if there is no text yet, or is wrapped in an object (``{"result": …}``, in the schema and in the value). Several
blocks in a place for one become several messages. A value that cannot be expressed is refused.

Each rewrite takes a struct or a mapping with its wire names, and returns the same object if nothing changes.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from msgspec import UNSET, Struct, structs

from ferrule.wire.codec import Encoded, encode_str
from ferrule.wire.faults import FerruleError
from ferrule.wire.json_types import is_list
from ferrule.wire.revisions.base import Revision
from ferrule.wire.struct import WireStruct
from ferrule.wire.types.client_features.elicitation import ElicitRequestParams
from ferrule.wire.types.client_features.sampling import CreateMessageRequestParams, CreateMessageResult
from ferrule.wire.types.content import CONTENT_KINDS, SAMPLING_CONTENT_KINDS, ToolContentBlock
from ferrule.wire.types.rounds import InputRequiredResult
from ferrule.wire.types.server_features.tools import Tool, ToolResult
from ferrule.wire.types.tasks import CreateTaskResult, DetailedTask, Task

__all__ = ["NotExpressible", "Step", "needs_output_wrapping", "rewrite_for", "wrap_output_schema"]

Step: TypeAlias = Callable[[Any], Any]
"""Function from a value to its converted form; it returns the same object if nothing changes."""

_KINDS = CONTENT_KINDS | SAMPLING_CONTENT_KINDS


class NotExpressible(FerruleError, ValueError):
    """A value cannot be expressed in a revision, and is needed for the meaning (the local program's fault)."""


def _refuse(why: str) -> Step:
    def run(value: Any) -> Any:
        raise NotExpressible(why)

    return run


def _get(value: Any, name: str, wire: str) -> Any:
    """Return a field of a struct or a key of a mapping; ``UNSET`` when it is absent."""
    if isinstance(value, Struct) or not isinstance(value, Mapping):
        return getattr(value, name, UNSET)
    return cast("Mapping[str, Any]", value).get(wire, UNSET)


def _with(value: Any, wire: str, **change: Any) -> Any:
    """Return a copy of a struct with a field changed, or of a mapping with the key ``wire``; ``UNSET`` removes it."""
    ((name, new),) = change.items()
    if isinstance(value, Struct):
        return structs.replace(value, **{name: new})
    copy = dict(value)
    if new is UNSET:
        copy.pop(wire, None)
    else:
        copy[wire] = new
    return copy


def _objects_only(result: Any) -> Any:
    structured = _get(result, "structured_content", "structuredContent")
    if structured is UNSET or _is_object(structured):
        return result
    return _with(_with_text(result, structured), "structuredContent", structured_content={"result": structured})


_NO_OBJECTS: Final = frozenset({str, int, float, bool, type(None), list})


def _is_object(value: Any) -> bool:
    """Return whether it will be an object on the wire: ready-made structs and dataclasses are."""
    if type(value) in _NO_OBJECTS:
        return False
    if isinstance(value, (dict, Struct, Mapping)):
        return True
    if isinstance(value, Encoded):
        return bytes(value).lstrip().startswith(b"{")
    # What marks a dataclass; `dataclasses.is_dataclass` would load a module that nothing else here needs.
    return hasattr(type(cast("object", value)), "__dataclass_fields__")


def _text_only(result: Any) -> Any:
    structured = _get(result, "structured_content", "structuredContent")
    if structured is UNSET:
        return result
    return _with(_with_text(result, structured), "structuredContent", structured_content=UNSET)


def _with_text(result: Any, structured: Any) -> Any:
    """Return the result with its structured value as text content, for revisions without ``structuredContent``."""
    if _get(result, "content", "content"):
        return result
    block = ToolContentBlock("text", encode_str(structured))
    return _with(result, "content", content=[block])


def _wrap_tool(tool: Any) -> Any:
    schema = _get(tool, "output_schema", "outputSchema")
    if schema is UNSET or schema is None or not needs_output_wrapping(schema):
        return tool
    return _with(tool, "outputSchema", output_schema=wrap_output_schema(schema))


def _name_in_text(block: Any, lacking: frozenset[str]) -> Any:
    kind = _get(block, "type", "type")
    if kind not in lacking:
        return block
    text = _describe(block, kind)
    annotations = _get(block, "annotations", "annotations")
    if isinstance(block, Mapping):
        return {"type": "text", "text": text, **({} if annotations is UNSET else {"annotations": annotations})}
    return ToolContentBlock("text", text, annotations=annotations)


def _describe(block: Any, kind: str) -> str:
    def part(name: str, wire: str) -> str:
        found = _get(block, name, wire)
        return found if isinstance(found, str) else ""

    if kind == "resource_link":
        text = f"[resource link] {part('title', 'title') or part('name', 'name')} <{part('uri', 'uri')}>"
        return f"{text}: {part('description', 'description')}" if part("description", "description") else text
    if kind == "audio":
        return f"[audio, {part('mime_type', 'mimeType')}, not shown: this protocol revision cannot carry it]"
    if kind == "tool_use":
        return f"[tool use {part('id', 'id')}] {part('name', 'name')} {encode_str(_get(block, 'input', 'input'))}"
    return f"[tool result {part('tool_use_id', 'toolUseId')}] {encode_str(_get(block, 'content', 'content'))}"


def _plain_form(params: Any) -> Any:
    """Return the params of a form with choices as the older ``enum`` with ``enumNames``.

    Raises:
        NotExpressible: URL mode, or a multiple choice.
    """
    if _get(params, "mode", "mode") == "url":
        raise NotExpressible("This protocol revision can ask by form only, not by a page to visit")
    schema = _get(params, "requested_schema", "requestedSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(properties, Mapping):
        return params
    fields = cast("Mapping[str, Any]", properties)
    plain = {name: _plain_field(name, field) for name, field in fields.items()}
    if all(plain[name] is field for name, field in fields.items()):
        return params
    changed = {**cast("Mapping[str, Any]", schema), "properties": plain}
    return _with(params, "requestedSchema", requested_schema=changed)


def _plain_field(name: str, field: Any) -> Any:
    if not isinstance(field, Mapping):
        return field
    said = cast("Mapping[str, Any]", field)
    if said.get("type") == "array":
        raise NotExpressible(f"This protocol revision has no choice of several in a form: `{name}`")
    choices = said.get("oneOf")
    if not is_list(choices) or not all(isinstance(choice, Mapping) and "const" in choice for choice in choices):
        return said
    values = [choice["const"] for choice in choices]
    titles = [choice.get("title", choice["const"]) for choice in choices]
    rest = {key: value for key, value in said.items() if key != "oneOf"}
    return {"type": "string", **rest, "enum": values, "enumNames": titles}


def _plain_sampling(params: Any) -> Any:
    """Return the params of sampling with one block in each message: further blocks become messages of the same role.

    Raises:
        NotExpressible: the params have tools, without which the model's answer would be another one.
    """
    offered = (_get(params, "tools", "tools"), _get(params, "tool_choice", "toolChoice"))
    if any(value is not UNSET and value is not None for value in offered):
        raise NotExpressible("This protocol revision has no tools in sampling")
    messages = _get(params, "messages", "messages")
    if not any(isinstance(_get(message, "content", "content"), list) for message in messages):
        return params
    split: list[Any] = []
    for message in messages:
        content = _get(message, "content", "content")
        blocks = content if is_list(content) else [content]
        split += [_with(message, "content", content=block) for block in blocks]
    return _with(params, "messages", messages=split)


def _one_block(result: Any) -> Any:
    content = _get(result, "content", "content")
    if not is_list(content):
        return result
    if len(content) == 1:
        return _with(result, "content", content=content[0])
    texts = [_get(block, "text", "text") for block in content]
    if texts and all(isinstance(text, str) for text in texts):
        return _with(result, "content", content=ToolContentBlock("text", "\n".join(texts)))
    raise NotExpressible("This protocol revision answers sampling with one block of content")


_TASK_NAMES = (
    ("taskId", "taskId"),
    ("status", "status"),
    ("createdAt", "createdAt"),
    ("lastUpdatedAt", "lastUpdatedAt"),
    ("statusMessage", "statusMessage"),
    ("ttl", "ttlMs"),
    ("pollInterval", "pollIntervalMs"),
)
"""The wire names of a task in 2025-11-25 and in the extension."""


def _flat_task(result: Any) -> Any:
    """Return a task of 2025-11-25 in the form of the extension."""
    if isinstance(result, CreateTaskResult):
        return DetailedTask(result_type="task", meta=result.meta, **structs.asdict(result.task))
    task = result["task"]
    if isinstance(task, Task):
        return DetailedTask(result_type="task", meta=result.get("_meta"), **structs.asdict(task))
    flat = {new: task[old] for old, new in _TASK_NAMES if old in task}
    return {"resultType": "task", **flat, **({"_meta": result["_meta"]} if "_meta" in result else {})}


def _nested_task(result: Any) -> Any:
    """Return a task of the extension in the form of 2025-11-25."""
    if isinstance(result, DetailedTask):
        names = Task.__struct_fields__
        return CreateTaskResult(task=Task(**{name: getattr(result, name) for name in names}), meta=result.meta)
    nested = {old: result[new] for old, new in _TASK_NAMES if new in result}
    return {"task": nested, **({"_meta": result["_meta"]} if "_meta" in result else {})}


def needs_output_wrapping(schema: Mapping[str, Any]) -> bool:
    """Return whether values of this output schema travel inside ``{"result": …}`` where only objects are allowed.

    They do unless the root of the schema is declared as an object. A caller that has the tool's schema should wrap its
    values by this rule: a result alone does not show whether the schema allows other values than objects.
    """
    return schema.get("type") != "object"


def wrap_output_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of ``{"result": <value of schema>}``, with definitions and references moved to its root."""
    inner = {key: value for key, value in schema.items() if key not in ("$schema", "$defs", "definitions")}
    outer: dict[str, Any] = {key: schema[key] for key in ("$schema", "$defs", "definitions") if key in schema}
    outer["type"] = "object"
    outer["properties"] = {"result": inner}
    outer["required"] = ["result"]
    return cast("dict[str, Any]", _move_references(outer))


def _move_references(node: Any) -> Any:
    if isinstance(node, dict):
        moved = {key: _move_references(value) for key, value in cast("dict[str, Any]", node).items()}
        ref = moved.get("$ref")
        if isinstance(ref, str) and (ref == "#" or ref.startswith("#/")):
            stays = ref.startswith(("#/$defs/", "#/definitions/"))
            moved["$ref"] = ref if stays else f"#/properties/result{ref[1:]}"
        return moved
    if is_list(node):
        return [_move_references(item) for item in node]
    return node


# --- which rewrite a type needs ---------------------------------------------------------------------------------------

_Choice: TypeAlias = Callable[[Revision], "Step | None"]
"""Function from a revision to the rewrite that it needs; ``None`` if values stay unchanged."""


def _for_blocks(revision: Revision) -> Step | None:
    lacking = _KINDS - revision.content_kinds - revision.sampling_content_kinds
    return (lambda block: _name_in_text(block, lacking)) if lacking else None


def _for_created_tasks(revision: Revision) -> Step | None:
    if revision.task_methods:
        return None
    return _flat_task if revision.has_result_type else _refuse(f"Revision {revision.version} has no tasks")


def _for_extension_tasks(revision: Revision) -> Step | None:
    if revision.has_result_type:
        return None
    return _nested_task if revision.task_methods else _refuse(f"Revision {revision.version} has no tasks")


def _for_input_requests(revision: Revision) -> Step | None:
    if revision.input_required_methods:
        return None
    return _refuse(f"Revision {revision.version} has no input requests inside results")


_STRUCTURED_OUTPUT: Mapping[str, Step | None] = {"any": None, "object": _objects_only, "none": _text_only}

_CHOICES: Mapping[type[WireStruct], _Choice] = {
    ToolContentBlock: _for_blocks,
    ToolResult: lambda revision: _STRUCTURED_OUTPUT[revision.structured_output],
    Tool: lambda revision: _wrap_tool if revision.structured_output == "object" else None,
    ElicitRequestParams: lambda revision: None if revision.has_rich_forms else _plain_form,
    CreateMessageRequestParams: lambda revision: None if revision.sampling_tools else _plain_sampling,
    CreateMessageResult: lambda revision: None if revision.sampling_tools else _one_block,
    InputRequiredResult: _for_input_requests,
    CreateTaskResult: _for_created_tasks,
    DetailedTask: _for_extension_tasks,
}
"""The types that are rewritten for at least one revision, and the function that chooses the rewrite."""


def rewrite_for(revision: Revision, type_: type[WireStruct]) -> Step | None:
    """Return the rewrite of values of ``type_``, which is applied before fields are dropped; ``None`` without."""
    choose = _CHOICES.get(type_)
    return None if choose is None else choose(revision)
