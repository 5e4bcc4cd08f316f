"""ferrule.kernel.changes.relay: buses of several processes, joined by a channel that they share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ferrule.kernel.changes.bus import Event, ListenFilter, SubscriptionBus
from ferrule.kernel.changes.relay import relayed
from ferrule.stores.channel import MemoryChannel, OnMessage
from ferrule.wire.codec import encode
from tests.kernel.harness import settled

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

CHANGED = Event.resource_updated("r://1")
ALL = ListenFilter(["tools"], ["r://1"])


class FlakyChannel(MemoryChannel):
    """Fails a given number of times."""

    failures = 0

    async def send(self, message: bytes) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("away")
        await super().send(message)


async def test_a_change_reaches_every_process_once() -> None:
    """The publishing process delivers it directly, and not a second time from the channel."""
    channel = MemoryChannel()
    here, there = SubscriptionBus(), SubscriptionBus()
    async with relayed(here, channel), relayed(there, channel):
        with here.listen(ALL) as own, there.listen(ALL) as other:
            here.publish(CHANGED)
            assert own.drain() == [CHANGED]
            await settled()
            assert own.drain() == []
            (event,) = other.drain()
    assert (event.method, event.topic, event.params) == (CHANGED.method, CHANGED.topic, {"uri": "r://1"})


@pytest.mark.parametrize("message", [b"", b"{", b"[]", b"1", b'{"a": 1}', b'["x", "y"]', b'["a", "b", "c", {}, 1]'])
async def test_a_message_that_is_no_event_is_left_alone(message: bytes) -> None:
    """Others share the channel."""
    channel = MemoryChannel()
    bus = SubscriptionBus()
    async with relayed(bus, channel):
        with bus.listen(ALL) as listener:
            await channel.send(message)
            await channel.send(encode(["other", CHANGED.method, CHANGED.topic, {"uri": "r://1"}]))
            await settled()
            assert len(listener.drain()) == 1


async def test_what_could_not_be_sent_is_sent_again_in_order(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A store that restarts costs no event."""
    monkeypatch.setattr("ferrule.kernel.changes.relay._PAUSE_S", 0)
    channel = FlakyChannel()
    channel.failures = 2
    here, there = SubscriptionBus(), SubscriptionBus()
    tools = Event.list_changed("tools")
    async with relayed(here, channel), relayed(there, channel):
        with there.listen(ALL) as other:
            here.publish(CHANGED)
            here.publish(tools)
            with anyio.fail_after(30):
                while len(found := other.drain()) < 2:
                    await anyio.lowlevel.checkpoint()
    assert [event.topic for event in found] == [CHANGED.topic, tools.topic]
    assert sum("cannot be sent to other processes yet" in record.message for record in caplog.records) == 2


async def test_an_event_without_a_json_form_stays_in_its_process(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the publisher is not stopped by it."""
    channel = MemoryChannel()
    here, there = SubscriptionBus(), SubscriptionBus()
    odd = Event(CHANGED.method, CHANGED.topic, {"uri": object()})
    async with relayed(here, channel), relayed(there, channel):
        with here.listen(ALL) as own, there.listen(ALL) as other, caplog.at_level(logging.ERROR):
            here.publish(odd)
            await settled()
            assert own.drain() == [odd]
            assert other.drain() == []
    assert len(caplog.records) == 1


class StandingChannel(MemoryChannel):
    """Takes nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = anyio.Event()
        self.sent: list[bytes] = []

    async def send(self, message: bytes) -> None:
        await self.go.wait()
        self.sent.append(message)


async def test_events_that_wait_for_a_slow_channel_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """The oldest go, which is logged once and not for each."""
    channel = StandingChannel()
    bus = SubscriptionBus()
    async with relayed(bus, channel):
        for number in range(3000):
            bus.publish(Event.resource_updated(f"r://{number}"))
        await settled()
        channel.go.set()
        await until(lambda: len(channel.sent) >= 1024)
        await settled()
    events = [message for message in channel.sent if b'"gap"' not in message]
    assert 1024 <= len(events) <= 1025
    assert b"r://2999" in events[-1]
    assert sum("too slow" in record.message for record in caplog.records) == 1


async def test_other_processes_learn_that_events_were_dropped() -> None:
    """Their clients would keep old contents, for as long as nothing else changes."""
    channel = StandingChannel()
    here, there = SubscriptionBus(), SubscriptionBus()
    async with relayed(here, channel), relayed(there, channel):
        with here.listen(ALL) as own, there.listen(ALL) as other:
            here.publish(CHANGED)
            for number in range(3000):
                here.publish(Event.list_changed("prompts" if number % 2 else "resources"))
            await settled()
            own.drain()
            channel.go.set()
            await until(lambda: len(channel.sent) >= 1025)
            await settled()
            for message in channel.sent[1:]:  # the first one was being sent when the others came
                await MemoryChannel.send(channel, message)
            assert [event.topic for event in other.drain()] == [Event.list_changed("tools").topic, "r://1"]
            assert own.drain() == []
    assert sum(b'"gap"' in message for message in channel.sent) == 1


async def test_a_lasting_overload_is_reported_again_and_again() -> None:
    """Once for as many events as the queue holds: the queue may never be empty."""
    bus, sent = SubscriptionBus(), list[bytes]()

    class Overloaded(MemoryChannel):
        async def send(self, message: bytes) -> None:
            sent.append(message)
            if len(sent) < 5000:
                for number in range(2):
                    bus.publish(Event.resource_updated(f"r://{len(sent)}-{number}"))
            await anyio.lowlevel.checkpoint()

    async with relayed(bus, Overloaded()):
        bus.publish(CHANGED)
        await until(lambda: len(sent) >= 6000)
        await settled()
    assert 3 <= sum(b'"gap"' in message for message in sent) <= 6


async def test_a_gap_that_could_not_be_sent_is_sent_again() -> None:
    """Or the clients of the others would never learn of it."""
    attempts: list[bytes] = []

    class Failing(StandingChannel):
        async def send(self, message: bytes) -> None:
            await self.go.wait()
            attempts.append(message)
            if b'"gap"' in message and sum(b'"gap"' in each for each in attempts) == 1:
                raise OSError("away")

    channel, bus = Failing(), SubscriptionBus()
    async with relayed(bus, channel):
        for number in range(2000):
            bus.publish(Event.resource_updated(f"r://{number}"))
        await settled()
        channel.go.set()
        await until(lambda: sum(b'"gap"' in each for each in attempts) == 2)


async def test_a_channel_that_opens_again_may_have_lost_events() -> None:
    """What was sent meanwhile is lost; the clients of this process read again."""

    class Reopened(MemoryChannel):
        def __init__(self) -> None:
            super().__init__()
            self.open_again = anyio.Event()

        async def listen(self, on_message: OnMessage, on_ready: Callable[[], None] | None = None) -> None:
            assert on_ready is not None
            on_ready()
            await self.open_again.wait()
            await super().listen(on_message, on_ready)

    channel, bus = Reopened(), SubscriptionBus()
    async with relayed(bus, channel):
        with bus.listen(ALL) as listener:
            await settled()
            assert listener.drain() == []
            channel.open_again.set()
            await until(lambda: len(listener._waiting) == 2)
            assert [event.topic for event in listener.drain()] == [Event.list_changed("tools").topic, "r://1"]


async def until(condition: Callable[[], Any]) -> None:
    """Wait for a condition."""
    with anyio.fail_after(30):
        while not condition():
            await anyio.lowlevel.checkpoint()


async def test_after_the_context_nothing_is_relayed() -> None:
    """The bus of a server may outlive its connection to the others."""
    channel = MemoryChannel()
    here, there = SubscriptionBus(), SubscriptionBus()
    async with relayed(there, channel):
        async with relayed(here, channel):
            pass
        with here.listen(ALL) as own, there.listen(ALL) as other:
            here.publish(CHANGED)
            there.publish(Event.list_changed("tools"))
            await settled()
            assert own.drain() == [CHANGED]
            assert [event.topic for event in other.drain()] == [Event.list_changed("tools").topic]
