"""Adds the extensions that a client declares to the parts of the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ferrule.client.parts import ClientParts
    from ferrule.client.server_messages import ProgramHooks
    from ferrule.client.settings import DeclaredExtension, Extensions

__all__ = ["as_declared", "bind_extensions"]


def as_declared(extensions: Extensions | None) -> Extensions:
    """Return the extensions in a form that can be read more than once."""
    if extensions is None or isinstance(extensions, Mapping):
        return cast("Extensions", extensions or {})
    return tuple(extensions)


def bind_extensions(
    client: Any, extensions: Extensions, hooks: ProgramHooks, parts: ClientParts
) -> dict[type[Any], Any]:
    """Register what extensions add to a client, and return its copies of them by class.

    Args:
        client: the `Client`.
        extensions: as given to it.
        hooks, parts: those of the client.

    Raises:
        ValueError: two extensions take the same method, notification or result type.
    """
    bound: dict[type[Any], Any] = {}
    if isinstance(extensions, Mapping):
        return bound
    messages = parts.messages
    for extension in extensions:
        made: DeclaredExtension = extension.bound_to(client)
        for kind in type(made).__mro__[:-1]:  # found by the class of its author, too, where a program has a subclass
            bound.setdefault(kind, made)
        _add(made.identifier, hooks.result_types, made.result_types())
        _add(made.identifier, hooks.requests, made.requests())
        _add(made.identifier, messages.of_extensions, made.notifications())
        messages.add_outdates(made.outdates())
    return bound


def _add(identifier: str, registered: dict[str, Any], more: Mapping[str, Any]) -> None:
    taken = registered.keys() & more.keys()
    if taken:
        raise ValueError(f"{identifier} cannot be added: {', '.join(sorted(taken))} is taken already")
    registered.update(more)
