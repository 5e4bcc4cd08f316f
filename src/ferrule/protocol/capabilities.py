"""The client capabilities that requests to a client need, for both eras.

In the modern era a missing capability is the error -32021 with ``data.requiredCapabilities``; in the legacy era it is a
local error of the handler. Source: "Elicitation", "Sampling" and "Roots" of 2026-07-28 and 2025-11-25.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

__all__ = [
    "APPS_EXTENSION",
    "EXTENSIONS_OF_BOTH_ERAS",
    "SKILLS_EXTENSION",
    "declares_extension",
    "extension_settings",
    "merge_required",
    "missing_for_request",
    "missing_for_requests",
]

SKILLS_EXTENSION: Final = "io.modelcontextprotocol/skills"
"""Identifier of the extension for skills; servers declare it."""

APPS_EXTENSION: Final = "io.modelcontextprotocol/ui"
"""Identifier of the extension for pages that hosts show."""

EXTENSIONS_OF_BOTH_ERAS: Final = (SKILLS_EXTENSION, APPS_EXTENSION)
"""Extensions whose messages are the same in both eras, so that a gateway between them can announce them."""


def missing_for_request(declared: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the capability that a client lacks for one request to it, in wire shape; ``None`` if it lacks none.

    Args:
        declared: the client's capabilities as it sent them; a value that is not a mapping declares none.
        method: ``elicitation/create``, ``sampling/createMessage`` or ``roots/list``; others need no capability.
        params: the params of that request.
    """
    client = _mapping(declared)
    asked = params or {}
    if method == "elicitation/create":
        return _missing_elicitation(client.get("elicitation"), asked.get("mode", "form"))
    if method == "sampling/createMessage":
        sampling = client.get("sampling")
        needs_tools = asked.get("tools") is not None or asked.get("toolChoice") is not None
        if needs_tools and _mapping(sampling).get("tools") is None:
            return {"sampling": {"tools": {}}}
        return None if isinstance(sampling, Mapping) else {"sampling": {}}
    if method == "roots/list" and not isinstance(client.get("roots"), Mapping):
        return {"roots": {}}
    return None


def _missing_elicitation(declared: Any, mode: Any) -> dict[str, Any] | None:
    """Return the missing capability for a mode; ``elicitation: {}`` declares forms, and URLs must be declared."""
    if mode == "url":
        if isinstance(declared, Mapping) and cast("Mapping[str, Any]", declared).get("url") is not None:
            return None
        return {"elicitation": {"url": {}}}
    if not isinstance(declared, Mapping):
        return {"elicitation": {}}
    modes = cast("Mapping[str, Any]", declared)
    if modes.get("form") is not None or modes.get("url") is None:
        return None
    return {"elicitation": {"form": {}}}


def missing_for_requests(declared: Any, requests: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the capabilities that a client lacks for any of some input requests; ``None`` if it lacks none.

    Args:
        declared: see `missing_for_request`.
        requests: ``{method, params}`` by key.
    """
    missing: dict[str, Any] = {}
    for request in requests.values():
        entry = _mapping(request)
        found = missing_for_request(declared, str(entry.get("method")), _mapping(entry.get("params")))
        if found is not None:
            merge_required(missing, found)
    return missing or None


def merge_required(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add the capabilities of ``more`` to ``into``, at every level."""
    for key, value in more.items():
        present = into.get(key)
        if isinstance(present, dict) and isinstance(value, Mapping):
            merge_required(cast("dict[str, Any]", present), cast("Mapping[str, Any]", value))
        else:
            into[key] = dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value


def declares_extension(declared: Any, extension: str) -> bool:
    """Return whether capabilities name an extension (its settings object may be empty)."""
    return extension_settings(declared, extension) is not None


def extension_settings(declared: Any, extension: str) -> Mapping[str, Any] | None:
    """Return the settings that capabilities declare for an extension; ``None`` if they do not name it.

    Args:
        declared: the capabilities of a client or a server as it sent them; a value that is not a mapping declares none.
        extension: ``reverse.domain/name``.
    """
    found: Any = _mapping(_mapping(declared).get("extensions")).get(extension)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    if type(value) is dict or isinstance(value, Mapping):  # exact type first: no call into ABCMeta
        return cast("Mapping[str, Any]", value)
    return {}
