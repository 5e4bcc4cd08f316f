"""No API: tools as names, descriptions and unchanged JSON Schemas, calls and results as plain objects.

For a model that is reached in another way. A call is ``{"id": …, "name": …, "arguments": {…}}``, and a response is a
list of them; a result is ``{"id": …, "name": …, "content": [blocks of MCP], "is_error": …}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferrule.client.bridges.apis.api import DOCUMENTS, IMAGES, ToolEntry
from ferrule.client.bridges.parts import Media, Part, plain_text
from ferrule.client.bridges.turns import CallOutcome, ModelCall, ModelTurn, member
from ferrule.wire.json_types import is_array

__all__ = ["JsonSchemaApi"]

_AUDIO = frozenset({"audio/wav", "audio/mpeg", "audio/mp3", "audio/ogg", "audio/flac", "audio/aac"})


class JsonSchemaApi:
    """Tools, calls and results as plain objects."""

    name = "json-schema"
    dialect = None
    strict = None
    max_strict = None
    max_tools = None
    media = IMAGES | DOCUMENTS | _AUDIO
    searches = False

    def tools(self, entries: Sequence[ToolEntry]) -> list[dict[str, Any]]:
        """Return name, description and schema of each tool."""
        return [{"name": entry.name, "description": entry.description, "parameters": entry.schema} for entry in entries]

    def reads(self, response: Any) -> bool:
        """Return whether it is a list of calls."""
        if not is_array(response):
            return False
        return all(member(call, "name") is not None and member(call, "candidates") is None for call in response)

    def turn(self, response: Any) -> ModelTurn:
        """Return the calls."""
        return ModelTurn(
            [
                ModelCall.of_json(
                    str(member(call, "id") or ""), str(member(call, "name")), member(call, "arguments"), call
                )
                for call in response
            ]
        )

    def messages(self, outcomes: Sequence[CallOutcome]) -> list[dict[str, Any]]:
        """Return one result for each call."""
        return [
            {
                "id": outcome.call.id,
                "name": outcome.call.name,
                "content": [_block(part) for part in outcome.parts],
                "is_error": outcome.is_error,
            }
            for outcome in outcomes
        ]


def _block(part: Part) -> dict[str, Any]:
    if not isinstance(part, Media):
        return {"type": "text", "text": plain_text([part])}
    if part.mime_type in DOCUMENTS:
        contents = {"uri": part.uri or part.name, "mimeType": part.mime_type, "blob": part.data}
        return {"type": "resource", "resource": contents}
    kind = "image" if part.mime_type.startswith("image/") else "audio"
    return {"type": kind, "data": part.data, "mimeType": part.mime_type}
