"""The lists of a server with apps, as clients get them that do not show views, or do not say whether they do.

Source: MCP Apps 2026-01-26, "Client<>Server Capability Negotiation", and "Resource Discovery" (pages may be left out of
``resources/list``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

from msgspec.structs import replace

from ferrule.app.components.index import ListVariant
from ferrule.app.components.resources import ResourceComponent
from ferrule.app.components.tools import ToolComponent
from ferrule.extensions.apps.page import MIME_TYPE, URI_SCHEME
from ferrule.protocol.capabilities import APPS_EXTENSION, extension_settings
from ferrule.search.definitions import is_for_models, ui_of
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.types import ListToolsResult, Tool

__all__ = [
    "FLAT_KEY",
    "PLAIN_RESOURCES",
    "PLAIN_TOOLS",
    "TOOLS_FOR_MODELS",
    "VERSIONS_TAG",
    "VISIBILITIES",
    "WITHOUT_VERSIONS",
    "says_nothing",
    "supports_apps",
    "visibility_of",
]

VERSIONS_TAG: Final = "ui-versions"
"""The tag of the templates that answer earlier URIs of pages."""

FLAT_KEY: Final = "ui/resourceUri"
"""The key in ``_meta`` of a tool for the URI of its page, as servers and hosts before 2026-01-26 use it."""

VISIBILITIES: Final = ("model", "app")
"""Who may call a tool."""

_OF_APPS: Final = ("ui", FLAT_KEY)


def supports_apps(capabilities: Any) -> bool:
    """Return whether a client shows views; true for a client whose capabilities are not known (``None``).

    A client that declares the extension without ``mimeTypes``, which are required, is taken at its word.
    """
    if capabilities is None:
        return True
    settings = extension_settings(capabilities, APPS_EXTENSION)
    if settings is None:
        return False
    types: Any = settings.get("mimeTypes")
    return MIME_TYPE in types if is_list(types) else True


def says_nothing(capabilities: Any) -> bool:
    """Return whether a client of a legacy revision declares no extensions at all.

    Those revisions do not have the capability, and hosts show views without it, such as the example host of the
    specification.
    """
    return not (is_mapping(capabilities) and "extensions" in capabilities)


def visibility_of(tool: Tool) -> tuple[str, ...]:
    """Return who may call a tool: ``"model"``, ``"app"`` or both, which is the default."""
    given: Any = ui_of(tool.meta).get("visibility")
    return tuple(cast("list[str]", given)) if is_list(given) else VISIBILITIES


class _ToolsForModels:
    """The tools without those that only pages call."""

    def select(self, members: Iterable[ToolComponent], /) -> list[ToolComponent]:
        return [tool for tool in members if tool.publish_meta is None or is_for_models(tool.publish_meta(tool))]

    def change(self, result: ListToolsResult, /) -> ListToolsResult:
        return result


class _PlainTools(_ToolsForModels):
    """The same, without their pages."""

    def change(self, result: ListToolsResult, /) -> ListToolsResult:
        return replace(result, tools=[_without_ui(tool) for tool in result.tools])


class _PlainResources:
    """The resources without the pages."""

    def select(self, members: Iterable[ResourceComponent], /) -> list[ResourceComponent]:
        return [member for member in members if not member.uri.startswith(URI_SCHEME)]

    def change(self, result: Any, /) -> Any:
        return result


class _WithoutVersions:
    """The templates without those that answer earlier URIs of pages."""

    def select(self, members: Iterable[ResourceComponent], /) -> list[ResourceComponent]:
        return [member for member in members if VERSIONS_TAG not in member.tags]

    def change(self, result: Any, /) -> Any:
        return result


PLAIN_TOOLS: Final[ListVariant] = _PlainTools()
TOOLS_FOR_MODELS: Final[ListVariant] = _ToolsForModels()
PLAIN_RESOURCES: Final[ListVariant] = _PlainResources()
WITHOUT_VERSIONS: Final[ListVariant] = _WithoutVersions()


def _without_ui(tool: Tool) -> Tool:
    if tool.meta is None or not any(key in tool.meta for key in _OF_APPS):
        return tool
    return replace(tool, meta={key: value for key, value in tool.meta.items() if key not in _OF_APPS} or None)
