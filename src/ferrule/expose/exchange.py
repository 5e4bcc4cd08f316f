"""What goes to an API and what comes back, as the engine and its callers see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

__all__ = ["ApiRequest", "ApiResponse", "Caller", "CallerUnavailable", "Origin"]

Headers = Sequence[tuple[str, str]]


class ApiRequest(Struct, frozen=True, kw_only=True):
    """One request.

    Attributes:
        method: in capitals.
        path: percent-encoded, from the root of the API, without the query.
        query: percent-encoded, without the question mark; empty for none.
        headers: names and values; ``content-type`` is among them where there is a body.
        body: its bytes.
        route: path of the operation, with the names of its parameters in braces; empty where the API itself decided
            about the path, as after a redirect.
    """

    method: str
    path: str
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    route: str = ""

    @property
    def target(self) -> str:
        """Path and query."""
        return f"{self.path}?{self.query}" if self.query else self.path


class ApiResponse(Struct, frozen=True, kw_only=True):
    """One answer.

    Attributes:
        status: HTTP status.
        headers: names in lower case, and values.
        body: its bytes, at most as many as the caller was asked to read.
        is_cut: there was more.
    """

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    is_cut: bool = False

    def header(self, name: str) -> str | None:
        """Return the first value of a header, its name in lower case; ``None`` without."""
        return next((value for header, value in self.headers if header == name), None)


class Origin(Struct, frozen=True, kw_only=True):
    """What is known of the outer request, which an application of this process gets to see as its own.

    Attributes:
        scheme: ``http`` or ``https``.
        host: as the outer request names it, port included.
        client: address and port of the client; ``None`` where it has none, as over stdio.
        headers: the headers of the outer request that are passed on, names in lower case.
        scope: ASGI scope of the outer request; ``None`` where there is none.
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
            request: what to send.
            origin: the origin of the outer request.
            max_bytes: the maximum number of bytes of the answer's body that are read.

        Raises:
            CallerUnavailable: there is no answer.
        """
        ...

    async def aclose(self) -> None:
        """Close what is open."""
        ...
