"""The requests to an API and its responses, and the interface of callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

__all__ = ["ApiRequest", "ApiResponse", "Caller", "CallerUnavailable", "Origin", "checked_secret", "has_controls"]

Headers = Sequence[tuple[str, str]]


class ApiRequest(Struct, frozen=True, kw_only=True):
    """One request.

    Attributes:
        method: the method in capitals.
        path: the percent-encoded path from the root of the API, without the query.
        query: the percent-encoded query, without the question mark; empty for none.
        headers: names and values; with ``content-type`` if there is a body.
        body: the bytes of the body.
        route: path of the operation, with the names of its parameters in braces; empty if the API has chosen the path,
            as after a redirect.
    """

    method: str
    path: str
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    route: str = ""

    @property
    def target(self) -> str:
        """The path with the query."""
        return f"{self.path}?{self.query}" if self.query else self.path


class ApiResponse(Struct, frozen=True, kw_only=True):
    """One response.

    Attributes:
        status: HTTP status.
        headers: names in lower case, and values.
        body: the bytes of the body, up to the caller's ``max_bytes``.
        is_cut: whether the body was longer.
        prefix: path under which an application of this process is reached from outside, for links to it.
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    is_cut: bool = False
    prefix: str = ""

    def header(self, name: str) -> str | None:
        """Return the first value of a header, its name in lower case; ``None`` without."""
        return next((value for header, value in self.headers if header == name), None)


class Origin(Struct, frozen=True, kw_only=True):
    """The facts of the outer request, which an application in this process gets as those of its own request.

    Attributes:
        scheme: ``http`` or ``https``.
        host: the ``Host`` of the outer request, with the port.
        client: address and port of the client; ``None`` without, as over stdio.
        headers: the forwarded headers of the outer request, with names in lower case.
        scope: the ASGI scope of the outer request; ``None`` without.
    """

    scheme: str = "http"
    host: str = "localhost"
    client: tuple[str, int] | None = None
    headers: tuple[tuple[str, str], ...] = ()
    scope: Mapping[str, Any] | None = None


class CallerUnavailable(Exception):
    """The API did not answer: no connection, a time-out, a broken answer. The text is for the model."""


class Caller(Protocol):
    """Sends requests to one API."""

    async def call(self, request: ApiRequest, origin: Origin, *, max_bytes: int) -> ApiResponse:
        """Return the answer.

        Args:
            request: the request to send.
            origin: the origin of the outer request.
            max_bytes: the maximum number of bytes of the answer's body that are read.

        Raises:
            CallerUnavailable: there is no answer.
        """
        ...

    async def aclose(self) -> None:
        """Close open connections."""
        ...


def has_controls(text: str) -> bool:
    """Return whether a text has characters that no header may have: they would end it and begin another one."""
    return any(character < " " or character == "\x7f" for character in text)


def checked_secret(name: str, value: Any) -> str:
    """Return a header or a credential of the author's as it is.

    Raises:
        TypeError: it is no text.
        ValueError: it has a control character. The value does not stand in the message: it may be a secret.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} is a text, not {type(value).__name__}")
    if has_controls(value) or has_controls(name):
        raise ValueError(f"{name.strip()!r} has a line break or another control character; one at its end, maybe")
    return value
