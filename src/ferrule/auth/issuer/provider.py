"""What an authorization server keeps and decides, as a protocol of five methods, and all of it in memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["AuthorizationRequest", "MemoryProvider", "Provider", "RegisteredClient"]


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """A client that the server knows.

    Attributes:
        client_id: its name here; the URL of its metadata document where that is how it is known.
        secret: ``None`` for a public client.
        redirect_uris: where users may be sent back; compared as text, but for the port of loopback addresses.
        name: for people.
        grants: what it may do.
        method: how it authenticates at the token endpoint.
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
        client: who asks.
        redirect_uri: where the user goes afterwards.
        scopes: asked for; empty for the default.
        resource: whom the token is to be for; ``None`` if not said.
        parameters: all parameters as they came.
    """

    client: RegisteredClient
    redirect_uri: str
    scopes: tuple[str, ...]
    resource: str | None
    parameters: dict[str, str]


class Provider(Protocol):
    """The memory and the judgement of an authorization server."""

    async def get_client(self, client_id: str) -> RegisteredClient | None:
        """A client; ``None`` if there is none."""
        ...

    async def save_client(self, client: RegisteredClient) -> None:
        """Keep a newly registered client."""
        ...

    async def decide(self, request: AuthorizationRequest) -> str | None:
        """The subject who consents; ``None``: the user does not."""
        ...

    async def put(self, key: str, record: dict[str, Any], *, ttl_s: float) -> None:
        """Keep a record for some seconds; replaces what was there."""
        ...

    async def get(self, key: str, *, take: bool = False) -> dict[str, Any] | None:
        """A record; with ``take`` it is gone afterwards, and only one of several takers gets it."""
        ...


class MemoryProvider:
    """Keeps everything in this process, and lets one user consent to everything.

    Args:
        subject: the user; ``None`` refuses everything.
        clients: known from the start.
        clock: seconds.
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
