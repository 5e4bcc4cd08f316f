"""Two peers in one process: a request is a function call and its response the return value, without bytes or tasks.

Params and results arrive as builtins, as if they had been on a wire. Exceptions of handlers become the errors that
`error_from_exception` makes for a remote peer, unless the pair was made with ``raise_exceptions``.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, cast

import anyio
from msgspec import UNSET

from ferrule.kernel.concurrency.cancellation import failure_of, is_cancellation, run_interruptible
from ferrule.kernel.concurrency.spawner import STATUS_IGNORED
from ferrule.kernel.dispatch import (
    CallOptions,
    OnNotify,
    OnProgress,
    OnRequest,
    ProgressSender,
    TransportContext,
)
from ferrule.kernel.outbound_request import pause_timeout_during_progress
from ferrule.protocol.correlation import IdSequence
from ferrule.protocol.errors import (
    ClientNotAskable,
    ConnectionClosed,
    MCPError,
    RemoteError,
    RequestTimeout,
    error_from_exception,
)
from ferrule.wire.codec import to_builtins
from ferrule.wire.jsonrpc import RequestId

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus


__all__ = ["DirectDispatcher"]

logger = logging.getLogger(__name__)

_DIRECT = TransportContext("direct")


class _Call(ProgressSender):
    """The dispatch context of one call from the peer."""

    __slots__ = (
        "_side",
        "can_send_request",
        "cancel_requested",
        "on_progress",
        "own_token",
        "request_id",
        "transport",
    )

    def __init__(
        self,
        side: DirectDispatcher,
        request_id: RequestId | None,
        params: Mapping[str, Any] | None,
        on_progress: OnProgress | None = None,
    ) -> None:
        super().__init__(params)
        self._side = side
        self.request_id = request_id
        self.transport = side.transport
        self.can_send_request = side.transport.can_send_request
        self.cancel_requested = False
        self.on_progress = on_progress
        self.own_token: RequestId | None = None  # set if the caller has a progress callback

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if self.cancel_requested:
            raise ClientNotAskable(f"{method} cannot be sent: the request has been withdrawn")
        return await self._side.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        # Straight to the caller's callback: there is no reading loop that could find it by its token.
        if method == "notifications/progress" and self.own_token is not None and params is not None:
            if self.on_progress is None:
                return
            waiting = self.on_progress(params["progress"], params.get("total"), params.get("message"))
            if waiting is not None:
                await waiting
            return
        await self._side.notify(method, params)


class DirectDispatcher:
    """One end of an in-process pair; make both with `pair`.

    Args:
        transport: facts of the transport for the handlers of this end.
        raise_exceptions: exceptions of handlers are raised to the caller instead of "Internal error".
    """

    def __init__(self, transport: TransportContext = _DIRECT, *, raise_exceptions: bool = False) -> None:
        self.transport = transport
        self._raise = raise_exceptions
        self._peer: DirectDispatcher | None = None
        # Set by `run`; on a server's end the functions of `kernel.runner.modern_on_request`.
        self._on_request: OnRequest | None = None
        self._on_notify: OnNotify | None = None
        self._ready = anyio.Event()
        self._closed = anyio.Event()
        self._ids = IdSequence()
        self._tasks: TaskGroup | None = None

    @classmethod
    def pair(
        cls, transport: TransportContext = _DIRECT, *, raise_exceptions: bool = False
    ) -> tuple[DirectDispatcher, DirectDispatcher]:
        """Return two connected ends; for the arguments see the class."""
        one = cls(transport, raise_exceptions=raise_exceptions)
        other = cls(transport, raise_exceptions=raise_exceptions)
        one._peer, other._peer = other, one
        return one, other

    def serve(self, on_request: OnRequest, on_notify: OnNotify) -> None:
        """Serve the peer's requests from now on, without a task; see `run`."""
        self._on_request, self._on_notify = on_request, on_notify
        self._ready.set()

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        *,
        task_status: TaskStatus[None] = STATUS_IGNORED,
    ) -> None:
        """Serve the peer's requests until either end closes."""
        async with anyio.create_task_group() as self._tasks:
            self.serve(on_request, on_notify)
            task_status.started()
            await self._closed.wait()
            self._tasks.cancel_scope.cancel()
        self._tasks = None

    @property
    def is_running(self) -> bool:
        """Whether `run` is serving; not so after `serve`, which starts no task."""
        return self._tasks is not None

    def start_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a task for a coroutine; see `RunsTasks`."""
        assert self._tasks is not None, "start_task needs a running dispatcher"
        self._tasks.start_soon(_await, coroutine)

    def close(self) -> None:
        """Close both ends; calls in progress finish, later ones are refused."""
        self._closed.set()
        self._ready.set()
        if self._peer is not None and not self._peer._closed.is_set():
            self._peer.close()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Call the peer's handler in this task; see `Outbound.send_raw_request`."""
        peer = await self._other_end()
        options = opts or {}
        id = self._ids.next()
        on_progress = options.get("on_progress")
        raw = None if params is None else cast("dict[str, Any]", to_builtins(params))
        if on_progress is not None or options.get("reset_on_progress"):
            raw = raw or {}
            raw["_meta"] = {**(raw.get("_meta") or {}), "progressToken": id}
        timeout_s, cap_s = options.get("timeout_s"), options.get("max_total_s")
        call = _Call(peer, id, raw, on_progress)
        if on_progress is not None or options.get("reset_on_progress"):
            call.own_token = id
        if timeout_s is None and cap_s is None:
            return await self._call(peer, call, method, raw)
        wait_s = float("inf") if timeout_s is None else timeout_s
        started = anyio.current_time()
        cap_at = float("inf") if cap_s is None else started + cap_s
        with anyio.CancelScope(deadline=min(started + wait_s, cap_at)) as scope:
            call.on_progress = pause_timeout_during_progress(
                scope, wait_s, cap_at, options.get("reset_on_progress", False), on_progress
            )
            return await self._call(peer, call, method, raw)
        is_cap = cap_s is not None and scope.deadline == cap_at
        raise RequestTimeout(method, cast("float", cap_s) if is_cap else wait_s, is_cap=is_cap)

    async def _call(
        self, peer: DirectDispatcher, call: _Call, method: str, params: dict[str, Any] | None
    ) -> dict[str, Any]:
        try:
            result = await run_interruptible(cast("OnRequest", peer._on_request)(call, method, params), call)
            return cast("dict[str, Any]", to_builtins({} if result is None else result))
        except MCPError as error:
            # The caller must see what a remote peer would have sent, and no object of the handler.
            raise RemoteError(
                error.message, code=error.code, data=error.data if error.data is UNSET else to_builtins(error.data)
            ) from error
        except BaseException as error:
            failure = None if is_cancellation(error, call) else failure_of(error, call)
            if failure is None:
                call.cancel_requested = True  # the caller gave up: a sync function in its thread looks at this
                raise
            try:
                if self._raise:
                    raise
                logger.error("%s failed", method, exc_info=failure)
                raise RemoteError.from_error(error_from_exception(failure)) from failure
            finally:
                del failure  # its traceback holds this frame
        finally:
            call.progress_params = call.interruption = None

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Call the peer's handler of a notification in this task; an exception of the handler is logged."""
        peer = await self._other_end()
        raw = None if params is None else cast("dict[str, Any]", to_builtins(params))
        call = _Call(peer, None, raw)
        try:
            await run_interruptible(cast("OnNotify", peer._on_notify)(call, method, raw), call)
        except BaseException as error:
            logger.error("The handling of %s failed", method, exc_info=failure_of(error, call))
        finally:
            call.interruption = None

    async def _other_end(self) -> DirectDispatcher:
        peer = self._peer
        if peer is None:
            raise ConnectionClosed("This end was never connected")
        if not peer._ready.is_set():
            # The peer may start to serve later, as a server whose lifespan takes time.
            await peer._ready.wait()
        if peer._closed.is_set():
            raise ConnectionClosed("The connection is closed")
        return peer


async def _await(coroutine: Coroutine[Any, Any, None]) -> None:
    await coroutine
