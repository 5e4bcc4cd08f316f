"""`Quota`: how much each subject, tenant, tool or client may use in a time, counted for all workers together."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import Struct

from ferrule.app.execution.running_task import is_task_body
from ferrule.app.middleware.access import AccessRequest, directory_of, members_of, normal_name
from ferrule.app.middleware.buckets import LaterRounds, SharedBuckets
from ferrule.app.middleware.builtin import LIMITED_METHODS, RateLimited, sender_of
from ferrule.app.middleware.names import names_of
from ferrule.kernel.serving.members import ServedMember, current_verdict
from ferrule.protocol.errors import MCPError
from ferrule.stores.store import Store, open_store
from ferrule.wire.codec import encode

if TYPE_CHECKING:
    from ferrule.kernel.server import CallNext, ServerRequestContext

__all__ = ["Quota", "QuotaExceeded", "QuotaPart", "Usage"]

QuotaPart: TypeAlias = Literal["subject", "tenant", "tool", "client"]
"""What a quota counts for. ``"tool"`` is the name of the tool or prompt, the URI of the resource, or the template that
serves it."""

_PARTS: Final = ("subject", "tenant", "tool", "client")

Cost: TypeAlias = "int | Callable[[AccessRequest], int | Awaitable[int]]"


class QuotaExceeded(RateLimited):
    """The quota is used up; ``data.retryAfterMs`` is the time in milliseconds until a request like this will pass.

    Args:
        retry_after_s: that time in seconds; ``None``: no request like this will ever pass, and there is no ``data``.
    """

    def __init__(self, retry_after_s: float | None) -> None:
        if retry_after_s is None:
            MCPError.__init__(self, "This request costs more than the whole quota")
            return
        super().__init__(retry_after_s)
        self.message = "The quota is used up; try again later"
        self.args = (self.message,)


class Usage(Struct, frozen=True, kw_only=True):
    """What one request has used; the argument of ``cost_after``.

    Attributes:
        request: the request.
        duration_s: seconds that it took.
        result_bytes: the size of its result as JSON; 0 for a request that failed.
        failed: whether it ended with an error of the protocol or an exception.
    """

    request: AccessRequest
    duration_s: float
    result_bytes: int
    failed: bool


class Quota:
    """A middleware that allows requests of ``limit`` tokens in ``window_s`` seconds, for each value of ``per``.

    It is a token bucket: a full one has ``limit`` tokens, also for a burst, and an empty one fills evenly in
    ``window_s``. Requests are counted in the store of the server. If workers share one, they share the quota; while it
    cannot be reached, each process counts by itself.

    Put it behind `Audit` and before `Policy`: then a call that a policy denies costs as much as any other, so that
    a log cannot be filled by calls that are denied. Behind the policy, denied calls are free.

    A call counts once, however many questions it asks, and once as a task. Where a part of ``per`` is not known, as
    the subject of an anonymous sender, the address counts in its place, else the session.

    Args:
        limit: tokens of a full bucket, at least 1.
        window_s: seconds in which an empty bucket fills.
        per: ``"subject"``, ``"tenant"``, ``"tool"`` or ``"client"``, or several of them, which count together:
            ``("tenant", "tool")`` is a bucket for each tool of each tenant.
        cost: tokens of one request: a number, or a function of the request, sync or async, which must not block. 0
            is free. A request that costs more than ``limit`` is always refused.
        cost_after: function of what a request has used, which returns further tokens to take after it. They are taken
            also where there are fewer: then the bucket is empty, without a debt.
        methods: the methods that count.
        store: a store or its URL in place of the server's. A gateway has no store of its own.
        name: distinguishes two quotas with the same numbers, which would count together otherwise.
        max_keys: maximum number of buckets in this process; the least recently used is deleted first.
        clock: returns seconds; for tests. A shared store has its own clock.

    Raises:
        ValueError: a number is too small, or ``per`` names something else.
        StoreUrlError: ``store`` is a URL that names no store.
    """

    def __init__(
        self,
        limit: int,
        *,
        window_s: float,
        per: QuotaPart | Iterable[QuotaPart] = "subject",
        cost: Cost = 1,
        cost_after: Callable[[Usage], int] | None = None,
        methods: Iterable[str] = LIMITED_METHODS,
        store: Store | str | None = None,
        name: str = "",
        max_keys: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts = names_of(per)
        unknown = [part for part in self._parts if part not in _PARTS]
        if unknown or not self._parts:
            raise ValueError(f"per= is one or more of {', '.join(_PARTS)}")
        if limit < 1 or not window_s > 0 or (isinstance(cost, int) and cost < 0):
            raise ValueError("limit is at least 1, window_s more than 0, and cost at least 0")
        self._limit = limit
        self._cost = cost
        self._cost_after = cost_after
        self._methods = frozenset(names_of(methods))
        self._clock = clock
        self._rounds = LaterRounds(clock)
        self._buckets = SharedBuckets(
            f"quota {name} {limit}/{window_s:g} {' '.join(self._parts)} {' '.join(sorted(self._methods))}",
            size=limit,
            per_s=window_s,
            max_keys=max_keys,
            clock=clock,
            store=open_store(store) if isinstance(store, str) else store,
        )

    async def __call__(self, ctx: ServerRequestContext[Any], call_next: CallNext, /) -> Any:
        """See `ferrule.kernel.server.ServerMiddleware`."""
        # Middleware runs a second time around a task's body, whose request was counted before.
        if ctx.request_id is None or ctx.method not in self._methods or is_task_body(ctx):
            return await call_next(ctx)
        request, counted = await _request_of(ctx)
        key = self._key(ctx, request, counted)
        state = self._rounds.begin(ctx)
        if state is None:
            await self._charge(ctx, key, request)
        if self._cost_after is None and state is None:
            return await call_next(ctx)
        began = self._clock()
        size, failed = 0, True
        try:
            result = await call_next(ctx)
            size, failed = len(encode(result)) if self._cost_after is not None else 0, False
            return result
        finally:
            if state is not None and not self._rounds.has_continued(ctx, state):
                await self._charge(ctx, key, request)
            if self._cost_after is not None:
                usage = Usage(request=request, duration_s=self._clock() - began, result_bytes=size, failed=failed)
                await self._buckets.take(ctx.server, key, tokens=max(0, self._cost_after(usage)), anyway=True)

    async def _charge(self, ctx: ServerRequestContext[Any], key: str, request: AccessRequest) -> None:
        cost: Any = self._cost
        if callable(cost):
            cost = cost(request)
            cost = await cost if isawaitable(cost) else cost
        tokens = math.ceil(cost)
        if tokens <= 0:
            return
        wait_s = None if tokens > self._limit else await self._buckets.take(ctx.server, key, tokens=tokens)
        if wait_s == 0:
            return
        verdict = current_verdict.get()
        if verdict is not None:
            verdict.decision = "over_quota"
            verdict.reason = f"{tokens} of {self._limit} tokens per {', '.join(self._parts)}"
        raise QuotaExceeded(wait_s)

    def _key(self, ctx: ServerRequestContext[Any], request: AccessRequest, counted: str) -> str:
        values = {
            "subject": request.subject,
            "tenant": request.tenant,
            "tool": counted,
            "client": request.client,
        }
        found = [f"{part} {sender_of(ctx) if values[part] is None else values[part]}" for part in self._parts]
        # The same subject of two tenants is two senders.
        return "\n".join([f"tenant {request.tenant or ''}", *found])


async def _request_of(ctx: ServerRequestContext[Any]) -> tuple[AccessRequest, str]:
    """Return the facts of a request, and the member that it counts for."""
    named = members_of(ctx)
    if not named:
        return AccessRequest.of(ctx, ServedMember("tool", "", {}), {}), ""
    kind, name, arguments = named[0]
    directory = directory_of(ctx.server)
    found = None if directory is None else await directory.find(ctx, kind, name)
    member = found or ServedMember(kind, normal_name(kind, name), {})
    request = AccessRequest.of(ctx, member, arguments)
    # A peer can invent names and URIs without end: with a bucket for each, they would multiply a quota.
    if found is None and directory is not None and not (kind == "tool" and directory.is_search(name)):
        return request, "unknown"
    return request, f"{kind} {member.name if member.template is None else member.template}"
