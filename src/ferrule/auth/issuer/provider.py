"""Storage and decisions of an authorization server: the protocol `Provider`, and `MemoryProvider`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["AuthorizationRequest", "MemoryProvider", "Provider", "RegisteredClient"]


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """A client of the authorization server.

    Attributes:
        client_id: the client id, issued by this server, or the URL of the client's metadata document.
        secret: the client secret; ``None`` for a public client.
        redirect_uris: the allowed redirect URIs; compared as text, except for the port of loopback addresses.
        name: the name of the client, for display.
        grants: the allowed grant types.
        method: the authentication method at the token endpoint.
        metadata: the metadata with which it was registered.
    """

    client_id: str
    secret: str | None = field(default=None, repr=False)
    redirect_uris: tuple[str, ...] = ()
    name: str = ""
    grants: tuple[str, ...] = ("authorization_code", "refresh_token")
    method: str = "none"
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A well-formed authorization request, for the decision of the user.

    Attributes:
        client: the client that requests authorization.
        redirect_uri: the redirect URI for the response.
        scopes: the requested scopes; empty for the default.
        resource: the requested audience of the token; ``None`` without one.
        parameters: all parameters of the request.
    """

    client: RegisteredClient
    redirect_uri: str
    scopes: tuple[str, ...]
    resource: str | None
    parameters: dict[str, str]


class Provider(Protocol):
    """Storage and decisions of an authorization server."""

    async def get_client(self, client_id: str) -> RegisteredClient | None:
        """Return a client by id; ``None`` if it is unknown."""
        ...

    async def save_client(self, client: RegisteredClient) -> None:
        """Store a newly registered client."""
        ...

    async def decide(self, request: AuthorizationRequest) -> str | None:
        """Return the subject of the user who consents; ``None`` if the user does not consent."""
        ...

    async def put(self, key: str, record: dict[str, Any], *, ttl_s: float) -> None:
        """Store a record for ``ttl_s`` seconds; replaces an existing one."""
        ...

    async def get(self, key: str, *, take: bool = False) -> dict[str, Any] | None:
        """Return a record; ``None`` if there is none. With ``take`` delete it too; then only one caller gets it."""
        ...


class MemoryProvider:
    """Keeps all records in this process; one user consents to every request.

    Args:
        subject: the user who consents; ``None`` refuses everything.
        clients: the clients that are registered from the start.
        clock: returns seconds since the epoch.
    """

    def __init__(
        self,
        subject: str | None = "demo-user",
        clients: tuple[RegisteredClient, ...] = (),
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.subject = subject
        self.clients = {client.client_id: client for client in clients}
        self._clock = clock
        self._records: dict[str, tuple[float, dict[str, Any]]] = {}

    async def get_client(self, client_id: str) -> RegisteredClient | None:
        """See `Provider`."""
        return self.clients.get(client_id)

    async def save_client(self, client: RegisteredClient) -> None:
        """See `Provider`."""
        if len(self.clients) >= 10_000:
            del self.clients[next(iter(self.clients))]
        self.clients[client.client_id] = client

    async def decide(self, request: AuthorizationRequest) -> str | None:
        """See `Provider`."""
        return self.subject

    async def put(self, key: str, record: dict[str, Any], *, ttl_s: float) -> None:
        """See `Provider`."""
        now = self._clock()
        if len(self._records) > 10_000:
            self._records = {name: kept for name, kept in self._records.items() if kept[0] > now}
        self._records[key] = (now + ttl_s, record)

    async def get(self, key: str, *, take: bool = False) -> dict[str, Any] | None:
        """See `Provider`."""
        found = self._records.pop(key, None) if take else self._records.get(key)
        return found[1] if found is not None and found[0] > self._clock() else None
