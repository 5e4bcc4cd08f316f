"""Whose a prefixed name is, where several servers are one: of ``a`` and ``a_b``, ``a_b_t`` may be either's.

Never ambiguous: a name means what the last list said, and a list names each thing once. What would stand in the place
of another is left out and said in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

__all__ = ["MAX_OWNED", "NameBook", "UriBook"]

T = TypeVar("T")

logger = logging.getLogger("ferrule.client")

MAX_OWNED: Final = 10_000
"""URIs whose server is remembered: templates make any number of them. The oldest is looked for anew."""
_MAX_TOLD: Final = 256


class _Told:
    """Says something once, a bounded number of times."""

    def __init__(self) -> None:
        self._said: set[tuple[str, ...]] = set()

    def say(self, message: str, *arguments: str) -> None:
        if arguments not in self._said and len(self._said) < _MAX_TOLD:
            self._said.add(arguments)
            logger.warning(message, *arguments)


class NameBook:
    """The names of one kind: tools, or prompts.

    Args:
        kind: for the log: ``"tool"``.
        prefixes: server → prefix of its names, separator included.
    """

    def __init__(self, kind: str, prefixes: Mapping[str, str]) -> None:
        self._kind = kind
        self._prefixes = dict(prefixes)
        self._owners: dict[str, tuple[str, str]] = {}
        self._told = _Told()

    def merge(self, found: Iterable[tuple[str, Iterable[str]]]) -> dict[tuple[str, str], str]:
        """What servers have listed now.

        Args:
            found: server and its own names, for each server that answered.

        Returns:
            (server, own name) → the name to show. What is missing must not be shown.
        """
        fresh = [(server, list(names)) for server, names in found]
        answered = {server for server, _ in fresh}
        owners = {name: owner for name, owner in self._owners.items() if owner[0] not in answered}
        shown: dict[tuple[str, str], str] = {}
        # The longest prefix first: it wins whichever server answers first.
        for server, names in sorted(fresh, key=lambda one: -len(self._prefixes[one[0]])):
            for own in names:
                name = self._prefixes[server] + own
                if name in owners and owners[name] != (server, own):
                    self._told.say(
                        f"The {self._kind} %r of the server %r is left out: %r is what %r of the server %r is called",
                        own,
                        server,
                        name,
                        owners[name][1],
                        owners[name][0],
                    )
                    continue
                owners[name] = server, own
                shown[server, own] = name
        self._owners = owners
        return shown

    def owner(self, name: str) -> tuple[str, str] | None:
        """Return server and own name of a prefixed name; ``None`` if it has no server's prefix.

        As listed; of a name that was never listed, the longest prefix decides.
        """
        return self._owners.get(name) or max(self._fitting(name), key=lambda one: -len(one[1]), default=None)

    def is_open(self, name: str) -> bool:
        """Whether only a list can tell whose it is."""
        return name not in self._owners and len(self._fitting(name)) > 1

    def _fitting(self, name: str) -> list[tuple[str, str]]:
        return [(server, name[len(prefix) :]) for server, prefix in self._prefixes.items() if name.startswith(prefix)]


class UriBook:
    """URIs, or the text of templates: each belongs to the first server that listed it.

    Args:
        kind: for the log: ``"resource"``.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._owners: dict[str, str] = {}
        self._told = _Told()

    def merge(self, found: Iterable[tuple[str, list[T]]], uri_of: Callable[[T], str]) -> list[tuple[str, T]]:
        """Return server and item, for each item that is to be shown.

        Args:
            found: server and items, for each server that answered.
            uri_of: item → its URI.
        """
        shown: list[tuple[str, T]] = []
        here: set[str] = set()
        fresh = {server: (items, {str(uri_of(item)) for item in items}) for server, items in found}
        for uri, owner in list(self._owners.items()):
            if owner in fresh and uri not in fresh[owner][1]:
                del self._owners[uri]  # it has it no more; another may
        for server, (items, _) in fresh.items():
            for item in items:
                uri = str(uri_of(item))
                shown_by = self._owners.get(uri)
                if uri in here or (shown_by is not None and shown_by != server):
                    self._told.say(
                        f"The {self._kind} %r of the server %r is left out: the server %r has it, too",
                        uri,
                        server,
                        shown_by or server,
                    )
                    continue
                here.add(uri)
                self.remember(uri, server)
                shown.append((server, item))
        return shown

    def remember(self, uri: str, server: str) -> None:
        """This server has this one."""
        if uri not in self._owners and len(self._owners) >= MAX_OWNED:
            del self._owners[next(iter(self._owners))]
        self._owners[uri] = server

    def owner(self, uri: str) -> str | None:
        """Return the server of a URI by the last list; ``None`` if it is unknown."""
        return self._owners.get(uri)
