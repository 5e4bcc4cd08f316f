"""Sampling with OpenAI's Responses API."""

from __future__ import annotations

from typing import Any

from ferrule.client.bridges.apis.api import IMAGES, data_url, error_text
from ferrule.client.bridges.parts import ContentBounds, Media, parts_of_blocks, plain_text
from ferrule.client.bridges.sampling.conversation import Asked, blocks_of
from ferrule.client.bridges.turns import items_of, member
from ferrule.wire.codec import encode_str
from ferrule.wire.types import ToolContentBlock

__all__ = ["OpenAiResponsesSampling"]


class OpenAiResponsesSampling:
    """Requests of ``responses.create``, and what their responses say."""

    def request(self, asked: Asked) -> dict[str, Any]:
        """Return the arguments of ``responses.create``. The API has no stop sequences."""
        params = asked.params
        items = [_item(message.role, block, asked) for message in params.messages for block in blocks_of(message)]
        made: dict[str, Any] = {"model": asked.model, "input": items, "max_output_tokens": asked.max_tokens}
        if params.system_prompt:
            made["instructions"] = params.system_prompt
        if params.temperature is not None:
            made["temperature"] = params.temperature
        if asked.tools:
            made["tools"] = list(asked.tools)
            made["tool_choice"] = asked.tool_choice
        return made

    def text(self, response: Any) -> str:
        """Return the texts of the output messages, joined."""
        return "".join(
            str(member(part, "text") or "")
            for item in items_of(response, "output")
            if member(item, "type") == "message"
            for part in items_of(item, "content")
        )

    def stop_reason(self, response: Any) -> str | None:
        """Return why it ended, from the output and ``incomplete_details``."""
        reason = member(member(response, "incomplete_details"), "reason")
        if reason is not None:
            return "maxTokens" if reason == "max_output_tokens" else str(reason)
        calls = any(member(item, "type") == "function_call" for item in items_of(response, "output"))
        return "toolUse" if calls else "endTurn"


def _item(role: str, block: ToolContentBlock, asked: Asked) -> dict[str, Any]:
    if block.type == "tool_use":
        name = asked.model_name(block.name or "")
        arguments = encode_str(block.input or {})
        return {"type": "function_call", "call_id": block.id, "name": name, "arguments": arguments}
    if block.type == "tool_result":
        parts = parts_of_blocks(block.content or [], frozenset(), ContentBounds())
        output = error_text(parts, bool(block.is_error))
        return {"type": "function_call_output", "call_id": block.tool_use_id, "output": output}
    parts = parts_of_blocks([block], IMAGES if role == "user" else frozenset(), ContentBounds())
    if parts and isinstance(parts[0], Media):
        content = [{"type": "input_image", "image_url": data_url(parts[0]), "detail": "auto"}]
        return {"type": "message", "role": "user", "content": content}
    return {"type": "message", "role": role, "content": plain_text(parts)}
