"""ferrule.testing.capture: the messages of a connection, in order."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from ferrule.kernel.dispatch import StreamMessage
from ferrule.testing import CapturedMessage, capture_messages
from ferrule.transports.memory import memory_pair
from ferrule.wire.jsonrpc import JsonRpcNotification


@pytest.mark.anyio
async def test_captured_messages_are_copies_in_order() -> None:
    """What a handler changes afterwards does not show, and nothing stands in the way."""
    ours, theirs = memory_pair()
    reading, writing, log = capture_messages(ours.read_stream, ours.write_stream)
    assert writing.encodes, "facts of the stream behind it are still there"
    params: dict[str, Any] = {"a": [1]}
    await writing.send(StreamMessage(JsonRpcNotification("x", params)))
    params["a"].append(2)
    await theirs.write_stream.send(StreamMessage({"jsonrpc": "2.0", "method": "y"}))
    received = await reading.receive()
    received.message["method"] = "changed"
    assert log == [
        CapturedMessage("out", {"jsonrpc": "2.0", "method": "x", "params": {"a": [1]}}),
        CapturedMessage("in", {"jsonrpc": "2.0", "method": "y"}),
    ]
    await writing.aclose()
    await reading.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await writing.send(StreamMessage(JsonRpcNotification("x")))
    assert len(log) == 2, "what was not sent was not captured"
