"""Token buckets of a server's store, and the later rounds of a call, which cost nothing; for limits and quotas."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from ferrule.app.middleware.result_cache import store_of
from ferrule.app.rounds.settings import RoundsSettings
from ferrule.kernel.serving.passed_states import PassedStates
from ferrule.kernel.session import RESUMED
from ferrule.stores.rates import MemoryRateLimits, SpendsTokens

if TYPE_CHECKING:
    from ferrule.kernel.server import Server, ServerRequestContext
    from ferrule.stores.store import Store

__all__ = ["LaterRounds", "SharedBuckets"]

logger = logging.getLogger("ferrule.app")

MAX_STATES: Final = 100_000
"""Maximum number of states of later rounds that a limit keeps; about 15 MB. Above it a later round counts as a call."""

STATE_KEPT_S: Final = 24 * 3600.0
"""Seconds that a state is kept: as long as any round of a call is valid by default (`StateSettings.max_s`)."""

_ALONE_S: Final = 5.0
"""Seconds that a process counts by itself before it tries an unreachable store again."""


class SharedBuckets:
    """The buckets of one limit: in the store of the server if processes share it, otherwise in this process.

    Args:
        name: distinguishes the limit from others in the same store.
        size: tokens of a full bucket.
        per_s: seconds in which an empty bucket fills.
        max_keys: maximum number of buckets in this process; the least recently used is deleted first.
        clock: returns seconds; for tests. A shared store has its own clock.
        store: used in place of the server's; ``None`` for that.

    Attributes:
        here: the buckets of this process.
    """

    def __init__(
        self,
        name: str,
        *,
        size: int,
        per_s: float,
        max_keys: int,
        clock: Callable[[], float],
        store: Store | None = None,
    ) -> None:
        self._name = name
        self._size = size
        self._per_s = per_s
        self._store = store
        self.here = MemoryRateLimits(max_keys=max_keys, clock=clock)
        self._clock = clock
        self._alone_until_s = float("-inf")

    async def take(self, server: Server[Any], key: str, *, tokens: int = 1, anyway: bool = False) -> float:
        """Take tokens from a bucket and return 0, or the seconds until there will be as many.

        While a shared store cannot be reached, this process counts by itself.

        Args:
            server: the server of the request.
            key: the key of the bucket.
            tokens, anyway: see `SpendsTokens.spend`.
        """
        store = store_of(server) if self._store is None else self._store
        if store is not None and store.is_shared and self._clock() >= self._alone_until_s:
            shared_key = f"{server.server_info.name}\n{self._name}\n{key}"
            try:
                if tokens == 1 and not anyway:
                    return await store.rates.take(shared_key, size=self._size, per_s=self._per_s)
                if isinstance(store.rates, SpendsTokens):
                    return await store.rates.spend(
                        shared_key, size=self._size, per_s=self._per_s, tokens=tokens, anyway=anyway
                    )
                logger.warning("costs are counted in this process only: %s has no spend()", type(store.rates).__name__)
            except OSError as error:
                self._alone_until_s = self._clock() + _ALONE_S
                logger.warning("rates are counted in this process only, because the store cannot be reached: %s", error)
        return await self.here.spend(key, size=self._size, per_s=self._per_s, tokens=tokens, anyway=anyway)


class LaterRounds:
    """Recognizes the requests that continue a call, by the sealed state that they bring; each state is free once.

    A state that was used is kept for `STATE_KEPT_S` and is never displaced by others, so it cannot become free again.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept_until_s: dict[bytes, float] = {}  # in the order of their ends

    def begin(self, ctx: ServerRequestContext[Any]) -> bytes | None:
        """Return the id of a request that may continue a call, for `has_continued`; ``None`` if it counts as a call.

        A repeated state counts as another call, also while its first request is served.
        """
        params: Any = ctx.params
        state: Any = cast("Mapping[str, Any]", params).get("requestState") if isinstance(params, Mapping) else None
        if ctx.method not in ctx.revision.input_required_methods or not isinstance(state, str):
            return None
        passed = ctx.server.attachments.get(PassedStates)
        # Where nothing opens the state, or recognizes it, its call would run before it is counted.
        if RoundsSettings not in ctx.server.attachments and (passed is None or not passed.has(ctx)):
            return None
        digest = hashlib.sha256(state.encode("utf-8", "surrogatepass")).digest()[:16]
        now_s = self._clock()
        while self._kept_until_s and now_s >= self._kept_until_s[first := next(iter(self._kept_until_s))]:
            del self._kept_until_s[first]
        if digest in self._kept_until_s or len(self._kept_until_s) >= MAX_STATES:
            return None
        self._kept_until_s[digest] = now_s + STATE_KEPT_S
        return digest

    def has_continued(self, ctx: ServerRequestContext[Any], digest: bytes) -> bool:
        """Return whether a request that was served did continue a call; otherwise its state was not valid.

        A state that was not valid is not kept: a sender that makes states up takes no room from others.
        """
        if RESUMED in ctx.session.notes:
            return True
        self._kept_until_s.pop(digest, None)
        return False
