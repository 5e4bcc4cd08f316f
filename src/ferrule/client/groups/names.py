"""Names of the items of several servers: each name is one item's, and leads back to its server.

By default an item has the name of its server as a prefix: with servers ``a`` and ``a_b``, the name ``a_b_t`` may belong
to either. The last list decides, and a list has each name once. An item whose name another one has already is left out
of the list, with a warning in the log.

With prefixes only where they are needed, the first item that is listed under a name keeps the name for as long as its
server belongs to the group; a later one of the same name has the prefix. The name with the prefix is understood in
both cases.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, TypeAlias, TypeVar

__all__ = ["MAX_OWNED", "NameBook", "PrefixMode", "UriBook", "within"]

T = TypeVar("T")

PrefixMode: TypeAlias = Literal["always", "when needed"]
"""Whether each name has the prefix of its server, or only one that another item has already."""

logger = logging.getLogger("ferrule.client")

MAX_OWNED: Final = 10_000
"""Maximum number of URIs whose server is remembered, because templates give any number; the oldest is forgotten. The
same for short names of items that no server lists any more."""
_DIGEST: Final = 8
_MAX_LOGGED: Final = 256


class _OnceLogger:
    """Logs each warning once, up to a bounded number of different ones."""

    def __init__(self) -> None:
        self._logged: set[tuple[str, ...]] = set()

    def warn(self, message: str, *arguments: str) -> None:
        if arguments not in self._logged and len(self._logged) < _MAX_LOGGED:
            self._logged.add(arguments)
            logger.warning(message, *arguments)


class NameBook:
    """The names of one kind: tools, or prompts.

    Args:
        kind: the kind of item in log messages: ``"tool"``.
        prefixes: server → prefix of its names, with the separator.
        prefix: whether each name has its prefix.
        limit: the most characters of a name; a longer one is cut and ends with a hash of the whole. ``None``: no limit.
    """

    def __init__(
        self,
        kind: str,
        prefixes: Mapping[str, str],
        *,
        prefix: PrefixMode = "always",
        limit: int | None = None,
    ) -> None:
        self._kind = kind
        self._prefixes = dict(prefixes)
        self._is_short = prefix == "when needed"
        self._limit = limit
        self._owners: dict[str, tuple[str, str]] = {}
        self._given: dict[tuple[str, str], str] = {}
        self._once = _OnceLogger()

    def set_prefixes(self, prefixes: Mapping[str, str], fresh: Iterable[str] = ()) -> None:
        """Take other servers; those that go, and those in ``fresh``, lose their names."""
        self._prefixes = dict(prefixes)
        kept = self._prefixes.keys() - set(fresh)
        self._owners = {name: owner for name, owner in self._owners.items() if owner[0] in kept}
        self._given = {owner: name for owner, name in self._given.items() if owner[0] in kept}

    def merge(self, found: Iterable[tuple[str, Iterable[str]]]) -> dict[tuple[str, str], str]:
        """Take the lists of the servers, and return the names to show.

        Args:
            found: server and its own names, for each server that responded.

        Returns:
            (server, own name) → the name to show. Items that are missing here must not be shown.
        """
        fresh = [(server, list(names)) for server, names in found if server in self._prefixes]
        if self._is_short:
            return self._merge_short(fresh)
        answered = {server for server, _ in fresh}
        owners = {name: owner for name, owner in self._owners.items() if owner[0] not in answered}
        shown: dict[tuple[str, str], str] = {}
        # The longest prefix first: it wins whichever server answers first.
        for server, names in sorted(fresh, key=lambda one: -len(self._prefixes[one[0]])):
            for own in names:
                name = self.full(server, own)
                if name in owners and owners[name] != (server, own):
                    self._leave_out(server, own, name, owners[name])
                    continue
                owners[name] = server, own
                shown[server, own] = name
        self._owners = owners
        return shown

    def _merge_short(self, fresh: list[tuple[str, list[str]]]) -> dict[tuple[str, str], str]:
        order = list(self._prefixes)
        shown: dict[tuple[str, str], str] = {}
        for server, names in sorted(fresh, key=lambda one: order.index(one[0])):
            for own in names:
                name = self._given.get((server, own)) or self._new_name(server, own)
                if name is not None:
                    self._given[server, own], self._owners[name] = name, (server, own)
                    shown[server, own] = name
        self._forget(shown)
        return shown

    def _forget(self, shown: Mapping[tuple[str, str], str]) -> None:
        """Give up the oldest names that are not shown, where more are kept than a group may remember."""
        surplus = len(self._given) - max(MAX_OWNED, len(shown))
        if surplus > 0:
            for owner in [owner for owner in self._given if owner not in shown][:surplus]:
                del self._owners[self._given.pop(owner)]

    def _new_name(self, server: str, own: str) -> str | None:
        full = self.full(server, own)
        for name in (within(own, self._limit), full):
            if name not in self._owners:
                return name
        self._leave_out(server, own, full, self._owners[full])
        return None

    def _leave_out(self, server: str, own: str, name: str, owner: tuple[str, str]) -> None:
        self._once.warn(
            f"The {self._kind} %r of the server %r is left out: %r is what %r of the server %r is called",
            own,
            server,
            name,
            owner[1],
            owner[0],
        )

    def full(self, server: str, own: str) -> str:
        """Return the name of an item with its prefix, within the limit."""
        return within(self._prefixes[server] + own, self._limit)

    def owner(self, name: str) -> tuple[str, str] | None:
        """Return server and own name of a name; ``None`` if it has no server's prefix.

        The last list decides; for a name that was never listed, the longest prefix.
        """
        return self._owners.get(name) or max(self._fitting(name), key=lambda one: -len(one[1]), default=None)

    def is_open(self, name: str) -> bool:
        """Return whether a list has to be read to find the server of a name."""
        if name in self._owners:
            return False
        fitting = len(self._fitting(name))
        return fitting > 1 or (self._is_short and not fitting) or len(name) == self._limit

    def _fitting(self, name: str) -> list[tuple[str, str]]:
        return [(server, name[len(prefix) :]) for server, prefix in self._prefixes.items() if name.startswith(prefix)]


def within(name: str, limit: int | None) -> str:
    """Return a name of at most ``limit`` characters: a longer one is cut, and ends with 8 characters of its SHA-256."""
    if limit is None or len(name) <= limit:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{name[: limit - _DIGEST - 1]}_{digest}"


class UriBook:
    """URIs, or the text of templates: each belongs to the first server that listed it.

    Args:
        kind: the kind of item in log messages: ``"resource"``.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._owners: dict[str, str] = {}
        self._once = _OnceLogger()

    def merge(self, found: Iterable[tuple[str, list[T]]], uri_of: Callable[[T], str]) -> list[tuple[str, T]]:
        """Return server and item, for each item that is to be shown.

        Args:
            found: server and items, for each server that responded.
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
                    self._once.warn(
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

    def keep(self, servers: Iterable[str]) -> None:
        """Forget the URIs of every other server."""
        kept = set(servers)
        self._owners = {uri: owner for uri, owner in self._owners.items() if owner in kept}

    def remember(self, uri: str, server: str) -> None:
        """Remember that a server has a URI."""
        if uri not in self._owners and len(self._owners) >= MAX_OWNED:
            del self._owners[next(iter(self._owners))]
        self._owners[uri] = server

    def owner(self, uri: str) -> str | None:
        """Return the server of a URI by the last list; ``None`` if it is unknown."""
        return self._owners.get(uri)
