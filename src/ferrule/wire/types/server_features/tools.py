"""Tools: their definitions, calls and results.

``ToolResult`` is the official ``CallToolResult``, under the name that the rest of the library uses.
"""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, field

from ferrule.wire.struct import OpenBundle, WireStruct
from ferrule.wire.types.base import Icon, InputResponseRequestParams, PaginatedResult, Result, TaskMetadata
from ferrule.wire.types.content import ToolContentBlock

__all__ = [
    "CallToolRequestParams",
    "CallToolResult",
    "ListToolsResult",
    "Tool",
    "ToolAnnotations",
    "ToolExecution",
    "ToolResult",
]


class ToolAnnotations(OpenBundle):
    """Hints about a tool, for display and for asking the user; never trusted from an untrusted server.

    Absent hints count as: not read-only, destructive, not idempotent, open world. The destructive and idempotent
    hints mean something only for a tool that is not read-only. Keys beyond these are kept.
    """

    title: str | None
    read_only_hint: bool | None
    destructive_hint: bool | None
    idempotent_hint: bool | None
    open_world_hint: bool | None


class ToolExecution(WireStruct, gc=False):
    """2025-11-25 only: whether a call may or must run as a task; ``None`` counts as ``"forbidden"``."""

    task_support: Literal["forbidden", "optional", "required"] | None = None


class Tool(WireStruct):
    """A function that a server offers.

    ``input_schema`` and ``output_schema`` are JSON Schema documents, kept as they are: the first always describes an
    object, the second any JSON value (an object only, before 2026-07-28). ``annotations`` is the bundle of hints.
    """

    name: str
    input_schema: dict[str, Any]
    description: str | None = None
    title: str | None = None
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    icons: list[Icon] | None = None
    execution: ToolExecution | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ListToolsResult(PaginatedResult):
    """One page of ``tools/list``."""

    tools: list[Tool]


class CallToolRequestParams(InputResponseRequestParams):
    """Params of ``tools/call``. ``arguments`` as the client sent them, ``None`` if absent; ``task``: 2025-11-25."""

    name: str
    arguments: dict[str, Any] | None = None
    task: TaskMetadata | None = None


class ToolResult(Result):
    """What a tool gave.

    ``structured_content`` is the answer as JSON, unset if there is none: ``null`` is an answer. ``content`` is its
    projection for reading. ``is_error`` means that the tool failed and the model should hear of it, which is not a
    JSON-RPC error; ``None`` (absent) counts as success.
    """

    content: list[ToolContentBlock]
    structured_content: Any = UNSET
    is_error: bool | None = None


CallToolResult: TypeAlias = ToolResult
"""The official schema's name for `ToolResult`."""
