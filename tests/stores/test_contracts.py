"""Each store of this package against the contract that it publishes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.stores.blobs import MemoryBlobs
from ferrule.stores.marks import MemoryMarks
from ferrule.stores.sqlite import SqliteBlobs, SqliteFile, SqliteMarks
from ferrule.stores.sqlite_tasks import SqliteTasks
from ferrule.stores.tasks import MemoryTasks
from ferrule.testing.contracts import BlobStoreContract, MarksContract, StoreContract, TaskStoreContract

pytestmark = pytest.mark.anyio


class Turned(StoreContract):
    """Time is a number here."""

    time_s = 1_000_000.0

    def now(self) -> float:
        return self.time_s

    async def pass_time(self, seconds: float) -> None:
        self.time_s += seconds


class TestMemoryMarks(Turned, MarksContract):
    async def make(self) -> MemoryMarks:
        return MemoryMarks(clock=self.now)


class TestMemoryBlobs(Turned, BlobStoreContract):
    async def make(self) -> MemoryBlobs:
        return MemoryBlobs(clock=self.now)


class TestMemoryTasks(Turned, TaskStoreContract):
    async def make(self) -> MemoryTasks:
        return MemoryTasks(clock=self.now)


class InFile(Turned):
    """A new file for each test."""

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> object:
        self.file = SqliteFile(str(tmp_path / "store.db"), clock=self.now)
        yield
        self.file.close()


class TestSqliteMarks(InFile, MarksContract):
    async def make(self) -> SqliteMarks:
        return SqliteMarks(self.file)


class TestSqliteBlobs(InFile, BlobStoreContract):
    async def make(self) -> SqliteBlobs:
        return SqliteBlobs(self.file)


class TestSqliteTasks(InFile, TaskStoreContract):
    async def make(self) -> SqliteTasks:
        return SqliteTasks(self.file)
