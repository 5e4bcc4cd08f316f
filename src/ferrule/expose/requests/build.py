"""Makes a request from an operation and the arguments of a call, which fit its input schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ferrule.expose import media_types
from ferrule.expose.exchange import ApiRequest, has_controls
from ferrule.expose.operations import Body, Field, Operation, Parameter
from ferrule.expose.requests.files import FileContents
from ferrule.expose.requests.multipart import multipart
from ferrule.expose.requests.styles import content_text, cookie_pairs, header_value, path_value, query_pairs, text_of
from ferrule.wire.codec import encode, encode_str
from ferrule.wire.json_types import is_list, is_object

__all__ = ["PATH_CHARS", "InvalidArgument", "build_request"]

PATH_CHARS = "/:@!$&'()*+,;=~%"
"""Characters of a path that stay as they are; those of values are encoded before."""


_IS_QUOTED = re.compile(rf"[\w.\-{re.escape(PATH_CHARS)}]*", re.ASCII).fullmatch
"""A match for a path that `quote` would not change, found at a lower cost."""


class InvalidArgument(ValueError):
    """An argument cannot be sent; the text has its name and the reason."""


def build_request(
    operation: Operation,
    arguments: Mapping[str, Any],
    *,
    accept: str = "application/json, */*;q=0.5",
    files: Mapping[str, FileContents | list[FileContents]] | None = None,
) -> ApiRequest:
    """Return the request of a call.

    Args:
        operation: the operation that is called.
        arguments: by argument name. One that is not given is not sent; ``None`` is sent in a JSON body only.
        accept: the value of the ``Accept`` header.
        files: contents of the arguments that are files.

    Raises:
        InvalidArgument: a value is not allowed in its part of the request.
    """
    path = operation.path
    query: list[tuple[str, str]] = []
    headers: list[tuple[str, str]] = [("accept", accept)]
    cookies: list[str] = []
    raw_query: str | None = None
    for parameter in operation.parameters:
        value = arguments.get(parameter.argument)
        if value is None:
            if parameter.location == "path":
                raise InvalidArgument(f"`{parameter.argument}` must be given")
            continue
        try:
            if parameter.location == "path":
                path = path.replace(f"{{{parameter.name}}}", path_value(parameter, value))
            elif parameter.location == "query":
                query += query_pairs(parameter, value)
            elif parameter.location == "querystring":
                raw_query = _query_string(parameter, value)
            elif parameter.location == "header":
                headers.append((parameter.name.lower(), header_value(parameter, value)))
            else:
                cookies += [f"{name}={text}" for name, text in cookie_pairs(parameter, value)]
        except ValueError as error:
            raise InvalidArgument(f"`{parameter.argument}` {error}") from error
    if cookies:
        headers.append(("cookie", "; ".join(cookies)))
    body = b""
    if operation.body is not None:
        content_type, body = _body(operation.body, arguments, files or {})
        if content_type is not None:
            if not content_type.isascii() or has_controls(content_type):
                raise InvalidArgument("the content type of the body must be a media type, for instance image/png")
            headers.append(("content-type", content_type))
    written = "&".join(f"{name}={value}" for name, value in query)
    return ApiRequest(
        method=operation.method,
        path=path if _IS_QUOTED(path) else quote(path, safe=PATH_CHARS),
        query=written if raw_query is None else raw_query,
        headers=tuple(headers),
        body=body,
        route=operation.path,
    )


def _query_string(parameter: Parameter, value: Any) -> str:
    """Return a parameter that is the whole query (OpenAPI 3.2, ``in: querystring``)."""
    if is_object(value) and parameter.content_type is not None and media_types.is_form(parameter.content_type):
        return _form(value)
    return quote(content_text(parameter, value), safe="")


def _body(
    body: Body, arguments: Mapping[str, Any], files: Mapping[str, FileContents | list[FileContents]]
) -> tuple[str | None, bytes]:
    """Return the media type and the bytes of a body; no type where it is left out."""
    if body.form == "fields":
        given = [(member, arguments[member.argument]) for member in body.fields if member.argument in arguments]
        if not given and not body.required:
            return None, b""
        return _fields(body, given, files)
    assert body.argument is not None
    if body.argument not in arguments:
        return None, b""
    value = arguments[body.argument]
    if body.form == "binary":
        contents = files.get(body.argument)
        if not isinstance(contents, FileContents):
            raise InvalidArgument(f"`{body.argument}` is a file")
        return contents.content_type or body.content_type, contents.data
    if body.form == "text":
        return _with_charset(body.content_type), text_of(value).encode("utf-8", "replace")
    if media_types.is_form(body.content_type):
        return body.content_type, _form(value if is_object(value) else {"": value}).encode()
    if media_types.is_multipart(body.content_type):
        parts = [(name, part, None) for name, part in value.items()] if is_object(value) else [("body", value, None)]
        return multipart(body.content_type, parts, {})
    return body.content_type, encode(value)


def _fields(
    body: Body, given: list[tuple[Field, Any]], files: Mapping[str, FileContents | list[FileContents]]
) -> tuple[str, bytes]:
    if media_types.is_form(body.content_type):
        pairs: list[tuple[str, str]] = []
        for member, value in given:
            if value is not None:
                pairs += query_pairs(_as_parameter(member), _form_value(member, value))
        return body.content_type, "&".join(f"{name}={value}" for name, value in pairs).encode()
    if media_types.is_multipart(body.content_type):
        named = {member.name: files[member.argument] for member, _ in given if member.argument in files}
        if named or body.json_type is None:
            return multipart(body.content_type, _parts(body, given), named)
    return body.json_type or body.content_type, encode({member.name: value for member, value in given})


def _parts(body: Body, given: list[tuple[Field, Any]]) -> list[tuple[str, Any, str | None]]:
    """Return name, value and media type of the parts of a body."""
    if body.members == "json":
        return [(member.name, value, member.content_type) for member, value in given if value is not None]
    return [part for member, value in given for part in _html_parts(member, value)]


def _html_parts(member: Field, value: Any) -> list[tuple[str, Any, str | None]]:
    if member.is_binary or member.content_type is not None:
        return [(member.name, value, member.content_type)]
    return [(name, part, None) for name, part in _html_members(member.name, value, ".")]


def _html_members(name: str, value: Any, dot: str) -> Iterator[tuple[str, Any]]:
    """Return the names and values of a value in a form, as Django REST framework reads them."""
    if is_object(value):
        for key, part in value.items():
            yield from _html_members(f"{name}{dot}{key}", part, ".")
    elif is_list(value) and any(is_object(part) or is_list(part) for part in value):
        for number, part in enumerate(value):
            yield from _html_members(f"{name}[{number}]", part, "")
    else:
        yield name, value


def _as_parameter(member: Field) -> Parameter:
    return Parameter(
        name=member.name, argument=member.argument, location="query", style=member.style, explode=member.explode
    )


def _form_value(member: Field, value: Any) -> Any:
    """Return a form value: objects as JSON, unless a style says how they are written (OpenAPI, "Encoding Object")."""
    if member.content_type is not None and media_types.is_json(member.content_type):
        return encode_str(value)
    if is_object(value) and member.style == "form":
        return encode_str(value)
    if is_list(value):
        return [encode_str(part) if is_object(part) or is_list(part) else part for part in value]
    return value


def _form(value: Mapping[str, Any]) -> str:
    pairs: list[str] = []
    for name, part in value.items():
        members: list[Any] = part if is_list(part) else [part]
        pairs.extend(f"{quote(name, safe='')}={quote(text_of(member), safe='')}" for member in members)
    return "&".join(pairs)


def _with_charset(content_type: str) -> str:
    return content_type if "charset" in content_type.lower() else f"{content_type}; charset=utf-8"
