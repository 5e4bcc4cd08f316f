"""OpenAI's Chat Completions API, and the many servers that speak it.

The message of a tool is text only, so the images of all results follow in one message of the user. A function has no
mark for errors. The API cannot defer functions. Source: OpenAI, reference of Chat Completions; read 2026-11-29.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferrule.client.bridges.apis.api import IMAGES, ToolEntry, data_url, error_text
from ferrule.client.bridges.parts import Media, Part, Text
from ferrule.client.bridges.schemas.dialects import OPENAI, OPENAI_STRICT
from ferrule.client.bridges.turns import CallOutcome, ModelCall, ModelTurn, items_of, member

__all__ = ["OpenAiChatApi"]


class OpenAiChatApi:
    """Tools, calls and results in the form of the Chat Completions API."""

    name = "openai-chat"
    dialect = OPENAI
    strict = OPENAI_STRICT
    max_strict = None
    max_tools = 128
    media = IMAGES
    searches = False

    def tools(self, entries: Sequence[ToolEntry]) -> list[dict[str, Any]]:
        """Return functions."""
        return [{"type": "function", "function": _function(entry)} for entry in entries]

    def reads(self, response: Any) -> bool:
        """Return whether it has choices, or is a message of the assistant."""
        if isinstance(member(response, "choices"), list) or isinstance(member(response, "tool_calls"), list):
            return True
        return member(response, "role") == "assistant" and not isinstance(member(response, "content"), list)

    def turn(self, response: Any) -> ModelTurn:
        """Return the ``tool_calls`` of the first choice; calls of other types are others."""
        choices = items_of(response, "choices")
        message = member(choices[0], "message") if choices else response
        calls: list[ModelCall] = []
        others: list[Any] = []
        for item in items_of(message, "tool_calls"):
            function = member(item, "function")
            if function is None:
                others.append(item)
                continue
            calls.append(
                ModelCall.of_json(
                    str(member(item, "id") or ""), str(member(function, "name")), member(function, "arguments"), item
                )
            )
        return ModelTurn(calls, others)

    def messages(self, outcomes: Sequence[CallOutcome]) -> list[dict[str, Any]]:
        """Return one message for each call, and one of the user with all images."""
        made: list[dict[str, Any]] = []
        images: list[dict[str, Any]] = []
        for outcome in outcomes:
            texts: list[Part] = []
            for part in outcome.parts:
                if isinstance(part, Media):
                    name = f"Image {len(images) // 2 + 1} of {outcome.call.name}"
                    texts.append(Text(f"[{name} follows after the results]"))
                    images += [{"type": "text", "text": f"{name}:"}, _image(part)]
                else:
                    texts.append(part)
            text = error_text(texts, outcome.is_error)
            made.append({"role": "tool", "tool_call_id": outcome.call.id, "content": text})
        return [*made, {"role": "user", "content": images}] if images else made


def _function(entry: ToolEntry) -> dict[str, Any]:
    made: dict[str, Any] = {"name": entry.name, "parameters": entry.schema}
    if entry.description:
        made["description"] = entry.description
    if entry.is_strict:  # left out otherwise: not every server that speaks this API knows it
        made["strict"] = True
    return made


def _image(part: Media) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(part)}}
