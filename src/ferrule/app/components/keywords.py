"""The options of components as keyword arguments of ``MCPServer.tool``, ``add_tool`` and their like.

For type checkers only: at run time nothing imports this module, because Python compiles each annotation of a
`TypedDict`. The names are those of the fields in `ferrule.app.components.options`, which a test holds together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from ferrule.app.authorization.guards import Allow, Scopes
    from ferrule.app.components.options import TaskSupport
    from ferrule.app.results.encoders import Encoder, EncoderName
    from ferrule.app.signatures.function import SchemaMode
    from ferrule.wire.types import Annotations, Icon, ToolAnnotations

__all__ = ["PromptKeywords", "ResourceKeywords", "ToolKeywords", "UiKeywords"]


class ToolKeywords(TypedDict, total=False):
    """The options of `ToolOptions` as keyword arguments."""

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
    structured: bool | Literal["object"]
    text: EncoderName | Encoder | None
    max_result_bytes: int | None
    timeout_s: float | None
    max_concurrent: int | None
    task: TaskSupport
    task_after_s: float | None
    resumable: bool


class UiKeywords(ToolKeywords, total=False):
    """The options of ``MCPServer.ui`` as keyword arguments."""

    csp: Mapping[str, Iterable[str]] | None
    permissions: Iterable[str]
    visibility: Literal["model", "app"] | Iterable[Literal["model", "app"]]
    prefers_border: bool | None
    domain: str | None
    state: bool


class ResourceKeywords(TypedDict, total=False):
    """The options of `ResourceOptions` as keyword arguments."""

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
    contents_meta: dict[str, Any] | None
    ttl_ms: int | None
    cache_scope: Literal["public", "private"] | None
    listed: bool


class SkillKeywords(TypedDict, total=False):
    """The options of `ResourceOptions` that the files of a skill may have, as keyword arguments."""

    tags: Iterable[str]
    scopes: Scopes
    allow: Allow | None
    ttl_ms: int | None
    cache_scope: Literal["public", "private"] | None


class PromptKeywords(TypedDict, total=False):
    """The options of `PromptOptions` as keyword arguments."""

    name: str | None
    title: str | None
    description: str | None
    icons: list[Icon] | None
    meta: dict[str, Any] | None
    tags: Iterable[str]
    scopes: Scopes
    allow: Allow | None
