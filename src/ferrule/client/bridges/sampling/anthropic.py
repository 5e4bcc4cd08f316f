"""Sampling with Anthropic's Messages API."""

from __future__ import annotations

from typing import Any, Final

from ferrule.client.bridges.apis.api import IMAGES
from ferrule.client.bridges.parts import ContentBounds, Media, Part, Text, parts_of_blocks, plain_text
from ferrule.client.bridges.sampling.conversation import Asked, blocks_of
from ferrule.client.bridges.turns import items_of, member
from ferrule.wire.types import ToolContentBlock

__all__ = ["AnthropicSampling"]

_REASONS: Final = {
    "end_turn": "endTurn",
    "stop_sequence": "stopSequence",
    "max_tokens": "maxTokens",
    "tool_use": "toolUse",
}


class AnthropicSampling:
    """Requests of ``messages.create``, and what their responses say."""

    def request(self, asked: Asked) -> dict[str, Any]:
        """Return the arguments of ``messages.create``."""
        params = asked.params
        made: dict[str, Any] = {
            "model": asked.model,
            "max_tokens": asked.max_tokens,
            "messages": [
                {"role": message.role, "content": [_block(block, asked) for block in blocks_of(message)]}
                for message in params.messages
            ],
        }
        if params.system_prompt:
            made["system"] = params.system_prompt
        if params.temperature is not None:
            made["temperature"] = params.temperature
        if params.stop_sequences:
            made["stop_sequences"] = params.stop_sequences
        if asked.tools:
            made["tools"] = list(asked.tools)
            made["tool_choice"] = {"type": {"required": "any"}.get(asked.tool_choice, asked.tool_choice)}
        return made

    def text(self, response: Any) -> str:
        """Return the text blocks, joined."""
        blocks = items_of(response, "content")
        return "".join(str(member(block, "text") or "") for block in blocks if member(block, "type") == "text")

    def stop_reason(self, response: Any) -> str | None:
        """Return ``stop_reason`` in the words of MCP."""
        reason = member(response, "stop_reason")
        return None if reason is None else _REASONS.get(str(reason), str(reason))


def _block(block: ToolContentBlock, asked: Asked) -> dict[str, Any]:
    if block.type == "tool_use":
        name = asked.model_name(block.name or "")
        return {"type": "tool_use", "id": block.id, "name": name, "input": block.input or {}}
    if block.type == "tool_result":
        parts = parts_of_blocks(block.content or [], IMAGES, ContentBounds())
        made: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": block.tool_use_id,
            "content": [_part(part) for part in parts],
        }
        return {**made, "is_error": True} if block.is_error else made
    parts = parts_of_blocks([block], IMAGES, ContentBounds())
    return _part(parts[0]) if parts else _part(Text(" "))


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Media):
        source = {"type": "base64", "media_type": part.mime_type, "data": part.data}
        return {"type": "image", "source": source}
    return {"type": "text", "text": plain_text([part])}
