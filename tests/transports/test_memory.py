"""The memory pair: what a pipe would carry, without the pipe."""

from __future__ import annotations

import contextlib
import gc
from collections import deque
from typing import Any

import anyio
import pytest

from ferrule.kernel.concurrency.spawner import is_asyncio
from ferrule.kernel.dispatch import StreamMessage
from ferrule.transports.memory import MemoryEnd, memory_pair
from ferrule.wire.codec import Encoded
from ferrule.wire.faults import EncodeError
from ferrule.wire.jsonrpc import JsonRpcNotification, JsonRpcRequest, JsonRpcResponse

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


async def send(end: MemoryEnd, message: Any) -> None:
    """One message from an end."""
    await end.write_stream.send(StreamMessage(message))


async def receive(end: MemoryEnd) -> Any:
    """The next message of an end."""
    return (await end.read_stream.receive()).message


async def test_messages_arrive_in_order_as_the_wire_has_them() -> None:
    """Structs, mappings and ready-made JSON are all plain JSON values for the receiver, in both directions."""
    left, right = memory_pair()
    params = {"a": [1]}
    await send(left, JsonRpcRequest(1, "x/y", params))
    await send(left, {"jsonrpc": "2.0", "method": "n"})
    await send(right, JsonRpcResponse(1, result=Encoded(b'{"b": null}')))
    first = await right.read_stream.receive()
    message: Any = first.message
    assert message == {"jsonrpc": "2.0", "id": 1, "method": "x/y", "params": {"a": [1]}}
    assert message["params"] is not params
    assert (await receive(right)) == {"jsonrpc": "2.0", "method": "n"}
    assert (await receive(left)) == {"jsonrpc": "2.0", "id": 1, "result": {"b": None}}
    assert first.transport is not None
    assert first.transport.kind == "memory"


async def test_a_waiting_receiver_is_woken() -> None:
    """The receiver usually waits first."""
    left, right = memory_pair()
    got: list[Any] = []

    async def receive_two() -> None:
        got.extend([(await receive(right))["method"] for _ in range(2)])

    async with anyio.create_task_group() as group:
        group.start_soon(receive_two)
        await anyio.wait_all_tasks_blocked()
        await send(left, JsonRpcNotification("a"))
        await anyio.wait_all_tasks_blocked()
        await send(left, JsonRpcNotification("b"))
    assert got == ["a", "b"]


async def test_a_message_without_a_json_form_is_refused_and_nothing_is_sent() -> None:
    """In memory an object could pass; over a pipe it could not, so it must not here."""
    left, right = memory_pair()
    with pytest.raises(EncodeError):
        await send(left, {"jsonrpc": "2.0", "method": "n", "params": {"x": object()}})
    await send(left, JsonRpcNotification("next"))
    assert (await receive(right))["method"] == "next"


async def test_what_was_sent_before_closing_is_still_received() -> None:
    """An answer followed by a close must not be lost."""
    left, right = memory_pair()
    await send(left, JsonRpcNotification("last"))
    await left.aclose()
    assert (await receive(right))["method"] == "last"
    for _ in range(2):
        with pytest.raises(anyio.EndOfStream):
            await right.read_stream.receive()
    with pytest.raises(anyio.BrokenResourceError):
        await send(right, JsonRpcNotification("x"))
    with pytest.raises(anyio.ClosedResourceError):
        await send(left, JsonRpcNotification("x"))
    with pytest.raises(anyio.ClosedResourceError):
        await left.read_stream.receive()


@pytest.mark.parametrize("closer", ["left", "right"])
async def test_closing_either_end_wakes_a_waiting_receiver(closer: str) -> None:
    """Otherwise a task waits for ever for a peer that is gone."""
    left, right = memory_pair()
    ended: list[type[Exception]] = []

    async def wait() -> None:
        try:
            await right.read_stream.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError) as error:
            ended.append(type(error))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        await (left if closer == "left" else right).aclose()
    assert ended == [anyio.EndOfStream if closer == "left" else anyio.ClosedResourceError]


async def test_a_sender_waits_for_a_slow_receiver_and_memory_is_bounded() -> None:
    """A handler that reports progress in a loop must not fill the memory of a peer that sleeps."""
    left, right = memory_pair(max_buffered_bytes=1000)
    sent = 0

    async def flood() -> None:
        nonlocal sent
        for _ in range(100):
            await send(left, JsonRpcNotification("x" * 100))
            sent += 1

    async with anyio.create_task_group() as group:
        group.start_soon(flood)
        await anyio.wait_all_tasks_blocked()
        assert 5 < sent < 12
        for _ in range(100):
            await right.read_stream.receive()
    assert sent == 100


async def test_one_message_larger_than_the_bound_passes() -> None:
    """The bound is for what piles up; a large message is delivered as soon as it is read."""
    left, right = memory_pair(max_buffered_bytes=10)
    async with anyio.create_task_group() as group:
        group.start_soon(send, left, JsonRpcNotification("x" * 10_000))
        assert len((await receive(right))["method"]) == 10_000


@pytest.mark.parametrize("closer", ["left", "right"])
async def test_closing_either_end_frees_a_waiting_sender(closer: str) -> None:
    """A full pipe to a peer that is gone must not hold a task."""
    left, right = memory_pair(max_buffered_bytes=10)
    async with anyio.create_task_group() as group:
        group.start_soon(send, left, JsonRpcNotification("x" * 100))
        await anyio.wait_all_tasks_blocked()
        await (left if closer == "left" else right).aclose()


async def test_a_cancelled_receiver_loses_no_message() -> None:
    """Waiting with a time limit is how callers poll."""
    left, right = memory_pair()
    with anyio.move_on_after(0):
        await right.read_stream.receive()
    await send(left, JsonRpcNotification("kept"))
    assert (await receive(right))["method"] == "kept"


async def test_closing_twice_is_harmless_and_nothing_is_left_behind() -> None:
    """Both the user and the dispatcher close."""
    left, right = memory_pair()
    for end in (left, right, left):
        await end.aclose()
    del left, right
    gc.collect()


async def test_frames_are_shown_before_they_are_received() -> None:
    """The fast path takes from the left what it serves; a receiver that waits gets the rest, in order."""
    if not is_asyncio():
        return
    left, right = memory_pair(max_buffered_bytes=100)
    shown: list[list[bytes]] = []

    def take(frames: deque[bytes]) -> bool:
        shown.append(list(frames))
        while frames and b"plain" in frames[0]:
            frames.popleft()
        return False

    right.read_stream.show_frames(take)
    got: list[Any] = []

    async def receive_all() -> None:
        with contextlib.suppress(anyio.EndOfStream):
            while True:
                got.append(await receive(right))

    async with anyio.create_task_group() as group:
        group.start_soon(receive_all)
        await anyio.wait_all_tasks_blocked()
        await send(left, ["plain"])
        left.write_stream.send_pieces([b'["pl', b'ain"]\n["odd"]', b'\n["plain"]\n'], flush=True)
        assert shown == []  # not inside the sender's task
        await anyio.wait_all_tasks_blocked()
        assert shown == [[b'["plain"]', b'["plain"]', b'["odd"]', b'["plain"]']]
        assert got == [["odd"], ["plain"]]
        left.write_stream.send_pieces([b'["plain"]', b"\n"] * 20, flush=True)
        assert left.write_stream.is_congested
        await anyio.wait_all_tasks_blocked()
        assert not left.write_stream.is_congested  # space is freed by what is taken, too
        right.read_stream.show_frames(None)
        await send(left, ["plain"])
        await left.write_stream.aclose()
    assert got == [["odd"], ["plain"], ["plain"]]
    assert len(shown) == 2
    assert left.write_stream.is_congested  # what is sent now is not received
    left.write_stream.send_pieces([b"1\n"], flush=True)
