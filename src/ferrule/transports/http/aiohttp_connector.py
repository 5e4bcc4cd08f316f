"""aiohttp's connections, with reads of a bounded size. Imported with the first request."""

from __future__ import annotations

from typing import Any

import aiohttp

from ferrule.transports.loops import limit_reads

__all__ = ["SmallReadConnector"]


class SmallReadConnector(aiohttp.TCPConnector):
    """Makes connections for a session."""

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:
        """Return a connection for a request; see `aiohttp.BaseConnector`."""
        connection = await super().connect(req, traces, timeout)
        limit_reads(connection.transport)
        return connection
