"""Handlers for `ferrule.Client` and `ferrule.ClientGroup`: the program's own model answers what servers ask.

A server decides how often it samples and what it asks, and the program pays: give such a handler to servers that you
trust, with ``approve`` where a person is there.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from ferrule.client.bridges.apis.known import ApiName, api_named
from ferrule.client.bridges.sampling.anthropic import AnthropicSampling
from ferrule.client.bridges.sampling.conversation import Asked, SamplingApi, offered, said
from ferrule.client.bridges.sampling.gemini import GeminiSampling
from ferrule.client.bridges.sampling.openai_chat import OpenAiChatSampling
from ferrule.client.bridges.sampling.openai_responses import OpenAiResponsesSampling
from ferrule.client.bridges.turns import member
from ferrule.client.calls.callbacks import SamplingRefused, ServerQuestion
from ferrule.wire.json_types import is_list, is_object
from ferrule.wire.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    SamplingMessage,
    Tool,
    ToolChoice,
    text_block,
)

__all__ = ["Create", "answer_with", "sample_with"]

Create: TypeAlias = Callable[..., Any]
"""The function that creates a response, sync or async, such as ``anthropic.AsyncAnthropic().messages.create``."""

Choose: TypeAlias = "str | Callable[[CreateMessageRequestParams], str]"
"""The name of the model, or a function that chooses it by the request's preferences."""

Approve: TypeAlias = "Callable[[Any, ServerQuestion], bool | Awaitable[bool]]"
"""Whether a request of a server is answered: ``(params, question) -> bool``, sync or async."""

_APIS: Final[dict[str, SamplingApi]] = {
    "anthropic": AnthropicSampling(),
    "openai": OpenAiResponsesSampling(),
    "openai-chat": OpenAiChatSampling(),
    "gemini": GeminiSampling(),
}
_ANSWER, _DECLINE = "answer", "decline"
_SYSTEM = (
    "You answer a question of a tool's server in place of the user. Call `answer` with what you know from the context. "
    "Call `decline` if you do not know it, and for anything secret."
)


def sample_with(
    api: ApiName,
    create: Create,
    *,
    model: Choose,
    max_tokens: int = 4096,
    approve: Approve | None = None,
    request: Mapping[str, Any] | None = None,
) -> Callable[[CreateMessageRequestParams, ServerQuestion], Awaitable[CreateMessageResult]]:
    """Return a ``sampling_handler`` that asks a model of a provider.

    Args:
        api: whose requests ``create`` takes: ``"anthropic"``, ``"openai"``, ``"openai-chat"`` or ``"gemini"``.
        create: called with the arguments of a request, such as ``client.messages.create``.
        model: the name of the model, or a function that chooses it.
        max_tokens: the model writes at most so many tokens, whatever the server asks for.
        approve: asked first; without it every request is answered.
        request: further arguments of each request; they win over those made here, and ``None`` leaves one out.

    Raises:
        ValueError: sampling is not possible with this API.
    """
    api_named(api)
    sampling = _APIS.get(api)
    if sampling is None:
        raise ValueError(f"Sampling is possible with {', '.join(_APIS)}, not with {api!r}")
    tools_api = api_named(api)

    async def sample(params: CreateMessageRequestParams, question: ServerQuestion) -> CreateMessageResult:
        if approve is not None and await _awaited(approve(params, question)) is not True:
            raise SamplingRefused()
        tools, names = offered(params.tools, tools_api)
        chosen = model if isinstance(model, str) else model(params)
        asked = Asked(params, chosen, min(params.max_tokens, max_tokens), tools, names)
        arguments = {**sampling.request(asked), **(request or {})}
        response = await _awaited(create(**{name: value for name, value in arguments.items() if value is not None}))
        content = said(sampling.text(response), tools_api.turn(response), names)
        return CreateMessageResult(
            role="assistant",
            content=content[0] if len(content) == 1 else content,
            model=str(member(response, "model", "model_version", "modelVersion") or chosen),
            stop_reason=sampling.stop_reason(response),
        )

    return sample


def answer_with(
    api: ApiName,
    create: Create,
    *,
    model: Choose,
    context: str | Callable[[], str] = "",
    max_tokens: int = 1024,
    approve: Approve | None = None,
    request: Mapping[str, Any] | None = None,
) -> Callable[[ElicitRequestParams, ServerQuestion], Awaitable[ElicitResult]]:
    """Return an ``elicitation_handler`` that lets a model fill in the forms of servers.

    The model declines what it does not know, and so does every answer that does not fit the form. URLs are for users
    and always declined.

    Args:
        api, create, model, max_tokens, approve, request: as for `sample_with`.
        context: what the model knows, such as the conversation so far, or a function that returns it.

    Raises:
        ValueError: sampling is not possible with this API.
    """
    sample = sample_with(api, create, model=model, max_tokens=max_tokens, request=request)

    async def answer(params: ElicitRequestParams, question: ServerQuestion) -> ElicitResult:
        if params.mode == "url":
            return ElicitResult("decline")
        if approve is not None and await _awaited(approve(params, question)) is not True:
            return ElicitResult("decline")
        schema: dict[str, Any] = params.requested_schema or {}
        known = context if isinstance(context, str) else context()
        text = f"The server {question.server} asks: {params.message}"
        asked = CreateMessageRequestParams(
            messages=[SamplingMessage("user", text_block(f"{known}\n\n{text}" if known else text))],
            max_tokens=max_tokens,
            system_prompt=_SYSTEM,
            tools=[
                Tool(_ANSWER, {"type": "object", **schema}, "Answer the question."),
                Tool(_DECLINE, {"type": "object", "properties": {}}, "Do not answer it."),
            ],
            tool_choice=ToolChoice("required"),
        )
        result = await sample(asked, question)
        blocks = result.content if isinstance(result.content, list) else [result.content]
        uses = [block for block in blocks if block.type == "tool_use"]
        if not uses or uses[0].name != _ANSWER:
            return ElicitResult("decline")
        content = _fitting(uses[0].input or {}, schema)
        return ElicitResult("decline") if content is None else ElicitResult("accept", content=content)

    return answer


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _fitting(given: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a form; ``None`` if a required one is missing or one is no value of its type."""
    properties: Any = schema.get("properties")
    fields: dict[str, Any] = properties if is_object(properties) else {}
    content = {name: value for name, value in given.items() if name in fields and value is not None}
    required: Any = schema.get("required") or ()
    if any(name not in content for name in required):
        return None
    return content if all(_is_value(content[name], fields[name]) for name in content) else None


def _is_choice(value: Any, field: Any) -> bool:
    """Return whether a value is one of the choices of a field, with titles or without; ``True`` if it has none."""
    if not is_object(field):
        return True
    values: Any = field.get("enum")
    if is_list(values):
        return value in values
    branches: Any = field.get("oneOf") or field.get("anyOf")
    if is_list(branches) and all(is_object(each) and "const" in each for each in branches):
        return value in [each["const"] for each in branches]
    return True


def _is_value(value: Any, field: Any) -> bool:
    kind: Any = field.get("type") if is_object(field) else None
    if kind == "array":
        return is_list(value) and all(isinstance(each, str) and _is_choice(each, field.get("items")) for each in value)
    if not _is_choice(value, field):
        return False
    types: Mapping[str, type | tuple[type, ...]] = {
        "string": str, "boolean": bool, "integer": int, "number": (int, float)
    }  # fmt: skip
    return isinstance(value, types.get(kind, object)) and (kind == "boolean" or not isinstance(value, bool))
