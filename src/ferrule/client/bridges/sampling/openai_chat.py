"""Sampling with OpenAI's Chat Completions API, and servers that speak it."""

from __future__ import annotations

from typing import Any, Final

from ferrule.client.bridges.apis.api import IMAGES, data_url, error_text
from ferrule.client.bridges.parts import ContentBounds, Media, parts_of_blocks, plain_text
from ferrule.client.bridges.sampling.conversation import Asked, blocks_of
from ferrule.client.bridges.turns import items_of, member
from ferrule.wire.codec import encode_str
from ferrule.wire.types import SamplingMessage

__all__ = ["OpenAiChatSampling"]

_REASONS: Final = {"stop": "endTurn", "length": "maxTokens", "tool_calls": "toolUse"}


class OpenAiChatSampling:
    """Requests of ``chat.completions.create``, and what their responses say."""

    def request(self, asked: Asked) -> dict[str, Any]:
        """Return the arguments of ``chat.completions.create``."""
        params = asked.params
        messages: list[dict[str, Any]] = []
        if params.system_prompt:
            messages.append({"role": "system", "content": params.system_prompt})
        for message in params.messages:
            messages += _messages(message, asked)
        made: dict[str, Any] = {
            "model": asked.model,
            "messages": messages,
            "max_completion_tokens": asked.max_tokens,
        }
        if params.temperature is not None:
            made["temperature"] = params.temperature
        if params.stop_sequences:
            made["stop"] = params.stop_sequences[:4]  # the API takes four
        if asked.tools:
            made["tools"] = list(asked.tools)
            made["tool_choice"] = asked.tool_choice
        return made

    def text(self, response: Any) -> str:
        """Return the content of the first choice."""
        return str(member(member(_choice(response), "message"), "content") or "")

    def stop_reason(self, response: Any) -> str | None:
        """Return ``finish_reason`` in the words of MCP."""
        reason = member(_choice(response), "finish_reason")
        return None if reason is None else _REASONS.get(str(reason), str(reason))


def _choice(response: Any) -> Any:
    choices = items_of(response, "choices")
    return choices[0] if choices else None


def _messages(message: SamplingMessage, asked: Asked) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    content: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block in blocks_of(message):
        if block.type == "tool_use":
            function = {"name": asked.model_name(block.name or ""), "arguments": encode_str(block.input or {})}
            calls.append({"id": block.id, "type": "function", "function": function})
        elif block.type == "tool_result":
            parts = parts_of_blocks(block.content or [], frozenset(), ContentBounds())
            text = error_text(parts, bool(block.is_error))
            made.append({"role": "tool", "tool_call_id": block.tool_use_id, "content": text})
        else:
            for part in parts_of_blocks([block], IMAGES if message.role == "user" else frozenset(), ContentBounds()):
                if isinstance(part, Media):
                    content.append({"type": "image_url", "image_url": {"url": data_url(part)}})
                else:
                    content.append({"type": "text", "text": plain_text([part])})
    if calls:
        text = "".join(part["text"] for part in content)
        made.append({"role": message.role, "content": text or None, "tool_calls": calls})
    elif content:
        made.append({"role": message.role, "content": content})
    return made
