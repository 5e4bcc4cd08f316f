"""Runs in the environment with the packages of providers: their own types over our definitions and messages.

Reads one JSON line ``{"api": …, "tools": …, "response": …, "answer": …, "request": …}`` per case from stdin, and prints
a line for each problem. ``request`` is what a server's sampling becomes.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import json
import sys
from typing import Any

import anthropic.types as anthropic_types
import openai.types.chat as chat_types
import openai.types.responses as response_types
from google.genai import types as gemini_types
from pydantic import TypeAdapter


def check(kind: Any, value: Any) -> None:
    """Validate a value by a type of a package."""
    TypeAdapter(kind).validate_python(value)


def anthropic(case: dict[str, Any]) -> None:
    """Tools, the message of the response, and the message with the results."""
    check(list[anthropic_types.ToolUnionParam], case["tools"])
    anthropic_types.Message.model_validate(case["response"])
    check(list[anthropic_types.MessageParam], case["answer"])
    check(anthropic_types.message_create_params.MessageCreateParamsNonStreaming, case["request"])


def openai(case: dict[str, Any]) -> None:
    """Tools, the response, and the items with the results."""
    check(list[response_types.ToolParam], case["tools"])
    response_types.Response.model_validate(case["response"])
    check(list[response_types.ResponseInputItemParam], case["answer"])
    check(response_types.response_create_params.ResponseCreateParamsNonStreaming, case["request"])


def openai_chat(case: dict[str, Any]) -> None:
    """Tools, the completion, and the messages with the results."""
    check(list[chat_types.ChatCompletionToolUnionParam], case["tools"])
    chat_types.ChatCompletion.model_validate(case["response"])
    check(list[chat_types.ChatCompletionMessageParam], case["answer"])
    check(chat_types.completion_create_params.CompletionCreateParamsNonStreaming, case["request"])


def gemini(case: dict[str, Any]) -> None:
    """Tools, the response, and the content with the results; these models refuse unknown members."""
    gemini_types.GenerateContentConfig(tools=case["tools"])
    gemini_types.GenerateContentResponse.model_validate(case["response"])
    for content in case["answer"]:
        gemini_types.Content.model_validate(content)
    gemini_types.GenerateContentConfig.model_validate(case["request"]["config"])
    for content in case["request"]["contents"]:
        gemini_types.Content.model_validate(content)


CHECKS = {
    "anthropic": anthropic,
    "openai": openai,
    "openai-chat": openai_chat,
    "gemini": gemini,
    "gemini-openapi": gemini,
}


def main() -> None:
    for line in sys.stdin:
        case = json.loads(line)
        try:
            CHECKS[case["api"]](case)
        except Exception as error:
            print(json.dumps({"case": case["name"], "error": str(error)[:1500]}))
    print("checked")


if __name__ == "__main__":
    main()
