"""The lists of several servers as one: a server that is slow or away delays no other.

Each connected server is asked at the same time. A list waits for one server a short while; after it the server's last
list is taken, if it has one, and the request goes on in the background for the next list. A server whose request fails
counts as away until it answers it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

import anyio

from ferrule.client.client import Client
from ferrule.client.concurrent import gather
from ferrule.client.groups.member import GroupMember
from ferrule.client.supervision.opening import in_time
from ferrule.protocol.errors import FerruleError, MCPError, RequestTimeout
from ferrule.transports.background import Background
from ferrule.wire.jsonrpc import JsonRpcErrorCode

__all__ = ["LIST_S", "MemberLists"]

logger = logging.getLogger("ferrule.client")

T = TypeVar("T")

LIST_S: Final = 1.0
"""Seconds that a list waits for one server."""


class MemberLists:
    """Asks the servers of a group for their lists.

    Args:
        wait_s: seconds that a list waits for one server.
        limit_s: seconds after which a request for a list has failed.
    """

    def __init__(self, wait_s: float, limit_s: float) -> None:
        self._wait_s = wait_s
        self._limit_s = limit_s

    async def of_all(
        self,
        members: Iterable[GroupMember],
        kind: str,
        ask: Callable[[Client], Awaitable[list[T]]],
        background: Background,
    ) -> list[tuple[str, list[T]]]:
        """Return server and items, for each connected server that has a list.

        Args:
            members: the servers.
            kind: what is listed, for the log and as the name of the list: ``"tools"``.
            ask: requests the list from one server.
            background: runs the requests.
        """

        async def one(member: GroupMember) -> tuple[str, list[T]] | None:
            items = await self._of_one(member, kind, ask, background)
            return None if items is None else (member.name, items)

        found = await gather([one(member) for member in members if member.is_up])
        return [each for each in found if each is not None]

    async def _of_one(
        self,
        member: GroupMember,
        kind: str,
        ask: Callable[[Client], Awaitable[list[T]]],
        background: Background,
    ) -> list[T] | None:
        if kind in member.late:
            return member.known.get(kind)
        done = anyio.Event()

        async def fetch() -> None:
            try:
                await self._fetch(member, kind, ask)
            finally:
                member.late.discard(kind)
                done.set()

        task = background.start(fetch(), "ferrule-group-list")
        is_late = False
        try:
            if not await in_time(done.wait, self._wait_s):
                is_late = True
                member.late.add(kind)
                logger.info(
                    "The server %r has not listed its %s within %g s: the list goes on without waiting for it",
                    member.name,
                    kind,
                    self._wait_s,
                )
        finally:
            if not is_late and not done.is_set():  # the caller was cancelled
                task.cancel()
        return member.known.get(kind) if member.is_up else None

    async def _fetch(self, member: GroupMember, kind: str, ask: Callable[[Client], Awaitable[list[T]]]) -> None:
        client = member.client
        assert client is not None

        async def attempt() -> None:
            await member.connect()
            with anyio.fail_after(self._limit_s):
                member.known[kind] = await ask(client)

        try:
            with anyio.fail_after(self._limit_s):
                member.known[kind] = await ask(client)
            member.keeper.succeed()
        except TimeoutError:
            member.keeper.lose(RequestTimeout(f"the list of {kind}", self._limit_s), attempt)
        except MCPError as error:
            if error.code == JsonRpcErrorCode.METHOD_NOT_FOUND:  # a server without this method
                member.known[kind] = []
                return
            member.known.pop(kind, None)
            logger.warning("The server %r did not answer: %s", member.name, error)
        except FerruleError as error:
            member.keeper.lose(error, attempt)
