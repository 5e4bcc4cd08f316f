"""Handlers of a program that serve several servers: they get the name of the one that sends a message.

Questions have the server's name already (`ServerQuestion.server`). A handler of log messages, notifications or progress
that takes one more argument than for one server gets the name in the configuration as the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from ferrule.client.options import ClientOptions
from ferrule.kernel.signatures import parameters_of

__all__ = ["handlers_for"]

_ARGUMENTS: Final[Mapping[str, int]] = {"log_handler": 1, "message_handler": 2, "progress_handler": 3}
"""Option → the arguments that its function has for one server."""


def handlers_for(server: str, options: ClientOptions) -> ClientOptions:
    """Return the options of a client, with handlers that pass on the server's name where the program wants it.

    Args:
        server: the name of the server in the configuration.
        options: the options of every client of the group.
    """
    given = cast("Mapping[str, Any]", options)
    bound = {
        option: _with_server(given[option], server)
        for option, count in _ARGUMENTS.items()
        if given.get(option) is not None and _takes(given[option], count + 1)
    }
    return cast("ClientOptions", {**given, **bound})


def _with_server(handler: Callable[..., Any], server: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return handler(*arguments, server)

    return call


def _takes(handler: Callable[..., Any], count: int) -> bool:
    """Return whether a function needs so many positional arguments: those with a default are its own affair."""
    try:
        parameters = parameters_of(handler)
    except (TypeError, ValueError):
        return False
    needed = [
        each
        for each in parameters
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) and each.default is each.empty
    ]
    return len(needed) == count
