"""Converts the response of an API to the result of a tool: data, text, a picture or a file."""

from __future__ import annotations

import logging
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Container
from math import isfinite
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ferrule.app.errors import ToolError
from ferrule.app.results.content import Audio, Content, Embedded, Image, Link, WithContent
from ferrule.expose import media_types
from ferrule.expose.answers.problems import problem_text
from ferrule.expose.answers.projection import Projection
from ferrule.expose.exchange import ApiRequest, ApiResponse
from ferrule.expose.operations import Operation
from ferrule.wire.codec import decode, encode_str
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_list, is_object

__all__ = ["MAX_INLINE_FILE_BYTES", "Answer", "answer_of", "next_page", "with_next_page"]

logger = logging.getLogger(__name__)

MAX_INLINE_FILE_BYTES = 1024 * 1024
"""Maximum number of bytes of a picture, a sound or a file in a result; a larger one becomes a link."""

Answer = Any
"""The return value of the tool's function: data, text, or content helpers."""


def answer_of(
    operation: Operation,
    request: ApiRequest,
    response: ApiResponse,
    *,
    projection: Projection,
    base_url: str | None,
    max_inline_bytes: int = MAX_INLINE_FILE_BYTES,
) -> Answer:
    """Return the result of a tool for the response of a call.

    Args:
        operation, request, response: the operation, the request and the response of the call.
        projection: removes and masks members of JSON.
        base_url: the base URL of links to large files; ``None`` if a client cannot open such links.
        max_inline_bytes: the maximum number of bytes of a file in the result.

    Raises:
        ToolError: the API refused the request, or failed, or its JSON cannot be read though members must be left out.
    """
    status = response.status
    if status >= 500:
        logger.error("%s answered %d: %s", operation.label, status, response.body[:500].decode("utf-8", "replace"))
        raise ToolError(_failure_text(response))
    if status >= 400:
        raise ToolError(problem_text(response, projection))
    if status in (301, 302, 303, 307, 308):
        location = _shown_url(response.header("location") or "")
        return f"The API answered {status} and points to {location}" if location else f"The API answered {status}"
    content_type = response.header("content-type") or ""
    if not response.body:
        return _without_body(operation, response)
    if response.is_cut:
        return _too_large(operation, request, response, content_type, base_url)
    # Some servers send JSON as text or as bytes: its members must be left out there as well.
    body = response.body.removeprefix(BOM_UTF8) if projection.changes else b""
    if media_types.is_json(content_type) or not content_type or body.lstrip()[:1] in (b"{", b"["):
        try:
            return projection(decode(_as_utf8(response.body, content_type)))
        except DecodeError:
            if content_type:
                logger.warning("%s answered %.100s that is not JSON", operation.label, content_type)
    if projection.changes and media_types.may_be_json(content_type, body):
        raise ToolError("The API answered JSON that cannot be read, so that no members of it can be left out")
    return _file(operation, request, response, content_type, base_url, max_inline_bytes)


def next_page(operation: Operation, request: ApiRequest, response: ApiResponse) -> dict[str, Any] | None:
    """Return the arguments that the next page of a list needs, from the ``next`` link of an answer.

    The link is in the header ``Link`` (RFC 8288) or in the body, in one of the common forms: ``next``, ``links.next``,
    ``_links.next.href`` (HAL), ``paging.next``, ``@odata.nextLink``. ``None`` if there is no link, or if it changes no
    argument.
    """
    link = _link_header(response.header("link")) or _link_in(response)
    if link is None or len(link) > _MAX_LINK:
        return None
    try:
        values = parse_qs(urlsplit(link).query, keep_blank_values=True, max_num_fields=100)
        given = parse_qs(request.query, keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        return None
    if all(given.get(name) == value for name, value in values.items()):
        return None
    schemas: dict[str, Any] = operation.schemas().input["properties"]
    return {
        parameter.argument: _argument(values[parameter.name], schemas.get(parameter.argument))
        for parameter in operation.parameters
        if parameter.location == "query" and parameter.name in values and parameter.argument in schemas
    } or None


def with_next_page(
    operation: Operation, request: ApiRequest, response: ApiResponse, answer: Answer, hidden: Container[str] = ()
) -> Answer:
    """Return an answer of data with a line for the model, if there is a next page: the arguments that it needs.

    Args:
        operation, request, response: the operation, the request and the response of the call.
        answer: the result of `answer_of`.
        hidden: names of arguments that the model does not see.
    """
    if operation.method != "GET" or not (is_list(answer) or is_object(answer)) or not 200 <= response.status < 300:
        return answer
    found = next_page(operation, request, response)
    shown = {name: value for name, value in (found or {}).items() if name not in hidden}
    if not shown or any(isinstance(part, Content) for part in (answer if is_list(answer) else ())):
        return answer
    return WithContent(answer, [f"Next page: call again with {encode_str(shown)} and the other arguments as they are"])


def _link_header(header: str | None) -> str | None:
    if header is None or len(header) > 4 * _MAX_LINK:
        return None
    for target, parameters in _LINK.findall(header):
        for relation in _RELATION.findall(parameters):
            if "next" in relation.strip('"').lower().split():
                return str(target)
    return None


def _link_in(response: ApiResponse) -> str | None:
    if b"next" not in response.body or response.is_cut:
        return None
    try:
        body = decode(response.body)
    except DecodeError:
        return None
    for path in _NEXT_LINKS:
        found: Any = body
        for step in path:
            found = found.get(step) if is_object(found) else None
        if isinstance(found, str) and ("?" in found or found.startswith(("/", "http"))):
            return found
    return None


def _argument(values: list[str], schema: Any) -> Any:
    """Return the values of a query parameter in the form of the tool's argument."""
    kind = schema.get("type") if is_object(schema) else None
    if kind == "array":
        inner = schema.get("items") if is_object(schema) else None
        return [_argument([value], inner) for value in values]
    for name, convert in _CONVERTED.items():
        if kind == name or (is_list(kind) and name in kind):
            try:
                found = convert(values[0])
            except (ValueError, LookupError):
                break
            return values[0] if isinstance(found, float) and not isfinite(found) else found
    return values[0]


_MAX_LINK = 2048
"""Maximum number of characters of a link to the next page."""

_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_RELATION = re.compile(r";\s*rel\s*=\s*(\"[^\"]*\"|[^\s;,\"]+)", re.IGNORECASE)
_NEXT_LINKS = (
    ("next",), ("links", "next"), ("links", "next", "href"), ("_links", "next", "href"), ("next", "href"),
    ("paging", "next"), ("pagination", "next"), ("meta", "next"), ("next_page_url",), ("next_url",), ("nextLink",),
    ("@odata.nextLink",),
)  # fmt: skip
_CONVERTED: dict[str, Callable[[str], Any]] = {
    "integer": int, "number": float, "boolean": {"true": True, "false": False}.__getitem__,
}  # fmt: skip


def _shown_url(url: str) -> str:
    """Return a URL for the model; user and password are left out, and a long one is cut."""
    try:
        parts = urlsplit(url[:2000])
        if parts.username is not None or parts.password is not None:
            url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    except ValueError:
        pass
    return "".join(character for character in url[:500] if character >= " ")


def _failure_text(response: ApiResponse) -> str:
    retry = response.header("retry-after")
    again = f"; try again after {retry} s" if retry is not None and retry.isdigit() else ""
    return f"The API failed with status {response.status}{again}"


def _without_body(operation: Operation, response: ApiResponse) -> str:
    if operation.method == "HEAD":
        shown = [f"{name}: {value}" for name, value in response.headers if name in _SHOWN_OF_HEAD]
        return "\n".join([f"The API answered {response.status}", *shown])
    if not 200 <= response.status < 300:
        return f"The API answered {response.status}"
    location = response.header("location")
    return "Done" if location is None else f"Done: {_shown_url(location)}"


_SHOWN_OF_HEAD = frozenset({"content-type", "content-length", "last-modified", "etag", "link", "location"})


def _too_large(
    operation: Operation, request: ApiRequest, response: ApiResponse, content_type: str, base_url: str | None
) -> Answer:
    if not media_types.is_json(content_type) and base_url is not None and operation.method == "GET":
        return [_link(request, content_type, base_url)]
    raise ToolError(
        f"The answer is larger than {len(response.body):,} bytes, which is the most that is read. Ask for less: a "
        "smaller page, a filter, fewer members"
    )


def _file(
    operation: Operation,
    request: ApiRequest,
    response: ApiResponse,
    content_type: str,
    base_url: str | None,
    max_inline_bytes: int,
) -> Answer:
    kind = media_types.plain(content_type)
    if media_types.is_text(kind) or media_types.is_json(kind) or not kind:
        text = _text(response.body, content_type)
        if text is not None:
            return text
    if len(response.body) > max_inline_bytes:
        if base_url is not None and operation.method == "GET":
            return [_link(request, kind, base_url)]
        raise ToolError(f"The answer is a file of {len(response.body):,} bytes, which is too large to show")
    name = media_types.name_of(content_type) or "application/octet-stream"
    if name.startswith("image/"):
        return [Image(response.body, mime_type=name)]
    if name.startswith("audio/"):
        return [Audio(response.body, mime_type=name)]
    uri = f"{(base_url or 'api:/').rstrip('/')}{request.path}"
    return [Embedded(uri, response.body, mime_type=name)]


def _link(request: ApiRequest, kind: str, base_url: str) -> Link:
    return Link(f"{base_url.rstrip('/')}{request.target}", mime_type=media_types.name_of(kind))


def _as_utf8(body: bytes, content_type: str) -> bytes:
    """Return JSON in UTF-8: it should be, and older servers send it in the character set that they name.

    A byte order mark, which a receiver may ignore (RFC 8259, section 8.1), is left out."""
    body = body.removeprefix(BOM_UTF8)
    if "charset" not in content_type.lower():
        return body
    text = media_types.decoded(body, content_type)
    return body if text is None else text.encode()


def _text(body: bytes, content_type: str) -> str | None:
    """Return a text; some bytes that are wrong in UTF-8 are replaced. ``None`` if it is rather a file."""
    text = media_types.decoded(body, content_type)
    if text is not None:
        return text
    text = body.decode("utf-8", "replace")
    kind = content_type.lower()
    most = 0 if "charset" in kind and "utf-8" not in kind else max(8, len(text) // 8)
    return text if "\x00" not in text and text.count("\ufffd") <= most else None
