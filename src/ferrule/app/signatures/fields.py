"""Descriptions and constraints of parameters and fields, for use in ``Annotated``.

`Field` returns ``msgspec.Meta``, so that a constraint applies wherever the type is used: in a parameter, in a field of
a nested dataclass, in a result. There is no form ``x: int = Field(...)``, because the function stays a plain callable,
whose default must be a real value.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ferrule.app.errors import SignatureError

__all__ = ["Field", "Header"]

HEADER_KEYWORD = "x-mcp-header"


def Field(  # noqa: N802 - reads like the type it stands beside
    description: str | None = None,
    *,
    title: str | None = None,
    examples: list[Any] | None = None,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    multiple_of: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    pattern: str | None = None,
    header: str | None = None,
    schema: dict[str, Any] | None = None,
) -> msgspec.Meta:
    """Return a description and constraints for ``Annotated[type, Field(...)]``.

    Args:
        description: the meaning of the value, for the model.
        title: a label for people; without one no title is published.
        examples: sample values, published as ``examples``.
        ge, gt, le, lt, multiple_of: bounds of a number.
        min_length, max_length: bounds of a string, list, set or dict.
        pattern: a regular expression that a string must contain a match of.
        header: the name of the ``Mcp-Param-…`` header that mirrors this top-level parameter (2026-07-28).
        schema: further JSON Schema keywords, published unchanged and not enforced.
    """
    extra = dict(schema or {})
    if header is not None:
        extra[HEADER_KEYWORD] = header
    make: Any = msgspec.Meta  # its overloads allow only the combinations of one type; the type is not known here
    made: msgspec.Meta = make(
        description=description,
        title=title,
        examples=examples,
        ge=ge,
        gt=gt,
        le=le,
        lt=lt,
        multiple_of=multiple_of,
        min_length=min_length,
        max_length=max_length,
        pattern=pattern,
        extra_json_schema=extra or None,
    )
    return made


def Header(name: str) -> msgspec.Meta:  # noqa: N802 - an annotation marker, as `Field`
    """Return an annotation that mirrors a parameter in the ``Mcp-Param-<name>`` header.

    Use it as ``Annotated[str, Header("Region")]``. It applies to 2026-07-28 over HTTP and has no effect elsewhere. Only
    string, integer and boolean parameters can be mirrored ("Streamable HTTP", custom headers).

    Raises:
        SignatureError: ``name`` is empty.
    """
    if not name:
        raise SignatureError("Header() needs a name")
    return msgspec.Meta(extra_json_schema={HEADER_KEYWORD: name})
