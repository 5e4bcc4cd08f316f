"""The fast path over HTTP: prepared bytes and headers, and an answer that is decoded to its type.

The HTTP exchange itself is that of the general path (`ferrule.transports.http.client.StreamableHttp`), so that every
kind of response is understood. On asyncio only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ferrule.client.fast_path.outcome import FirstOutcome
from ferrule.client.fast_path.prepared import PreparedCall
from ferrule.wire.plain_answers import EncodedResult
from ferrule.wire.types import ToolResult

if TYPE_CHECKING:
    from ferrule.kernel.dispatch import CallOptions, OnProgress

__all__ = ["HttpFastPath", "SendsPlainCalls"]


@runtime_checkable
class SendsPlainCalls(Protocol):
    """The HTTP channel, as the fast path uses it; see `ferrule.transports.http.client.StreamableHttp`."""

    keeps_encoded: bool

    @property
    def is_closed(self) -> bool: ...
    @property
    def session_id(self) -> str | None: ...
    def next_id(self) -> int: ...
    def call_headers(self, name: str, meta: Mapping[str, Any]) -> Mapping[str, str]: ...
    async def send_plain(
        self, id: int, headers: Mapping[str, str], body: bytes, options: CallOptions
    ) -> ToolResult | dict[str, Any]: ...


class HttpFastPath:
    """Sends prepared calls of one session over its HTTP channel and decodes their results to their type.

    Args:
        channel: the channel of the session.
    """

    def __init__(self, channel: SendsPlainCalls) -> None:
        self._channel = channel
        self._session_id = channel.session_id

    def keep_encoded(self) -> None:
        """Return results as `EncodedResult` from now on, for a program that passes them on."""
        self._channel.keeps_encoded = True

    @property
    def is_open(self) -> bool:
        """Whether a call can be sent now."""
        return not self._channel.is_closed and self._channel.session_id == self._session_id

    async def call(
        self,
        prepared: PreparedCall,
        arguments: bytes,
        headers: Mapping[str, str] | None,
        timeout_s: float | None,
        wait_s: float | None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult | FirstOutcome:
        """See `ferrule.client.fast_calls.PlainCallSender`; ``on_progress`` is called with the progress of the call."""
        started = time.monotonic()
        channel = self._channel
        sent = prepared.headers
        if sent is None:
            sent = prepared.headers = channel.call_headers(prepared.name, prepared.meta)
        if headers:
            sent = {**sent, **headers}
        options: CallOptions = {}
        if timeout_s is not None:
            options["timeout_s"] = timeout_s
            options["reset_on_progress"] = wait_s is not None
        if on_progress is not None:
            options["on_progress"] = on_progress
        id = channel.next_id()
        try:
            result = await channel.send_plain(id, sent, prepared.fill(id, arguments), options)
        except Exception as error:
            return FirstOutcome(started, error=error)
        return result if isinstance(result, (ToolResult, EncodedResult)) else FirstOutcome(started, result)
