"""Tools: their definitions, calls and results.

``ToolResult`` is the specification's ``CallToolResult``, under the name that this library uses.
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
    """Hints about a tool, for display and for decisions to ask the user; do not rely on those of an untrusted server.

    Without hints a tool counts as not read-only, destructive, not idempotent, and open world. The destructive and
    idempotent hints have a meaning only for a tool that is not read-only. Unknown keys are kept.
    """

    title: str | None
    read_only_hint: bool | None
    destructive_hint: bool | None
    idempotent_hint: bool | None
    open_world_hint: bool | None


class ToolExecution(WireStruct, gc=False):
    """2025-11-25 only: whether a call may or must run as a task; ``None`` means ``"forbidden"``."""

    task_support: Literal["forbidden", "optional", "required"] | None = None


class Tool(WireStruct):
    """A function that a server offers.

    ``input_schema`` and ``output_schema`` are JSON Schemas, unchanged: the first describes an object, the second any
    JSON value (before 2026-07-28 an object only). ``annotations`` has the hints.
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
    """Params of ``tools/call``. ``arguments`` are unchanged, ``None`` if absent; only 2025-11-25 has ``task``."""

    name: str
    arguments: dict[str, Any] | None = None
    task: TaskMetadata | None = None


class ToolResult(Result):
    """The result of a tool.

    ``structured_content`` is the result as a JSON value, unset if there is none (``null`` is a value). ``content`` is
    the same for a model, as content blocks. With ``is_error`` the tool failed and ``content`` is the error for the
    model, in place of a JSON-RPC error; ``None`` (absent) means success.
    """

    content: list[ToolContentBlock]
    structured_content: Any = UNSET
    is_error: bool | None = None


CallToolResult: TypeAlias = ToolResult
"""The official schema's name for `ToolResult`."""
