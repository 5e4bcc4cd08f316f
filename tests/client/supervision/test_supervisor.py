"""ferrule.client.supervision.supervisor: attempts, pauses, the circuit, and what is told of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from ferrule.client.errors import ServerUnavailable
from ferrule.client.supervision.policy import ReconnectPolicy
from ferrule.client.supervision.status import ConnectionStatus
from ferrule.client.supervision.supervisor import ConnectionSupervisor
from ferrule.protocol.errors import ConnectionClosed
from ferrule.transports.background import Background
from tests.client.pauses import Pauses

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


class Peer:
    """A server to connect to, or not.

    Attributes:
        error: what connecting raises; ``None``: it succeeds.
        gate: connecting waits for it.
        asked: the attempts so far.
        now: the time.
    """

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.gate: anyio.Event | None = None
        self.asked = 0
        self.now = 1000.0
        self.pauses = Pauses()
        self.states: list[str] = []
        self.end = anyio.Event()

    async def connect(self) -> None:
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error

    async def ended(self) -> Exception | None:
        await self.end.wait()
        self.end = anyio.Event()
        return ConnectionClosed("the process ended")

    @asynccontextmanager
    async def kept(self, **options: Any) -> AsyncGenerator[ConnectionSupervisor]:
        """Keep the connection during the block, from the end of the first attempt."""
        supervisor = ConnectionSupervisor("x", self.connect, sleep=self.pauses, clock=lambda: self.now, **options)
        supervisor.observe(lambda status: self.states.append(status.state))
        background = Background()
        supervisor.start(background)
        try:
            await anyio.wait_all_tasks_blocked()
            yield supervisor
        finally:
            await background.aclose()
            supervisor.close()


async def test_the_states_of_a_server_that_comes_goes_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    """Each is told, with its time; the log has one line for each change."""
    caplog.set_level(logging.INFO, "ferrule.client")
    peer = Peer()
    async with peer.kept() as supervisor:
        assert supervisor.is_up
        assert supervisor.status == ConnectionStatus(server="x", state="connected", since=1000)
        peer.now, error = 1100, OSError("reset")
        supervisor.lose(error)
        supervisor.lose(OSError("a second call that failed"))
        assert supervisor.status == ConnectionStatus(
            server="x", state="waiting", since=1100, error=error, failures=1, next_attempt_at=1101, down_since=1100
        )
        peer.now = 1101
        await peer.pauses.end()
        assert supervisor.status.since == 1101
        assert supervisor.error is None
    assert peer.states == ["connecting", "connected", "waiting", "connecting", "connected", "closed"]
    assert [record.message for record in caplog.records] == [
        "The server 'x' does not answer any more: reset",
        "The server 'x' can be reached again",
    ]


async def test_the_end_of_a_connection_is_seen_without_a_request() -> None:
    """Where the transport shows it: the process of a stdio server."""
    peer = Peer()
    async with peer.kept(ended=peer.ended) as supervisor:
        peer.end.set()
        await anyio.wait_all_tasks_blocked()
        assert (supervisor.state, str(supervisor.error)) == ("waiting", "the process ended")
        await peer.pauses.end()
        assert supervisor.is_up
        supervisor.lose(OSError("x"))
        await peer.pauses.end()
        peer.end.set()
        await anyio.wait_all_tasks_blocked()
        assert supervisor.state == "waiting"


async def test_a_request_starts_the_next_attempt_at_once() -> None:
    """Many make one attempt; one that is cancelled ends it for none."""
    peer = Peer(OSError("no"))
    async with peer.kept() as supervisor:
        assert (peer.asked, supervisor.state) == (1, "waiting")
        peer.error, peer.gate = None, anyio.Event()
        reached: list[int] = []

        async def reach(number: int) -> None:
            await supervisor.reach()
            reached.append(number)

        async def give_up(scope: anyio.CancelScope) -> None:
            with scope:
                await reach(0)

        scope = anyio.CancelScope()
        async with anyio.create_task_group() as group:
            group.start_soon(give_up, scope)
            await anyio.wait_all_tasks_blocked()
            for number in (1, 2, 3):
                group.start_soon(reach, number)
            await anyio.wait_all_tasks_blocked()
            assert (peer.asked, supervisor.state) == (2, "connecting")
            scope.cancel()
            await anyio.wait_all_tasks_blocked()
            peer.gate.set()
        assert (peer.asked, sorted(reached)) == (2, [1, 2, 3])


async def test_a_request_gets_the_reason_of_the_attempt() -> None:
    """As it was raised, while the circuit is closed."""
    peer = Peer(OSError("no"))
    async with peer.kept() as supervisor:
        peer.error = OSError("still not")
        with pytest.raises(OSError, match="still not"):
            await supervisor.reach()


async def test_the_circuit_opens_and_one_probe_at_a_time_closes_it(caplog: pytest.LogCaptureFixture) -> None:
    """While it is open, requests fail at once, with since when, why, and when the next attempt is."""
    peer = Peer(OSError("refused"))
    policy = ReconnectPolicy(failures_to_open=3, probe_pause_s=5)
    async with peer.kept(policy=policy) as supervisor:
        for _ in range(2):
            peer.now += 1
            await peer.pauses.end()
        assert (supervisor.state, peer.asked) == ("circuit_open", 3)
        peer.now += 2
        with pytest.raises(ServerUnavailable, match=r"'x' is down since .*: refused; trying again in 2 s") as caught:
            await supervisor.reach()
        assert (caught.value.server, caught.value.down_since, caught.value.next_attempt_at) == ("x", 1000, 1006)
        assert caught.value.__cause__ is peer.error
        assert peer.asked == 3
        # One request after the pause for probes makes an attempt; others fail at once meanwhile.
        peer.now, peer.gate = peer.now + 5, anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(supervisor.reach)
            await anyio.wait_all_tasks_blocked()
            assert (supervisor.state, peer.asked) == ("half_open", 4)
            with pytest.raises(ServerUnavailable, match="trying again now"):
                await supervisor.reach()
            peer.error = None
            peer.gate.set()
        assert supervisor.is_up
    assert peer.states == [
        "connecting", "waiting", "connecting", "waiting", "connecting", "circuit_open", "half_open", "connected",
        "closed",
    ]  # fmt: skip
    assert caplog.text.count("The circuit of the server 'x' is open after 3 failures") == 1


async def test_the_background_probes_an_open_circuit_too() -> None:
    """A probe that fails opens it again, with a longer pause."""
    peer = Peer(OSError("refused"))
    async with peer.kept(policy=ReconnectPolicy(failures_to_open=1)) as supervisor:
        await peer.pauses.end()
        assert (supervisor.state, peer.asked, peer.pauses.asked) == ("circuit_open", 2, [1, 2])
        peer.error = None
        await peer.pauses.end()
        assert supervisor.is_up
        assert peer.states[-3:] == ["circuit_open", "half_open", "connected"]


async def test_a_server_that_crashes_after_each_start_is_tried_with_growing_pauses() -> None:
    """A connection that served a request, or lasted, is not a failure in a row."""
    peer = Peer()
    async with peer.kept() as supervisor:
        for _ in range(3):
            supervisor.lose(OSError("crashed"))
            await peer.pauses.end()
            assert supervisor.is_up
        assert peer.pauses.asked == [1, 2, 4]
        assert supervisor.status.failures == 3
        supervisor.succeed()
        assert supervisor.status.failures == 0
        supervisor.lose(OSError("crashed"))
        await peer.pauses.end()
        peer.now += 60
        supervisor.lose(OSError("crashed"))
        await peer.pauses.begun()
        assert peer.pauses.asked == [1, 2, 4, 1, 1]


async def test_what_must_succeed_before_it_counts_as_up_again() -> None:
    """A server that connects, but hangs in a list, is asked for that list."""
    peer = Peer()
    async with peer.kept() as supervisor:
        supervisor.lose(OSError("the list hangs"), _raises)
        await peer.pauses.end()
        assert (supervisor.state, str(supervisor.error), peer.asked) == ("waiting", "it hangs still", 1)


async def _raises() -> None:
    raise OSError("it hangs still")


async def test_what_is_not_started_failed_or_closed() -> None:
    """No request waits for it."""
    peer = Peer()
    supervisor = ConnectionSupervisor("x", peer.connect)
    assert supervisor.state == "idle"
    with pytest.raises(ConnectionClosed, match="is not connected"):
        await supervisor.reach()
    await supervisor.first_attempt()
    broken = ConnectionSupervisor("y", peer.connect)
    broken.fail(ValueError("no command"))
    broken.close()
    assert broken.state == "failed"
    with pytest.raises(ValueError, match="no command"):
        await broken.reach()
    async with peer.kept() as supervisor:
        watch = supervisor.watch()
        assert (await anext(watch)).state == "connected"
    assert (await anext(watch)).state == "closed"
    with pytest.raises(ConnectionClosed):
        await supervisor.reach()


async def test_a_request_that_waits_ends_when_the_program_closes() -> None:
    """An attempt that hangs is given up."""
    peer = Peer()
    peer.gate = anyio.Event()
    caught: list[Exception] = []

    async def reach(supervisor: ConnectionSupervisor) -> None:
        try:
            await supervisor.reach()
        except ConnectionClosed as error:
            caught.append(error)

    async with anyio.create_task_group() as group:
        async with peer.kept() as supervisor:
            group.start_soon(reach, supervisor)
            await anyio.wait_all_tasks_blocked()
    assert len(caught) == 1
