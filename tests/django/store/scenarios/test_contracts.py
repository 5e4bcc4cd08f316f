"""The store in a database against the contracts of stores, on each kind of database."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from ferrule.django.models import EventRow
from ferrule.django.store.channel import DjangoChannel
from ferrule.django.store.database import Database, digest
from ferrule.django.store.events import DjangoEvents
from ferrule.django.store.tasks import DjangoTasks
from ferrule.django.store.values import DjangoBlobs, DjangoCache, DjangoMarks, DjangoRateLimits, DjangoSessions
from ferrule.testing.contracts import (
    BlobStoreContract,
    CacheStoreContract,
    ChannelContract,
    EventStoreContract,
    MarksContract,
    RateLimitStoreContract,
    SessionStoreContract,
    StoreContract,
    TaskStoreContract,
)
from tests.django.store.databases import KINDS_OF_DATABASE, database, empty

pytestmark = pytest.mark.anyio

ALIAS = "contracts"


@pytest.fixture(scope="module", params=KINDS_OF_DATABASE)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    folder = tmp_path_factory.mktemp("database")
    with database(ALIAS, request.param, folder):
        yield folder


class InDatabase(StoreContract):
    """Empty tables for each test, and time as a number."""

    time_s = 1_000_000.0

    def now(self) -> float:
        return self.time_s

    async def pass_time(self, seconds: float) -> None:
        self.time_s += seconds

    @pytest.fixture(autouse=True)
    def _database(self, made: Path) -> None:
        empty(ALIAS)
        self.database = Database(ALIAS, clock=self.now)


class TestMarks(InDatabase, MarksContract):
    async def make(self) -> DjangoMarks:
        return DjangoMarks(self.database)


class TestBlobs(InDatabase, BlobStoreContract):
    async def make(self) -> DjangoBlobs:
        return DjangoBlobs(self.database)


class TestCache(InDatabase, CacheStoreContract):
    async def make(self) -> DjangoCache:
        return DjangoCache(self.database)


class TestRateLimits(InDatabase, RateLimitStoreContract):
    async def make(self) -> DjangoRateLimits:
        return DjangoRateLimits(self.database)


class TestSessions(InDatabase, SessionStoreContract):
    async def make(self) -> DjangoSessions:
        return DjangoSessions(self.database)


class TestEvents(InDatabase, EventStoreContract):
    async def make(self) -> DjangoEvents:
        return DjangoEvents(self.database)

    async def test_the_streams_of_one_session_are_bounded(self) -> None:
        """Each GET that a client drops begins one; the ids of one that was dropped and goes on are new ones."""
        events = DjangoEvents(self.database, max_stream_events=10, max_session_streams=3)
        await events.append("other", "1", b"kept")
        first = [await events.append("s", "0", b"x") for _ in range(15)]
        assert await self._rows() == {"0": 10}
        for number in range(1, 6):
            last = await events.append("s", str(number), b"")
        assert len(await self._rows()) == 3
        assert await events.replay("s", first[-1]) is None
        assert await events.replay("s", last) is not None
        again = await events.append("s", "0", b"y")
        assert again not in first
        assert await events.replay("s", first[-1]) is None
        assert await events.replay("s", again) is not None

    async def _rows(self) -> dict[str, int]:
        names = {digest(str(number)): str(number) for number in range(10)}

        def work(now: float) -> list[str]:
            return [names[row.stream] for row in self.database.rows(EventRow).filter(session=digest("s"))]

        found = await self.database.run(work)
        return {name: found.count(name) for name in found}


class TestChannel(InDatabase, ChannelContract):
    async def make_two(self) -> tuple[DjangoChannel, DjangoChannel]:
        other = Database(ALIAS, clock=self.now)
        return DjangoChannel(self.database, poll_s=0.01), DjangoChannel(other, poll_s=0.01)


class TestTasks(InDatabase, TaskStoreContract):
    async def make(self) -> DjangoTasks:
        return DjangoTasks(self.database)
