"""The result of a tool call: content for reading, structured content, and ``.data`` with a type.

``.data`` is made when it is first read. It is an instance of the class that the caller passed, or of a frozen type that
is made once for each output schema, or the JSON itself: where a schema cannot be expressed as a type, or describes
nothing. Values are validated by ``jsonschema-rs`` (`ferrule.client.calls.schema_check`), not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from msgspec import UNSET

from ferrule.client.calls.schema_types import type_from_schema
from ferrule.client.errors import BadServerResponse
from ferrule.protocol.errors import LocalError
from ferrule.wire.codec import convert, decode, encode
from ferrule.wire.faults import ConvertError, DecodeError
from ferrule.wire.json_types import is_mapping
from ferrule.wire.struct import decode_hook
from ferrule.wire.types import ToolContentBlock, ToolResult

__all__ = ["ToolCallResult", "ToolFailed", "as_type"]

T = TypeVar("T")


class ToolFailed(LocalError):
    """A tool reported failure (``isError``), and the caller asked for an exception (``raise_on_error``).

    Attributes:
        tool: its name.
        result: the result that the server sent.
    """

    def __init__(self, tool: str, result: ToolCallResult) -> None:
        super().__init__(f"The tool {tool!r} failed: {result.text or 'without a message'}")
        self.tool = tool
        self.result = result


class ToolCallResult:
    """The outcome of `Client.call_tool`.

    Attributes:
        tool: the tool's name.
        result: the wire's `ToolResult`.
    """

    __slots__ = ("_data", "_is_typed", "_result_type", "_schema", "result", "tool")

    def __init__(
        self,
        tool: str,
        result: ToolResult,
        *,
        result_type: Any = None,
        output_schema: Mapping[str, Any] | None = None,
        is_typed: bool = True,
    ) -> None:
        self.tool = tool
        self.result = result
        self._result_type = result_type
        self._schema = output_schema
        self._is_typed = is_typed
        self._data: Any = UNSET

    @property
    def content(self) -> list[ToolContentBlock]:
        """The content blocks of the result."""
        return self.result.content

    @property
    def structured_content(self) -> Any:
        """The structured content as JSON; ``None`` if it is ``null`` or absent (see `has_structured_content`)."""
        value = self.result.structured_content
        return None if value is UNSET else value

    @property
    def has_structured_content(self) -> bool:
        """Whether the server sent structured content, ``null`` included."""
        return self.result.structured_content is not UNSET

    @property
    def is_error(self) -> bool:
        """Whether the tool failed."""
        return bool(self.result.is_error)

    @property
    def meta(self) -> dict[str, Any]:
        """The result's ``_meta``; empty if it has none."""
        return self.result.meta or {}

    @property
    def text(self) -> str:
        """The text blocks of the content, one per line."""
        return "\n".join(block.text for block in self.result.content if block.type == "text" and block.text)

    @property
    def data(self) -> Any:
        """The structured content with a type: the class passed as ``result_type``, one made from the tool's output
        schema if the program has listed the tool (`Client.list_tools`), else the JSON itself; ``None`` without
        structured content. The same holds in both eras.

        A single value that a server wrapped as ``{"result": …}`` is unwrapped.

        Raises:
            BadServerResponse: the content does not fit ``result_type``.
        """
        if self._data is UNSET:
            self._data = self._make_data()
        return self._data

    def raise_on_error(self) -> ToolCallResult:
        """Return this result if the tool succeeded.

        Raises:
            ToolFailed: the tool failed (``isError``).
        """
        if self.result.is_error:
            raise ToolFailed(self.tool, self)
        return self

    def __repr__(self) -> str:
        state = "failed: " if self.is_error else ""
        value = self.structured_content if self.has_structured_content else self.content
        return f"<ToolCallResult of {self.tool!r}: {state}{value!r}>"

    def _make_data(self) -> Any:
        value = self.result.structured_content
        if self._result_type is not None:
            return self._as_result_type(value)
        if value is UNSET or self.is_error:
            return None if value is UNSET else value
        schema = self._schema
        if _is_wrapped(value, schema):
            value = value["result"]
            schema = None if schema is None else _local(schema["properties"]["result"], schema)
        if schema is None or not self._is_typed:
            return value
        made = type_from_schema(schema)
        if made is Any:
            return value
        try:
            return convert(value, made)
        except ConvertError:
            return value  # the validator decides whether that is an error

    def _as_result_type(self, value: Any) -> Any:
        if value is UNSET:
            value = _from_text(self.text, self._result_type)
        try:
            return as_type(value, self._result_type)
        except ConvertError as error:
            # Only after the value itself did not fit: the caller's type may have a member `result` of its own.
            if _is_wrapped(value, self._schema):
                try:
                    return as_type(value["result"], self._result_type)
                except ConvertError:
                    pass
            raise BadServerResponse(
                f"The result of the tool {self.tool!r} is not a {self._result_type!r}: {error}"
            ) from error


def as_type(value: Any, type_: type[T]) -> T:
    """Return JSON converted to a Python type: any type that msgspec supports, and pydantic models, also as members.

    Raises:
        ConvertError: the value does not fit the type.
    """
    return convert(value, type_, hook=_as_foreign)


def _as_foreign(type_: Any, value: Any) -> Any:
    read = getattr(type_, "model_validate_json", None)  # pydantic's; it is not imported to find that out
    if read is None:
        return decode_hook(type_, value)
    return read(encode(value))  # as JSON: a strict model takes no text for a date, but takes JSON text for one


def _from_text(text: str, type_: Any) -> Any:
    """Return the text of a result without structured content as ``type_``; parsed as JSON unless ``type_`` is text."""
    if type_ is str:
        return text
    try:
        return decode(text)
    except DecodeError:
        return text


def _is_wrapped(value: Any, schema: Mapping[str, Any] | None) -> bool:
    if type(value) is not dict or set(cast("dict[str, Any]", value)) != {"result"}:
        return False
    properties = None if schema is None else schema.get("properties")
    return is_mapping(properties) and set(properties) == {"result"}


def _local(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a subschema together with the definitions that its references name, so that it is complete by itself."""
    if not is_mapping(schema):
        return {}
    found = dict(schema)
    for key in ("$defs", "definitions"):
        if key in root:
            found.setdefault(key, root[key])
    return found
