"""Records are written in order, or wait, or are counted as lost."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule.app.middleware.audit.chain import Chain, check_chains
from ferrule.app.middleware.audit.record import AuditRecord
from ferrule.app.middleware.audit.writer import AuditWriter, SinkFailed

pytestmark = pytest.mark.anyio


def record(number: int) -> AuditRecord:
    return AuditRecord(
        time="now",
        decision="allowed",
        outcome="ok",
        server="x",
        method="tools/call",
        member=str(number),
        transport="local",
        protocol_version="2026-07-28",
        duration_ms=1,
    )


class Sink:
    """Keeps records; fails while `fails` is true."""

    def __init__(self) -> None:
        self.records: list[Mapping[str, Any]] = []
        self.lines: list[bytes] = []
        self.fails = False

    def write(self, record: Mapping[str, Any], line: bytes, /) -> None:
        if self.fails:
            raise OSError("the disk is full")
        self.records.append(record)
        self.lines.append(line)

    @property
    def numbers(self) -> list[str]:
        return [str(record["member"]) for record in self.records]


async def test_what_waits_is_written_first_and_no_chain_breaks(caplog: pytest.LogCaptureFixture) -> None:
    sink = Sink()
    writer = AuditWriter(sink, Chain(None), max_queued=10)
    await writer.write(record(0))
    sink.fails = True
    for number in (1, 2):
        with pytest.raises(SinkFailed):
            await writer.write(record(number))
    assert writer.is_failing
    sink.fails = False
    await writer.write(record(3))
    assert (sink.numbers, writer.is_failing) == (["0", "1", "2", "3"], False)
    assert check_chains(sink.lines).problems == []
    assert [each.levelname for each in caplog.records if each.name == "ferrule.audit"] == ["ERROR", "WARNING"]


async def test_what_has_no_room_is_counted_in_the_next_record() -> None:
    sink = Sink()
    sink.fails = True
    writer = AuditWriter(sink, None, max_queued=2)
    for number in range(5):
        with pytest.raises(SinkFailed):
            await writer.write(record(number))
    sink.fails = False
    await writer.retry()
    await writer.write(record(5))
    assert sink.numbers == ["0", "1", "5"]
    assert [each.get("lost", 0) for each in sink.records] == [0, 0, 3]


async def test_a_record_without_room_is_not_written_though_the_sink_works() -> None:
    """A slow sink: who waits for this record is not answered as if it were kept."""
    sink, begun, ends = Sink(), threading.Event(), threading.Event()

    def slow(found: Mapping[str, Any]) -> None:
        begun.set()
        assert ends.wait(30)
        sink.write(found, b"")

    writer = AuditWriter(slow, None, max_queued=1)
    async with anyio.create_task_group() as group:
        group.start_soon(writer.write, record(0))
        assert await anyio.to_thread.run_sync(begun.wait, 30)
        with pytest.raises(SinkFailed, match="too many"):
            await writer.write(record(1))
        ends.set()
    await writer.write(record(2))
    assert sink.numbers == ["0", "2"]
    assert sink.records[1]["lost"] == 1


def test_records_without_an_answer_are_written_by_a_thread_that_ends() -> None:
    sink = Sink()
    writer = AuditWriter(sink, None, max_queued=1000)
    for number in range(500):
        writer.submit(record(number))
    thread = writer._thread
    assert thread is not None
    assert writer.flush(30)
    assert sink.numbers == [str(number) for number in range(500)]
    thread.join(30)
    assert not thread.is_alive()
    writer.submit(record(500))
    assert writer.flush(30)
    assert sink.numbers[-1] == "500"


def test_a_flush_says_whether_all_is_written() -> None:
    sink = Sink()
    sink.fails = True
    writer = AuditWriter(sink, None, max_queued=10)
    writer.submit(record(0))
    assert not writer.flush(0)
    sink.fails = False
    assert writer.flush(30)


async def test_functions_sync_and_async_take_records() -> None:
    """The async one on the same event loop each time, so that it may keep a connection."""
    seen: list[Any] = []
    loops: set[Any] = set()

    async def keep(found: Mapping[str, Any]) -> None:
        await asyncio.sleep(0)
        loops.add(asyncio.get_running_loop())
        seen.append(found["member"])

    writer = AuditWriter(keep, None, max_queued=10)
    for number in range(3):
        await writer.write(record(number))
    await AuditWriter(lambda found: seen.append(found["member"]), None, max_queued=10).write(record(3))
    assert (seen, len(loops)) == (["0", "1", "2", "3"], 1)
    assert writer._loop is not None
    writer._loop.close()


def test_the_end_of_a_program_waits_for_its_records(tmp_path: Path) -> None:
    program = f"""
import sys
sys.path[:0] = {sys.path!r}
import time
from tests.app.middleware.audit.test_writer import record
from ferrule.app.middleware.audit.sinks import AuditFile
from ferrule.app.middleware.audit.writer import AuditWriter
sink = AuditFile({str(tmp_path / "audit.jsonl")!r})
class Slow:
    def write(self, record, line, /):
        time.sleep(0.005)
        sink.write(record, line)
writer = AuditWriter(Slow(), None, 1000)
for number in range(100):
    writer.submit(record(number))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
    assert len((tmp_path / "audit.jsonl").read_bytes().splitlines()) == 100


def test_a_writer_that_is_not_used_any_more_closes_the_loop_of_its_async_sink() -> None:
    """An event loop that is collected while it is open warns."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def send(record: Mapping[str, Any]) -> None:
        loops.append(asyncio.get_running_loop())

    writer = AuditWriter(send, None, 10)
    writer._put(record(1))  # pyright: ignore[reportPrivateUsage]
    assert writer.flush()
    [loop] = loops
    del writer
    gc.collect()
    assert loop.is_closed()
