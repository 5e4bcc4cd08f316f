"""The transports that ``run`` and ``run_async`` know by name; a new transport adds its class and an entry here.

`MCPServer.run` and `ferrule.transports.hosting.running.run` both use this table. Each method imports the modules of its
transport, so that a server on stdio loads no module of HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from ferrule._imports import without_collector
from ferrule._options import check_options

if TYPE_CHECKING:
    from ferrule.kernel.server import Server
    from ferrule.transports.asgi.endpoint import HttpEndpoint

__all__ = ["TRANSPORTS", "MakeEndpoint", "NamedTransport", "transport_named"]

MakeEndpoint: TypeAlias = "Callable[..., HttpEndpoint]"
"""Returns the HTTP endpoint of the server, called with the options of `HttpOptions`."""


class NamedTransport(Protocol):
    """A transport as ``run("name")`` uses it.

    Attributes:
        has_workers: whether several processes can serve it on one port.
    """

    has_workers: bool

    def check(self, call: str, options: Mapping[str, Any], *also: str) -> None:
        """Refuse an option that this transport does not have.

        Args:
            call: the called function, ``"run"`` or ``"run_async"``.
            options: the given options.
            also: other parameters of that function, for a suggestion.

        Raises:
            TypeError: there is no such option.
        """
        ...

    def run(self, server: Server[Any], make: MakeEndpoint, host: str, port: int, options: dict[str, Any]) -> None:
        """Serve until the input ends or a signal comes, in an event loop of its own.

        Args:
            server: the low-level server.
            make: returns the HTTP endpoint; not used by stdio.
            host, port: the address for HTTP; port 0 means a free port.
            options: the options of the transport, which `check` has accepted.

        Raises:
            OSError: the address cannot be bound.
        """
        ...

    async def serve(
        self, server: Server[Any], make: MakeEndpoint, host: str, port: int, options: dict[str, Any]
    ) -> None:
        """Serve in the running event loop, until cancelled; for arguments and errors see `run`."""
        ...


class _Stdio:
    has_workers = False

    def check(self, call: str, options: Mapping[str, Any], *also: str) -> None:
        if options:  # imported only then: a start without options saves the import
            from ferrule.transports.hosting.options import StdioOptions

            check_options(f'{call}("stdio")', options, StdioOptions)

    def run(self, server: Server[Any], make: MakeEndpoint, host: str, port: int, options: dict[str, Any]) -> None:
        with without_collector():
            import_module("asyncio")  # which the next one imports where it runs
            from ferrule.transports.stdio.server import run_stdio

        run_stdio(server, **options)

    async def serve(
        self, server: Server[Any], make: MakeEndpoint, host: str, port: int, options: dict[str, Any]
    ) -> None:
        from ferrule.transports.stdio.server import serve_stdio

        await serve_stdio(server, **options)


class _Http:
    has_workers = True

    def check(self, call: str, options: Mapping[str, Any], *also: str) -> None:
        from ferrule.transports.hosting.options import HttpRunOptions

        check_options(f'{call}("http")', options, HttpRunOptions, "host", "port", *also)

    def run(self, server: Server[Any], make: MakeEndpoint, host: str, port: int, options: dict[str, Any]) -> None:
        from ferrule.transports.hosting.running import run_endpoint

        run_endpoint(make, host, port, options)

    async def serve(
        self, server: Server[Any], make: MakeEndpoint, host: str, port: int, options: dict[str, Any]
    ) -> None:
        from ferrule.transports.hosting.running import serve_endpoint

        await serve_endpoint(make, host, port, options)


TRANSPORTS: Final[Mapping[str, NamedTransport]] = {"stdio": _Stdio(), "http": _Http()}


def transport_named(name: str) -> NamedTransport:
    """Return the transport of a name.

    Raises:
        ValueError: there is no such transport.
    """
    found = TRANSPORTS.get(name)
    if found is None:
        raise ValueError(f"transport={name!r}: expected {' or '.join(map(repr, TRANSPORTS))}")
    return found
