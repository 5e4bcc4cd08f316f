"""What a call gives the model: the answer of an API as data, text, a picture or a file."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ferrule.app.errors import ToolError
from ferrule.app.results.content import Audio, Embedded, Image, Link
from ferrule.expose import media_types
from ferrule.expose.exchange import ApiRequest, ApiResponse
from ferrule.expose.operations import Operation
from ferrule.expose.problems import problem_text
from ferrule.expose.projection import Projection
from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError

__all__ = ["MAX_INLINE_FILE_BYTES", "Answer", "answer_of", "next_page"]

logger = logging.getLogger(__name__)

MAX_INLINE_FILE_BYTES = 1024 * 1024
"""Of a picture, a sound or a file that is part of the result; a larger one becomes a link."""

Answer = Any
"""What the tool's function returns: data, text, or content helpers."""


def answer_of(
    operation: Operation,
    request: ApiRequest,
    response: ApiResponse,
    *,
    projection: Projection,
    base_url: str | None,
    max_inline_bytes: int = MAX_INLINE_FILE_BYTES,
) -> Answer:
    """Return what an answer means to the model.

    Args:
        operation, request, response: of the call.
        projection: for JSON.
        base_url: of links to what is too large; ``None`` where there is nothing that a client could open.
        max_inline_bytes: of a file in the result.

    Raises:
        ToolError: the API refused the request, or failed.
    """
    status = response.status
    if status >= 500:
        logger.error("%s answered %d: %s", operation.label, status, response.body[:500].decode("utf-8", "replace"))
        raise ToolError(_failure_text(response))
    if status >= 400:
        raise ToolError(problem_text(response))
    if status in (301, 302, 303, 307, 308):
        location = (response.header("location") or "")[:500]
        return f"The API answered {status} and points to {location}" if location else f"The API answered {status}"
    content_type = response.header("content-type") or ""
    if not response.body:
        return _without_body(operation, response)
    if response.is_cut:
        return _too_large(operation, request, response, content_type, base_url)
    if media_types.is_json(content_type) or not content_type:
        try:
            return projection(decode(response.body))
        except DecodeError:
            if content_type:
                logger.warning("%s answered %s that is no JSON", operation.label, content_type)
    return _file(operation, request, response, content_type, base_url, max_inline_bytes)


def next_page(operation: Operation, response: ApiResponse) -> dict[str, Any] | None:
    """Return the arguments that the next page of a list needs, from the ``next`` link of an answer (RFC 8288).

    ``None`` where there is no such link, or it changes nothing that is an argument.
    """
    link = response.header("link")
    if link is None or len(link) > 8192:
        return None
    for part in link.split(","):
        target, _, parameters = part.partition(";")
        if "rel=next" in parameters.replace('"', "").replace(" ", "").lower().split(";"):
            values = dict(parse_qsl(urlsplit(target.strip().strip("<>")).query))
            return {
                parameter.argument: values[parameter.name]
                for parameter in operation.parameters
                if parameter.location == "query" and parameter.name in values
            } or None
    return None


def _failure_text(response: ApiResponse) -> str:
    retry = response.header("retry-after")
    again = f"; try again after {retry} s" if retry is not None and retry.isdigit() else ""
    return f"The API failed with status {response.status}{again}"


def _without_body(operation: Operation, response: ApiResponse) -> str:
    if operation.method == "HEAD":
        shown = [f"{name}: {value}" for name, value in response.headers if name in _SHOWN_OF_HEAD]
        return "\n".join([f"The API answered {response.status}", *shown])
    location = response.header("location")
    return "Done" if location is None else f"Done: {location[:500]}"


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
    if kind.startswith("image/"):
        return [Image(response.body, mime_type=kind)]
    if kind.startswith("audio/"):
        return [Audio(response.body, mime_type=kind)]
    uri = f"{base_url or 'api:/'}{request.path}"
    return [Embedded(uri, response.body, mime_type=kind or "application/octet-stream")]


def _link(request: ApiRequest, kind: str, base_url: str) -> Link:
    return Link(f"{base_url.rstrip('/')}{request.target}", mime_type=kind or None)


def _text(body: bytes, content_type: str) -> str | None:
    charset = "utf-8"
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip('"')
    try:
        return body.decode(charset)
    except (LookupError, UnicodeDecodeError):
        return None
