"""What a tool call gives back to a program: content for reading, structured content, and ``.data`` with a type.

``.data`` is made on first look: the class that the caller passed, or a frozen, dataclass-like type made once per
output schema, or the JSON itself. A schema that says more than a type can (or nothing) leaves JSON; the official
validator judges values, not this module.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar, Union, cast

import msgspec
from msgspec import UNSET

from ferrule.client.errors import BadServerResponse, ToolFailed
from ferrule.client.json_types import is_list, is_mapping
from ferrule.wire.codec import convert, decode, encode
from ferrule.wire.faults import ConvertError, DecodeError
from ferrule.wire.struct import WireStruct, decode_hook
from ferrule.wire.types import ToolContentBlock, ToolResult

__all__ = ["ToolCallResult", "as_type", "type_from_schema"]

T = TypeVar("T")

_MAX_DEPTH: Final = 24
_MAX_MADE: Final = 128
_MAX_PARTS: Final = 1000
"""Parts of a schema, references written out, up to which a type is made of it: a small schema may have millions."""
_NAME = re.compile(r"\W+")
_SCALARS: Final[Mapping[str, Any]] = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}


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
        """The answer for reading, block by block."""
        return self.result.content

    @property
    def structured_content(self) -> Any:
        """The answer as JSON; ``None`` if it is ``null`` or absent (see `has_structured_content`)."""
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
        """The structured answer with a type: the class passed as ``result_type``, one made from the tool's output
        schema if the program has listed the tool (`Client.list_tools`), else the JSON itself; ``None`` without
        structured content. The rule is one for both eras.

        A single value that a server wrapped as ``{"result": …}`` is taken out.

        Raises:
            BadServerResponse: the answer does not fit ``result_type``.
        """
        if self._data is UNSET:
            self._data = self._make_data()
        return self._data

    def raise_on_error(self) -> ToolCallResult:
        """This result, if the tool succeeded.

        Raises:
            ToolFailed: it did not.
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
            return value  # whether that is an error is the validator's to say

    def _as_result_type(self, value: Any) -> Any:
        if value is UNSET:
            value = _from_text(self.text, self._result_type)
        try:
            return as_type(value, self._result_type)
        except ConvertError as error:
            if _is_wrapped(value, self._schema):
                try:
                    return as_type(value["result"], self._result_type)
                except ConvertError:
                    pass
            raise BadServerResponse(
                f"The result of the tool {self.tool!r} is no {self._result_type!r}: {error}"
            ) from error


def as_type(value: Any, type_: type[T]) -> T:
    """JSON as a Python type: anything msgspec can describe, and pydantic models, alone or inside.

    Raises:
        ConvertError: it does not fit.
    """
    return convert(value, type_, hook=_as_foreign)


def _as_foreign(type_: Any, value: Any) -> Any:
    read = getattr(type_, "model_validate_json", None)
    if read is None:
        return decode_hook(type_, value)
    return read(encode(value))  # as JSON: a strict model takes no text for a date, but takes JSON text for one


def _from_text(text: str, type_: Any) -> Any:
    """A server without structured content: the text, read as JSON where text is not what is wanted."""
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
    """A subschema that can stand alone: with the definitions that its references name."""
    if not is_mapping(schema):
        return {}
    found = dict(schema)
    for key in ("$defs", "definitions"):
        if key in root:
            found.setdefault(key, root[key])
    return found


# -- types from schemas -------------------------------------------------------------------------------------------

_made: dict[int, tuple[Any, Any]] = {}


def type_from_schema(schema: Mapping[str, Any]) -> Any:
    """A Python type for what a JSON Schema describes; ``Any`` where it describes nothing that a type could say.

    Objects with named properties become frozen structs (attribute access, equality, ``dataclasses.asdict``). Made
    once per schema object.
    """
    kept = _made.get(id(schema))
    if kept is not None and kept[0] is schema:
        return kept[1]
    try:
        made = _Maker(schema).make(schema, "Result", 0)
        msgspec.json.Decoder(made)  # refuses unions that it could not tell apart
    except (TypeError, ValueError, RecursionError):
        made = Any
    if len(_made) >= _MAX_MADE:
        _made.clear()
    _made[id(schema)] = (schema, made)
    return made


class _Maker:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._open: set[str] = set()
        self._left = _MAX_PARTS

    def make(self, schema: Any, name: str, depth: int) -> Any:
        self._spend(1)
        if not is_mapping(schema) or depth > _MAX_DEPTH:
            return Any
        node = schema
        if "$ref" in node:
            return self._ref(node["$ref"], depth)
        choices = node.get("anyOf") or node.get("oneOf")
        if is_list(choices):
            return _union([self.make(choice, name, depth + 1) for choice in choices])
        if "allOf" in node or "if" in node or "not" in node:
            return Any
        values = [node["const"]] if "const" in node else node.get("enum")
        if is_list(values) and values:
            named = values
            self._spend(len(named))
            return Literal[tuple(named)] if all(type(v) in (str, int) or v is None for v in named) else Any
        kinds = node.get("type")
        if is_list(kinds):
            return _union([self._of_kind(kind, node, name, depth) for kind in kinds])
        return self._of_kind(kinds, node, name, depth)

    def _spend(self, parts: int) -> None:
        self._left -= parts
        if self._left < 0:
            raise ValueError("The schema has too many parts for a type")

    def _of_kind(self, kind: Any, node: Mapping[str, Any], name: str, depth: int) -> Any:
        if kind in _SCALARS:
            return _SCALARS[kind]
        if kind == "array":
            if "prefixItems" in node:
                return list[Any]
            return list[self.make(node.get("items"), f"{name}Item", depth + 1)]  # type: ignore[misc]
        if kind == "object":
            return self._object(node, name, depth)
        return Any

    def _object(self, node: Mapping[str, Any], name: str, depth: int) -> Any:
        properties = node.get("properties")
        if not is_mapping(properties) or not properties:
            more = node.get("additionalProperties")
            return dict[str, self.make(more, name, depth + 1) if is_mapping(more) else Any]  # type: ignore[misc]
        if any(key in node for key in ("patternProperties",)) or isinstance(node.get("additionalProperties"), Mapping):
            return dict[str, Any]
        title = node.get("title")
        cls = _identifier(title if isinstance(title, str) else name, "Result")
        required = cast("list[Any]", node.get("required") or [])
        needed: list[Any] = []
        optional: list[Any] = []
        rename: dict[str, str] = {}
        for key, sub in properties.items():
            field = _identifier(key, "field")
            if field in rename:
                return dict[str, Any]
            rename[field] = key
            made = self.make(sub, f"{cls}_{field}", depth + 1)
            if key in required:
                needed.append((field, made))
            else:
                optional.append((field, Union[made, None], None))
        return msgspec.defstruct(
            cls, [*needed, *optional], bases=(WireStruct,), rename=rename, frozen=True, module=__name__
        )

    def _ref(self, ref: Any, depth: int) -> Any:
        if not isinstance(ref, str) or not ref.startswith("#/") or ref in self._open:
            return Any
        node: Any = self._root
        for part in ref[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if not is_mapping(node) or key not in node:
                return Any
            node = node[key]
        self._open.add(ref)
        try:
            return self.make(node, ref.rpartition("/")[2], depth + 1)
        finally:
            self._open.discard(ref)


def _union(members: list[Any]) -> Any:
    if not members or any(member is Any for member in members):
        return Any
    return Union[tuple(members)]


def _identifier(text: str, default: str) -> str:
    name = _NAME.sub("_", text).strip("_") or default
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name
