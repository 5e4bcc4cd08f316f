"""One request in flight over HTTP: its time-outs, its progress and its stream."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from ferrule.kernel.dispatch import CallOptions, OnProgress
from ferrule.kernel.outbound_request import pause_timeout_during_progress
from ferrule.protocol.errors import LocalError, RemoteError, RequestTimeout
from ferrule.wire.jsonrpc import JsonRpcError

if TYPE_CHECKING:
    from ferrule.kernel.concurrency.plain_requests import PlainScope
    from ferrule.wire.sse import EventReader

__all__ = ["Flight", "off_the_clock", "result_of", "with_token"]

logger = logging.getLogger("ferrule.client.http")

T = TypeVar("T")


class Flight:
    """One request in flight.

    Attributes:
        is_plain: whether a result of the usual form is decoded to its type at once; see `ferrule.wire.plain_answers`.
        id: the id of the request, and its progress token.
        scope: the cancel scope of the wait; it ends the wait at a time-out, and when ``stray`` or ``reason`` is set.
        stray: the response, if it came on another stream.
        reason: the error that ended the request early; ``None`` for a time-out.
        reader: the reader of its last stream, with the event id to resume from.
        lost: the error that broke that stream.
    """

    __slots__ = (
        "cap_at",
        "cap_s",
        "id",
        "is_plain",
        "lost",
        "method",
        "on_progress",
        "reader",
        "reason",
        "resets",
        "result",
        "scope",
        "stray",
        "timeout_s",
    )

    def __init__(
        self,
        id: int,
        method: str,
        options: CallOptions,
        scope: anyio.CancelScope | PlainScope | None = None,
        now: float | None = None,
    ) -> None:
        self.id = id
        self.method = method
        self.is_plain = scope is not None
        self.result: Any = None
        self.reason: LocalError | None = None
        self.stray: Mapping[str, Any] | None = None
        self.reader: EventReader | None = None
        self.lost: Exception | None = None
        self.on_progress = options.get("on_progress")
        self.timeout_s = options.get("timeout_s")
        self.resets = options.get("reset_on_progress", False)
        self.cap_s = cap_s = options.get("max_total_s")
        self.cap_at = float("inf")
        self.scope = anyio.CancelScope() if scope is None else scope
        if self.timeout_s is not None or cap_s is not None:
            now = anyio.current_time() if now is None else now
            if cap_s is not None:
                self.cap_at = now + cap_s
            self.scope.deadline = min(self.cap_at, now + (float("inf") if self.timeout_s is None else self.timeout_s))

    async def progressed(self, params: Mapping[str, Any]) -> None:
        """Handle a progress notification: call the callback, and restart the time-out with ``reset_on_progress``."""
        wait_s = float("inf") if self.timeout_s is None else self.timeout_s
        callback = pause_timeout_during_progress(self.scope, wait_s, self.cap_at, self.resets, self.on_progress)
        await _call_progress(callback, params)

    def timed_out(self) -> RequestTimeout:
        """Return the error for a timeout of the call."""
        if self.cap_s is not None and self.scope.deadline == self.cap_at:
            return RequestTimeout(self.method, self.cap_s, is_cap=True)
        return RequestTimeout(self.method, self.timeout_s or 0.0)


async def _call_progress(on_progress: OnProgress, params: Mapping[str, Any]) -> None:
    """Call a progress callback; an exception that it raises is logged."""
    try:
        waiting = on_progress(params.get("progress", 0.0), params.get("total"), params.get("message"))
        if waiting is not None:
            await waiting
    except Exception:
        logger.exception("A progress callback failed")


async def off_the_clock(flight: Flight | None, work: Awaitable[T]) -> T:
    """Await work that pauses the time-outs of the call, such as a sign-in; return its result."""
    if flight is None or flight.scope.deadline == float("inf"):
        return await work
    deadline, began = flight.scope.deadline, anyio.current_time()
    flight.scope.deadline = float("inf")
    try:
        return await work
    finally:
        waited_s = anyio.current_time() - began
        flight.cap_at += waited_s
        flight.scope.deadline = deadline + waited_s


def with_token(params: Mapping[str, Any] | None, token: int) -> dict[str, Any]:
    """Return params with a progress token."""
    sent = dict(params or {})
    sent["_meta"] = {**(sent.get("_meta") or {}), "progressToken": token}
    return sent


def result_of(message: Mapping[str, Any]) -> Any:
    """Return the result in a response.

    Raises:
        RemoteError: it is an error response.
    """
    if "error" not in message:
        return message["result"]
    error = message["error"]
    raised = RemoteError.from_error(JsonRpcError(error["code"], error["message"]))
    if "data" in error:
        raised.data = error["data"]
    try:
        raise raised
    finally:
        del raised  # its traceback holds this frame
