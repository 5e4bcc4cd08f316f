"""Anthropic's Messages API.

A tool's result may have text, images and documents, and has ``is_error``. Tools with ``defer_loading`` are found by the
API's own search (``tool_search_tool_bm25_20251119``). Source: Anthropic, "Define tools", "Handle tool calls", "Tool
search tool"; read 2026-11-29.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ferrule.client.bridges.apis.api import DOCUMENTS, IMAGES, ToolEntry
from ferrule.client.bridges.parts import Media, Part
from ferrule.client.bridges.schemas.dialects import ANTHROPIC, ANTHROPIC_STRICT
from ferrule.client.bridges.turns import CallOutcome, ModelCall, ModelTurn, items_of, member

__all__ = ["AnthropicApi"]

_SEARCH: Final = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}


class AnthropicApi:
    """Tools, calls and results in the form of the Messages API."""

    name = "anthropic"
    dialect = ANTHROPIC
    strict = ANTHROPIC_STRICT
    max_strict = (20, 24, 16)
    max_tools = None
    media = IMAGES | DOCUMENTS
    searches = True

    def tools(self, entries: Sequence[ToolEntry]) -> list[dict[str, Any]]:
        """Return tools; the API's search comes first if one is deferred."""
        made = [_tool(entry) for entry in entries]
        return [dict(_SEARCH), *made] if any(entry.deferred for entry in entries) else made

    def reads(self, response: Any) -> bool:
        """Return whether it is a message of the assistant with a list of content blocks."""
        if member(response, "role") != "assistant" or member(response, "tool_calls") is not None:
            return False
        return member(response, "type") == "message" or bool(items_of(response, "content"))

    def turn(self, response: Any) -> ModelTurn:
        """Return the ``tool_use`` blocks; those of the API's own tools are others."""
        calls: list[ModelCall] = []
        others: list[Any] = []
        for block in items_of(response, "content"):
            kind = member(block, "type")
            if kind == "tool_use":
                calls.append(
                    ModelCall.of_object(
                        str(member(block, "id") or ""), str(member(block, "name")), member(block, "input"), block
                    )
                )
            elif isinstance(kind, str) and kind.endswith("_tool_use"):
                others.append(block)
        return ModelTurn(calls, others)

    def messages(self, outcomes: Sequence[CallOutcome]) -> list[dict[str, Any]]:
        """Return one message of the user with all results."""
        return [{"role": "user", "content": [_result(outcome) for outcome in outcomes]}]


def _tool(entry: ToolEntry) -> dict[str, Any]:
    made: dict[str, Any] = {"name": entry.name, "input_schema": entry.schema}
    if entry.description:
        made["description"] = entry.description
    if entry.is_strict:
        made["strict"] = True
    if entry.deferred:
        made["defer_loading"] = True
    return made


def _result(outcome: CallOutcome) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": outcome.call.id,
        "content": [_block(part) for part in outcome.parts],
    }
    if outcome.is_error:
        made["is_error"] = True
    return made


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, Media):
        kind = "image" if part.mime_type.startswith("image/") else "document"
        source = {"type": "base64", "media_type": part.mime_type, "data": part.data}
        made: dict[str, Any] = {"type": kind, "source": source}
        return {**made, "title": part.uri} if kind == "document" and part.uri else made
    if part.uri is not None and part.text.strip():
        source = {"type": "text", "media_type": "text/plain", "data": part.text}
        return {"type": "document", "source": source, "title": part.uri}
    return {"type": "text", "text": part.text if part.uri is None else f"Resource {part.uri} is empty"}
