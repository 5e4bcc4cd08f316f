"""The dispatch context of one message that came over a stream pair, and its state until it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from ferrule.kernel.concurrency.spawner import SpawnedTask
from ferrule.kernel.dispatch import CallOptions, ProgressSender, TransportContext
from ferrule.protocol.errors import ClientNotAskable, NoBackChannel
from ferrule.wire.jsonrpc import RequestId

if TYPE_CHECKING:
    from ferrule.kernel.duplex import JSONRPCDispatcher

__all__ = ["InboundRequest"]


class InboundRequest(ProgressSender):
    """The dispatch context of one inbound message."""

    __slots__ = (
        "_dispatcher",
        "awaitable",
        "cancel_requested",
        "handle",
        "has_reported",
        "is_over",
        "lingers",
        "loop",
        "request_id",
        "started",
        "transport",
    )

    def __init__(
        self,
        dispatcher: JSONRPCDispatcher,
        request_id: RequestId | None,
        params: Mapping[str, Any] | None,
        transport: TransportContext,
    ) -> None:
        super().__init__(params)
        self._dispatcher = dispatcher
        self.request_id = request_id
        self.transport = transport
        self.loop = dispatcher.loop
        self.cancel_requested = False
        self.started = False
        self.has_reported = False  # whether it has sent progress
        self.is_over = False  # answered, being answered, or withdrawn: nothing more is sent for it
        self.lingers = False  # withdrawn or answered early, and counted as running all the same
        self.handle: SpawnedTask | None = None
        # Kept beside the task, because a coroutine whose task never ran must be closed (`discard`).
        self.awaitable: Awaitable[Any] | None = None

    @property
    def can_send_request(self) -> bool:
        return self.transport.can_send_request

    @property
    def is_being_cancelled(self) -> bool:
        return self.cancel_requested or self._dispatcher.is_ending

    def suspended(self) -> Any:
        """See `Interruptible`."""
        return None if self.loop is None else self.handle

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if not self.transport.can_send_request:
            raise NoBackChannel(f"{method} cannot be sent over this transport")
        if self.is_over:
            raise ClientNotAskable(f"{method} cannot be sent: the request has been answered or withdrawn")
        return await self._dispatcher.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        # Nothing more is sent for a withdrawn request ("Cancellation").
        if not self.cancel_requested:
            if method == "notifications/progress":
                self.has_reported = True
            await self._dispatcher.notify(method, params)

    def notify_after_result(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification right after the result of this request; see `NotifiesAfterResult`."""
        id: Any = self.request_id
        self._dispatcher.after_result[id] = method, params

    async def answer(self, result: Any = None, *, error: Exception | None = None) -> None:
        """Send the response while the handler still runs; see `RepliesEarly`."""
        await self._dispatcher.wait_until_read(self)
        if error is not None:
            await self._dispatcher.finish_error(self, error)
        else:
            await self._dispatcher.finish(self, result)
        # After the answer, or the answer itself would be dropped; later messages of the handler are.
        self.cancel_requested = True
        self._dispatcher.linger(self)

    def discard(self) -> None:
        """Close a coroutine that will never be awaited, so that Python does not warn about it."""
        awaitable: Any = self.awaitable
        if not self.started and isinstance(awaitable, Coroutine):
            awaitable.close()
