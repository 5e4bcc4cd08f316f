"""Options of tools, resources and prompts; `MCPServer.tool`, `MCPServer.resource` and `MCPServer.prompt` describe them.

`ToolOptions`, `ResourceOptions` and `PromptOptions` are frozen values, which registering carries whole. As keyword
arguments of the decorators and of ``add_…`` the same options are in `ferrule.app.components.keywords`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import Struct

from ferrule.app.results.result_plan import DEFAULT_MAX_RESULT_BYTES
from ferrule.wire.struct import Value

if TYPE_CHECKING:
    from ferrule.app.authorization.guards import Allow, Scopes
    from ferrule.app.results.encoders import Encoder, EncoderName
    from ferrule.app.signatures.function import SchemaMode
    from ferrule.wire.types import Annotations, Icon, ToolAnnotations

__all__ = [
    "UI_OPTIONS",
    "ComponentOptions",
    "PromptOptions",
    "ResourceOptions",
    "TaskSupport",
    "ToolDefaults",
    "ToolOptions",
]

TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]
"""``"optional"``: a call of the tool may become a task; ``"required"``: it must; ``"forbidden"``: it cannot."""


class ToolDefaults(Value, frozen=True):
    """Options of a server for all of its tools.

    Attributes:
        schema, max_result_bytes, mask_errors: as given to `MCPServer`.
        encoder: writes structured results as text; made from the ``text`` argument. ``None`` for JSON.
    """

    schema: SchemaMode = "model"
    encoder: Encoder | None = None
    max_result_bytes: int = DEFAULT_MAX_RESULT_BYTES
    mask_errors: bool = True


class ComponentOptions(Struct, frozen=True, kw_only=True, eq=False):
    """Options that every kind of component has; see `MCPServer.tool`."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = None
    tags: Iterable[str] = ()
    scopes: Scopes = ()
    allow: Allow | None = None


class ToolOptions(ComponentOptions, frozen=True, kw_only=True, eq=False):
    """Options of one tool; see `MCPServer.tool`.

    A new option is also added to `ferrule.app.components.keywords.ToolKeywords`. A tool that sets it is called by the
    general path until `ferrule.app.components.fast_tools` lists it as one that the fast path respects.
    """

    annotations: ToolAnnotations | Mapping[str, Any] | None = None
    schema: SchemaMode | None = None
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    structured: bool | Literal["object"] = True
    text: EncoderName | Encoder | None = None
    max_result_bytes: int | None = None
    timeout_s: float | None = None
    max_concurrent: int | None = None
    task: TaskSupport = "forbidden"
    task_after_s: float | None = 0.0
    resumable: bool = False


UI_OPTIONS: Final = ("csp", "permissions", "visibility", "prefers_border", "domain", "state")
"""The names of the options that ``MCPServer.ui`` has in addition to those of a tool."""


class ResourceOptions(ComponentOptions, frozen=True, kw_only=True, eq=False):
    """Options of one resource or template; see `MCPServer.resource`."""

    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    guard_paths: bool = True
    contents_meta: dict[str, Any] | None = None
    ttl_ms: int | None = None
    cache_scope: Literal["public", "private"] | None = None
    listed: bool = True


class PromptOptions(ComponentOptions, frozen=True, kw_only=True, eq=False):
    """Options of one prompt; see `MCPServer.prompt`."""
