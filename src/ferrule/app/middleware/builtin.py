"""Middleware: rate limits, cached results, one log line for each request, timings, and masked errors.

Each is ``async (ctx, call_next) -> result`` and short enough to copy and change. The outermost comes first:
``MCPServer("x", middleware=[LogRequests(), RateLimit(100, per_s=60)])``. Notifications pass through all of them.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from ferrule.app.authorization.principals import principal_id
from ferrule.app.components.index import shown_name
from ferrule.app.execution.running_task import current_task_id, is_task_body
from ferrule.app.middleware.buckets import LaterRounds, SharedBuckets
from ferrule.app.middleware.names import names_of
from ferrule.app.middleware.result_cache import CacheResults, store_of
from ferrule.kernel.dispatch import TransportContext
from ferrule.kernel.fast_path.fast_middleware import FastMiddleware, PlainCall
from ferrule.kernel.server import CallNext, ServerRequestContext
from ferrule.protocol.errors import InternalError, LocalError, MCPError
from ferrule.protocol.inbound import NAME_PARAMS
from ferrule.wire.jsonrpc import shown_text
from ferrule.wire.plain_calls import PLAIN_METHOD

__all__ = [
    "CacheResults",
    "LogRequests",
    "MaskErrors",
    "RateLimit",
    "RateLimited",
    "Timing",
    "TimingOf",
    "name_of",
    "outcome_of",
    "sender_of",
]

logger = logging.getLogger("ferrule.app")

RATE_LIMITED_CODE: Final = 429
"""An application's code, outside the range that JSON-RPC and the specification reserve (2026-07-28, "Overview")."""

LIMITED_METHODS: Final = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})

Context = ServerRequestContext[Any]


class RateLimited(MCPError):
    """Too many requests; ``data.retryAfterMs`` is the time in milliseconds until the next one will pass."""

    default_code = RATE_LIMITED_CODE

    def __init__(self, retry_after_s: float) -> None:
        retry_after_ms = math.ceil(retry_after_s * 1000)
        super().__init__("Too many requests; try again later", data={"retryAfterMs": retry_after_ms})


def sender_of(ctx: Context) -> str:
    """Return the sender that a request counts for: the principal, else the peer's address, else the session.

    Without any of these all requests count together. The address comes before the session, because a client can open
    any number of sessions. Of an IPv6 address the network (/64) counts, since one subscriber has the whole network.
    """
    return _sender(ctx.transport, ctx.session.session_id)


def _sender(transport: TransportContext, session_id: str | None) -> str:
    principal = principal_id(transport.principal)
    if principal is not None:
        return f"principal {principal}"
    client = transport.client
    if client is not None and client[0]:
        return f"address {_network_of(str(client[0]))}"
    return "everybody" if session_id is None else f"session {session_id}"


def _network_of(address: str) -> str:
    """Return an IPv4 address as it is, also one written as IPv6; an IPv6 address by its first half."""
    if ":" not in address:
        return address
    from ipaddress import IPv6Address

    try:
        found = IPv6Address(address)
    except ValueError:
        return address
    return str(found.ipv4_mapped) if found.ipv4_mapped else f"{IPv6Address(int(found) >> 64 << 64)}/64"


class RateLimit(FastMiddleware):
    """Allows ``requests`` requests in ``per_s`` seconds for each sender, also in a burst (a token bucket).

    Requests are counted in the server's store: if workers share one (``store="redis://…"`` or ``"sqlite:///…"``), the
    limit is that of all workers together, otherwise that of each process. While a shared store cannot be reached, each
    process counts by itself.

    A call counts once, however many questions it asks: the later rounds of a modern call have its sealed state and are
    not counted. A request with a used or invalid state counts.

    Behind a proxy that is not among ``trusted_proxies`` all anonymous requests come from one address: add the proxy
    there, or set ``key``.

    Args:
        requests: size of the bucket.
        per_s: seconds in which an empty bucket fills.
        methods: the methods that count.
        key: returns the sender that a request counts for; by default `sender_of`.
        name: distinguishes two limits with the same numbers and methods, which would count together otherwise.
        max_senders: maximum number of buckets in this process; the least recently used is deleted first.
        clock: returns seconds; for tests. A shared store has its own clock.

    Raises:
        ValueError: ``requests`` is less than 1, or ``per_s`` is not positive.
    """

    def __init__(
        self,
        requests: int,
        *,
        per_s: float,
        methods: Iterable[str] = LIMITED_METHODS,
        key: Callable[[Context], str] = sender_of,
        name: str = "",
        max_senders: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if requests < 1 or not per_s > 0:
            raise ValueError("requests is at least 1, and per_s more than 0")
        self._requests = requests
        self._per_s = per_s
        self._methods = frozenset(names_of(methods))
        self._key = key
        self._buckets = SharedBuckets(
            f"{name} {requests}/{per_s:g} {' '.join(sorted(self._methods))}",
            size=requests,
            per_s=per_s,
            max_keys=max_senders,
            clock=clock,
        )
        self._here = self._buckets.here
        self._rounds = LaterRounds(clock)

    async def __call__(self, ctx: Context, call_next: CallNext, /) -> Any:
        # Middleware runs a second time around a task's body, whose request was counted before.
        if ctx.request_id is None or ctx.method not in self._methods or is_task_body(ctx):
            return await call_next(ctx)
        state = self._rounds.begin(ctx)
        if state is None:
            await self._count(ctx)
            return await call_next(ctx)
        try:
            return await call_next(ctx)
        finally:
            if not self._rounds.has_continued(ctx, state):
                await self._count(ctx)

    # -- plain calls on the fast path; they are no later rounds --------------------------------------------------------

    def admits_fast(self, call: PlainCall) -> bool:
        """Return whether a call is not counted, or is counted in this process and is within the limit."""
        if PLAIN_METHOD not in self._methods:
            return True
        if self._key is not sender_of or current_task_id() is not None:
            return False
        store = store_of(call.server)
        is_here = store is None or not store.is_shared
        return is_here and self._here.has_token(
            _sender(call.transport, call.session_id), size=self._requests, per_s=self._per_s
        )

    def enter_fast(self, call: PlainCall) -> None:
        """Count a call.

        Raises:
            RateLimited: this instance is in the list of middleware twice, and the first has taken the last token.
        """
        if PLAIN_METHOD in self._methods:
            sender = _sender(call.transport, call.session_id)
            wait_s = self._here.take_now(sender, size=self._requests, per_s=self._per_s)
            if wait_s > 0:
                raise RateLimited(wait_s)

    def resume_fast(self, ctx: Context, call_next: CallNext, kept: Any) -> Awaitable[Any]:
        """Continue without counting: `enter_fast` has counted the call."""
        return call_next(ctx)

    async def _count(self, ctx: Context) -> None:
        wait_s = await self._buckets.take(ctx.server, self._key(ctx))
        if wait_s > 0:
            raise RateLimited(wait_s)


@dataclass(frozen=True, slots=True)
class TimingOf:
    """The measurement of one request.

    Attributes:
        method: such as ``tools/call``.
        name: the name of the tool or prompt, or the URI; ``None`` for a method without one.
        elapsed_s: its duration in seconds.
        outcome: ``"ok"``, ``"error"`` (a result with ``isError``), ``"input_required"``, the code of a protocol error,
            or the class of an exception.
    """

    method: str
    name: str | None
    elapsed_s: float
    outcome: str


class Timing(FastMiddleware):
    """Calls ``report`` with the duration and the outcome of each request.

    Args:
        report: called after each request; must not block. What it raises is logged.
        clock: returns seconds; for tests.
    """

    def __init__(self, report: Callable[[TimingOf], object], *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._report = report
        self._clock = clock

    async def __call__(self, ctx: Context, call_next: CallNext, /) -> Any:
        return await (call_next(ctx) if ctx.request_id is None else self.resume_fast(ctx, call_next, self._clock()))

    def enter_fast(self, call: PlainCall) -> float:
        """Return the time of the start, in seconds of the clock."""
        return self._clock()

    def leave_fast(self, call: PlainCall, kept: float) -> None:
        """Report a call whose function has returned a plain value."""
        self._tell(TimingOf(PLAIN_METHOD, call.name, self._clock() - kept, "ok"))

    async def resume_fast(self, ctx: Context, call_next: CallNext, kept: float) -> Any:
        """Serve and report a request that began at the time ``kept``; return its result."""
        try:
            result = await call_next(ctx)
        except BaseException as error:
            self._report_timing(ctx, kept, str(error.code) if isinstance(error, MCPError) else type(error).__name__)
            raise
        self._report_timing(ctx, kept, outcome_of(result))
        return result

    def _report_timing(self, ctx: Context, started: float, outcome: str) -> None:
        self._tell(TimingOf(ctx.method, name_of(ctx), self._clock() - started, outcome))

    def _tell(self, timing: TimingOf) -> None:
        try:
            self._report(timing)
        except Exception:
            logger.exception("The duration of a request could not be reported")


class LogRequests(Timing):
    """Logs one line for each request: method, name, outcome and milliseconds; never arguments, results or secrets.

    Args:
        logger: the logger to use.
        level: the log level of requests without an error; the others are logged as warnings.
        clock: returns seconds; for tests.
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
        name = "" if timing.name is None else f" {shown_name(timing.name)!r}"  # quoted: it comes from a peer
        method = shown_text(timing.method)
        self._logger.log(level, "%s%s: %s in %.1f ms", method, name, timing.outcome, timing.elapsed_s * 1000)


class MaskErrors(FastMiddleware):
    """Gives each unexpected exception a random reference: it is logged with the traceback, and sent to the peer alone.

    Put it around middleware of your own that may raise; exceptions of tool functions are masked without it.

    Args:
        logger: the logger to use.
    """

    def __init__(self, logger: logging.Logger | str = "ferrule.errors") -> None:
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger

    def admits_fast(self, call: PlainCall) -> bool:
        """Return true: a call that ends on the fast path has not failed."""
        return True

    async def __call__(self, ctx: Context, call_next: CallNext, /) -> Any:
        try:
            return await call_next(ctx)
        except (MCPError, LocalError):
            raise
        except Exception as error:
            reference = secrets.token_hex(6)
            self._logger.error("%s failed, reference %s", shown_text(ctx.method), reference, exc_info=error)
            raise InternalError(data={"reference": reference}) from error


def name_of(ctx: Context) -> str | None:
    """Return the tool, prompt or URI that a request names."""
    params: Any = ctx.params
    key = NAME_PARAMS.get(ctx.method)
    if key is None or not isinstance(params, Mapping):
        return None
    found: Any = cast("Mapping[str, Any]", params).get(key)
    return found if isinstance(found, str) else None


def outcome_of(result: Any) -> str:
    """Return how a request ended, in a word; see `TimingOf`."""
    if isinstance(result, Mapping):
        facts = cast("Mapping[str, Any]", result)
        is_error, kind = facts.get("isError"), facts.get("resultType")
    else:
        # A handler of the low-level server may return any Struct.
        is_error, kind = getattr(result, "is_error", None), getattr(result, "result_type", None)
    if is_error is True:
        return "error"
    return "ok" if kind in (None, "complete") else str(kind)
