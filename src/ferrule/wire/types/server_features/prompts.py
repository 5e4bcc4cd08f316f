"""Prompts: templates of messages that a user selects."""

from typing import Any

from msgspec import field

from ferrule.wire.struct import WireStruct
from ferrule.wire.types.base import Icon, InputResponseRequestParams, PaginatedResult, Result, Role
from ferrule.wire.types.content import ToolContentBlock, text_block

__all__ = [
    "GetPromptRequestParams",
    "GetPromptResult",
    "ListPromptsResult",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
]


class PromptArgument(WireStruct, gc=False):
    """One argument of a prompt; values are text. ``required`` is ``False`` if absent."""

    name: str
    description: str | None = None
    required: bool | None = None
    title: str | None = None


class Prompt(WireStruct):
    """A prompt that a server offers."""

    name: str
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    title: str | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PromptMessage(WireStruct):
    """One message of a prompt: a content block of any kind, in the role of the user or of the assistant.

    Raises:
        ValueError: ``role`` is neither ``"user"`` nor ``"assistant"``.
    """

    role: Role
    content: ToolContentBlock

    def __post_init__(self) -> None:
        if self.role not in ("user", "assistant"):
            raise ValueError(f"A prompt message has the role `user` or `assistant`, got {self.role!r}")

    @classmethod
    def text(cls, role: Role, text: str) -> "PromptMessage":
        """Return a message of plain text."""
        return cls(role, text_block(text))


class ListPromptsResult(PaginatedResult):
    """One page of ``prompts/list``."""

    prompts: list[Prompt]


class GetPromptRequestParams(InputResponseRequestParams):
    """Params of ``prompts/get``."""

    name: str
    arguments: dict[str, str] | None = None


class GetPromptResult(Result):
    """The messages of a prompt for given arguments."""

    messages: list[PromptMessage]
    description: str | None = None
