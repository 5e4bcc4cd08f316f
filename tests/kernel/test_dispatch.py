"""The shapes that dispatchers have in common."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from ferrule.client.connection.channels import DirectLink, MemoryLink, PairLink, StdioLink
from ferrule.kernel.connection import Connection, GuardedDispatch, NotifyOnly
from ferrule.kernel.direct import DirectDispatcher
from ferrule.kernel.dispatch import DispatchContext, Outbound
from ferrule.kernel.duplex import JSONRPCDispatcher
from ferrule.transports.asgi.exchange import ModernExchange
from ferrule.transports.asgi.legacy.exchange import LegacyExchange
from ferrule.transports.http.client import StreamableHttp
from tests.kernel.harness import FakeDispatch

CHANNELS = [
    Outbound, DispatchContext, Connection, GuardedDispatch, NotifyOnly, DirectDispatcher, JSONRPCDispatcher,
    ModernExchange, LegacyExchange, StreamableHttp, DirectLink, MemoryLink, PairLink, StdioLink, FakeDispatch,
]  # fmt: skip


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.__name__)
def test_a_request_without_params_need_not_say_so(channel: Any) -> None:
    """``ping`` and ``roots/list`` have none; every channel takes the same arguments."""
    parameters = inspect.signature(channel.send_raw_request).parameters
    assert list(parameters)[1:] == ["method", "params", "opts"]
    assert parameters["params"].default is None
    assert parameters["opts"].default is None


async def _ping(dispatcher: DirectDispatcher) -> Any:
    return await dispatcher.send_raw_request("ping")


@pytest.mark.anyio
async def test_a_request_without_params_arrives_without() -> None:
    """Through a real pair."""
    ours, theirs = DirectDispatcher.pair()
    seen: list[Any] = []

    async def on_request(dctx: Any, method: str, params: Any) -> Any:
        seen.append((method, params))
        return {}

    async def on_notify(dctx: Any, method: str, params: Any) -> None: ...

    theirs.serve(on_request, on_notify)
    assert await _ping(ours) == {}
    assert seen == [("ping", None)]
