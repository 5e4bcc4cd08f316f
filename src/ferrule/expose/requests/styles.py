"""Writes values of parameters in the styles of OpenAPI ("Style Values", "Style Examples").

Values come from JSON. Everything that could end a value or begin another one is percent-encoded, in a path the slash
too: an argument never changes which operation is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from ferrule.expose import media_types
from ferrule.expose.exchange import has_controls
from ferrule.expose.operations import Parameter
from ferrule.wire.codec import encode_str
from ferrule.wire.json_types import is_array, is_object

__all__ = ["content_text", "cookie_pairs", "header_value", "path_value", "query_pairs", "text_of"]

_KEPT_IN_QUERY = ":/?@!$'()*,;"
"""Reserved characters that ``allowReserved`` leaves in a query value. ``&``, ``=``, ``+``, ``#`` and brackets would
change what is read."""

_SEPARATOR = re.compile("%2F|%5C")
"""What may end a step of the path, as `_quoted` writes it."""

_COOKIE_OCTETS = "!#$&'()*+/:<=>?@[]^`{|}"


def text_of(value: Any) -> str:
    """Return the text of one value: JSON for what is not text, compact."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return encode_str(value)


def content_text(parameter: Parameter, value: Any) -> str:
    """Return a value in the parameter's media type: JSON, or text unchanged."""
    kind = parameter.content_type
    return text_of(value) if kind is not None and not media_types.is_json(kind) else encode_str(value)


def path_value(parameter: Parameter, value: Any) -> str:
    """Return the percent-encoded value of a path parameter.

    Raises:
        ValueError: it would be empty, or have a step that leads elsewhere (``.``, ``..``).
    """
    if parameter.style == "simple" and type(value) is int:  # most keys: no character of it is encoded
        return str(value)
    if parameter.style == "content":
        made = _quoted(content_text(parameter, value))
    elif parameter.style == "label":
        made = _prefixed(parameter, value, ".", ".")
    elif parameter.style == "matrix":
        made = _matrix(parameter, value)
    else:
        made = _joined(value, explode=parameter.explode)
    if made in ("", ".", ".."):
        raise ValueError("must not be empty, '.' or '..', since it is a step of the path")
    # Servers and proxies exist that decode a path, or take a backslash for a slash, before they follow its steps.
    has_dots = any(step in (".", "..") for step in _SEPARATOR.split(made))
    if parameter.allow_reserved:
        made = made.replace("%2F", "/")
        if made.startswith("/") or has_dots:
            raise ValueError("must not begin with a slash or have a step '.' or '..', since it is a part of the path")
    elif has_dots:
        raise ValueError("must not have a step '.' or '..', since it is a step of the path")
    return made


def query_pairs(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    """Return the names and values that a query or form parameter becomes, percent-encoded."""
    return _query_pairs(parameter, value, _reserved_kept if parameter.allow_reserved else _quoted)


def _query_pairs(parameter: Parameter, value: Any, quoted: Callable[[str], str]) -> list[tuple[str, str]]:
    name = _quoted(parameter.name)
    if parameter.style == "content":
        return [(name, quoted(content_text(parameter, value)))]
    if is_object(value):
        return _object_pairs(parameter, name, value, quoted)
    if is_array(value):
        texts = [quoted(text_of(part)) for part in value]
        if parameter.explode and parameter.style in ("form", "deepObject", "cookie"):
            return [(name, text) for text in texts]
        return [(name, _delimiter(parameter).join(texts))] if texts else []
    return [(name, quoted(text_of(value)))]


def cookie_pairs(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    """Return the names and values of cookies.

    Characters that cookies allow stay unchanged (RFC 6265, section 4.1.1), since servers do not decode cookies. Others
    are percent-encoded, except in the style ``cookie``, which encodes nothing.

    Raises:
        ValueError: the style is ``cookie``, and the value has spaces, commas, semicolons, quotes or other characters
            that no cookie has.
    """
    if parameter.style != "cookie":
        return _query_pairs(parameter, value, lambda text: quote(text, safe=_COOKIE_OCTETS))
    pairs = _query_pairs(parameter, value, str)
    if any(not ("!" <= character <= "~") or character in '",;\\' for _, text in pairs for character in text):
        raise ValueError("must not have spaces, commas, semicolons, quotes or other letters than ASCII: it is a cookie")
    return pairs


def _object_pairs(parameter: Parameter, name: str, value: dict[str, Any], quoted: Any) -> list[tuple[str, str]]:
    if parameter.style == "deepObject":
        return _deep(name, value, quoted)
    if parameter.explode:
        return [(_quoted(key), quoted(text_of(part))) for key, part in value.items()]
    texts = [text for key, part in value.items() for text in (quoted(key), quoted(text_of(part)))]
    return [(name, _delimiter(parameter).join(texts))]


def _deep(name: str, value: Any, quoted: Any) -> list[tuple[str, str]]:
    """Return ``name[key]=value`` for each member; lists repeat the name, objects inside go on with brackets."""
    if is_object(value):
        return [pair for key, part in value.items() for pair in _deep(f"{name}%5B{_quoted(key)}%5D", part, quoted)]
    if is_array(value):
        return [pair for part in value for pair in _deep(name, part, quoted)]
    return [(name, quoted(text_of(value)))]


def header_value(parameter: Parameter, value: Any) -> str:
    """Return the value of a header.

    Raises:
        ValueError: it has a line break or another control character, or one that is not in Latin-1.
    """
    if parameter.style == "content":
        made = content_text(parameter, value)
    elif is_object(value):
        pairs = value.items()
        made = ",".join(f"{key}={text_of(v)}" if parameter.explode else f"{key},{text_of(v)}" for key, v in pairs)
    elif is_array(value):
        made = ",".join(text_of(part) for part in value)
    else:
        made = text_of(value)
    if has_controls(made):
        raise ValueError("must not have control characters, since it is a header")
    if any(character > "\xff" for character in made):  # RFC 9110, section 5.5
        raise ValueError("must have letters of Latin-1 only, since it is a header")
    return made


def _delimiter(parameter: Parameter) -> str:
    return {"spaceDelimited": "%20", "pipeDelimited": "%7C"}.get(parameter.style, ",")


def _joined(value: Any, *, explode: bool) -> str:
    if is_object(value):
        pairs = [(_quoted(key), _quoted(text_of(part))) for key, part in value.items()]
        return ",".join(f"{key}={text}" if explode else f"{key},{text}" for key, text in pairs)
    if is_array(value):
        return ",".join(_quoted(text_of(part)) for part in value)
    return _quoted(text_of(value))


def _prefixed(parameter: Parameter, value: Any, prefix: str, separator: str) -> str:
    if not parameter.explode:
        return prefix + _joined(value, explode=False)
    if is_object(value):
        return prefix + separator.join(f"{_quoted(key)}={_quoted(text_of(part))}" for key, part in value.items())
    if is_array(value):
        return prefix + separator.join(_quoted(text_of(part)) for part in value)
    return prefix + _quoted(text_of(value))


def _matrix(parameter: Parameter, value: Any) -> str:
    name = _quoted(parameter.name)
    if parameter.explode and is_object(value):
        return "".join(f";{_quoted(key)}={_quoted(text_of(part))}" for key, part in value.items())
    if parameter.explode and is_array(value):
        return "".join(f";{name}={_quoted(text_of(part))}" for part in value)
    return f";{name}={_joined(value, explode=False)}"


def _quoted(text: str) -> str:
    return quote(text, safe="")


def _reserved_kept(text: str) -> str:
    return quote(text, safe=_KEPT_IN_QUERY)
