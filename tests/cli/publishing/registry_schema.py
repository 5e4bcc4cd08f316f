"""The rules of the registry's schema for ``server.json`` (2025-12-11), written down from it."""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_SHORT = {"type": "string", "minLength": 1, "maxLength": 100}
_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("default", "description", "placeholder", "value", "name"), _TEXT),
        **dict.fromkeys(("isRequired", "isSecret"), _FLAG),
        "choices": {"type": "array", "items": _TEXT},
        "format": {"enum": ["string", "number", "boolean", "filepath"]},
        "variables": {"type": "object", "additionalProperties": {"$ref": "#/$defs/input"}},
    },
}
_NAMED = {"type": "array", "items": {"allOf": [{"$ref": "#/$defs/input"}, {"required": ["name"]}]}}
_REMOTE = {
    "type": "object",
    "required": ["type", "url"],
    "properties": {
        "type": {"enum": ["streamable-http", "sse"]},
        "url": {"type": "string", "pattern": r"^(https?://[^\s]+|\{[a-zA-Z_][a-zA-Z0-9_]*\}[^\s]*)$"},
        "headers": _NAMED,
        "variables": {"type": "object", "additionalProperties": {"$ref": "#/$defs/input"}},
    },
}
_PACKAGE = {
    "type": "object",
    "required": ["registryType", "identifier", "transport"],
    "properties": {
        **dict.fromkeys(("registryType", "identifier", "runtimeHint"), _TEXT),
        "registryBaseUrl": {"type": "string", "format": "uri"},
        "fileSha256": {"type": "string", "pattern": "^[a-f0-9]{64}$"},
        "version": {"type": "string", "minLength": 1, "maxLength": 255, "not": {"const": "latest"}},
        "transport": {"anyOf": [{"properties": {"type": {"const": "stdio"}}, "required": ["type"]}, _REMOTE]},
        "environmentVariables": _NAMED,
    },
}
_ICON = {
    "type": "object",
    "required": ["src"],
    "properties": {
        "src": {"type": "string", "format": "uri", "maxLength": 255},
        "mimeType": {"enum": ["image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp"]},
        "sizes": {"type": "array", "items": {"type": "string", "pattern": r"^(\d+x\d+|any)$"}},
        "theme": {"enum": ["light", "dark"]},
    },
}
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {"input": _INPUT},
    "type": "object",
    "required": ["name", "description", "version"],
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"},
        "name": {
            "type": "string", "minLength": 3, "maxLength": 200, "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$",
        },
        "title": _SHORT,
        "description": _SHORT,
        "version": {"type": "string", "maxLength": 255},
        "websiteUrl": {"type": "string", "format": "uri"},
        "repository": {
            "type": "object",
            "required": ["url", "source"],
            "properties": {
                "url": {"type": "string", "format": "uri"}, **dict.fromkeys(("source", "subfolder", "id"), _TEXT),
            },
        },
        "icons": {"type": "array", "items": _ICON},
        "packages": {"type": "array", "items": _PACKAGE},
        "remotes": {"type": "array", "items": _REMOTE},
        "_meta": {"type": "object"},
    },
}  # fmt: skip
