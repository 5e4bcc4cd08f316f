"""Makes the ``server.json`` of the MCP registry of a server and its project.

Source: the schema of 2025-12-11 and the requirements of the official registry, which is a preview. Nothing is uploaded:
that is what ``mcp-publisher`` of the registry does.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlsplit

from ferrule.app.settings import SettingField
from ferrule.cli.loading import settings_of
from ferrule.cli.projects import Project, read_bounded
from ferrule.extensions.cards.documents import NAME, first_text, last_part, shortened
from ferrule.extensions.cards.publishing import CardDocuments, read_repository
from ferrule.transports.asgi.public_documents import PublicDocuments
from ferrule.wire.codec import to_builtins
from ferrule.wire.types import Icon

__all__ = ["SCHEMA", "claimed_name", "server_json", "takes_icon"]

SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_CLAIM: Final = re.compile(r"mcp-name:\s*([a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+)")
_ICON_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp"})
_ICON_SIZE: Final = re.compile(r"[0-9]+x[0-9]+|any")
_MAX_ICON_URL: Final = 255
_FORMATS: Final = {"number": "number", "boolean": "boolean", "file": "filepath", "directory": "filepath"}


def server_json(app: Any, project: Project | None) -> dict[str, Any]:
    """Return the document.

    Args:
        app: the `MCPServer`.
        project: the project that publishes it as a package; ``None`` for a server that is only reached by its URL.
    """
    info = app.lowlevel.server_info
    found: Any = app.lowlevel.attachments.get(PublicDocuments)
    card = found if isinstance(found, CardDocuments) else None
    url = None if card is None else card.fixed_url
    version = None if project is None else project.version
    made: dict[str, Any] = {
        "$schema": SCHEMA,
        "name": _name_of(app, project, card),
        "title": shortened(info.title or "") or None,
        "description": first_text(info.description, project.description if project else None, info.title, app.name),
        "version": version or info.version,
        "websiteUrl": info.website_url or (project.homepage if project else None),
        "repository": _repository(project, card),
        "icons": [to_builtins(icon) for icon in info.icons or () if takes_icon(icon)] or None,
        "packages": None if project is None else [_package(project, version or info.version, settings_of(app))],
        "remotes": None if url is None or card is None else [_remote(card, url)],
    }
    return {key: value for key, value in made.items() if value is not None}


def takes_icon(icon: Icon) -> bool:
    """Return whether the registry takes an icon: by https, of one of its types, with sizes in its form."""
    return (
        icon.src.startswith("https://")
        and len(icon.src) <= _MAX_ICON_URL
        and (icon.mime_type is None or icon.mime_type in _ICON_TYPES)
        and all(_ICON_SIZE.fullmatch(size) for size in icon.sizes or ())
    )


def claimed_name(project: Project | None) -> str | None:
    """Return the name that the README of a project claims with ``mcp-name: NAME``; ``None`` without.

    Raises:
        ValueError: the README is larger than 1 MiB.
        OSError: it cannot be read.
    """
    if project is None or project.readme is None or not project.readme.is_file():
        return None
    found = _CLAIM.search(read_bounded(project.readme).decode(errors="replace"))
    return None if found is None else found[1]


def _name_of(app: Any, project: Project | None, card: CardDocuments | None) -> str:
    """Return the name: of the card, of the server, of the README's claim, or one made of the repository on GitHub."""
    given = None if card is None else card.given_name
    if given is not None or NAME.fullmatch(app.name):
        return given or app.name
    claimed = claimed_name(project)
    if claimed is not None:
        return claimed
    parts = urlsplit((project.repository if project else None) or "")
    owner = parts.path.strip("/").partition("/")[0]
    if parts.hostname == "github.com" and owner:
        return f"io.github.{owner}/{last_part(app.name)}"
    url = None if card is None else card.fixed_url
    return str(app.name) if url is None or card is None else card.card(url).name


def _repository(project: Project | None, card: CardDocuments | None) -> Any:
    given = None if card is None else card.repository
    if given is None and project is not None and project.repository is not None:
        given = read_repository(project.repository)
    return None if given is None else to_builtins(given)


def _package(project: Project, version: str, fields: tuple[SettingField, ...]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "registryType": "pypi",
        "registryBaseUrl": "https://pypi.org",
        "identifier": project.name,
        "version": version,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
    }
    if fields:
        made["environmentVariables"] = [_variable(field) for field in fields]
    return made


def _variable(field: SettingField) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": field.variable,
        "description": field.description or field.title,
        "isRequired": field.is_required,
        "isSecret": field.is_secret,
        "format": "string" if field.is_list else _FORMATS.get(field.kind, "string"),
        "default": field.default_text,
        "choices": None if field.is_list else list(field.choices) or None,
    }
    return {key: value for key, value in made.items() if value is not None}


def _remote(card: CardDocuments, url: str) -> dict[str, Any]:
    [remote] = card.card(url).remotes or []
    made: dict[str, Any] = {"type": remote.type, "url": url}
    return made if remote.headers is None else {**made, "headers": to_builtins(remote.headers)}
