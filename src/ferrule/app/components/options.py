"""What can be said of a tool, a resource and a prompt when it is registered; the meanings stand in `MCPServer.tool`.

One list per kind for the decorator and for ``add_…``. The defaults are those of `ToolSet.add`, `ResourceSet.add` and
`PromptSet.add`, which take exactly these names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ferrule.app.results.result_plan import DEFAULT_MAX_RESULT_BYTES

if TYPE_CHECKING:
    from ferrule.app.authorization.guards import Allow, Scopes
    from ferrule.app.components.tools import TaskSupport
    from ferrule.app.results.encoders import Encoder, EncoderName
    from ferrule.app.signatures.function import SchemaMode
    from ferrule.wire.types import Annotations, Icon, ToolAnnotations

__all__ = ["PromptOptions", "ResourceOptions", "ToolDefaults", "ToolOptions"]


@dataclass(frozen=True, slots=True)
class ToolDefaults:
    """What a server says for all of its tools.

    Attributes:
        schema, max_result_bytes, mask_errors: as given to `MCPServer`.
        encoder: what ``text`` became.
    """

    schema: SchemaMode = "model"
    encoder: Encoder | None = None
    max_result_bytes: int = DEFAULT_MAX_RESULT_BYTES
    mask_errors: bool = True


class ToolOptions(TypedDict, total=False):
    """See `MCPServer.tool`."""

    name: str | None
    title: str | None
    description: str | None
    annotations: ToolAnnotations | Mapping[str, Any] | None
    icons: list[Icon] | None
    meta: dict[str, Any] | None
    tags: Iterable[str]
    scopes: Scopes
    allow: Allow | None
    schema: SchemaMode | None
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None
    structured: bool
    text: EncoderName | Encoder | None
    max_result_bytes: int | None
    timeout_s: float | None
    max_concurrent: int | None
    task: TaskSupport
    task_after_s: float | None
    resumable: bool


class ResourceOptions(TypedDict, total=False):
    """See `MCPServer.resource`."""

    name: str | None
    title: str | None
    description: str | None
    mime_type: str | None
    size: int | None
    annotations: Annotations | None
    icons: list[Icon] | None
    meta: dict[str, Any] | None
    tags: Iterable[str]
    scopes: Scopes
    allow: Allow | None
    guard_paths: bool
    ttl_ms: int | None
    cache_scope: Literal["public", "private"] | None


class PromptOptions(TypedDict, total=False):
    """See `MCPServer.prompt`."""

    name: str | None
    title: str | None
    description: str | None
    icons: list[Icon] | None
    meta: dict[str, Any] | None
    tags: Iterable[str]
    scopes: Scopes
    allow: Allow | None
