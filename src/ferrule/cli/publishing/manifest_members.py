"""The members of a bundle's manifest (MCPB, ``manifest.json``, version 0.4), and the check of a manifest.

Hosts refuse a manifest with a member that the version does not know, so these classes are closed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

__all__ = ["MANIFEST_VERSION", "Manifest", "check_manifest"]

MANIFEST_VERSION: Final = "0.4"

_Url = Annotated[str, Meta(pattern=r"^https?://\S+$")]
_PLACE: Final = re.compile(r"\$\{user_config\.([^}]*)\}")
_PNG: Final = b"\x89PNG\r\n\x1a\n"


class ManifestAuthor(Struct, forbid_unknown_fields=True):
    """Who made the server."""

    name: str
    email: Annotated[str, Meta(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")] | None = None
    url: _Url | None = None


class ManifestRepository(Struct, forbid_unknown_fields=True):
    """Where the sources are."""

    type: str
    url: _Url


class ManifestStart(Struct, forbid_unknown_fields=True):
    """How a host starts the server."""

    command: str
    args: list[str] | None = None
    env: dict[str, str] | None = None
    platform_overrides: dict[str, Any] | None = None


class ManifestServer(Struct, forbid_unknown_fields=True):
    """The kind of server, the file that starts it, and the command."""

    type: Literal["uv"]
    entry_point: str
    mcp_config: ManifestStart


class ManifestListedTool(Struct, forbid_unknown_fields=True):
    """A tool, for people who choose a bundle."""

    name: str
    description: str | None = None


class ManifestListedPrompt(Struct, forbid_unknown_fields=True):
    """A prompt with its text."""

    name: str
    text: str
    description: str | None = None
    arguments: list[str] | None = None


class ManifestUserOption(Struct, forbid_unknown_fields=True):
    """A value for which a host asks the person who installs the bundle."""

    type: Literal["string", "number", "boolean", "directory", "file"]
    title: str
    description: str
    required: bool | None = None
    default: str | float | bool | list[str] | None = None
    multiple: bool | None = None
    sensitive: bool | None = None
    min: float | None = None
    max: float | None = None


class ManifestRuntimes(Struct, forbid_unknown_fields=True):
    """Versions of what runs the server."""

    python: str | None = None
    node: str | None = None


class ManifestCompatibility(Struct, forbid_unknown_fields=True):
    """What the bundle needs of host and system."""

    claude_desktop: str | None = None
    platforms: list[Literal["darwin", "win32", "linux"]] | None = None
    runtimes: ManifestRuntimes | None = None


class ManifestIcon(Struct, forbid_unknown_fields=True):
    """An icon of one size."""

    src: str
    size: Annotated[str, Meta(pattern=r"^\d+x\d+$")]
    theme: Annotated[str, Meta(min_length=1)] | None = None


class ManifestLocalization(Struct, forbid_unknown_fields=True):
    """Where translated texts are."""

    resources: Annotated[str, Meta(pattern=r"\$\{locale\}")]
    default_locale: str


class Manifest(Struct, forbid_unknown_fields=True, rename={"meta": "_meta", "schema_url": "$schema"}):
    """The members of a manifest."""

    manifest_version: Literal["0.4"]
    name: Annotated[str, Meta(min_length=1)]
    version: Annotated[str, Meta(min_length=1)]
    description: str
    author: ManifestAuthor
    server: ManifestServer
    schema_url: str | None = None
    display_name: str | None = None
    long_description: str | None = None
    repository: ManifestRepository | None = None
    homepage: _Url | None = None
    documentation: _Url | None = None
    support: _Url | None = None
    icon: str | None = None
    icons: list[ManifestIcon] | None = None
    screenshots: list[str] | None = None
    localization: ManifestLocalization | None = None
    tools: list[ManifestListedTool] | None = None
    tools_generated: bool | None = None
    prompts: list[ManifestListedPrompt] | None = None
    prompts_generated: bool | None = None
    keywords: list[str] | None = None
    license: str | None = None
    privacy_policies: list[_Url] | None = None
    compatibility: ManifestCompatibility | None = None
    user_config: dict[str, ManifestUserOption] | None = None
    meta: dict[str, dict[str, Any]] | None = None


def check_manifest(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> list[str]:
    """Return what is wrong with a manifest, each with the path of the member; empty if it is right.

    Args:
        manifest: the members.
        files: the files of the bundle, path to content.
    """
    try:
        found = msgspec.convert(dict(manifest), Manifest)
    except msgspec.ValidationError as error:
        return [f"manifest.json: {error}"]
    problems: list[str] = []
    if found.server.entry_point not in files:
        problems.append(f"server.entry_point: {found.server.entry_point!r} is not in the bundle")
    if "pyproject.toml" not in files:
        problems.append("a server of the type uv needs a pyproject.toml in the bundle")
    start = found.server.mcp_config
    options = found.user_config or {}
    for text in [*(start.args or ()), *(start.env or {}).values()]:
        unknown = [key for key in _PLACE.findall(text) if key not in options]
        problems += [f"server.mcp_config: ${{user_config.{key}}} is not in user_config" for key in unknown]
    for key, option in options.items():
        if option.sensitive and option.type != "string":
            problems.append(f"user_config.{key}: only a string can be sensitive")
        if option.multiple and any(f"${{user_config.{key}}}" in text for text in (start.env or {}).values()):
            problems.append(f"user_config.{key}: hosts do not fill in several values in a variable, only in args")
    for icon in [found.icon, *(each.src for each in found.icons or ())]:
        if icon is None or icon.startswith(("http://", "https://")):
            continue
        if not files.get(icon, b"").startswith(_PNG):
            problems.append(f"icon: {icon!r} is {'no PNG file' if icon in files else 'not in the bundle'}")
    return problems
