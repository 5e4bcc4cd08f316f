"""Converts the error response of an API to text that a model can act on.

APIs use many forms: problem details (RFC 9457), a list of validation errors under one of many names, messages by
field, a bare string, a page of HTML. All messages in the response are collected, each after its path in the response.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from html import unescape
from http import HTTPStatus
from typing import Any

from ferrule.expose import media_types
from ferrule.expose.answers.projection import Projection
from ferrule.expose.exchange import ApiResponse
from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_list, is_object

__all__ = ["MAX_PROBLEM_CHARS", "message_text", "problem_text"]

MAX_PROBLEM_CHARS = 4000
"""Maximum number of characters of the text for one refused request."""

MAX_LINES = 60
"""Maximum number of messages of one response."""

MAX_NESTING = 12
"""Maximum depth of a response in which messages are searched."""

_MESSAGE_NAMES = ("msg", "message", "detail", "title", "reason", "description", "error_description", "error")
"""Members with the text of one problem, the most useful first."""

_PLACE_NAMES = (
    "loc", "location", "field", "path", "pointer", "name", "param", "parameter", "property", "propertyPath",
    "attr", "attribute",
)  # fmt: skip
"""Members with the name of the field that a problem concerns."""

_WITHOUT_NEWS = frozenset(
    {"status", "type", "url", "instance", "documentation_url", "trace_id", "request_id", "ctx", "input"}
)
"""Members that are left out, since a model cannot act on them: values that it sent, and facts for operators."""

_UNCHANGED = Projection()

_NOT_TEXT = re.compile(r"<(script|style)\b", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_SPACE = re.compile(r"\s+")


def problem_text(response: ApiResponse, projection: Projection = _UNCHANGED) -> str:
    """Return the text of a response with a status of 400 or more, at most `MAX_PROBLEM_CHARS` characters.

    Args:
        response: the response.
        projection: masks members of JSON; none is left out.
    """
    lines = [_status_line(response)]
    lines += _messages(response, projection)
    challenge = response.header("www-authenticate") if response.status == 401 else None
    if challenge is not None:
        lines.append(f"It asks for: {_SPACE.sub(' ', challenge[:300])}")
    return _text(lines, response.header("retry-after"))


def message_text(messages: Any, *, retry_after: str | None = None) -> str:
    """Return the messages of a refusal as `problem_text` shows those of a response, at most as many characters.

    Args:
        messages: what the JSON of a response would be: a text, a list, or messages by field.
        retry_after: the header ``Retry-After`` of the response; ``None`` without.
    """
    found: list[str] = []
    _collect(messages, "", found, 0)
    return _text(found, retry_after)


def _text(lines: list[str], retry_after: str | None) -> str:
    if retry_after is not None:
        unit = " s" if retry_after.isdigit() else ""
        lines = [*lines, f"Try again after {retry_after[:60]}{unit}"]
    text = "\n".join(dict.fromkeys(line for line in lines if line))
    return text if len(text) <= MAX_PROBLEM_CHARS else f"{text[: MAX_PROBLEM_CHARS - 1]}…"


def _status_line(response: ApiResponse) -> str:
    try:
        phrase = HTTPStatus(response.status).phrase
    except ValueError:
        phrase = ""
    return f"The API answered {response.status} {phrase}".rstrip()


def _messages(response: ApiResponse, projection: Projection) -> list[str]:
    content_type = response.header("content-type") or ""
    body = response.body.removeprefix(BOM_UTF8)
    if not body:
        return []
    if media_types.is_json(content_type) or body.lstrip()[:1] in (b"{", b"["):
        try:
            found: list[str] = []
            _collect(projection.masked(decode(body)), "", found, 0)
            return found
        except DecodeError:
            pass
    if projection.masks and media_types.may_be_json(content_type, body):
        return []
    text = body[: 4 * MAX_PROBLEM_CHARS].decode("utf-8", "replace")
    if "html" in content_type or text.lstrip()[:1] == "<":
        text = unescape(_TAG.sub(" ", _without_scripts(text)))
    return [_SPACE.sub(" ", text).strip()] if "\x00" not in text else []


def _without_scripts(page: str) -> str:
    """Return a page without scripts and styles; one that does not end takes the rest. Linear in the page's length."""
    kept: list[str] = []
    at = 0
    lower = page.lower()
    while (found := _NOT_TEXT.search(page, at)) is not None:
        kept.append(page[at : found.start()])
        end = lower.find(f"</{found[1].lower()}", found.end())
        if end < 0:
            return " ".join(kept)
        at = end  # the tag that ends it is left out with the other tags
    return " ".join([*kept, page[at:]])


def _collect(value: Any, place: str, found: list[str], depth: int) -> None:
    if len(found) >= MAX_LINES or depth > MAX_NESTING or value is None:
        return
    if is_list(value):
        for index, part in enumerate(value):
            is_one = not is_list(part) and not is_object(part)
            _collect(part, place if is_one or not place else f"{place}[{index}]", found, depth + 1)
    elif is_object(value):
        _collect_object(value, place, found, depth)
    elif value != "":
        text = value if isinstance(value, str) else str(value)
        found.append(f"{place}: {text}" if place else text)


def _collect_object(value: dict[str, Any], place: str, found: list[str], depth: int) -> None:
    about = next((value[name] for name in _PLACE_NAMES if isinstance(value.get(name), str | list)), None)
    message = next((name for name in _MESSAGE_NAMES if isinstance(value.get(name), str) and value[name]), None)
    if message is None and about is not None:  # a code without a message, as GitHub sends
        message = next((name for name in ("code", "type") if isinstance(value.get(name), str)), None)
    if about is not None and message is not None:
        where = ".".join(str(step) for step in about) if is_list(about) else str(about)
        found.append(f"{where}: {value[message]}")
        rest = {name: part for name, part in value.items() if name != message and name not in _PLACE_NAMES}
    else:
        rest = value
    for name, part in rest.items():
        is_field = _is_field(part)
        if name in _WITHOUT_NEWS and not (is_field and message is None):
            continue
        if name in ("code", "type") and about is not None and not (is_field and message is None):
            continue
        is_text = name in ("detail", "errors", "non_field_errors", "__all__") or (
            name in _MESSAGE_NAMES and not is_field
        )
        _collect(part, place if is_text else f"{place}.{name}".lstrip("."), found, depth + 1)


def _is_field(part: Any) -> bool:
    """Return whether a value is the messages of a field, which may have the name of a member with a message: title."""
    return is_list(part) and bool(part) and all(isinstance(each, str) for each in part)
