"""`Application`: the part of `MCPServer` that the modules it imports, and the functions it serves, may use.

`MCPServer` imports the components, which import the context of a call. If the context imported `MCPServer`, even for
an annotation, the imports would be circular; it uses this Protocol instead. The kernel's `Server` keeps its
application as an attachment under this class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Unpack

if TYPE_CHECKING:
    from ferrule.app.components.keywords import PromptKeywords, ResourceKeywords, ToolKeywords
    from ferrule.kernel.dispatch import OnProgress
    from ferrule.kernel.server import Server, ServerRequestContext
    from ferrule.stores.store import Store
    from ferrule.wire.types import (
        GetPromptResult,
        Prompt,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
        Tool,
        ToolResult,
    )

__all__ = ["Application", "ResourceReader", "ToolCaller", "application_of", "attach_application"]


class ToolCaller(Protocol):
    """Calls tools within a request; implemented by `ToolSet`."""

    async def call(self, ctx: ServerRequestContext[Any], name: str, arguments: dict[str, Any] | None) -> ToolResult:
        """Return the result of one call."""
        ...


class ResourceReader(Protocol):
    """Reads resources within a request; implemented by `ResourceSet`."""

    async def read(self, ctx: ServerRequestContext[Any], uri: str) -> ReadResourceResult:
        """Return the contents of one resource."""
        ...


class Application(Protocol):
    """A server made of functions; implemented by `MCPServer`, which describes each member."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def lowlevel(self) -> Server[Any]: ...

    @property
    def store(self) -> Store | None: ...

    @property
    def tools(self) -> ToolCaller: ...

    @property
    def resources(self) -> ResourceReader: ...

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, on_progress: OnProgress | None = None
    ) -> ToolResult: ...

    async def read_resource(self, uri: str) -> ReadResourceResult: ...

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> GetPromptResult: ...

    def list_tools(self) -> list[Tool]: ...

    def list_resources(self) -> list[Resource]: ...

    def list_resource_templates(self) -> list[ResourceTemplate]: ...

    def list_prompts(self) -> list[Prompt]: ...

    def add_tool(self, function: Callable[..., Any], **options: Unpack[ToolKeywords]) -> object: ...

    def add_resource(self, uri: str, function: Callable[..., Any], **options: Unpack[ResourceKeywords]) -> object: ...

    def add_prompt(self, function: Callable[..., Any], **options: Unpack[PromptKeywords]) -> object: ...

    def remove_tool(self, name: str) -> None: ...

    def remove_resource(self, uri: str) -> None: ...

    def remove_prompt(self, name: str) -> None: ...

    def enable(
        self,
        *,
        tool: str | None = None,
        resource: str | None = None,
        prompt: str | None = None,
        tag: str | None = None,
    ) -> None: ...

    def disable(
        self,
        *,
        tool: str | None = None,
        resource: str | None = None,
        prompt: str | None = None,
        tag: str | None = None,
    ) -> None: ...

    def notify_resource_updated(self, uri: str) -> None: ...


def application_of(server: Server[Any]) -> Application | None:
    """Return the application that a low-level server belongs to; ``None`` if its handlers were registered directly."""
    return server.attachments.get(Application)  # type: ignore[type-abstract]  # a protocol as a key


def attach_application(server: Server[Any], application: Application) -> None:
    """Make `application_of` find an application by its low-level server."""
    server.attachments[Application] = application  # type: ignore[type-abstract]  # as above
