"""What closes a server, decided in this one place for every way to serve it.

Protection belongs to the server object (`Server.protection`), never to one of the doors that lead to it. A door over
which strangers come takes its hooks from `hooks_of`, so it is closed because the server is:

=========================================================  ==========================================================
door                                                       who comes in
=========================================================  ==========================================================
Streamable HTTP, HTTP+SSE, below any mounting prefix       whom ``protection.authenticate`` lets in, request by request
a proxy of a protected server in this process              as above: the proxy has the protection of what is behind it
stdio, a stream pair, the memory pair, a direct call       the owner of the process; nobody is asked, since the peer
                                                           started this program or is part of it (2026-07-28,
                                                           "Authorization", applicability)
a server that mounts a protected one                       the host's own protection decides; a host without one may
                                                           not mount it
=========================================================  ==========================================================

Rule a newcomer would break: a new transport that listens to a network gets its hooks here, and refuses everybody while
``authenticate`` does. A property test builds every door and tries each without a token.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

__all__ = ["Authenticate", "Documents", "ServerProtection", "hooks_of"]

Authenticate: TypeAlias = Callable[[Any], Awaitable[Any]]
Documents: TypeAlias = Callable[[Any], tuple[int, bytes, list[tuple[str, str]]] | None]


class ServerProtection(Protocol):
    """Judges the requests of one server, whatever carries them."""

    async def authenticate(self, context: Any, /) -> Any:
        """The principal that sent a request; raises the transport's refusal (over HTTP `HttpRefusal`) for nobody.

        Args:
            context: the transport's facts of the request, over HTTP an `HttpContext`.
        """
        ...

    def document_for(self, context: Any, path: str, /) -> tuple[int, bytes, list[tuple[str, str]]] | None:
        """Status, body and headers of a document that leads to a token; ``None`` where the request asks for none.

        Args:
            path: of the endpoint below the mounting prefix.
        """
        ...

    def document_paths(self, path: str, /) -> Sequence[str]:
        """Where `document_for` has something to say, for host applications that route by exact paths."""
        ...


def hooks_of(
    protection: ServerProtection | None, authenticate: Authenticate | None, documents: Documents | None, path: str
) -> tuple[Authenticate | None, Documents | None]:
    """Who judges the requests of one HTTP door, and which documents it serves.

    Args:
        protection: of the server.
        authenticate, documents: what the door itself was given; its documents go first.
        path: of the endpoint below the mounting prefix.

    Raises:
        ValueError: both the server and the door were told who may come in.
    """
    if protection is None:
        return authenticate, documents
    if authenticate is not None:
        raise ValueError("authenticate= is for servers without auth=, which does the same and more")

    def document_for(context: Any) -> tuple[int, bytes, list[tuple[str, str]]] | None:
        found = None if documents is None else documents(context)
        return protection.document_for(context, path) if found is None else found

    return protection.authenticate, document_for
