"""What an API says when it refuses a request, as text that a model can act on.

APIs use many forms: problem details (RFC 9457), a list of validation errors under one of many names, messages by
field, a bare string, a page of HTML. Every message is found by walking the answer; its place in the answer stands
before it.
"""

from __future__ import annotations

import re
from html import unescape
from http import HTTPStatus
from typing import Any

from ferrule.expose import media_types
from ferrule.expose.exchange import ApiResponse
from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_list, is_object

__all__ = ["MAX_PROBLEM_CHARS", "problem_text"]

MAX_PROBLEM_CHARS = 4000
"""Of the text of one refused request."""

MAX_LINES = 60
"""Messages of one answer."""

MAX_NESTING = 12
"""Levels of an answer in which messages are looked for."""

_MESSAGE_NAMES = ("msg", "message", "detail", "title", "reason", "description", "error_description", "error")
"""Members that hold the text of one problem, the best first."""

_PLACE_NAMES = (
    "loc", "location", "field", "path", "pointer", "name", "param", "parameter", "property", "propertyPath",
    "attr", "attribute",
)  # fmt: skip
"""Members that say what a problem is about."""

_WITHOUT_NEWS = frozenset(
    {"status", "type", "url", "instance", "documentation_url", "trace_id", "request_id", "ctx", "input"}
)
"""Members that say nothing that a model could act on: what it sent itself, and what only operators can look up."""

_TAGS = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)
_SPACE = re.compile(r"\s+")


def problem_text(response: ApiResponse) -> str:
    """Return what an answer with a status of 400 or more says, at most `MAX_PROBLEM_CHARS` characters."""
    lines = [_status_line(response)]
    lines += _messages(response)
    challenge = response.header("www-authenticate") if response.status == 401 else None
    if challenge is not None:
        lines.append(f"It asks for: {_SPACE.sub(' ', challenge[:300])}")
    retry = response.header("retry-after")
    if retry is not None:
        unit = " s" if retry.isdigit() else ""
        lines.append(f"Try again after {retry[:60]}{unit}")
    text = "\n".join(dict.fromkeys(line for line in lines if line))
    return text if len(text) <= MAX_PROBLEM_CHARS else f"{text[: MAX_PROBLEM_CHARS - 1]}…"


def _status_line(response: ApiResponse) -> str:
    try:
        phrase = HTTPStatus(response.status).phrase
    except ValueError:
        phrase = ""
    return f"The API answered {response.status} {phrase}".rstrip()


def _messages(response: ApiResponse) -> list[str]:
    content_type = response.header("content-type") or ""
    if not response.body:
        return []
    if media_types.is_json(content_type) or response.body[:1] in (b"{", b"["):
        try:
            found: list[str] = []
            _collect(decode(response.body), "", found, 0)
            return found
        except DecodeError:
            pass
    text = response.body[: 4 * MAX_PROBLEM_CHARS].decode("utf-8", "replace")
    if "html" in content_type or text.lstrip()[:1] == "<":
        text = unescape(_TAGS.sub(" ", text))
    return [_SPACE.sub(" ", text).strip()] if "\x00" not in text else []


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
    if message is None and about is not None:  # a code alone, as GitHub has it
        message = next((name for name in ("code", "type") if isinstance(value.get(name), str)), None)
    if about is not None and message is not None:
        where = ".".join(str(step) for step in about) if is_list(about) else str(about)
        found.append(f"{where}: {value[message]}")
        rest = {name: part for name, part in value.items() if name != message and name not in _PLACE_NAMES}
    else:
        rest = value
    for name, part in rest.items():
        if name in _WITHOUT_NEWS or (name in ("code", "type") and about is not None):
            continue
        is_text = name in _MESSAGE_NAMES or name in ("errors", "non_field_errors", "__all__")
        _collect(part, place if is_text else f"{place}.{name}".lstrip("."), found, depth + 1)
