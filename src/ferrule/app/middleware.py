"""Middleware ready to use: rate limits, one log line per request, timings, and masked errors.

Each is ``async (ctx, call_next) -> result`` and small enough to copy and change. Put the outermost first:
``MCPServer("x", middleware=[LogRequests(), RateLimit(100, per_s=60)])``. Notifications pass through all of them.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from ferrule.app.principals import principal_id, principal_of
from ferrule.app.running_task import current_task_id
from ferrule.kernel.context import CallNext, ServerRequestContext
from ferrule.protocol.errors import InternalError, LocalError, MCPError
from ferrule.protocol.inbound import NAME_PARAMS

__all__ = ["LogRequests", "MaskErrors", "RateLimit", "RateLimited", "Timing", "TimingOf", "sender_of"]

RATE_LIMITED_CODE: Final = 429
"""An application's own code: outside the range that JSON-RPC and the specification keep (ER-3)."""

LIMITED_METHODS: Final = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})

Context = ServerRequestContext[Any]


class RateLimited(MCPError):
    """Too many requests; ``data.retryAfterMs`` says when the next one will pass."""

    default_code = RATE_LIMITED_CODE

    def __init__(self, retry_after_s: float) -> None:
        retry_after_ms = math.ceil(retry_after_s * 1000)
        super().__init__("Too many requests; try again later", data={"retryAfterMs": retry_after_ms})


def sender_of(ctx: Context) -> str:
    """Whom a request counts for: the principal, else the session, else the address of the peer, else everybody."""
    principal = principal_id(principal_of(ctx))
    if principal is not None:
        return f"principal {principal}"
    if ctx.session.session_id is not None:
        return f"session {ctx.session.session_id}"
    client = getattr(ctx.transport, "client", None)
    return "everybody" if client is None else f"address {client[0]}"


class RateLimit:
    """At most ``requests`` in ``per_s`` seconds for each sender, spread as they like (a token bucket).

    Counts are of one process. Behind a proxy all requests come from one address: give ``key``.

    Args:
        requests: size of the bucket.
        per_s: seconds in which an empty bucket fills.
        methods: those that count.
        key: whom a request counts for.
        max_senders: buckets kept; the one unused longest goes.
        clock: seconds, for tests.
    """

    def __init__(
        self,
        requests: int,
        *,
        per_s: float,
        methods: Iterable[str] = LIMITED_METHODS,
        key: Callable[[Context], str] = sender_of,
        max_senders: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if requests < 1 or not per_s > 0:
            raise ValueError("requests is at least 1, and per_s more than 0")
        self._size = float(requests)
        self._per_request_s = per_s / requests
        self._methods = frozenset(methods)
        self._key = key
        self._max_senders = max_senders
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, ctx: Context, call_next: CallNext, /) -> Any:
        # The pass around a task's body is part of a request that was counted.
        if ctx.request_id is not None and ctx.method in self._methods and current_task_id() is None:
            self._take(self._key(ctx))
        return await call_next(ctx)

    def _take(self, key: str) -> None:
        now = self._clock()
        left, since = self._buckets.get(key, (self._size, now))
        left = min(self._size, left + (now - since) / self._per_request_s)
        is_free = left >= 1
        self._buckets[key] = (left - 1 if is_free else left, now)
        self._buckets.move_to_end(key)
        while len(self._buckets) > self._max_senders:
            self._buckets.popitem(last=False)
        if not is_free:
            raise RateLimited((1 - left) * self._per_request_s)


@dataclass(frozen=True, slots=True)
class TimingOf:
    """One request, measured.

    Attributes:
        method: such as ``tools/call``.
        name: of the tool or prompt, or the URI; ``None`` where a method has none.
        elapsed_s: seconds.
        outcome: ``"ok"``, ``"error"`` (a result with ``isError``), ``"input_required"``, the code of a protocol error,
            or the class of an exception.
    """

    method: str
    name: str | None
    elapsed_s: float
    outcome: str


class Timing:
    """Tells ``report`` how long each request took and how it ended.

    Args:
        report: called once per request, after it; must not block.
        clock: seconds, for tests.
    """

    def __init__(self, report: Callable[[TimingOf], object], *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._report = report
        self._clock = clock

    async def __call__(self, ctx: Context, call_next: CallNext, /) -> Any:
        if ctx.request_id is None:
            return await call_next(ctx)
        started = self._clock()
        try:
            result = await call_next(ctx)
        except BaseException as error:
            self._tell(ctx, started, str(error.code) if isinstance(error, MCPError) else type(error).__name__)
            raise
        self._tell(ctx, started, outcome_of(result))
        return result

    def _tell(self, ctx: Context, started: float, outcome: str) -> None:
        self._report(TimingOf(ctx.method, name_of(ctx), self._clock() - started, outcome))


class LogRequests(Timing):
    """One line per request in a log: method, name, outcome and milliseconds; never arguments, results or secrets.

    Args:
        logger: where to.
        level: of requests that went well; others are warnings.
    """

    def __init__(
        self,
        logger: logging.Logger | str = "ferrule.requests",
        *,
        level: int = logging.INFO,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(self._log, clock=clock)
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self._level = level

    def _log(self, timing: TimingOf) -> None:
        level = self._level if timing.outcome in ("ok", "input_required") else logging.WARNING
        name = "" if timing.name is None else f" {timing.name!r}"  # quoted: it comes from a peer
        self._logger.log(level, "%s%s: %s in %.1f ms", timing.method, name, timing.outcome, timing.elapsed_s * 1000)


class MaskErrors:
    """Gives unexpected exceptions a reference: the log has it with the traceback, the peer has it alone.

    Put it inside middleware of your own that may fail; tool functions are masked without it.
    """

    def __init__(self, logger: logging.Logger | str = "ferrule.errors") -> None:
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger

    async def __call__(self, ctx: Context, call_next: CallNext, /) -> Any:
        try:
            return await call_next(ctx)
        except (MCPError, LocalError):
            raise
        except Exception as error:
            reference = secrets.token_hex(6)
            self._logger.error("%s failed, reference %s", ctx.method, reference, exc_info=error)
            raise InternalError(data={"reference": reference}) from error


def name_of(ctx: Context) -> str | None:
    """The tool, prompt or URI that a request names."""
    params: Any = ctx.params
    key = NAME_PARAMS.get(ctx.method)
    if key is None or not isinstance(params, Mapping):
        return None
    found: Any = cast("Mapping[str, Any]", params).get(key)
    return found if isinstance(found, str) else None


def outcome_of(result: Any) -> str:
    """How a request ended, in a word; see `TimingOf`."""
    if isinstance(result, Mapping):
        facts = cast("Mapping[str, Any]", result)
        is_error, kind = facts.get("isError"), facts.get("resultType")
    else:
        is_error, kind = getattr(result, "is_error", None), getattr(result, "result_type", None)
    if is_error is True:
        return "error"
    return "ok" if kind in (None, "complete") else str(kind)
