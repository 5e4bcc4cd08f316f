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
        client_id: issued by this server, or the URL of the client's metadata document.
        secret: ``None`` for a public client.
        redirect_uris: allowed redirect URIs; compared as text, except for the port of loopback addresses.
        name: for display.
        grants: allowed grant types.
        method: authentication method at the token endpoint.
        metadata: as registered.
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
    """A well-formed authorization request, to be decided by the user.

    Attributes:
        client: the client that requests authorization.
        redirect_uri: receives the response.
        scopes: requested; empty for the default.
        resource: requested audience of the token; ``None`` without one.
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
        """Return a record, or ``None``; ``take`` also deletes it, and only one of several callers gets it."""
        ...


class MemoryProvider:
    """Keeps everything in this process, and lets one user consent to everything.

    Args:
        subject: the user who consents; ``None`` refuses everything.
        clients: registered from the start.
        clock: returns seconds.
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
