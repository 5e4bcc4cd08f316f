"""The tools behind a gateway as its search knows them: for each client the list that this client would get.

A list is kept as the bytes of its definitions, once for all clients that get the same. It is used until the servers
behind say that it changed, and no longer than they allow (`ttlMs`).
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct

from ferrule.search.definitions import has_page, is_for_models, summary_of
from ferrule.search.index import ToolIndex, indexed_definition
from ferrule.wire.codec import decode, encode
from ferrule.wire.json_types import is_mapping

if TYPE_CHECKING:
    from ferrule.kernel.server import ServerRequestContext

__all__ = ["MAX_KEPT_BYTES", "MAX_PARTIES", "MAX_TOOLS", "Catalogue", "CatalogueStore", "KnownList"]

logger = logging.getLogger("ferrule.client.gateway")

MAX_TOOLS: Final = 20_000
"""Tools of one list that are searched."""

MAX_LIST_BYTES: Final = 32 << 20
"""Bytes of the definitions of one list that is searched, as JSON."""

MAX_KEPT_BYTES: Final = 64 << 20
"""Bytes of the definitions of all lists that are kept, as JSON; the list that was used longest ago is dropped first."""

MAX_PARTIES: Final = 64
"""Clients (sessions, or principals with the same capabilities) whose list is kept."""


class Catalogue:
    """The tools of one list.

    Args:
        definitions: the raw definitions; the first of each name counts.

    Attributes:
        digest: the same for lists with the same members in the same order.
        size: bytes of the definitions that are kept.
        count: how many tools the list has, with those beyond the bounds.
        has_tasks: whether a call of one of them can become a task (2025-11-25).
        listed: names of the tools that are listed beside the search: those with a page, and those that only pages call.
    """

    def __init__(self, definitions: Iterable[Any]) -> None:
        kept: dict[str, bytes] = {}
        hashed = sha256()
        self.size = self.count = 0
        self.has_tasks = False
        self.listed: list[str] = []
        self._not_for_models: set[str] = set()
        for definition in definitions:
            name: Any = definition.get("name") if is_mapping(definition) else None
            if not isinstance(name, str) or name in kept:
                continue
            self.count += 1
            written = encode(definition)
            if len(kept) < MAX_TOOLS and self.size + len(written) <= MAX_LIST_BYTES:
                kept[name] = written
                self.size += len(written)
                hashed.update(b"%d:" % len(written))
                hashed.update(written)
                self.has_tasks = self.has_tasks or _can_be_task(definition)
                self._note_page(name, definition.get("_meta"))
        if len(kept) < self.count:
            logger.warning("%d tools of %d are left out of the search", self.count - len(kept), self.count)
        self._kept = kept
        self._index: ToolIndex | None = None
        self.digest = hashed.digest()

    def _note_page(self, name: str, meta: Any) -> None:
        is_hidden = not is_for_models(meta)
        if is_hidden:
            self._not_for_models.add(name)
        if is_hidden or has_page(meta):
            self.listed.append(name)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    def is_found(self, name: str) -> bool:
        """Return whether the list has a tool that models may find and call through the search."""
        return name in self._kept and name not in self._not_for_models

    @property
    def found(self) -> int:
        """The number of tools that models may find."""
        return len(self._kept) - len(self._not_for_models)

    @property
    def names(self) -> Iterable[str]:
        """The names of the tools that models may find, in the order of the list."""
        return (name for name in self._kept if name not in self._not_for_models)

    def definition(self, name: str) -> dict[str, Any] | None:
        """Return the raw definition of a tool; ``None`` for a name that is not in the list."""
        written = self._kept.get(name)
        return None if written is None else cast("dict[str, Any]", decode(written))

    def ranked(self, query: str) -> list[str]:
        """Return the names of the tools that a query finds, the best first; all in order for an empty one."""
        if not query.strip():
            return sorted(self.names)
        if self._index is None:
            self._index = ToolIndex(indexed_definition(decode(self._kept[name])) for name in self.names)
        return self._index.search(query)

    def summary(self, name: str) -> dict[str, Any]:
        """Return what a search shows of a tool in the list."""
        definition: Any = self.definition(name)
        texts = (definition.get("description"), definition.get("title"))
        schema: Any = definition.get("inputSchema")
        text = next((text for text in texts if isinstance(text, str) and text), "")
        return summary_of(name, text, schema if is_mapping(schema) else {})


def _can_be_task(definition: Mapping[str, Any]) -> bool:
    execution: Any = definition.get("execution")
    return is_mapping(execution) and execution.get("taskSupport") in ("optional", "required")


class KnownList(Struct, eq=False):
    """What is known of one client's list.

    Attributes:
        catalogue: its tools.
        is_searched: whether the client is shown a search in place of them.
        ctx: the request that asked for it last.
        generation: how often the tools had changed then.
        expires: until when it may be used, by the clock of `time.monotonic`.
    """

    catalogue: Catalogue
    is_searched: bool
    ctx: ServerRequestContext[Any]
    generation: int
    expires: float


class CatalogueStore:
    """The lists of all clients, within bounds.

    Attributes:
        generation: how often the tools have changed.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._known: OrderedDict[Any, KnownList] = OrderedDict()
        self._catalogues: OrderedDict[bytes, Catalogue] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the definitions that are kept."""
        return sum(each.size for each in self._catalogues.values())

    def known(self) -> list[tuple[Any, KnownList]]:
        """Return every client with its list, the one that was used last at the end."""
        return list(self._known.items())

    def get(self, party: Any, *, fresh: bool) -> KnownList | None:
        """Return the list of a client, unless the tools have changed since.

        Args:
            party: the client.
            fresh: only one that has not expired.
        """
        found = self._known.get(party)
        if found is None or found.generation != self.generation or (fresh and monotonic() >= found.expires):
            return None
        self._known.move_to_end(party)
        self._catalogues.move_to_end(found.catalogue.digest)
        return found

    def keep(self, party: Any, found: KnownList) -> KnownList:
        """Keep a list, and return it; its catalogue is that of an equal list where there is one."""
        kept = self._catalogues.setdefault(found.catalogue.digest, found.catalogue)
        self._catalogues.move_to_end(kept.digest)
        found.catalogue = kept
        self._known[party] = found
        self._known.move_to_end(party)
        while len(self._known) > MAX_PARTIES:
            self._known.popitem(last=False)
        self._drop_unused()
        while len(self._catalogues) > 1 and self.kept_bytes > MAX_KEPT_BYTES:
            digest, _ = self._catalogues.popitem(last=False)
            for each in [each for each, known in self._known.items() if known.catalogue.digest == digest]:
                del self._known[each]
        return found

    def forget(self, party: Any) -> None:
        """Drop the list of a client that is gone."""
        if self._known.pop(party, None) is not None:
            self._drop_unused()

    def clear(self) -> None:
        """Drop every list."""
        self._known.clear()
        self._catalogues.clear()

    def _drop_unused(self) -> None:
        used = {known.catalogue.digest for known in self._known.values()}
        for digest in [digest for digest in self._catalogues if digest not in used]:
            del self._catalogues[digest]
