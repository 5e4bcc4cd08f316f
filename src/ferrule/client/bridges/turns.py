"""What a model asked for in one response, and what became of it, whatever the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ferrule.client.bridges.parts import Part
from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_array, is_mapping, is_object

if TYPE_CHECKING:
    from ferrule.client.calls.results import ToolCallResult

__all__ = ["CallOutcome", "ModelCall", "ModelTurn", "Status", "items_of", "member", "plain"]

Status: TypeAlias = Literal[
    "done", "failed", "denied", "timed out", "unknown tool", "malformed", "duplicate", "too many"
]
"""What became of a call: ``"done"``, or why there is an error for the model."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call that a model asks for.

    Attributes:
        id: the id of the call, for its result; empty where the API gives none.
        name: the name that the model uses.
        arguments: the arguments; ``None`` if they are malformed.
        problem: why they are malformed.
        origin: the item of the response that it stands in, unchanged.
    """

    id: str
    name: str
    arguments: dict[str, Any] | None
    problem: str | None = None
    origin: Any = None

    @classmethod
    def of_json(cls, id: str, name: str, text: Any, origin: Any) -> ModelCall:
        """Make the call for arguments that are JSON text; no text at all means no arguments."""
        if is_mapping(text):
            return cls.of_object(id, name, text, origin)
        if text is None or (isinstance(text, str) and not text.strip()):
            return cls(id, name, {}, origin=origin)
        if not isinstance(text, str | bytes | bytearray):
            return cls.of_object(id, name, text, origin)
        try:
            value = decode(text)
        except (DecodeError, UnicodeEncodeError) as error:
            return cls(id, name, None, f"The arguments are not valid JSON: {error}", origin)
        if is_object(value):  # of builtins already
            return cls(id, name, value, origin=origin)
        return cls.of_object(id, name, value, origin)

    @classmethod
    def of_object(cls, id: str, name: str, value: Any, origin: Any) -> ModelCall:
        """Make the call for arguments that are an object already."""
        if value is None:
            return cls(id, name, {}, origin=origin)
        if not is_mapping(value):
            return cls(id, name, None, "The arguments must be a JSON object", origin)
        try:
            return cls(id, name, plain(value), origin=origin)
        except RecursionError:
            return cls(id, name, None, "The arguments are nested too deeply", origin)


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """What a response asks for.

    Attributes:
        calls: the calls of functions, in order.
        others: items that call something else: tools that the provider or the program runs.
    """

    calls: Sequence[ModelCall]
    others: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What became of one call.

    Attributes:
        call: the call as the model made it.
        tool: the name of the tool in the group or client; ``None`` for an unknown one.
        arguments: the arguments that the tool got, or would have got.
        status: what became of it.
        parts: what the model gets.
        result: the result of the tool; ``None`` if it gave none.
    """

    call: ModelCall
    tool: str | None
    status: Status
    parts: Sequence[Part]
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    result: ToolCallResult | None = None

    @property
    def is_error(self) -> bool:
        """Whether the model gets an error."""
        return self.status != "done"


def member(value: Any, *names: str) -> Any:
    """Return the first member that is there and not ``None``, of a mapping or of an object; else ``None``."""
    for name in names:
        found = value.get(name) if is_mapping(value) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def items_of(value: Any, *names: str) -> list[Any]:
    """Return a member that is a list; empty if there is none."""
    found = member(value, *names)
    return list(found) if is_array(found) else []


def plain(value: Any) -> Any:
    """Return a value with dicts and lists in place of other mappings and sequences."""
    if is_mapping(value):
        return {str(name): plain(each) for name, each in value.items()}
    if is_array(value):
        return [plain(each) for each in value]
    if is_object(value) or isinstance(value, str | int | float | bool) or value is None:
        return value
    # Objects of the providers' packages are pydantic models, which are not imported here.
    dumped = getattr(value, "model_dump", None)
    return plain(dumped(mode="json")) if dumped is not None else str(value)
