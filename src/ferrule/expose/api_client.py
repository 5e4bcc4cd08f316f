"""Sends requests to an API from a tool's own function, as `from_openapi` does for an operation of a description.

``ferrule new --from openapi.json`` writes servers that use it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from ferrule.app.errors import ToolError
from ferrule.expose.answers.projection import Projection
from ferrule.expose.answers.results import answer_of
from ferrule.expose.callers.http import HTTPCaller
from ferrule.expose.exchange import Caller, CallerUnavailable, Origin
from ferrule.expose.operations import Body, BodyForm, Field, Location, Operation, Parameter, Style
from ferrule.expose.requests.build import InvalidArgument, build_request
from ferrule.wire.json_types import is_object

__all__ = ["APIClient"]

MAX_RESPONSE_BYTES = 8 * 1024 * 1024
"""Default of the maximum number of bytes of a response that are read."""

_STYLES: dict[Location, Style] = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}


class APIClient:
    """An API at one base URL; requests are sent only below it, and redirects are not followed.

    Answers are what tools return: data of JSON, text, pictures and files. A refusal (400 to 499) is a `ToolError` with
    the API's messages, a failure (500 to 599) one without details.

    Args:
        base_url: the URL with the prefix of all paths, for instance ``https://api.example.com/v2``.
        headers: headers of every request, for instance with credentials.
        timeout_s: maximum time of one request, in seconds.
        max_response_bytes: the maximum number of bytes of an answer that are read.
        caller: sends the requests in place of HTTP, for instance an `ASGICaller` in a test.

    Raises:
        ValueError: the base URL is not an absolute ``http`` or ``https`` URL, or has a query.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        caller: Caller | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._caller = HTTPCaller(base_url, headers=headers, timeout_s=timeout_s) if caller is None else caller
        self._max_response_bytes = max_response_bytes

    async def request(
        self,
        method: str,
        path: str,
        *,
        values: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, Any] | None = None,
        cookies: Mapping[str, Any] | None = None,
        json: Any = None,
        form: Mapping[str, Any] | None = None,
        text: str | None = None,
        content_type: str | None = None,
        styles: Mapping[str, Style] | None = None,
        joined: tuple[str, ...] = (),
    ) -> Any:
        """Send a request and return the response as a tool's result.

        Args:
            method: the HTTP method.
            path: the path below the base URL, with ``{name}`` for the members of ``values``.
            values: values in the path; characters that could end a path segment are percent-encoded.
            query, headers, cookies: values by name; one that is ``None`` is not sent.
            json: the body, as JSON; members of an object that are ``None`` are left out.
            form: the body, as a URL-encoded form; members that are ``None`` are left out.
            text: the body, as text.
            content_type: the media type of the body; ``None`` for that of the form.
            styles: how values that are lists or objects are written, by name (OpenAPI, "Style Values").
            joined: names of values that are lists or objects and are written as one value, not one for each member.

        Raises:
            ToolError: the API refused the request, failed or did not answer, or a value cannot be sent.
        """
        places: tuple[tuple[Location, Mapping[str, Any] | None], ...] = (
            ("path", values),
            ("query", query),
            ("header", headers),
            ("cookie", cookies),
        )
        parameters: list[Parameter] = []
        arguments: dict[str, Any] = {}
        for location, given in places:
            for name, value in (given or {}).items():
                style = (styles or {}).get(name, _STYLES[location])
                argument = f"{location} {name}"
                explode = name not in joined and style in ("form", "cookie", "deepObject")
                parameters.append(
                    Parameter(name=name, argument=argument, location=location, style=style, explode=explode)
                )
                arguments[argument] = value
        body, contents = _body(json, form, text, content_type)
        arguments |= contents
        operation = Operation(name=path, method=method.upper(), path=path, parameters=tuple(parameters), body=body)
        try:
            request = build_request(operation, arguments)
            response = await self._caller.call(request, Origin(), max_bytes=self._max_response_bytes)
        except InvalidArgument as error:
            raise ToolError(_without_places(str(error))) from error
        except CallerUnavailable as error:
            raise ToolError(f"The call failed: {error}") from error
        return answer_of(operation, request, response, projection=Projection(), base_url=self.base_url)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._caller.aclose()

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncGenerator[dict[str, Any]]:
        """Close the connections when a server ends: ``MCPServer("x", lifespan=api.lifespan)``."""
        try:
            yield {}
        finally:
            await self.aclose()


def _body(
    json: Any, form: Mapping[str, Any] | None, text: str | None, content_type: str | None
) -> tuple[Body | None, dict[str, Any]]:
    """Return the body of a request, and its arguments."""
    kind: BodyForm
    value: Any
    if text is not None:
        kind, value, default = "text", text, "text/plain"
    elif form is not None:
        fields = tuple(Field(name=name, argument=f"body {name}") for name in form)
        body = Body(content_type=content_type or "application/x-www-form-urlencoded", form="fields", fields=fields)
        return body, {f"body {name}": value for name, value in form.items() if value is not None}
    elif json is not None:
        kind, default = "value", "application/json"
        value = {name: part for name, part in json.items() if part is not None} if is_object(json) else json
    else:
        return None, {}
    return Body(content_type=content_type or default, form=kind, argument="body"), {"body": value}


def _without_places(text: str) -> str:
    """Return a message about an argument, with the argument's name in the form that the caller used."""
    for location in _STYLES:
        text = text.replace(f"`{location} ", "`")
    return text
