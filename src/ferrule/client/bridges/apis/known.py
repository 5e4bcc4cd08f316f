"""The APIs by name, and which of them a response belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

from ferrule.client.bridges.apis.anthropic import AnthropicApi
from ferrule.client.bridges.apis.api import ModelApi
from ferrule.client.bridges.apis.gemini import GeminiApi, GeminiOpenApi
from ferrule.client.bridges.apis.json_schema import JsonSchemaApi
from ferrule.client.bridges.apis.openai_chat import OpenAiChatApi
from ferrule.client.bridges.apis.openai_responses import OpenAiResponsesApi

__all__ = ["APIS", "ApiName", "api_named", "api_of_response"]

ApiName: TypeAlias = Literal["anthropic", "openai", "openai-chat", "gemini", "gemini-openapi", "json-schema"]
"""``"anthropic"``: Messages; ``"openai"``: Responses; ``"openai-chat"``: Chat Completions and servers that speak it;
``"gemini"``: ``generateContent``, ``"gemini-openapi"`` with the older form of schemas; ``"json-schema"``: none."""

# In this order a response is looked at: an assistant's message with a list of blocks is Anthropic's.
APIS: Final[dict[str, ModelApi]] = {
    api.name: api
    for api in (
        OpenAiResponsesApi(),
        AnthropicApi(),
        GeminiApi(),
        GeminiOpenApi(),
        OpenAiChatApi(),
        JsonSchemaApi(),
    )
}
"""Name → API."""


def api_named(name: str) -> ModelApi:
    """Return an API by its name.

    Raises:
        ValueError: there is no such API.
    """
    try:
        return APIS[name]
    except (KeyError, TypeError):
        raise ValueError(f"There is no model API {name!r}; there are {', '.join(sorted(APIS))}") from None


def api_of_response(response: Any, likely: Iterable[str] = ()) -> ModelApi:
    """Return the API whose response this is.

    Args:
        response: an object of a provider's package, or the decoded JSON.
        likely: names of APIs that are looked at first.

    Raises:
        TypeError: it is a response of none of them.
    """
    for name in (*likely, *APIS):
        if APIS[name].reads(response):
            return APIS[name]
    raise TypeError(
        f"This {type(response).__name__} is no response of {', '.join(sorted(APIS))}: give the whole response, "
        "or the message of the assistant in it"
    )
