"""The servers of a configuration, and a question that goes to each of them.

A server that cannot be used fails nothing but itself: it has an outcome with the reason, and the others are asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import click

from ferrule.cli.exits import EXIT_NO_CONNECTION, EXIT_OK, explain
from ferrule.cli.output import Progress
from ferrule.cli.targets import read_group, server_names

if TYPE_CHECKING:
    from ferrule.cli.connect import ConnectionOptions
    from ferrule.client.client import Client

__all__ = ["MAX_AT_ONCE", "ConfiguredServer", "ServerOutcome", "ask_each", "has_several", "servers_of", "status_of"]

MAX_AT_ONCE: Final = 8
"""Servers that are started at the same time."""

T = TypeVar("T")


class ConfiguredServer:
    """A server of a configuration.

    Attributes:
        name: its name there.
        connection: how to connect to it; ``None`` if its entry cannot be used.
        problem: why not.
        is_disabled: whether the configuration says that it is not to be used.
    """

    def __init__(
        self, name: str, connection: ConnectionOptions | None, problem: str = "", *, is_disabled: bool = False
    ) -> None:
        self.name = name
        self.connection = connection
        self.problem = problem
        self.is_disabled = is_disabled


class ServerOutcome(Generic[T]):
    """What a question to one server led to.

    Attributes:
        server: the server.
        value: the answer; ``None`` without.
        problem: why there is none; empty with an answer.
    """

    def __init__(self, server: ConfiguredServer, value: T | None, problem: str = "") -> None:
        self.server = server
        self.value = value
        self.problem = problem

    @property
    def state(self) -> str:
        """``"connected"``, ``"disabled"`` or ``"failed"``."""
        if self.server.is_disabled:
            return "disabled"
        return "failed" if self.problem else "connected"


def has_several(target: str) -> bool:
    """Return whether TARGET is a configuration with several servers, of which none is chosen."""
    return len(server_names(target)) > 1


def servers_of(connection: ConnectionOptions) -> list[ConfiguredServer]:
    """Return the servers of the configuration that is the target of a connection.

    Raises:
        click.UsageError: the configuration cannot be read; or there is a header or a token, which must not go to all.
    """
    from ferrule.client.config_file import DisabledServer
    from ferrule.client.targets import HttpTarget

    found = read_group(connection.target)
    assert found is not None
    if connection.headers or connection.token or connection.oauth:
        raise click.UsageError(
            "--header, --token (or $FERRULE_TOKEN) and --oauth are for one server: choose it with --server NAME"
        )
    made: list[ConfiguredServer] = []
    for name, target in found[1].servers.items():
        if isinstance(target, Exception):
            is_disabled = isinstance(target, DisabledServer)
            made.append(ConfiguredServer(name, None, str(target), is_disabled=is_disabled))
            continue
        one = replace(
            connection,
            target=f"{connection.target.strip().removesuffix(':')}:{name}",
            variables={} if isinstance(target, HttpTarget) else connection.variables,
            label=name,
            last_words=type(connection.last_words)(maxlen=connection.last_words.maxlen),
            bar=Progress(),
        )
        made.append(ConfiguredServer(name, one))
    return made


async def ask_each(
    servers: Sequence[ConfiguredServer], work: Callable[[ConnectionOptions, Client], Awaitable[T]], progress: Progress
) -> list[ServerOutcome[T]]:
    """Connect to each server, at most `MAX_AT_ONCE` at a time, and return the outcomes in the order of the servers.

    Args:
        servers: the servers.
        work: asks one of them.
        progress: shows how many have answered, and who has not.
    """
    import anyio

    limit = anyio.Semaphore(MAX_AT_ONCE)
    outcomes: dict[str, ServerOutcome[T]] = {}

    def show() -> None:
        waiting = ", ".join(server.name for server in servers if server.name not in outcomes)
        progress.report(len(outcomes), len(servers), f"waiting for {waiting}" if waiting else "")

    async def ask(server: ConfiguredServer) -> None:
        value: Any = None
        problem = server.problem
        if server.connection is not None:
            async with limit:
                try:
                    async with server.connection.client() as client:
                        value = await work(server.connection, client)
                except click.ClickException as error:
                    problem = error.format_message()
                except Exception as error:
                    problem = explain(error)[1]
        outcomes[server.name] = ServerOutcome(server, value, problem)
        show()

    show()
    try:
        async with anyio.create_task_group() as group:
            for server in servers:
                group.start_soon(ask, server)
    finally:
        progress.clear()
    return [outcomes[server.name] for server in servers]


def status_of(outcomes: Sequence[ServerOutcome[Any]]) -> int:
    """Return the exit status: 3 if a server failed, else 0."""
    return EXIT_NO_CONNECTION if any(outcome.state == "failed" for outcome in outcomes) else EXIT_OK
