"""Documents about a server that anyone may read beside its endpoint, such as a server card.

The endpoint finds them as an attachment of its server (`PublicDocuments`), so that each way to serve has them. They are
served without authentication, to any origin, and only to a ``Host`` that the endpoint serves: `HttpGate` checks that
first. This module only describes the two sides; nothing here knows what a document says.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from ferrule.wire.struct import Value

__all__ = ["ENDPOINT_PATH_KEY", "PROXY_HEADERS", "DocumentAnswer", "DocumentRequest", "PublicDocuments"]

ENDPOINT_PATH_KEY = "ferrule.endpoint_path"
"""Key of a scope: the whole path of the endpoint, where a host application routes documents and endpoint apart."""

PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
"""With one of them a request came through a proxy, or claims so."""

DocumentAnswer = tuple[int, bytes, list[tuple[str, str]]]
"""Status, body and headers of a response."""


class DocumentRequest(Value, frozen=True, kw_only=True):
    """A request for one of the documents.

    Attributes:
        method: the HTTP method.
        path: one of `PublicDocuments.paths`, below the mounting prefix.
        headers: lower-case name to value.
        endpoint_path: the whole path of the endpoint, with the mounting prefix.
        origin: scheme and host with which the client reached the endpoint, such as ``"http://127.0.0.1:8000"``;
            ``None`` where the host could be any that the client wrote.
        versions: the protocol versions that the endpoint serves, newest first.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    endpoint_path: str
    origin: str | None
    versions: Sequence[str]


class PublicDocuments(Protocol):
    """The public documents of one server."""

    def paths(self, route: str, /) -> Sequence[str]:
        """Return the paths of all documents below the mounting prefix.

        Args:
            route: path of the endpoint below the mounting prefix, without a final slash.
        """
        ...

    def answer(self, request: DocumentRequest, /) -> DocumentAnswer:
        """Return status, body and headers of the response to a request for one of `paths`."""
        ...
