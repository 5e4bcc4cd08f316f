"""Responses of the APIs that call functions, in the form of their references, made for any calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

__all__ = ["RESPONSES", "Called"]

Called = tuple[str, str, Any]
"""Id, name and arguments of a call; arguments that are text are malformed JSON where the API sends text."""


def anthropic(*calls: Called) -> dict[str, Any]:
    """A message of Anthropic's Messages API that stops for tools."""
    uses = [{"type": "tool_use", "id": id, "name": name, "input": arguments} for id, name, arguments in calls]
    return {
        "id": "msg_01Aq9w938a90dw8q",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": [{"type": "text", "text": "I look that up."}, *uses],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 410, "output_tokens": 51},
    }


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def openai(*calls: Called) -> dict[str, Any]:
    """A response of OpenAI's Responses API."""
    items = [
        {
            "type": "function_call",
            "id": f"fc_{id}",
            "call_id": id,
            "name": name,
            "arguments": _text(arguments),
            "status": "completed",
        }
        for id, name, arguments in calls
    ]
    return {
        "id": "resp_67ccd2bed1ec8190b14f964abc054267",
        "object": "response",
        "created_at": 1741476542,
        "status": "completed",
        "model": "gpt-5.6",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "output": [{"type": "reasoning", "id": "rs_1", "summary": []}, *items],
    }


def openai_chat(*calls: Called) -> dict[str, Any]:
    """A completion of OpenAI's Chat Completions API."""
    made = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": _text(arguments)}}
        for id, name, arguments in calls
    ]
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": made}
    return {
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "object": "chat.completion",
        "created": 1741569952,
        "model": "gpt-5.6",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 82, "completion_tokens": 17, "total_tokens": 99},
    }


def gemini(*calls: Called) -> dict[str, Any]:
    """A response of Gemini's ``generateContent``."""
    parts = [{"functionCall": {"id": id, "name": name, "args": arguments}} for id, name, arguments in calls]
    return {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "Hm.", "thought": True}, *parts]},
                "finishReason": "STOP",
                "index": 0,
            }
        ],
        "modelVersion": "gemini-3.8-flash",
        "responseId": "abc",
    }


def json_schema(*calls: Called) -> list[dict[str, Any]]:
    """Calls without an API."""
    return [{"id": id, "name": name, "arguments": arguments} for id, name, arguments in calls]


RESPONSES: dict[str, Callable[..., Any]] = {
    "anthropic": anthropic,
    "openai": openai,
    "openai-chat": openai_chat,
    "gemini": gemini,
    "json-schema": json_schema,
}
"""API → a function that makes a response with calls."""
