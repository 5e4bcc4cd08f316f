"""The events of functions as plain requests, and plain responses as what their hosts expect.

Three forms: API Gateway's REST APIs (payload 1.0), HTTP APIs and function URLs (payload 2.0), and Application Load
Balancers, with single or multi-value headers. Source: "Lambda proxy integrations" of the API Gateway Developer Guide,
"Lambda functions as targets" of the guide to Application Load Balancers.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import unquote, urlencode

__all__ = [
    "LIMITS_BYTES",
    "EventForm",
    "FunctionRequest",
    "FunctionResponse",
    "MalformedEvent",
    "form_of",
    "read_event",
    "write_result",
]

EventForm: TypeAlias = Literal["rest", "http", "alb"]
"""API Gateway's REST API; HTTP API or function URL; Application Load Balancer."""

LIMITS_BYTES: Final[Mapping[EventForm, int]] = {"rest": 6 << 20, "http": 6 << 20, "alb": 1 << 20}
"""The most bytes of a result, as JSON: Lambda returns at most 6 MiB, and a load balancer takes at most 1 MiB of it."""


class MalformedEvent(ValueError):
    """An event of none of the three forms, or one with members of other types: another service calls the function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionRequest:
    """An HTTP request.

    Attributes:
        method: in upper case.
        path: percent-decoded; it begins with ``root_path``.
        headers: name and value; a name may occur more than once.
        body: the whole body.
        query: the query string as it came, without "?".
        client: the address of the client; ``None`` if it is not known.
        scheme: ``"https"`` or ``"http"``.
        root_path: the part of ``path`` that belongs to the host, such as the stage of an API.
    """

    method: str
    path: str
    headers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    body: bytes = b""
    query: str = ""
    client: str | None = None
    scheme: str = "https"
    root_path: str = ""

    def header(self, name: str) -> str:
        """Return the value of the first header with a name, in any case; empty without one."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionResponse:
    """An HTTP response.

    Attributes:
        status: the status code.
        headers: name and value; a name may occur more than once.
        body: the whole body.
    """

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    body: bytes = b""


def form_of(event: Any) -> EventForm:
    """Return the form of an event.

    Raises:
        MalformedEvent: it has none of them.
    """
    if isinstance(event, Mapping):
        found = cast("Mapping[str, Any]", event)
        context: Any = found.get("requestContext")
        if isinstance(context, Mapping):
            if "elb" in context:
                return "alb"
            if found.get("version") == "2.0" and "http" in context:
                return "http"
            if "httpMethod" in found:
                return "rest"
    raise MalformedEvent(
        "The event is not of API Gateway (REST or HTTP API), a function URL or an Application Load Balancer: "
        "make a FunctionRequest of it and use handle(request)"
    )


def read_event(event: Mapping[str, Any], form: EventForm) -> FunctionRequest:
    """Return the request of an event.

    Raises:
        MalformedEvent: a member has another type, or the body is not base64 although the event says so.
    """
    try:
        return _READERS[form](event, event["requestContext"])
    except MalformedEvent:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise MalformedEvent(f"The event lacks a member or has one of another type: {error!r}") from error


def _read_http(event: Mapping[str, Any], context: Mapping[str, Any]) -> FunctionRequest:
    http = context["http"]
    headers = _headers(event)
    if event.get("cookies"):
        headers.append(("cookie", "; ".join(event["cookies"])))
    path, stage = str(event["rawPath"]), str(context.get("stage") or "$default")
    root = f"/{stage}"  # the address of a named stage begins with its name
    return FunctionRequest(
        method=str(http["method"]).upper(),
        path=unquote(path),
        headers=headers,
        body=_body(event),
        query=str(event.get("rawQueryString") or ""),
        client=http.get("sourceIp"),
        root_path=root if stage != "$default" and path.startswith(f"{root}/") else "",
    )


def _read_rest(event: Mapping[str, Any], context: Mapping[str, Any]) -> FunctionRequest:
    path, whole = str(event["path"]), str(context.get("path") or event["path"])
    root = whole[: -len(path)] if len(whole) > len(path) and whole.endswith(path) else ""
    return FunctionRequest(
        method=str(event["httpMethod"]).upper(),
        path=root + path,
        headers=_headers(event),
        body=_body(event),
        query=urlencode(_query(event)),
        client=_members(context, "identity").get("sourceIp"),
        root_path=root,
    )


def _read_alb(event: Mapping[str, Any], context: Mapping[str, Any]) -> FunctionRequest:
    headers = _headers(event)
    found = {name.lower(): value for name, value in headers}
    return FunctionRequest(
        method=str(event["httpMethod"]).upper(),
        path=unquote(str(event["path"])),
        headers=headers,
        body=_body(event),
        query="&".join(f"{name}={value}" for name, value in _query(event)),  # they are encoded as they came
        # The last one is what the load balancer has seen; the ones before are what the client says.
        client=found.get("x-forwarded-for", "").rpartition(",")[2].strip() or None,
        scheme="https" if found.get("x-forwarded-proto") == "https" else "http",
    )


_READERS: Final[Mapping[EventForm, Callable[[Mapping[str, Any], Mapping[str, Any]], FunctionRequest]]] = {
    "http": _read_http,
    "rest": _read_rest,
    "alb": _read_alb,
}


def _members(event: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object of an event; an empty one where it is absent or ``null``."""
    return dict(cast("Mapping[str, Any]", event.get(name) or {}))


def _pairs(event: Mapping[str, Any], many: str, single: str) -> list[tuple[str, str]]:
    """Return names and values of an event that has all values of a name, or else the last one."""
    found: dict[str, list[Any]] = _members(event, many)
    if found:
        return [(name, str(value)) for name, values in found.items() for value in values]
    return [(name, str(value)) for name, value in _members(event, single).items()]


def _headers(event: Mapping[str, Any]) -> list[tuple[str, str]]:
    return _pairs(event, "multiValueHeaders", "headers")


def _query(event: Mapping[str, Any]) -> list[tuple[str, str]]:
    return _pairs(event, "multiValueQueryStringParameters", "queryStringParameters")


def _body(event: Mapping[str, Any]) -> bytes:
    text = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return str(text).encode()
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedEvent("The body of the event is not base64, as isBase64Encoded says") from error


def write_result(response: FunctionResponse, event: Mapping[str, Any], form: EventForm) -> dict[str, Any]:
    """Return a response as the result of the function."""
    result: dict[str, Any] = {"statusCode": response.status}
    try:
        result["body"], result["isBase64Encoded"] = response.body.decode(), False
    except UnicodeDecodeError:
        result["body"], result["isBase64Encoded"] = base64.b64encode(response.body).decode(), True
    if form == "alb":
        result["statusDescription"] = _description(response.status)
    if form == "http":
        result["headers"] = _joined(pair for pair in response.headers if pair[0].lower() != "set-cookie")
        cookies = [value for name, value in response.headers if name.lower() == "set-cookie"]
        if cookies:
            result["cookies"] = cookies
    elif form == "rest" or event.get("multiValueHeaders") is not None:
        # A target group takes the form that it sends, and ignores the other one.
        many: dict[str, list[str]] = {}
        for name, value in response.headers:
            many.setdefault(name, []).append(value)
        result["multiValueHeaders"] = many
    else:
        result["headers"] = _joined(response.headers)
    return result


def _joined(headers: Any) -> dict[str, str]:
    """Return one value for each name (RFC 9110, 5.3)."""
    found: dict[str, str] = {}
    for name, value in headers:
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _description(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Unknown"
