"""Sampling: a server asks the client's model; deprecated in 2026-07-28, where it exists only as an input request."""

from typing import Any, Literal

from msgspec import field

from ferrule.wire.struct import WireStruct
from ferrule.wire.types.base import Priority, RequestParams, Role, TaskMetadata
from ferrule.wire.types.content import ToolContentBlock
from ferrule.wire.types.server_features.tools import Tool

__all__ = [
    "CreateMessageRequestParams",
    "CreateMessageResult",
    "ModelHint",
    "ModelPreferences",
    "SamplingMessage",
    "ToolChoice",
]


class ModelHint(WireStruct, gc=False):
    """A substring of the names of suitable models, such as the name of a family."""

    name: str | None = None


class ModelPreferences(WireStruct):
    """The server's wishes for the model. Hints are tried in order; the priorities (0 to 1) decide between the rest."""

    hints: list[ModelHint] | None = None
    cost_priority: Priority | None = None
    speed_priority: Priority | None = None
    intelligence_priority: Priority | None = None


class ToolChoice(WireStruct, gc=False):
    """Whether the model may, must or must not use tools (2025-11-25 on); ``None`` means ``"auto"``."""

    mode: Literal["auto", "required", "none"] | None = None


class SamplingMessage(WireStruct):
    """One message of a conversation. ``content`` is one block, or from 2025-11-25 on a list of blocks."""

    role: Role
    content: ToolContentBlock | list[ToolContentBlock]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class CreateMessageRequestParams(RequestParams, kw_only=True):
    """Params of ``sampling/createMessage``.

    ``tools`` and ``tool_choice`` need the client's ``sampling.tools`` (2025-11-25 on); ``include_context`` other
    than ``"none"`` needs ``sampling.context``; only 2025-11-25 has ``task``.
    """

    messages: list[SamplingMessage]
    max_tokens: int
    model_preferences: ModelPreferences | None = None
    system_prompt: str | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    temperature: int | float | None = None
    stop_sequences: list[str] | None = None
    metadata: dict[str, Any] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    task: TaskMetadata | None = None


class CreateMessageResult(WireStruct, kw_only=True):
    """A message of the client's model. Not a `Result`: in 2026-07-28 it is one of the input responses.

    ``stop_reason`` is ``endTurn``, ``stopSequence``, ``maxTokens``, ``toolUse`` or a value of the model's provider.
    """

    role: Role
    content: ToolContentBlock | list[ToolContentBlock]
    model: str
    stop_reason: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)

    @property
    def text(self) -> str:
        """The text blocks of ``content``, joined; empty if there are none."""
        blocks = self.content if isinstance(self.content, list) else [self.content]
        return "".join(block.text or "" for block in blocks if block.type == "text")
