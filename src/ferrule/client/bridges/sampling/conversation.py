"""What the requests and responses of all APIs have in common when a server samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ferrule.client.bridges.apis.api import ModelApi
from ferrule.client.bridges.entries import bridged_tools
from ferrule.client.bridges.turns import ModelTurn
from ferrule.wire.types import (
    CreateMessageRequestParams,
    SamplingMessage,
    Tool,
    ToolContentBlock,
    text_block,
    tool_use_block,
)

__all__ = ["Asked", "SamplingApi", "blocks_of", "offered", "said"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a server asks a model.

    Attributes:
        params: the params of its request.
        model: the name of the model.
        max_tokens: how many tokens the model may write.
        tools: the tools for the API; empty without tools.
        names: name for the model → name that the server uses.
    """

    params: CreateMessageRequestParams
    model: str
    max_tokens: int
    tools: Sequence[Mapping[str, Any]]
    names: Mapping[str, str]

    def model_name(self, name: str) -> str:
        """Return the name for the model of a tool of the server."""
        return next((made for made, own in self.names.items() if own == name), name)

    @property
    def tool_choice(self) -> str:
        """``"auto"``, ``"required"`` or ``"none"``."""
        choice = self.params.tool_choice
        return (choice.mode if choice is not None else None) or "auto"


class SamplingApi(Protocol):
    """What differs between the APIs."""

    def request(self, asked: Asked) -> dict[str, Any]:
        """Return the keyword arguments of the function that creates a response."""
        ...

    def text(self, response: Any) -> str:
        """Return the text of a response."""
        ...

    def stop_reason(self, response: Any) -> str | None:
        """Return why the model stopped, in the words of MCP where it has one."""
        ...


def blocks_of(message: SamplingMessage) -> list[ToolContentBlock]:
    """Return the content of a message as a list."""
    return message.content if isinstance(message.content, list) else [message.content]


def offered(tools: Sequence[Tool] | None, api: ModelApi) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the tools for the API, and name for the model → name that the server uses."""
    made = bridged_tools(tools or (), api)
    names = {name: each.tool.name for name, each in made.items()}
    return (api.tools([each.entry for each in made.values()]) if made else []), names


def said(text: str, turn: ModelTurn, names: Mapping[str, str]) -> list[ToolContentBlock]:
    """Return what the model said as blocks: its text, and the calls that it asks for."""
    made = [text_block(text)] if text or not turn.calls else []
    for index, call in enumerate(turn.calls):
        made.append(tool_use_block(call.id or f"call-{index}", names.get(call.name, call.name), call.arguments or {}))
    return made
