"""HTTP header names and values of MCP: the mirrored fields, their encoding, and the plan for ``Mcp-Param-*``.

Source: MCP 2026-07-28 "Streamable HTTP" (header value encoding, mirrored parameters) and "Tools" (``x-mcp-header``),
SEP-2243. The body is the source of truth; a mirrored header exists so that an intermediary can route without reading
the body, and a server refuses what contradicts the body.

A tool's input schema is compiled to a plan once; a call then reads the annotated paths only. Note that ``bool`` is a
subclass of ``int`` in Python: ``true`` must never become ``1``.
"""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from ferrule.wire.faults import DecodeError, EncodeError, FerruleError
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.patterns import pattern
from ferrule.wire.struct import Value

__all__ = [
    "LAST_EVENT_ID_HEADER",
    "MCP_METHOD_HEADER",
    "MCP_NAME_HEADER",
    "MCP_PARAM_PREFIX",
    "MCP_PROTOCOL_VERSION_HEADER",
    "MCP_SESSION_ID_HEADER",
    "HeaderValueError",
    "InvalidHeaderAnnotation",
    "ParamHeader",
    "check_params",
    "compile_param_plan",
    "decode_header_value",
    "encode_header_value",
    "mirror_params",
    "scalar_to_header",
]

MCP_PROTOCOL_VERSION_HEADER: Final = "mcp-protocol-version"
MCP_METHOD_HEADER: Final = "mcp-method"
MCP_NAME_HEADER: Final = "mcp-name"
MCP_PARAM_PREFIX: Final = "mcp-param-"
MCP_SESSION_ID_HEADER: Final = "mcp-session-id"
"""Revisions up to 2025-11-25; modern servers ignore it and never send it."""
LAST_EVENT_ID_HEADER: Final = "last-event-id"
"""Revisions up to 2025-11-25."""

ParamKind: TypeAlias = Literal["string", "integer", "boolean"]

_ANNOTATION = "x-mcp-header"
_SENTINEL_START, _SENTINEL_END = "=?base64?", "?="
_SAFE_INTEGER = 2**53 - 1

_PLAIN = pattern(r"(?![ ])[\x20-\x7e]*(?<![ ])")
_READABLE = pattern(r"[\t\x20-\x7e]*")
_TOKEN = pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_INTEGER = pattern(r"(-?[0-9]{1,17})(?:\.0+)?")
_NUMBER = pattern(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")
_SURROGATE = pattern("[\ud800-\udfff]")

# Keywords of JSON Schema with subschemas, except `properties`, below which alone an annotation is allowed.
_SCHEMA_KEYWORDS = (
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_SCHEMA_LIST_KEYWORDS = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_SCHEMA_MAP_KEYWORDS = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties")


class HeaderValueError(DecodeError):
    """A header value is malformed: invalid base64 between the markers, or characters that headers cannot have."""


class InvalidHeaderAnnotation(FerruleError, ValueError):
    """An ``x-mcp-header`` annotation is invalid, so that the tool cannot be used over HTTP (its author's fault).

    Attributes:
        reason: the explanation without the path.
        path: JSON path of the annotated schema, ``"$"`` for the root.
    """

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(f"{reason} at {path}")
        self.reason = reason
        self.path = path


class ParamHeader(Value, frozen=True):
    """One annotated parameter of a tool.

    Attributes:
        name: the header name in lower case, for reading: ``"mcp-param-region"``.
        wire_name: the header name as written by its author, for sending: ``"Mcp-Param-Region"``.
        path: property names from the root of the arguments.
        kind: the declared JSON type.
    """

    name: str
    wire_name: str
    path: tuple[str, ...]
    kind: ParamKind


# --- values -----------------------------------------------------------------------------------------------------------


def encode_header_value(value: str) -> str:
    """Return ``value`` as a header value: unchanged if that is safe, else base64 between ``=?base64?`` and ``?=``.

    Control characters, characters outside ASCII, a space at either end, and a value that looks like an encoded one are
    not safe. A lone surrogate becomes U+FFFD, as in the body.
    """
    looks_encoded = value.startswith(_SENTINEL_START) and value.endswith(_SENTINEL_END)
    if not looks_encoded and _PLAIN.fullmatch(value):
        return value
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        raw = _SURROGATE.sub("\ufffd", value).encode()
    return f"{_SENTINEL_START}{b2a_base64(raw, newline=False).decode('ascii')}{_SENTINEL_END}"


def decode_header_value(value: str) -> str:
    """Return the text of a received header value, without white space around it.

    A value that is not exactly between the two lower-case markers is not encoded.

    Args:
        value: as an HTTP server decodes it, each byte as one character (Latin-1).

    Raises:
        HeaderValueError: the part between the markers is not strict base64 of UTF-8, or the value has control
            characters or characters outside ASCII (the sender's fault).
    """
    value = value.strip(" \t")
    if not _READABLE.fullmatch(value):
        raise HeaderValueError("A header value holds characters that must be encoded")
    if not _is_encoded(value):
        return value
    try:
        return a2b_base64(value[len(_SENTINEL_START) : -len(_SENTINEL_END)], strict_mode=True).decode()
    except Base64Error as error:
        raise HeaderValueError("A header value holds invalid base64") from error
    except UnicodeDecodeError as error:
        raise HeaderValueError("A header value holds base64 of invalid UTF-8") from error


def _is_encoded(value: str) -> bool:
    """Return whether ``value`` begins and ends with the base64 markers."""
    return (
        value.startswith(_SENTINEL_START)
        and value.endswith(_SENTINEL_END)
        and len(value) >= len(_SENTINEL_START) + len(_SENTINEL_END)
    )


def scalar_to_header(value: str | int | bool | float) -> str:
    """Return the header form of a scalar argument: text encoded, integers decimal, booleans ``true`` and ``false``.

    A float with an integral value is that integer, as in JSON Schema.

    Raises:
        EncodeError: another float, an integer beyond ±(2^53 - 1), or no scalar (the caller's mistake).
    """
    if isinstance(value, str):
        return encode_header_value(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    number = _as_integer(value)
    if number is None:
        raise EncodeError("Only text, integers and booleans have a header form")
    if not -_SAFE_INTEGER <= number <= _SAFE_INTEGER:
        raise EncodeError("An integer beyond ±(2^53 - 1) has no header form")
    return str(number)


def _as_integer(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else None


# --- the plan ---------------------------------------------------------------------------------------------------------


def compile_param_plan(input_schema: Any) -> tuple[ParamHeader, ...]:
    """Return the annotated parameters of a tool, in the order of its schema; empty for most tools.

    A nullable type (``["string", "null"]``) is not one of the three, and clients would drop the tool for it: an
    optional parameter is one that is not required.

    Args:
        input_schema: the decoded ``inputSchema``; anything that is not an object has no annotations.

    Raises:
        InvalidHeaderAnnotation: a name that is not an HTTP token or not unique (whatever its case), a type other than
            string, integer and boolean, or a place that is not reached through ``properties`` alone.
    """
    plan: list[ParamHeader] = []
    # (schema, its JSON path, property names; None where no annotation is allowed). A stack, since schemas may be deep.
    stack: list[tuple[Any, str, tuple[str, ...] | None]] = [(input_schema, "$", ())]
    while stack:
        schema, where, path = stack.pop()
        if not is_mapping(schema):
            continue
        if _ANNOTATION in schema:
            if not path:
                raise InvalidHeaderAnnotation(f"{_ANNOTATION} may not stand", where)
            plan.append(_param_header(schema, where, path))
        children = [
            (child, f"{where}.properties.{key}", None if path is None else (*path, key))
            for key, child in _items(schema.get("properties"))
        ]
        children += [(child, f"{where}.{key}", None) for key, child in _other_subschemas(schema)]
        stack += reversed(children)
    seen: set[str] = set()
    for param in plan:
        if param.name in seen:
            raise InvalidHeaderAnnotation(f"{_ANNOTATION} is given twice", _dotted(param.path))
        seen.add(param.name)
    return tuple(plan)


def _param_header(schema: Mapping[str, Any], where: str, path: tuple[str, ...]) -> ParamHeader:
    name = schema[_ANNOTATION]
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise InvalidHeaderAnnotation(f"{_ANNOTATION} is not an HTTP token", where)
    kind = schema.get("type")
    if kind not in ("string", "integer", "boolean"):
        raise InvalidHeaderAnnotation(f"{_ANNOTATION} needs the type string, integer or boolean", where)
    return ParamHeader(MCP_PARAM_PREFIX + name.lower(), "Mcp-Param-" + name, path, kind)


def _other_subschemas(schema: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found = [(key, schema[key]) for key in _SCHEMA_KEYWORDS if key in schema]
    for key in _SCHEMA_LIST_KEYWORDS:
        children = schema.get(key)
        if is_list(children):
            found += [(f"{key}[{at}]", child) for at, child in enumerate(children)]
    for key in _SCHEMA_MAP_KEYWORDS:
        found += [(f"{key}.{name}", child) for name, child in _items(schema.get(key))]
    return found


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if is_mapping(value) else []


# --- both ends --------------------------------------------------------------------------------------------------------


def mirror_params(plan: tuple[ParamHeader, ...], arguments: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the mirrored headers of one call, by wire name.

    An absent or null argument has no header, and neither has a value of another type than declared: the server's
    validation of the arguments gives a better error for that.

    Raises:
        EncodeError: an integer beyond ±(2^53 - 1) (the caller's mistake).
    """
    headers: dict[str, str] = {}
    for param in plan:
        value = _value_at(arguments, param.path)
        if value is None or not _has_header_form(value):
            continue
        try:
            headers[param.wire_name] = scalar_to_header(value)
        except EncodeError as error:
            raise EncodeError(f"{error} (argument {_dotted(param.path)})") from error
    return headers


def check_params(
    plan: tuple[ParamHeader, ...], headers: Mapping[str, str], arguments: Mapping[str, Any] | None
) -> str | None:
    """Return whether the headers of one call agree with its arguments.

    Args:
        plan: the plan of the called tool.
        headers: received values by lower-case name.
        arguments: decoded, not validated; ``None`` if absent.

    Returns:
        ``None`` if they agree, else one sentence that names the header and the argument but neither value.
    """
    for param in plan:
        problem = _check(param, headers.get(param.name), _value_at(arguments, param.path))
        if problem is not None:
            return problem
    return None


def _check(param: ParamHeader, header: str | None, value: Any) -> str | None:
    argument = f"argument {_dotted(param.path)}"
    if header is None:
        return (
            f"Header {param.wire_name} is missing although {argument} has a value" if _has_header_form(value) else None
        )
    if not isinstance(value, str | int | float):
        return f"Header {param.wire_name} is present although {argument} has no value that it could mirror"
    try:
        text = decode_header_value(header)
    except HeaderValueError as error:
        return f"Header {param.wire_name} is malformed: {error}"
    if isinstance(value, str):
        agrees = text == _SURROGATE.sub("\ufffd", value)
    elif isinstance(value, bool):
        agrees = text == ("true" if value else "false")
    elif _as_integer(value) is None:  # a fraction, which the validation of the arguments will refuse
        agrees = _NUMBER.fullmatch(text) is not None and float(text) == value
    else:
        number = int(value)
        if not -_SAFE_INTEGER <= number <= _SAFE_INTEGER:
            return f"Header {param.wire_name} cannot mirror {argument}: it is beyond ±(2^53 - 1)"
        found = _INTEGER.fullmatch(text)
        agrees = found is not None and int(found[1]) == number
    return None if agrees else f"Header {param.wire_name} does not match {argument}"


def _has_header_form(value: Any) -> bool:
    return isinstance(value, str | bool) or _as_integer(value) is not None


def _value_at(arguments: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if not is_mapping(arguments):
            return None
        arguments = arguments.get(key)
    return arguments


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(("$", *path))
