"""The conversion of a tool's return value to a `ToolResult`: structured content, and the same as text.

A `ResultPlan` is made for each tool from its return annotation:

* *text* (``-> str``): the text, and the same string as structured content.
* *typed* (a class, a list, a number …): validated; then structured content and its text.
* *free* (no annotation, ``Any``): depends on the value; text stays text only, data is also structured.
* *content* (``Image``, ``list[Image | str]``, ``ToolResult`` …): content blocks; structured only with a schema.

A value that does not fit the declared type is a `ResultError`, never a success without its structured content. NaN and
infinities become ``null`` in both forms, and are an error if the declared type forbids ``null``.

Revisions differ: 2026-07-28 allows any JSON value as structured content. 2025-06-18 and 2025-11-25 allow objects only,
so that any other value is wrapped as ``{"result": value}``, in the schema (marked ``x-fastmcp-wrap-result``, which
other clients unwrap) and in the value. Older revisions have text only.
"""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol, cast

import msgspec
from msgspec import UNSET

from ferrule.app.errors import ResultError, SignatureError
from ferrule.app.results.content import Content, WithContent
from ferrule.app.signatures import adapters
from ferrule.app.signatures.annotations import shape_of
from ferrule.app.signatures.coercion import say
from ferrule.app.signatures.shapes import Shape, native, split_path
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import EncodeError
from ferrule.wire.json_types import is_array, is_object
from ferrule.wire.types import (
    CompleteResult,
    GetPromptResult,
    InputRequiredResult,
    ResourceContents,
    ToolContentBlock,
    ToolResult,
)
from ferrule.wire.types.base import CacheableResult, EmptyResult, Result

__all__ = [
    "DEFAULT_MAX_RESULT_BYTES",
    "WRAP_MARKER",
    "ResultPlan",
    "error_result",
    "plan_result",
    "to_json_value",
    "wrap_schema",
]

DEFAULT_MAX_RESULT_BYTES = 64 * 1024 * 1024
"""Default of the maximum size of a tool's result, in bytes of its text and of its base64."""

WRAP_MARKER = "x-fastmcp-wrap-result"
"""The schema keyword that tells clients that the value is wrapped in ``result``."""

PlanKind = Literal["text", "typed", "free", "content"]
Validate = Callable[[Any], None]

_FOREIGN_RESULTS = (CacheableResult, CompleteResult, EmptyResult, GetPromptResult)
"""Results of other methods, such as lists, which a tool must not return."""
_CONTENT_TYPES = (Content, ToolContentBlock, ResourceContents)
_Block = ToolContentBlock
_Result = ToolResult


class _Revision(Protocol):
    """The fact about a revision that results depend on."""

    @property
    def structured_output(self) -> str: ...


class ResultPlan:
    """Converts the return values of one tool to results; see `plan_result`.

    Attributes:
        kind: ``"text"`` for ``str``, ``"typed"`` for a declared type, ``"free"`` for none, ``"content"`` for blocks.
        shape: the declared type; ``None`` for a free result and for content.
        schema: the published output schema, or a function that makes it, before `output_schema` was called; ``None`` if
            there is none.
        encoder: returns structured data as text; ``None`` for JSON.
        structured: whether ``structuredContent`` is sent.
        objects_only: wrap values that are no objects in each revision, also in those that allow any value.
        max_bytes: the maximum number of bytes of a result.
        validate: raises an exception for data that the author's own schema refuses; ``None`` without such a schema.
        wraps: whether older revisions get the value wrapped in ``result``.
        has_opaque_part: whether the schema of some part comes from another library, such as pydantic.
        project: converts a return value; set to `_text` or `_any`.
    """

    __slots__ = (
        "_checks_itself",
        "_has_aliases",
        "_may_hold_tuples",
        "_opaque_check",
        "encoder",
        "has_opaque_part",
        "kind",
        "max_bytes",
        "objects_only",
        "project",
        "schema",
        "shape",
        "structured",
        "validate",
        "wraps",
    )

    project: Callable[[Any, _Revision], Any]
    """``(value, revision) -> result``: a `ToolResult`, or another result that the tool itself made.

    Raises:
        ResultError: the value does not fit the declared type, has no JSON form, or is too large.
    """

    def __init__(
        self,
        kind: PlanKind,
        shape: Shape | None,
        schema: Callable[[], dict[str, Any]] | dict[str, Any] | None,
        *,
        encoder: Callable[[Any], str] | None,
        structured: bool | Literal["object"],
        max_bytes: int,
        wraps: bool,
        validate: Validate | None,
    ) -> None:
        self.kind = kind
        self.shape = shape
        self.schema = schema
        self.encoder = encoder
        self.structured = bool(structured)
        self.objects_only = structured == "object"
        self.max_bytes = max_bytes
        self.wraps = wraps
        self.validate = validate
        self.has_opaque_part = False
        self._opaque_check: Validate | None = None
        # Dataclasses, Structs and attrs classes do not validate their fields, so that their values are checked here;
        # pydantic's do, and typed dicts were converted.
        self._checks_itself = True
        self._may_hold_tuples = shape is None
        self._has_aliases = False
        for part in () if shape is None else shape.walk():
            if part.kind == "custom":
                self.has_opaque_part = self.has_opaque_part or part.schema is None
            elif part.kind == "object" and part.adapter is not None and part.adapter.name != "typeddict":
                self._checks_itself = False
                if part.adapter.name == "attrs" and not part.is_plain:
                    self._has_aliases = True
            elif part.kind in ("tuple", "any"):
                self._may_hold_tuples = True
        self._checks_itself = self._checks_itself or self.has_opaque_part
        self.project = self._text if kind == "text" else self._any

    @property
    def is_object(self) -> bool:
        """Whether every value is a JSON object."""
        return self.shape is not None and _is_object(self.shape)

    def output_schema(self) -> dict[str, Any] | None:
        """Return the output schema in the form of 2026-07-28; made on first use. ``None`` if there is none."""
        if callable(self.schema):
            self.schema = self.schema()
        return self.schema

    # -- projections -----------------------------------------------------------------------------------------------

    def _text(self, value: Any, revision: _Revision) -> Any:
        if type(value) is not str:
            return self._any(value, revision)
        size = len(value) if value.isascii() else _bytes_of(value)
        if size > self.max_bytes:
            raise self._too_big(size)
        structured = revision.structured_output
        if structured == "any" and self.structured and not self.objects_only:
            return _Result([_Block("text", value)], value)
        if structured != "none" and self.structured:
            return _Result([_Block("text", value)], {"result": value})
        return _Result([_Block("text", value)])

    def _any(self, value: Any, revision: _Revision) -> Any:
        if isinstance(value, Result | InputRequiredResult):
            if isinstance(value, ToolResult):
                return self._own_result(value, revision)
            if isinstance(value, WithContent):
                return self._with_content(value, revision)
            if isinstance(value, _FOREIGN_RESULTS):
                raise ResultError(
                    f"it is a {type(value).__name__}, the result of another request: return what is in it"
                )
            return value
        if self.kind in ("content", "free"):
            blocks = self._blocks(value)
            if blocks is not None:
                self._check_blocks(blocks)
                if self.validate is not None:
                    raise ResultError("an output schema is declared, and only content was returned")
                return ToolResult(blocks)
        return self._data(value, revision)

    def _data(self, value: Any, revision: _Revision) -> ToolResult:
        if value is None and self.kind in ("free", "content") and self.validate is None:
            return ToolResult([])
        if self.shape is not None and not adapters.is_instance(value, self.shape.source):
            value = self._fitted(value)
        if self._has_aliases:
            from ferrule.app.signatures.adapters.attrs import with_aliases

            value = with_aliases(value)
        plain = to_json_value(value)
        data = _encode(plain)
        if len(data) > self.max_bytes:
            raise self._too_big(len(data))
        if b"null" in data and _has_non_finite(plain):  # the codec wrote `null` for them
            plain = decode(data)
            self._check_nulls(plain)
        elif not self._checks_itself:
            self._fit(plain)
        if self._may_hold_tuples:
            plain = decode(data)
        if self.has_opaque_part:
            self._check_opaque(plain)
        if self.validate is not None:
            self.validate(plain)
        text = plain if isinstance(plain, str) else data.decode() if self.encoder is None else self.encoder(plain)
        # Text without a declared type has no structured content.
        structured = UNSET if plain is text and self.schema is None else self.structured_content(plain, revision)
        return ToolResult([ToolContentBlock("text", text)], structured)

    def structured_content(self, plain: Any, revision: _Revision) -> Any:
        """Return the structured content that a revision allows; ``UNSET`` for none."""
        if not self.structured or revision.structured_output == "none":
            return UNSET
        if not self.allows_objects_only(revision):
            return plain
        if self.wraps:
            return {"result": plain}
        if is_object(plain):
            return plain
        return {"result": plain} if self.objects_only else UNSET

    def allows_objects_only(self, revision: _Revision) -> bool:
        """Return whether structured content is an object in a revision, or in each one for this tool."""
        return self.objects_only or revision.structured_output != "any"

    # -- checks ----------------------------------------------------------------------------------------------------

    def _fit(self, value: Any) -> Any:
        try:
            return native(value, cast("Shape", self.shape))
        except msgspec.ValidationError as error:
            raise _misfit(error, value) from error
        except RecursionError as error:
            raise ResultError("it is nested too deeply or refers to itself") from error

    def _fitted(self, value: Any) -> Any:
        """Return the value converted to the declared type, or as builtins if only subclasses of them prevented that."""
        try:
            return native(value, cast("Shape", self.shape))
        except msgspec.ValidationError as error:
            problem = _misfit(error, value)
        except RecursionError as error:
            raise ResultError("it is nested too deeply or refers to itself") from error
        try:
            plain = adapters.without_subclasses(value)
            self._fit(plain)
        except (ResultError, TypeError, ValueError, RecursionError):
            raise problem from None
        return plain

    def _check_opaque(self, plain: Any) -> None:
        """Validate a value of pydantic's by its schema: pydantic does not check changed or constructed instances."""
        if self._opaque_check is None:
            self._opaque_check = _lazy_validator(_exact_schema_of(cast("Shape", self.shape)))
        self._opaque_check(plain)

    def _check_nulls(self, plain: Any) -> None:
        shape = self.shape
        if shape is None:
            return
        if not self.has_opaque_part:  # `_check_opaque` checks the others in any case
            self._fit(plain)

    def _with_content(self, value: WithContent, revision: _Revision) -> ToolResult:
        blocks = [ToolContentBlock("text", part) if isinstance(part, str) else _block(part) for part in value.content]
        self._check_blocks(blocks)
        result = self._data(value.data, revision)
        return msgspec.structs.replace(result, content=[*result.content, *blocks])

    def _own_result(self, result: ToolResult, revision: _Revision) -> ToolResult:
        """Return a `ToolResult` that the tool itself made, after checking its size and structured content."""
        self._check_blocks(result.content)
        if result.is_error:
            return result
        structured = result.structured_content
        if structured is UNSET:
            if self.schema is not None and revision.structured_output != "none":
                raise ResultError("an output schema is declared, and the result has no structured_content")
            return result
        plain = to_json_value(structured)
        data = _encode(plain)
        plain = decode(data)
        if len(data) > self.max_bytes:
            raise self._too_big(len(data))
        is_wrapped = self.allows_objects_only(revision) and revision.structured_output != "none"
        if self.wraps and is_wrapped and is_object(plain) and plain.keys() == {"result"}:
            plain = plain["result"]  # copied from another tool's result in this revision
        if self.shape is not None:
            self._fit(plain)
        if self.validate is not None:
            self.validate(plain)
        fitting = self.structured_content(plain, revision)
        if fitting is structured:
            return result
        return msgspec.structs.replace(result, structured_content=fitting)

    def _blocks(self, value: Any) -> list[ToolContentBlock] | None:
        """Return the value as content blocks; ``None`` if it is data."""
        if isinstance(value, _CONTENT_TYPES):
            return [_block(value)]
        if not is_array(value):
            return None
        if not any(isinstance(item, _CONTENT_TYPES) for item in value):
            if self.kind == "content" and all(isinstance(item, str) for item in value):
                return [ToolContentBlock("text", item) for item in value]
            return None
        return [
            _block(item) if isinstance(item, _CONTENT_TYPES) else ToolContentBlock("text", self._as_text(item))
            for item in value
        ]

    def _as_text(self, item: Any) -> str:
        if isinstance(item, str):
            return item
        plain = to_json_value(item)
        return _encode(plain).decode() if self.encoder is None else self.encoder(plain)

    def _check_blocks(self, blocks: list[ToolContentBlock]) -> None:
        size = 0
        for block in blocks:
            size += _bytes_of(block.text) + _bytes_of(block.data)
            if block.resource is not None:
                size += _bytes_of(block.resource.text) + _bytes_of(block.resource.blob)
        if size > self.max_bytes:
            raise self._too_big(size)

    def _too_big(self, size: int) -> ResultError:
        return ResultError(
            f"it is {size:,} bytes and at most {self.max_bytes:,} are allowed; ask for less, or for a smaller part"
        )


def plan_result(
    returns: Any,
    *,
    encoder: Callable[[Any], str] | None = None,
    structured: bool | Literal["object"] = True,
    output_schema: Mapping[str, Any] | None = None,
    max_bytes: int = DEFAULT_MAX_RESULT_BYTES,
    mode: str = "model",
) -> ResultPlan:
    """Return the plan for a return annotation.

    Args:
        returns: the resolved annotation; ``inspect.Parameter.empty`` without one.
        encoder: converts JSON-shaped data to text; ``None`` for compact JSON.
        structured: ``False`` publishes no output schema and sends text only; ``"object"`` wraps values that are no
            objects in each revision.
        output_schema: the author's own schema, published unchanged and enforced.
        max_bytes: maximum size of a result; see `DEFAULT_MAX_RESULT_BYTES`.
        mode: mode of the published schema, ``"model"`` or ``"exact"``.

    Raises:
        SignatureError: the annotation has no JSON form.
        NameError: the annotation uses a name that is not defined yet.
    """
    kind, shape = _read_annotation(returns)
    schema: Callable[[], dict[str, Any]] | dict[str, Any] | None = None
    validate: Validate | None = None
    wraps = False
    if output_schema is not None:
        schema = dict(output_schema)
        wraps = schema.get("type") != "object"
        kind = "free" if kind == "text" else kind
        validate = _lazy_validator(schema)
    elif structured and shape is not None:
        described = shape

        def make() -> dict[str, Any]:
            from ferrule.app.signatures.json_schema import value_schema

            return value_schema(described, mode)

        schema = make
        wraps = not _is_object(shape)
    return ResultPlan(
        kind,
        shape,
        schema,
        encoder=encoder,
        structured=structured,
        max_bytes=max_bytes,
        wraps=wraps,
        validate=validate,
    )


def wrap_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an output schema for revisions that allow objects only: the value is wrapped in ``result``."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    made: dict[str, Any] = {
        "type": "object",
        "properties": {"result": inner},
        "required": ["result"],
        WRAP_MARKER: True,
    }
    if "$defs" in schema:
        made["$defs"] = schema["$defs"]
    return made


def error_result(text: str) -> ToolResult:
    """Return a result with ``isError`` and a text for the model."""
    return ToolResult([ToolContentBlock("text", text)], is_error=True)


# -- reading annotations -----------------------------------------------------------------------------------------------


def _read_annotation(returns: Any) -> tuple[PlanKind, Shape | None]:
    returns = _without_input_required(returns)
    if returns is str:
        return "text", shape_of(str)
    if returns is inspect.Parameter.empty or returns is Any or returns is object:
        return "free", None
    if returns is None or returns is type(None):
        return "free", None
    if _contains_content(returns):
        _check_content(returns)
        return "content", None
    shape = shape_of(returns)
    return ("free", None) if _is_open(shape) else ("typed", shape)


def _is_open(shape: Shape) -> bool:
    """Return whether a shape leaves the type of its items open, which may then be content such as images."""
    return shape.kind == "any" or (shape.kind in ("array", "tuple") and any(item.kind == "any" for item in shape.items))


def _without_input_required(annotation: Any) -> Any:
    """Return a return type without `InputRequired`, which is not a result (``-> str | InputRequired``)."""
    if getattr(annotation, "is_input_required", False):  # the class may be `InputRequired` or one of the author's
        return Any
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation
    parts = typing.get_args(annotation)
    kept = [part for part in parts if not getattr(part, "is_input_required", False)]  # as above
    return annotation if len(kept) == len(parts) else typing.Union[tuple(kept)]


def _contains_content(annotation: Any) -> bool:
    if isinstance(annotation, type):
        return issubclass(annotation, Content | ToolContentBlock | ResourceContents | Result | InputRequiredResult)
    return any(_contains_content(part) for part in typing.get_args(annotation) if not isinstance(part, str))


def _check_content(annotation: Any, *, in_list: bool = False) -> None:
    """Check that content is used only as the whole result or as an item of a list.

    Raises:
        SignatureError: content is used in a dict, or in a list of lists.
    """
    origin = typing.get_origin(annotation)
    parts = [part for part in typing.get_args(annotation) if _contains_content(part)]
    if not parts:
        return
    is_list = isinstance(origin, type) and issubclass(origin, Iterable) and not issubclass(origin, Mapping)
    if origin in (typing.Union, types.UnionType, typing.Annotated):
        is_list = in_list
    elif not is_list or in_list:
        raise SignatureError("pictures, files and other content stand alone or in a list; return a list of them")
    for part in parts:
        _check_content(part, in_list=is_list)


def _is_object(shape: Shape) -> bool:
    if shape.kind == "custom":
        adapter = cast("adapters.Adapter", shape.adapter)
        made = adapter.schema(shape.source, output=True)
        while isinstance(ref := made.get("$ref"), str) and "$defs" in made:
            made = {**made["$defs"].get(ref.rpartition("/")[2], {}), "$defs": made["$defs"]}
        return made.get("type") == "object"
    return shape.kind in ("object", "map") and not shape.is_array


# -- values ------------------------------------------------------------------------------------------------------------


def _block(value: Any) -> ToolContentBlock:
    if isinstance(value, Content):
        return value.block()
    if isinstance(value, ResourceContents):
        return ToolContentBlock("resource", resource=value)
    return cast("ToolContentBlock", value)


def _bytes_of(text: str | None) -> int:
    """Return the size of text as UTF-8; a lone surrogate counts three bytes, as on the wire."""
    if text is None:
        return 0
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def to_json_value(value: Any) -> Any:
    """Return ``value`` as JSON-shaped data.

    Raises:
        ResultError: it has no JSON form.
    """
    try:
        return adapters.to_json(value)
    except RecursionError as error:
        raise ResultError("it is nested too deeply or refers to itself") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise ResultError(f"{error}{_advice(value)}") from error


def _advice(value: object) -> str:
    """Return the advice to return a list, for an iterator; empty for other values."""
    # Converting it here would run the author's code on the event loop, after the function has ended.
    return "; return a list" if hasattr(type(value), "__next__") else ""  # an iterator, by Python's protocol


def _encode(plain: Any) -> bytes:
    try:
        return encode(plain)
    except EncodeError as error:
        raise ResultError(str(error)) from error


def _has_non_finite(plain: Any) -> bool:
    if isinstance(plain, float):
        return not math.isfinite(plain)
    if is_object(plain):
        return any(_has_non_finite(part) for part in plain.values())
    return is_array(plain) and any(_has_non_finite(part) for part in plain)


def _misfit(error: msgspec.ValidationError, value: Any) -> ResultError:
    reason, path = split_path(str(error))
    if not path and value is not None and not isinstance(value, str | int | float | dict | list | tuple):
        return ResultError(f"it does not fit the declared return type: got a {type(value).__name__}{_advice(value)}")
    where = f" at `{path.lstrip('.')}`" if path else ""
    return ResultError(f"it does not fit the declared return type{where}: {say(reason)}")


def _exact_schema_of(shape: Shape) -> dict[str, Any]:
    """Return the schema that all results of this shape fit."""
    from ferrule.app.signatures.json_schema import exact_schema

    return exact_schema(shape, output=True)


def _lazy_validator(schema: dict[str, Any]) -> Validate:
    made: list[Validate] = []

    def validate(plain: Any) -> None:
        if not made:
            from ferrule.app.signatures.validation import validator_for

            made.append(validator_for(schema))
        made[0](plain)

    return validate
