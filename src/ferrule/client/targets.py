"""Targets of a client: one frozen value for each kind of server, and one for a group of servers.

`ferrule.client.config.read_target` makes them from the value that a program passes. Nothing here connects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ferrule.client.addresses import checked_headers, checked_url
from ferrule.client.config_settings import ServerSettings
from ferrule.transports.stdio.client import StdioServer

__all__ = ["GroupTarget", "HttpTarget", "InProcessTarget", "PairTarget", "StdioTarget", "Target", "UnixTarget"]


@dataclass(frozen=True, slots=True)
class InProcessTarget:
    """A server object in this process.

    Attributes:
        server: the kernel's server.
        label: its name.
        origin: returns the transport context of the caller for whom a request is made; ``None``: the owner of this
            process makes every request.
        known_as: its name in the configuration; ``None`` outside one.
    """

    server: Any
    label: str
    origin: Callable[[], Any] | None = None
    known_as: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PairTarget:
    """A stream pair that leads to a server.

    Attributes:
        read_stream, write_stream: the two halves; see `ferrule.kernel.dispatch`.
        label: the server's name for messages.
        known_as: its name in the configuration; ``None`` outside one.
    """

    read_stream: Any
    write_stream: Any
    label: str = "stream pair"
    known_as: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """An HTTP endpoint.

    Attributes:
        url: the absolute URL.
        headers: headers to add to every request.
        is_sse: use the two-endpoint transport of 2024-11-05, as the configuration says, and not Streamable HTTP.
        auth: the credentials where the client is given none, as for ``Client(auth=…)``; ``None`` without.
        known_as: its name in the configuration; ``None`` outside one.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    is_sse: bool = False
    known_as: str | None = field(default=None, compare=False)
    auth: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        checked_url(self.url)
        checked_headers(self.headers)

    @property
    def label(self) -> str:
        """The URL without user, password, query and fragment, which may be secret."""
        from urllib.parse import urlsplit

        parts = urlsplit(self.url)
        host = parts.hostname or ""
        return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}{parts.path}"


@dataclass(frozen=True, slots=True)
class StdioTarget:
    """A process to start.

    Attributes:
        server: how to start it.
        known_as: its name in the configuration; ``None`` outside one.
    """

    server: StdioServer
    known_as: str | None = field(default=None, compare=False)

    @property
    def label(self) -> str:
        """The program and its first argument."""
        return self.server.label


@dataclass(frozen=True, slots=True)
class UnixTarget:
    """A Unix socket.

    Attributes:
        path: where the socket is.
        known_as: its name in the configuration; ``None`` outside one.
    """

    path: str
    known_as: str | None = field(default=None, compare=False)

    @property
    def label(self) -> str:
        """The path."""
        return self.path


@dataclass(frozen=True, slots=True)
class GroupTarget:
    """Several servers under their names.

    Attributes:
        servers: name → target, or the error that reading its entry raised.
        label: the name of the group for messages.
        settings: name → what the configuration says about the use of the server, for servers that have such settings.
        known_as: always ``None``: a group is not a member of another one.
    """

    servers: Mapping[str, Any]
    label: str = "group"
    settings: Mapping[str, ServerSettings] = field(default_factory=dict[str, ServerSettings])
    known_as: None = None


Target: TypeAlias = InProcessTarget | PairTarget | HttpTarget | StdioTarget | UnixTarget | GroupTarget
