"""Keyword arguments of `tools_for` and `answer`, for type checkers and editors; `ToolBridge` describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Collection

    from ferrule.client.bridges.bridge import Approver

__all__ = ["AnswerOptions", "DeferMode", "ToolsForOptions"]

DeferMode = Literal["auto", "api", "search", "never"]


class ToolsForOptions(TypedDict, total=False):
    """The options of `ferrule.ClientGroup.tools_for`, without the API."""

    budget: int | None
    defer: DeferMode
    always: Collection[str]
    strict: bool


class AnswerOptions(TypedDict, total=False):
    """The options of `ferrule.ClientGroup.answer`, without the response."""

    approve: Approver | None
    timeout_s: float | None
    max_calls: int
    max_concurrent: int
    max_text_bytes: int
    max_media_bytes: int
    media: Collection[str] | None
    others: Collection[str]
