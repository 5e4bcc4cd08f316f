"""Google's Gemini API, ``generateContent``.

A function's schema is ``parametersJsonSchema``, or ``parameters`` in the older subset of OpenAPI. Its response is an
object with ``output`` or ``error``; images and PDFs stand inside the response (Gemini 3 and later), sounds beside it.
Names of members are those of the REST API, which the ``google-genai`` package takes, too. Source: Google, "Function
calling", reference of ``FunctionDeclaration`` and ``FunctionResponse``; read 2026-11-29.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferrule.client.bridges.apis.api import ToolEntry
from ferrule.client.bridges.parts import Media, plain_text
from ferrule.client.bridges.schemas.dialects import GEMINI, GEMINI_OPENAPI, Dialect
from ferrule.client.bridges.turns import CallOutcome, ModelCall, ModelTurn, items_of, member
from ferrule.wire.json_types import is_array

__all__ = ["GeminiApi", "GeminiOpenApi"]

_INSIDE = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf"})
_BESIDE = frozenset({"audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"})
_OTHERS = (("executable_code", "executableCode"), ("tool_call", "toolCall"))


class GeminiApi:
    """Tools, calls and results in the form of ``generateContent``."""

    name = "gemini"
    dialect: Dialect = GEMINI
    strict = None
    max_strict = None
    max_tools = 128
    media = _INSIDE | _BESIDE
    searches = False
    _schema_name = "parametersJsonSchema"

    def tools(self, entries: Sequence[ToolEntry]) -> list[dict[str, Any]]:
        """Return one tool with all functions; nothing without functions."""
        made = [self._declaration(entry) for entry in entries]
        return [{"functionDeclarations": made}] if made else []

    def _declaration(self, entry: ToolEntry) -> dict[str, Any]:
        made: dict[str, Any] = {"name": entry.name, "description": entry.description or entry.name}
        if entry.schema.get("properties") or self._schema_name == "parametersJsonSchema":
            made[self._schema_name] = entry.schema
        return made

    def reads(self, response: Any) -> bool:
        """Return whether it has candidates, is the content of a model, or is a list of such chunks of a stream."""
        if is_array(response):
            return bool(response) and all(self.reads(each) for each in response)
        if isinstance(member(response, "candidates"), list):
            return True
        return member(response, "role") == "model" and isinstance(member(response, "parts"), list)

    def turn(self, response: Any) -> ModelTurn:
        """Return the function calls of the first candidate; calls of the API's own tools are others."""
        calls: list[ModelCall] = []
        others: list[Any] = []
        for chunk in response if is_array(response) else [response]:
            candidates = items_of(chunk, "candidates")
            content = member(candidates[0], "content") if candidates else chunk
            for part in items_of(content, "parts"):
                call = member(part, "function_call", "functionCall")
                if call is not None:
                    calls.append(
                        ModelCall.of_object(
                            str(member(call, "id") or ""), str(member(call, "name")), member(call, "args"), part
                        )
                    )
                elif any(member(part, *names) is not None for names in _OTHERS):
                    others.append(part)
        return ModelTurn(calls, others)

    def messages(self, outcomes: Sequence[CallOutcome]) -> list[dict[str, Any]]:
        """Return one content of the user with a response for each call."""
        responses = [_response(outcome) for outcome in outcomes]
        beside = [
            {"inlineData": _blob(part)}
            for outcome in outcomes
            for part in outcome.parts
            if isinstance(part, Media) and part.mime_type in _BESIDE
        ]
        return [{"role": "user", "parts": [*responses, *beside]}]


class GeminiOpenApi(GeminiApi):
    """The same with schemas in the subset of OpenAPI 3.0, for older models and servers."""

    name = "gemini-openapi"
    dialect = GEMINI_OPENAPI
    _schema_name = "parameters"


def _response(outcome: CallOutcome) -> dict[str, Any]:
    made: dict[str, Any] = {"name": outcome.call.name}
    if outcome.call.id:
        made["id"] = outcome.call.id
    media = [part for part in outcome.parts if isinstance(part, Media)]
    text = plain_text(outcome.parts)
    if any(part.mime_type in _BESIDE for part in media):
        text = f"{text}\n\n[A sound follows]".strip()
    made["response"] = {"error" if outcome.is_error else "output": text}
    inside = [{"inlineData": _blob(part)} for part in media if part.mime_type in _INSIDE]
    if inside:
        made["parts"] = inside
    return {"functionResponse": made}


def _blob(part: Media) -> dict[str, Any]:
    return {"mimeType": part.mime_type, "data": part.data}
