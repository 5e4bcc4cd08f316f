"""The channel of the transport of 2024-11-05."""

from __future__ import annotations

from typing import Any

from ferrule.client.connection.channels import PairChannel
from ferrule.protocol.errors import ConnectionClosed, LocalError
from ferrule.transports.sse.client import SseConnection

__all__ = ["SseChannel"]


class SseChannel(PairChannel):
    """The event stream and the POST endpoint of the transport of 2024-11-05."""

    def __init__(self, connection: SseConnection, **options: Any) -> None:
        self._connection = connection
        super().__init__(connection, **options)

    @property
    def is_closed(self) -> bool:
        """See `ClientChannel`."""
        return super().is_closed or self._connection.ended is not None

    async def _why_closed(self, error: ConnectionClosed) -> Exception:
        ended = self._connection.ended
        return ended if isinstance(ended, LocalError) else error
