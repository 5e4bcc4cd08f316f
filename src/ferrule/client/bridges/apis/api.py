"""The interface of a model API, and a tool as one is given to it."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol

from ferrule.client.bridges.parts import Media, Part, plain_text
from ferrule.client.bridges.schemas.dialects import Dialect
from ferrule.client.bridges.turns import CallOutcome, ModelTurn

__all__ = ["DOCUMENTS", "IMAGES", "ModelApi", "ToolEntry", "data_url", "error_text"]

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
DOCUMENTS = frozenset({"application/pdf"})


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One tool as a model sees it.

    Attributes:
        name: its name for the model.
        server: the name of its server; empty for the only one.
        description: its description; may be empty.
        schema: the schema of its arguments in the API's subset.
        is_strict: whether the schema is one of the strict subset.
        deferred: whether the API loads it only when the model searches for it.
    """

    name: str
    server: str
    description: str
    schema: dict[str, Any]
    is_strict: bool = False
    deferred: bool = False


class ModelApi(Protocol):
    """What differs between the APIs; the functions keep no state."""

    @property
    def name(self) -> str:
        """Its name in `ferrule.ClientGroup.tools_for`."""
        ...

    @property
    def dialect(self) -> Dialect | None:
        """The schemas that it takes; ``None``: any."""
        ...

    @property
    def strict(self) -> Dialect | None:
        """The schemas that it enforces, where it has such a mode."""
        ...

    @property
    def max_strict(self) -> tuple[int, int, int] | None:
        """The maximum numbers of strict tools, of their optional properties and of their unions in one request."""
        ...

    @property
    def max_tools(self) -> int | None:
        """The maximum number of functions in one request; ``None``: no documented limit."""
        ...

    @property
    def media(self) -> Set[str]:
        """The media types that results may have."""
        ...

    @property
    def searches(self) -> bool:
        """Whether the API itself can load tools that the model searches for."""
        ...

    def tools(self, entries: Sequence[ToolEntry]) -> list[dict[str, Any]]:
        """Return the value of ``tools`` in a request."""
        ...

    def reads(self, response: Any) -> bool:
        """Return whether a response is one of this API."""
        ...

    def turn(self, response: Any) -> ModelTurn:
        """Return what a response asks for."""
        ...

    def messages(self, outcomes: Sequence[CallOutcome]) -> list[dict[str, Any]]:
        """Return the messages or items with the results of the calls, in the order of the calls."""
        ...


def data_url(media: Media) -> str:
    """Return media as a ``data:`` URL."""
    return f"data:{media.mime_type};base64,{media.data}"


def error_text(parts: Sequence[Part], is_error: bool) -> str:
    """Return all texts as one, for APIs without a mark for errors: those begin with ``Error: ``."""
    text = plain_text(parts)
    return f"Error: {text}" if is_error else text
