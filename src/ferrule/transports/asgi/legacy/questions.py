"""Requests of a legacy server to its client, whose responses arrive in separate POSTs.

A request is sent on one stream but its response is posted, so the table of pending requests belongs to the session.

A caller that stops waiting (timeout, cancellation) sends the client a cancellation; a response that still arrives is
dropped.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import anyio

from ferrule.kernel.dispatch import CallOptions
from ferrule.kernel.outbound_request import OutboundRequest
from ferrule.protocol.correlation import IdSequence, own_id
from ferrule.protocol.errors import ConnectionClosed, LocalError, RemoteError, RequestTimeout
from ferrule.wire.jsonrpc import encode_notification, encode_request

__all__ = ["MAX_OPEN", "ClientQuestions"]

log = logging.getLogger("ferrule.http")

Emit = Callable[[bytes], Awaitable[None]]
"""Sends one encoded message; raises ``ConnectionClosed`` when no client can receive it any more."""

_WITHDRAW_S = 1.0
MAX_OPEN = 256
"""Maximum number of pending requests of one session to its client."""


class ClientQuestions:
    """The pending requests of one session to its client.

    Args:
        last_id: the first id is the one after it; each worker has a range of its own.
    """

    __slots__ = ("_ids", "_open")

    def __init__(self, last_id: int = 0) -> None:
        self._ids = IdSequence(last_id)
        self._open: dict[int, tuple[object, OutboundRequest]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def are_open(self, channel: object) -> bool:
        """Return whether a request on this stream is pending."""
        return any(asked_on is channel for asked_on, _ in self._open.values())

    async def ask(
        self,
        emit: Emit,
        channel: object,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None,
    ) -> dict[str, Any]:
        """Send a request through ``emit``, wait for its response and return the result.

        Args:
            emit: sends on the stream of the request.
            channel: id of that stream, for `fail`.
            method, params, opts: as ``Outbound.send_raw_request``.

        Raises:
            RemoteError, RequestTimeout, ConnectionClosed: as ``Outbound.send_raw_request``.
            LocalError: too many requests are pending.
        """
        if len(self._open) >= MAX_OPEN:
            raise LocalError(f"{method} cannot be sent: {MAX_OPEN} questions wait for this client already")
        options = opts or {}
        id = self._ids.next()
        on_progress = options.get("on_progress")
        question = OutboundRequest(on_progress)
        # Before it is sent: the response may arrive in another POST while the write still waits.
        self._open[id] = channel, question
        if on_progress is not None or options.get("reset_on_progress"):
            sent = dict(params or {})
            sent["_meta"] = {**(sent.get("_meta") or {}), "progressToken": id}
            params = sent
        try:
            await question.wait(method, options, emit(encode_request(id, method, params)))
        except BaseException as error:
            self._open.pop(id, None)
            question.drop_progress()
            # There is no client left to notify.
            if not isinstance(error, ConnectionClosed):
                await self._withdraw(emit, id, error)
            raise
        self._open.pop(id, None)
        if question.error is not None:
            try:
                raise question.error
            finally:
                del question  # the traceback of its error holds this frame
        return cast("dict[str, Any]", question.result)

    def answer(self, message: Mapping[str, Any]) -> bool:
        """Complete the pending request of a response; return ``False`` if there is none."""
        id = message.get("id")
        found = None if (own := own_id(id)) is None else self._open.pop(own, None)
        if found is None:
            return False
        _, question = found
        if "result" in message:
            question.settle(message["result"])
            return True
        error = message["error"]
        raised = RemoteError(error["message"], code=error["code"])
        if "data" in error:
            raised.data = error["data"]
        question.settle(error=raised)
        return True

    async def progress(self, params: Mapping[str, Any] | None) -> bool:
        """Report progress to the pending request of its token; return ``False`` if there is none."""
        token = None if params is None else params.get("progressToken")
        found = None if (own := own_id(token)) is None else self._open.get(own)
        if found is None or params is None:
            return False
        waiting = found[1].receive_progress(params)
        if waiting is not None:
            await waiting
        return True

    def fail(self, error: LocalError, channel: object | None = None) -> None:
        """Fail the pending requests of one stream, or all of them, because no response can arrive any more."""
        for id, (asked_on, question) in list(self._open.items()):
            if channel is None or asked_on is channel:
                del self._open[id]
                question.settle(error=error)

    async def _withdraw(self, emit: Emit, id: int, error: BaseException) -> None:
        reason = str(error) if isinstance(error, RequestTimeout) else "The caller no longer waits"
        # Shielded, since the caller may be cancelled; bounded, since the client may not read.
        with anyio.move_on_after(_WITHDRAW_S, shield=True):
            try:
                await emit(encode_notification("notifications/cancelled", {"requestId": id, "reason": reason}))
            except LocalError:
                log.debug("the cancellation of question %r could not be sent", id)
