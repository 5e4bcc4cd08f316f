"""Arguments that are files, for a binary body or a part of a multipart body."""

from __future__ import annotations

from typing import Any

__all__ = ["FILE_SCHEMA", "file_schema"]

FILE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "The contents, if they are text"},
        "base64": {"type": "string", "contentEncoding": "base64", "description": "The contents in base64"},
        "uri": {"type": "string", "description": "A resource of this server, or a data: URI"},
        "filename": {"type": "string"},
        "content_type": {"type": "string", "description": "Media type, for instance image/png"},
    },
    "additionalProperties": False,
}
"""Schema of a file argument: exactly one of ``text``, ``base64`` and ``uri``, which the call checks."""


def file_schema(description: str | None) -> dict[str, Any]:
    """Return the schema of a file argument."""
    how = "A file: give one of text, base64 or uri"
    return {**FILE_SCHEMA, "description": how if not description else f"{description} ({how})"}
