"""ferrule.transports.asgi.health: the responses to probes, and the facts that they must not contain."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import MCPServer
from ferrule.kernel.server import Server
from ferrule.stores.blobs import MemoryBlobs
from ferrule.stores.channel import MemoryChannel
from ferrule.stores.errors import StoreNotWritable
from ferrule.stores.events import MemoryEventStore
from ferrule.stores.marks import MemoryMarks
from ferrule.stores.sessions import MemorySessions
from ferrule.stores.store import Store
from ferrule.testing import ManualClock
from ferrule.transports.asgi import HttpEndpoint, HttpOptions
from tests.transports.asgi.support import Answer, Call

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


async def get(app: Any, path: str, method: str = "GET", root_path: str = "", **headers: str) -> Answer:
    """One answer."""
    call = Call(app, method, path, headers=headers, root_path=root_path)
    await call.run()
    return call.answer


class Blobs(MemoryBlobs):
    """A store that can be taken away."""

    def __init__(self) -> None:
        super().__init__()
        self.problem: Exception | None = None
        self.asked = 0
        self.hangs = False

    async def get(self, key: str) -> bytes | None:
        self.asked += 1
        if self.hangs:
            await anyio.sleep_forever()
        if self.problem is not None:
            raise self.problem
        return None


def shared(blobs: Blobs) -> Store:
    return Store(MemoryMarks(), blobs, True, channel=MemoryChannel(), sessions=MemorySessions())


async def test_both_are_there_and_say_one_word() -> None:
    """By default, as platforms expect; with any Host, because a kubelet uses the address."""
    app = HttpEndpoint(Server("x"), HttpOptions(loopback=True))
    for path, word in (("/healthz", "ok"), ("/readyz", "ready")):
        answer = await get(app, path, host="10.1.2.3:8000", origin="https://evil.example.com")
        assert (answer.status, answer.json) == (200, {"status": word})
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
        head = await get(app, path, "HEAD")
        assert (head.status, head.body) == (200, b"")
        assert (await get(app, path, "POST")).status == 405
    await app.aclose()


async def test_they_can_be_elsewhere_or_nowhere() -> None:
    """Below the mounting prefix like the endpoint, and never instead of a document of the host's own."""
    own = HttpOptions(health_path="/up", ready_path=None)
    app = HttpEndpoint(Server("x"), own)
    assert (await get(app, "/up")).status == 200
    assert (await get(app, "/tools/up", root_path="/tools")).status == 200
    assert (await get(app, "/readyz")).status == 404
    assert (await get(app, "/healthz")).status == 404
    hooked = HttpEndpoint(Server("x"), HttpOptions(documents=lambda context: (200, b"mine", [])))
    assert (await get(hooked, "/healthz")).body == b"mine"
    with pytest.raises(ValueError, match="slash"):
        HttpOptions(ready_path="readyz")


async def test_a_lifespan_that_fails_is_not_ready_and_says_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    """The reason is in the log; the response is one word."""

    @asynccontextmanager
    async def broken(server: Any) -> AsyncIterator[None]:
        raise RuntimeError("no database at db.internal")
        yield

    app = HttpEndpoint(Server("x", lifespan=broken))
    with caplog.at_level(logging.WARNING):
        answer = await get(app, "/readyz")
    assert (answer.status, answer.json) == (503, {"status": "unavailable"})
    assert "db.internal" in caplog.text
    assert (await get(app, "/healthz")).status == 200


async def test_a_store_that_is_away_is_not_ready_until_it_is_back() -> None:
    """It is checked once a second at most, however many probes there are."""
    blobs, clock = Blobs(), ManualClock()
    options = HttpOptions(shared=shared(blobs), event_store=MemoryEventStore(), clock=clock)
    app = HttpEndpoint(Server("x"), options)
    for _ in range(5):
        assert (await get(app, "/readyz")).status == 200
    assert blobs.asked == 1
    blobs.problem = ConnectionError("redis://:secret@db")
    clock.advance(1.5)
    answer = await get(app, "/readyz")
    assert (answer.status, answer.json) == (503, {"status": "unavailable"})
    blobs.problem = None
    clock.advance(1.5)
    assert (await get(app, "/readyz")).status == 200
    await app.aclose()


async def test_a_store_that_hangs_is_not_ready_and_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many probes at once share one look.

    They wait for twice the time of a look before they give it up: time enough on a busy machine.
    """
    monkeypatch.setattr("ferrule.transports.asgi.health._CHECK_S", 0.5)
    blobs = Blobs()
    blobs.hangs = True
    app = HttpEndpoint(Server("x"), HttpOptions(shared=shared(blobs), event_store=MemoryEventStore()))
    found: list[int] = []

    async def probe() -> None:
        found.append((await get(app, "/readyz")).status)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(probe)
    assert (found, blobs.asked) == ([503] * 4, 1)
    await app.aclose()


async def test_a_store_that_can_only_be_read_is_not_ready(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With a full disk new calls would fail. The reason is in the log."""
    app, clock = MCPServer("x", store=f"sqlite:///{tmp_path}/s.db"), ManualClock()
    endpoint = app.asgi(clock=clock)
    assert (await get(endpoint, "/readyz")).status == 200
    assert app.store is not None
    file: Any = app.store.blobs._file  # type: ignore[attr-defined]
    await file.run(lambda connection, now: connection.execute("PRAGMA max_page_count=1").close())
    for number in range(100):  # what was freed before can be used still
        with suppress(StoreNotWritable):
            await app.store.blobs.put(str(number), bytes(2000), ttl_s=60)
    for pages, status in ((1, 503), (100_000, 200)):
        await file.run(
            lambda connection, now, pages=pages: connection.execute(f"PRAGMA max_page_count={pages}").close()
        )
        clock.advance(1.5)
        assert (await get(endpoint, "/readyz")).status == status
    assert "not ready: StoreNotWritable" in caplog.text
    assert "disk is full" in caplog.text
    await endpoint.aclose()


async def test_a_check_of_ones_own_takes_the_place_of_the_stores() -> None:
    """For a server that works without its store."""
    blobs, says = Blobs(), [False, True]
    blobs.problem = ConnectionError("away")
    clock = ManualClock()

    async def check() -> bool:
        return says.pop(0)

    options = HttpOptions(shared=shared(blobs), event_store=MemoryEventStore(), ready_check=check, clock=clock)
    app = HttpEndpoint(Server("x"), options)
    assert (await get(app, "/readyz")).status == 503
    clock.advance(2)
    assert (await get(app, "/readyz")).status == 200
    assert blobs.asked == 0
    await app.aclose()


async def test_a_store_of_the_applications_is_asked_as_well(tmp_path: Path, anyio_backend: str) -> None:
    """Also one in a file, which shares no sessions over the network; one inside the process is not."""
    app = MCPServer("x", store=f"sqlite:///{tmp_path / 'missing' / 'store.db'}").asgi()
    assert (await get(app, "/readyz")).status == 503
    (tmp_path / "missing").mkdir()
    app = MCPServer("x", store=f"sqlite:///{tmp_path / 'missing' / 'store.db'}").asgi()
    assert (await get(app, "/readyz")).status == 200
    await app.aclose()
    assert MCPServer("x").asgi().options.ready_check is None


async def test_a_drain_is_announced_before_anything_ends() -> None:
    """Load balancers need time to notice it; the process stays alive, and a new start works."""
    app = HttpEndpoint(Server("x"))
    assert (await get(app, "/readyz")).status == 200
    app.announce_drain()
    answer = await get(app, "/readyz")
    assert (answer.status, answer.json) == (503, {"status": "draining"})
    assert (await get(app, "/healthz")).status == 200
    await app.aclose()
    assert (await get(app, "/readyz")).status == 200
    await app.aclose()
