"""The authorization of a server, in one place for all transports.

Protection belongs to the server (`Server.protection`), never to one transport. Each transport on a network takes its
hooks from `hooks_of`, so that it cannot serve a protected server without authorization:

=========================================================  ==========================================================
transport                                                  accepted senders
=========================================================  ==========================================================
Streamable HTTP, HTTP+SSE, below any mounting prefix       those that ``protection.authenticate`` accepts, per request
a proxy of a protected server in this process              the same: the proxy uses the protected server's protection
stdio, a stream pair, the memory pair, a direct call       all: the peer started this program or is part of it, and
                                                           authorization does not apply (2026-07-28, "Authorization",
                                                           applicability)
a server that mounts a protected one                       its own protection applies; without protection it cannot
                                                           mount a protected server
=========================================================  ==========================================================

A new transport that listens on a network must take its hooks from here, and refuse each request that ``authenticate``
refuses. A property test builds every transport and tries each without a token.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

__all__ = ["Authenticate", "Documents", "MakesChallenges", "ServerProtection", "hooks_of"]

Authenticate: TypeAlias = Callable[[Any], Awaitable[Any]]
Documents: TypeAlias = Callable[[Any], tuple[int, bytes, list[tuple[str, str]]] | None]


@runtime_checkable
class ServerProtection(Protocol):
    """Authorizes the requests of one server, on any transport."""

    async def authenticate(self, context: Any, /) -> Any:
        """Return the principal that sent a request.

        Args:
            context: the transport's facts of the request, over HTTP an `HttpContext`.

        Raises:
            HttpRefusal: the request has no valid token (over HTTP; another transport defines its own exception).
        """
        ...

    def document_for(self, context: Any, path: str, /) -> tuple[int, bytes, list[tuple[str, str]]] | None:
        """Return status, body and headers of the metadata document that a request names; ``None`` for other requests.

        Args:
            context: the transport's facts of the request, over HTTP an `HttpContext`.
            path: the path of the endpoint below the mounting prefix.
        """
        ...

    def document_paths(self, path: str, /) -> Sequence[str]:
        """Return the paths of the documents of `document_for`, for host applications that route by exact paths.

        Args:
            path: the path of the endpoint below the mounting prefix.
        """
        ...


@runtime_checkable
class MakesChallenges(Protocol):
    """A `ServerProtection` that tells a client what it lacks.

    Without these methods missing scopes are 403 without a challenge.
    """

    def insufficient_scope(self, context: Any, scopes: Sequence[str], /) -> Exception:
        """Return the error for an operation whose scopes the sender of a request lacks.

        Over HTTP it is an `HttpRefusing` with status 403 and a challenge.

        Args:
            context: the transport's facts of the request; ``None`` outside a transport.
            scopes: all scopes that the operation needs.
        """
        ...

    def refused_token(self, context: Any, /) -> list[tuple[str, str]]:
        """Return the headers of 401 for credentials that were accepted here and refused by a service behind this one.

        Args:
            context: the transport's facts of the request.
        """
        ...


def hooks_of(
    protection: ServerProtection | None, authenticate: Authenticate | None, documents: Documents | None, path: str
) -> tuple[Authenticate | None, Documents | None]:
    """Return the hooks of one HTTP endpoint: its ``authenticate``, and the documents that it serves.

    Args:
        protection: the authorization of the server.
        authenticate, documents: options of the endpoint; its documents take precedence over the protection's.
        path: the path of the endpoint below the mounting prefix.

    Raises:
        ValueError: the server has a protection and the endpoint has ``authenticate`` too.
    """
    if protection is None:
        return authenticate, documents
    if authenticate is not None:
        raise ValueError("authenticate= is for servers without auth=, which does the same and more")

    def document_for(context: Any) -> tuple[int, bytes, list[tuple[str, str]]] | None:
        found = None if documents is None else documents(context)
        return protection.document_for(context, path) if found is None else found

    return protection.authenticate, document_for
