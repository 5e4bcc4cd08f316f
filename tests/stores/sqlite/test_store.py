"""The file: shared by processes, durable, swept."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from ferrule import MCPServer
from ferrule.stores.blobs import probe
from ferrule.stores.errors import StoreNotWritable
from ferrule.stores.sqlite import file as sqlite_file
from ferrule.stores.sqlite.store import (
    SqliteBlobs,
    SqliteChannel,
    SqliteEvents,
    SqliteFile,
    SqliteMarks,
    SqliteSessions,
    SqliteTasks,
    open_sqlite,
)
from ferrule.stores.store import StoreUrlError
from ferrule.stores.tasks import StoredTask

pytestmark = pytest.mark.anyio

CLAIM = """
import sys, anyio
from ferrule.stores.sqlite.store import SqliteFile, SqliteMarks
marks = SqliteMarks(SqliteFile(sys.argv[1]))
async def main():
    sys.stdout.write("ready\\n"); sys.stdout.flush(); sys.stdin.readline()
    mine = 0
    for number in range(50):
        mine += (await marks.begin(f"k{number}", ttl_s=60)).state == "mine"
    print(mine)
anyio.run(main)
"""


def test_processes_at_once_share_every_claim_out(tmp_path: Path):
    """Fifty keys, four processes: each key is answered `mine` once in all."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", CLAIM, str(tmp_path / "s.db")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    counts = [int(worker.communicate(timeout=60)[0]) for worker in workers]
    assert sum(counts) == 50


async def test_what_is_kept_outlives_its_process(tmp_path: Path):
    """Opened again, it is all there."""
    path = str(tmp_path / "s.db")
    first = SqliteFile(path)
    await SqliteMarks(first).begin("k", ttl_s=60)
    await SqliteBlobs(first).put("b", b"x", ttl_s=60)
    first.close()
    second = SqliteFile(path)
    assert (await SqliteMarks(second).begin("k", ttl_s=60)).state == "running"
    assert await SqliteBlobs(second).get("b") == b"x"
    second.close()


async def test_the_file_is_in_wal_mode_and_every_commit_is_durable(tmp_path: Path):
    """A mark that a power cut takes back would let an effect happen twice."""
    file = SqliteFile(str(tmp_path / "s.db"))

    def pragmas(connection: sqlite3.Connection, now: float) -> tuple[str, int]:
        return (
            connection.execute("PRAGMA journal_mode").fetchone()[0],
            connection.execute("PRAGMA synchronous").fetchone()[0],
        )

    assert await file.run(pragmas) == ("wal", 2)
    file.close()


async def test_expired_rows_are_swept_in_passing(tmp_path: Path):
    now = [0.0]
    file = SqliteFile(str(tmp_path / "s.db"), clock=lambda: now[0])
    marks, blobs = SqliteMarks(file), SqliteBlobs(file)
    for number in range(10):
        await marks.begin(str(number), ttl_s=10)
        await blobs.put(str(number), b"x", ttl_s=10)
    now[0] = 100
    await marks.begin("new", ttl_s=10)

    def rows(connection: sqlite3.Connection, now: float) -> int:
        return sum(connection.execute(f"SELECT count(*) FROM ferrule_{t}").fetchone()[0] for t in ("marks", "blobs"))

    assert await file.run(rows) == 1
    file.close()


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of another kind")
async def test_a_new_file_is_its_owners_alone(tmp_path: Path):
    """Session ids give access to sessions. An existing file keeps its permissions."""
    for name, mode in (("new.db", 0o600), ("old.db", 0o640)):
        path = tmp_path / name
        if name == "old.db":
            path.touch()
            path.chmod(mode)
        file = SqliteFile(str(path))
        await SqliteBlobs(file).put("k", b"v", ttl_s=60)
        for each in tmp_path.glob(f"{name}*"):
            assert stat.S_IMODE(each.stat().st_mode) == mode, each
        file.close()


async def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path):
    """With the exception class that callers of stores handle, and the path."""
    with pytest.raises(OSError, match=r"missing.s\.db cannot be used"):
        await SqliteMarks(SqliteFile(str(tmp_path / "missing" / "s.db"))).begin("k", ttl_s=1)
    (tmp_path / "text.db").write_text("no database " * 100)
    with pytest.raises(OSError, match="not a database"):
        await SqliteMarks(SqliteFile(str(tmp_path / "text.db"))).begin("k", ttl_s=1)


async def test_urls_name_relative_and_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Three slashes and a relative path, four and an absolute one."""
    monkeypatch.chdir(tmp_path)
    for url, path in [
        ("sqlite:///one.db", tmp_path / "one.db"),
        (f"sqlite:///{tmp_path}/two.db", tmp_path / "two.db"),
        ("sqlite:///with%20space.db", tmp_path / "with space.db"),
    ]:
        store = open_sqlite(url)
        assert store.is_shared
        await store.marks.begin("k", ttl_s=1)
        assert path.exists()


@pytest.mark.parametrize("url", ["sqlite:", "sqlite:///", "sqlite://host/x.db", "sqlite:///x.db?mode=ro"])
def test_other_urls_are_refused(url):
    with pytest.raises(StoreUrlError):
        open_sqlite(url)


async def test_a_store_without_references_closes_its_file(tmp_path: Path) -> None:
    """A server does not close its store, and since Python 3.13 a connection left open is a warning."""
    file = SqliteFile(str(tmp_path / "store.db"))
    connection = await file.run(lambda connection, now: connection)
    held, gone = file._held, weakref.ref(file)
    del file
    # The thread that did the work may still hold the file; then it closes the connection when it lets go, and a
    # connection must not be used by one thread while another one closes it.
    while gone() is not None or held.connection is not None:
        gc.collect()
        await anyio.sleep(0.001)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


HOUR = 3600.0


def task(task_id: str, *, now: float) -> StoredTask:
    return StoredTask(task_id=task_id, owner="ann", created_at=now, expires_at=now + HOUR, is_open=True, body=b"x")


async def add(file: SqliteFile, task_id: str, *, now: float | None = None) -> StoredTask:
    given = task(task_id, now=time.time() if now is None else now)
    return await SqliteTasks(file).add(given, lease_s=60, max_tasks=10, max_per_owner=10)


@pytest.mark.parametrize("ahead_s", [2 * HOUR, -2 * HOUR, 10 * 365 * 24 * HOUR])
async def test_a_process_whose_clock_is_wrong_ends_nothing_of_others(tmp_path: Path, ahead_s: float) -> None:
    """Not by sweeping, claiming, counting or beginning anew; and what it keeps lives as long as it said."""
    path = str(tmp_path / "s.db")
    right = SqliteFile(path)
    other = SqliteFile(path, clock=lambda: time.time() + ahead_s)
    stored = await add(right, "t")
    await SqliteMarks(right).begin("step", ttl_s=600)
    await SqliteBlobs(right).put("state", b"x", ttl_s=600)
    await SqliteSessions(right).put("s", b"x", idle_s=600)
    event = await SqliteEvents(right).append("s", "1", b"x")
    assert await SqliteTasks(other).get("t") == stored
    assert await SqliteTasks(other).claim(lease_s=60, limit=10) == []
    assert (await SqliteMarks(other).begin("step", ttl_s=600)).state == "running"
    theirs = await add(other, "theirs", now=time.time() + ahead_s)
    assert abs(theirs.expires_at - stored.expires_at) < 10
    for file in (right, other):
        assert [each.task_id for each in await SqliteTasks(file).page("ann", None, 9)] == ["theirs", "t"]
        assert await SqliteBlobs(file).get("state") == b"x"
        assert await SqliteSessions(file).get("s", idle_s=600) == b"x"
        assert await SqliteEvents(file).replay("s", event) is not None
        file.close()


async def test_setting_the_clock_while_a_process_runs_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in it, nor in one that starts afterwards."""
    path = str(tmp_path / "s.db")
    before = SqliteFile(path)
    stored = await add(before, "t")
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 2 * HOUR)
    after = SqliteFile(path)
    for file in (before, after):
        assert await SqliteTasks(file).get("t") == stored
        assert await SqliteTasks(file).claim(lease_s=60, limit=10) == []
        file.close()


@pytest.mark.parametrize("has_id", [True, False], ids=["named", "unnamed"])
async def test_the_time_of_the_file_continues_after_a_restart_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_id: bool
) -> None:
    """Where a start has no name, it is known by a machine that is younger than what was written. A calendar that is
    behind what was written, as that of a machine without a clock is, is not believed."""
    path, uptime, calendar = str(tmp_path / "s.db"), [5000.0], [1e9]
    monkeypatch.setattr(sqlite_file, "uptime_s", lambda: uptime[0])
    monkeypatch.setattr(time, "time", lambda: calendar[0])
    monkeypatch.setattr(sqlite_file, "boot_id", lambda: "first" if has_id else "")

    async def times() -> tuple[float, bytes | None]:
        file = SqliteFile(path)
        found = await SqliteBlobs(file).get("k")
        now = await file.run(lambda connection, now: now)
        file.close()
        return now, found

    file = SqliteFile(path)
    await SqliteBlobs(file).put("k", b"x", ttl_s=HOUR)
    uptime[0] += 100
    await SqliteBlobs(file).get("k")
    file.close()
    monkeypatch.setattr(sqlite_file, "boot_id", lambda: "second" if has_id else "")
    uptime[0], calendar[0] = 30.0, 1.0
    assert await times() == (1e9 + 100, b"x")
    monkeypatch.setattr(sqlite_file, "boot_id", lambda: "third" if has_id else "")
    uptime[0], calendar[0] = 20.0, 1e9 + 2 * HOUR
    assert await times() == (1e9 + 2 * HOUR, None)


def limit(file: SqliteFile, pages: int) -> Any:
    """How much disk there is, in pages of SQLite; those that are there count."""
    return file.run(lambda connection, now: connection.execute(f"PRAGMA max_page_count={pages}").fetchone())


async def test_a_full_disk_is_an_error_and_stored_data_can_be_read(tmp_path: Path) -> None:
    """Nothing is half done, and with new room everything works again."""
    file = SqliteFile(str(tmp_path / "s.db"))
    blobs, marks, tasks, events = SqliteBlobs(file), SqliteMarks(file), SqliteTasks(file), SqliteEvents(file)
    stored = await add(file, "t")
    await limit(file, 1)
    full = pytest.raises(StoreNotWritable, match=r"s\.db cannot be written to: database or disk is full")
    large = replace(task("large", now=time.time()), body=bytes(100_000))
    for _ in range(2):  # the second meets no transaction that the first left open
        for write in (
            lambda: blobs.put("k", bytes(100_000), ttl_s=60),
            lambda: marks.finish("k", bytes(100_000), ttl_s=60),
            lambda: tasks.add(large, lease_s=60, max_tasks=9, max_per_owner=9),
            lambda: tasks.replace(replace(stored, body=bytes(100_000))),
            lambda: events.append("s", "1", bytes(100_000)),
            lambda: probe(blobs),
        ):
            with full:
                await write()
        assert await tasks.get("t") == stored
        assert await tasks.get("large") is None
    await limit(file, 100_000)
    await probe(blobs)
    assert await tasks.replace(replace(stored, body=bytes(100_000))) is not None
    file.close()


async def test_a_probe_leaves_nothing(tmp_path: Path) -> None:
    file = SqliteFile(str(tmp_path / "s.db"))
    for _ in range(3):
        await probe(SqliteBlobs(file))
    assert await file.run(lambda c, now: c.execute("SELECT count(*) FROM ferrule_blobs").fetchone()[0]) == 0
    file.close()


@pytest.mark.parametrize("kind", ["no folder", "below a file", "a folder"])
async def test_a_server_does_not_start_on_a_path_that_cannot_exist(tmp_path: Path, kind: str) -> None:
    """In every way to start; and not when it is made, because a lifespan or an installer may make the folder."""
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    path = {
        "no folder": tmp_path / "none" / "s.db",
        "below a file": tmp_path / "file" / "s.db",
        "a folder": tmp_path / "folder",
    }[kind]
    app = MCPServer("x", store=f"sqlite:///{path}")
    for start in (lambda: app.run("stdio"), lambda: app.run("http", port=0), lambda: app.run("http", workers=2)):
        with pytest.raises(StoreUrlError, match=r"does not exist|is a folder"):
            start()
    with pytest.raises(StoreUrlError, match=r"does not exist|is a folder"):
        async with app.lowlevel.lifespan():
            pass


async def test_a_listener_that_is_cancelled_while_its_connection_opens_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread goes on for a moment: what it opens then is closed by it."""
    file = SqliteFile(str(tmp_path / "s.db"))
    new, opened, closed = file._new, [threading.Event() for _ in range(2)], threading.Event()
    connections: list[sqlite3.Connection] = []

    def slow(timeout_s: float) -> sqlite3.Connection:
        opened[0].set()
        assert opened[1].wait(60)
        connections.append(new(timeout_s))
        return connections[0]

    monkeypatch.setattr(file, "_new", slow)
    monkeypatch.setattr(sqlite_file._ProcessConnection, "close", _noting(sqlite_file._ProcessConnection.close, closed))
    listening = asyncio.create_task(SqliteChannel(file).listen(lambda message: None))
    while not opened[0].is_set():
        await asyncio.sleep(0.001)
    listening.cancel()
    await asyncio.wait([listening])
    opened[1].set()
    while not closed.is_set():
        await asyncio.sleep(0.001)
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):  # used only now: not while the thread closes it
        connections[0].execute("SELECT 1")


def _noting(close: Any, done: threading.Event) -> Any:
    def noted(self: Any) -> None:
        held = self.connection
        close(self)
        if held is not None:
            done.set()

    return noted


def test_a_store_in_a_cycle_closes_its_file(tmp_path: Path) -> None:
    """Its connection must not be found open by the collector, whatever it looks at first."""
    program = f"""
import asyncio, gc, sys, warnings
warnings.simplefilter("error")
from ferrule.stores.sqlite.store import SqliteFile
seen = []
sys.unraisablehook = lambda problem: seen.append(problem.exc_value)
async def use():
    for number in range(50):
        file = SqliteFile({str(tmp_path)!r} + f"/{{number}}.db")
        connection = await file.run(lambda connection, now: connection)
        file.itself = (connection, file)
        del file, connection
asyncio.run(use())
gc.collect()
assert not seen, seen
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
