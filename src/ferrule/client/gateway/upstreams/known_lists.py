"""The last lists of one server behind a gateway, for clients that do not wait for it.

What a client gets without asking the server is noted: when the server has answered and its list is another one, the
clients are notified.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any, Final

from ferrule.client.gateway.pages import LISTS, RawList
from ferrule.client.gateway.upstreams.list_cache import KnownServer
from ferrule.wire.headers import InvalidHeaderAnnotation, ParamHeader, compile_param_plan

__all__ = ["MAX_PARTIES", "KnownLists"]

MAX_PARTIES: Final = 64
"""Clients whose own last lists are kept; the others get the last list that any client got."""


class KnownLists:
    """The last lists of one server.

    Args:
        known: what is known at the start; its lists are replaced by newer ones.
        is_per_user: a client gets no list that another one got.

    Attributes:
        known: what is known now.
        changes: another number after each time at which a list may have changed.
    """

    def __init__(self, known: KnownServer | None, *, is_per_user: bool) -> None:
        self.known = known or KnownServer()
        self._is_per_user = is_per_user
        self._of_parties: OrderedDict[tuple[Hashable, str], RawList] = OrderedDict()
        self._shown: dict[tuple[Hashable, str], RawList | None] = {}
        self._outdated: set[str] = set()
        self._fresh: dict[tuple[Hashable, str], tuple[RawList, float]] = {}
        self.changes = 0
        self._planned: RawList | None = None
        self._plans: dict[str, tuple[ParamHeader, ...]] = {}

    def header_plans(self, listed: RawList) -> Mapping[str, tuple[ParamHeader, ...]]:
        """Return name of a tool → the arguments that HTTP headers repeat (2026-07-28), for tools that have any.

        Args:
            listed: a list of tools; the last one is remembered.
        """
        if self._planned is not listed:
            self._planned = listed
            plans = {item.get("name"): _plan(item.get("inputSchema")) for item in listed.items}
            self._plans = {name: plan for name, plan in plans.items() if plan and isinstance(name, str)}
        return self._plans

    def get(self, party: Hashable, method: str) -> RawList | None:
        """Return the last list of a client, else the last one of any client; ``None`` if none is known."""
        found = self._of_parties.get((party, method))
        if found is None and not self._is_per_user:
            found = self.known.lists.get(method)
        return found

    def is_current(self, party: Hashable, method: str) -> bool:
        """Return whether a last list is known, and the server has not said since that it has changed."""
        return method not in self._outdated and self.get(party, method) is not None

    def fresh(self, party: Hashable, method: str, now: float) -> RawList | None:
        """Return a list that need not be read again for this client; ``None`` if it has to be.

        Args:
            party: the client.
            method: the method of the list.
            now: seconds on the clock of `keep_fresh`.
        """
        kept = self._fresh.get((party, method))
        return None if kept is None or kept[1] <= now else kept[0]

    def keep_fresh(self, party: Hashable, method: str, found: RawList, until: float) -> None:
        """Keep a list that the server has just sent to a client, until a time or until something may change it."""
        if len(self._fresh) >= len(LISTS) * MAX_PARTIES:
            self._fresh.clear()
        self._fresh[party, method] = found, until

    def expire(self) -> None:
        """Have every list read again: one may have changed."""
        self.changes += 1
        self._fresh.clear()

    def note_change(self, kind: str) -> None:
        """Note that the server says that its lists of a kind (``"tools"`` and so on) have changed."""
        self.expire()
        self._outdated.update(method for method in LISTS if method.startswith(f"{kind}/"))

    def note_shown(self, party: Hashable, method: str, shown: RawList | None) -> None:
        """Note what a client got without an answer of the server; ``None``: nothing."""
        if len(self._shown) < 4 * MAX_PARTIES or (party, method) in self._shown:
            self._shown[party, method] = shown

    def learn(self, party: Hashable, method: str, found: RawList) -> bool:
        """Keep a list that the server has just sent; return whether the client was shown another one."""
        self._outdated.discard(method)
        if not self._is_per_user:
            last = self.known.lists.get(method)
            if last is not None and last == found:
                found = last  # one object for all clients with the same list
            self.known.lists[method] = found
        self._of_parties[party, method] = found
        self._of_parties.move_to_end((party, method))
        while len(self._of_parties) > MAX_PARTIES:
            self._of_parties.popitem(last=False)
        missing = RawList()
        return (party, method) in self._shown and (self._shown.pop((party, method)) or missing) != found

    def shown_without_answer(self) -> set[str]:
        """Return the methods of lists that clients got without an answer of the server, and forget who got which."""
        methods = {method for _, method in self._shown}
        self._shown.clear()
        return methods


def _plan(input_schema: Any) -> tuple[ParamHeader, ...]:
    try:
        return compile_param_plan(input_schema)
    except InvalidHeaderAnnotation:
        return ()  # clients leave the tool out
