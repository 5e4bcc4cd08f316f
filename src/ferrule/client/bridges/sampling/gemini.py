"""Sampling with Google's Gemini API."""

from __future__ import annotations

from typing import Any, Final

from ferrule.client.bridges.apis.api import IMAGES, error_text
from ferrule.client.bridges.parts import ContentBounds, Media, parts_of_blocks, plain_text
from ferrule.client.bridges.sampling.conversation import Asked, blocks_of
from ferrule.client.bridges.turns import items_of, member
from ferrule.wire.types import ToolContentBlock

__all__ = ["GeminiSampling"]

_REASONS: Final = {"STOP": "endTurn", "MAX_TOKENS": "maxTokens"}
_MODES: Final = {"auto": "AUTO", "required": "ANY", "none": "NONE"}


class GeminiSampling:
    """Requests of ``models.generate_content``, and what their responses say."""

    def request(self, asked: Asked) -> dict[str, Any]:
        """Return the arguments of ``models.generate_content``."""
        params = asked.params
        config: dict[str, Any] = {"maxOutputTokens": asked.max_tokens}
        if params.system_prompt:
            config["systemInstruction"] = params.system_prompt
        if params.temperature is not None:
            config["temperature"] = params.temperature
        if params.stop_sequences:
            config["stopSequences"] = params.stop_sequences[:5]  # the API takes five
        if asked.tools:
            config["tools"] = list(asked.tools)
            config["toolConfig"] = {"functionCallingConfig": {"mode": _MODES[asked.tool_choice]}}
        names = {
            block.id: asked.model_name(block.name or "")
            for message in params.messages
            for block in blocks_of(message)
            if block.type == "tool_use"
        }
        contents = [
            {
                "role": "model" if message.role == "assistant" else "user",
                "parts": [_part(block, asked, names) for block in blocks_of(message)],
            }
            for message in params.messages
        ]
        return {"model": asked.model, "contents": contents, "config": config}

    def text(self, response: Any) -> str:
        """Return the texts of the first candidate without thoughts, joined."""
        parts = items_of(member(_candidate(response), "content"), "parts")
        return "".join(str(member(part, "text") or "") for part in parts if not member(part, "thought"))

    def stop_reason(self, response: Any) -> str | None:
        """Return the reason of the first candidate in the words of MCP."""
        candidate = _candidate(response)
        parts = items_of(member(candidate, "content"), "parts")
        if any(member(part, "function_call", "functionCall") is not None for part in parts):
            return "toolUse"
        reason = member(candidate, "finish_reason", "finishReason")
        # A member of an enumeration of the provider's package, or its text.
        name = str(getattr(reason, "value", reason))
        return None if reason is None else _REASONS.get(name, name)


def _candidate(response: Any) -> Any:
    candidates = items_of(response, "candidates")
    return candidates[0] if candidates else None


def _part(block: ToolContentBlock, asked: Asked, names: dict[str | None, str]) -> dict[str, Any]:
    if block.type == "tool_use":
        name = asked.model_name(block.name or "")
        return {"functionCall": {"id": block.id, "name": name, "args": block.input or {}}}
    if block.type == "tool_result":
        parts = parts_of_blocks(block.content or [], frozenset(), ContentBounds())
        key = "error" if block.is_error else "output"
        asked_for = names.get(block.tool_use_id, block.tool_use_id)
        response = {"id": block.tool_use_id, "name": asked_for, "response": {key: error_text(parts, False)}}
        return {"functionResponse": response}
    parts = parts_of_blocks([block], IMAGES | {"audio/wav", "audio/mpeg", "audio/mp3"}, ContentBounds())
    if parts and isinstance(parts[0], Media):
        return {"inlineData": {"mimeType": parts[0].mime_type, "data": parts[0].data}}
    return {"text": plain_text(parts)}
