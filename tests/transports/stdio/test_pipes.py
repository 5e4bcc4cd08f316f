"""Framed pipes: the pure halves, and the shells for each event loop, with and without a descriptor that can be polled.

What cannot be polled is read and written in threads; that is what Windows and some devices get. Here a pipe whose
wrapper says so stands in for them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from ferrule.transports.stdio import pipes as _pipes
from ferrule.transports.stdio.descriptors import NonBlockingFd
from ferrule.transports.stdio.pipe_opening import open_reader, open_writer
from ferrule.transports.stdio.pipes import FrameReader, FrameWriter, Inbox, Outbox, encode_frame
from ferrule.wire.codec import Encoded
from ferrule.wire.ndjson import FrameTooLong

LIMIT = 10_000_000

both_kinds = pytest.mark.parametrize("pollable", [True, False], ids=["polled", "threads"])
on_both_loops = pytest.mark.usefixtures("any_backend")


def wrap(fd: int, *, writing: bool, pollable: bool) -> NonBlockingFd:
    """A descriptor as a pipe, or as something that no loop can wait for."""
    if pollable:
        return NonBlockingFd(fd, writing=writing)
    wrapped = NonBlockingFd(os.open(os.devnull, os.O_RDWR), writing=writing)
    os.close(wrapped.fd)
    wrapped.fd = fd
    return wrapped


@asynccontextmanager
async def reading(*, pollable: bool) -> AsyncIterator[tuple[FrameReader, int]]:
    """A reader and the far end's descriptor, which the test may close."""
    source, far = os.pipe()
    reader = open_reader(wrap(source, writing=False, pollable=pollable), LIMIT)
    try:
        yield reader, far
    finally:
        reader.close()
        try:
            os.close(far)
        except OSError:
            pass


@asynccontextmanager
async def writing(*, pollable: bool) -> AsyncIterator[tuple[FrameWriter, int]]:
    """A writer and the far end's descriptor, which the test may close."""
    far, target = os.pipe()
    writer = open_writer(wrap(target, writing=True, pollable=pollable))
    try:
        yield writer, far
    finally:
        writer.close()
        try:
            os.close(far)
        except OSError:
            pass


# -- without a loop -----------------------------------------------------------------------------------------------


def test_an_inbox_rests_when_much_was_not_taken() -> None:
    """A peer that writes faster than it is served must wait in its pipe, not in our memory."""
    inbox = Inbox(LIMIT)
    assert not inbox.feed(b"a\n")
    assert inbox.feed(b"a\n" * 2000)
    inbox.frames.clear()
    assert not inbox.feed(b"a\n")
    assert inbox.feed(b"x" * 5_000_000 + b"\n")


def test_an_unfinished_large_frame_is_no_reason_to_rest() -> None:
    """Resting with nothing to take would wait for ever."""
    inbox = Inbox(LIMIT)
    assert not inbox.feed(b"x" * 6_000_000)
    assert inbox.is_inside_large_frame
    inbox.end()
    assert len(inbox.frames) == 1
    inbox.end()
    assert len(inbox.frames) == 1


@pytest.mark.parametrize("size", [1, 1000, 70_000, 3_000_000])
def test_an_outbox_writes_every_byte_once_through_a_full_pipe(size: int) -> None:
    """Partial writes cut frames at any byte; small ones are joined and large ones are not copied."""
    source, target = os.pipe()
    mine = NonBlockingFd(target, writing=True)
    os.set_blocking(source, False)
    outbox = Outbox()
    frames = [bytes([65 + i % 26]) * (size + i) for i in range(5)] + [b"tail"] * 700
    for frame in frames:
        outbox.add(frame)
    written = bytearray()
    while not outbox.flush(mine):
        assert outbox.unsent_bytes
        written += os.read(source, 100_003)
    mine.close()
    while chunk := os.read(source, 1 << 20):
        written += chunk
    os.close(source)
    assert bytes(written) == b"".join(frame + b"\n" for frame in frames)
    assert outbox.unsent_bytes == 0


def test_an_outbox_without_a_reader_keeps_nothing() -> None:
    """A broken pipe is reported once and never raised; later frames are dropped."""
    source, target = os.pipe()
    os.close(source)
    mine = NonBlockingFd(target, writing=True)
    outbox = Outbox()
    told: list[bool] = []
    outbox.on_broken = lambda: told.append(True)
    for _ in range(2):
        outbox.add(b"x")
        assert outbox.flush(mine)
    assert (outbox.broken, outbox.unsent_bytes, told) == (True, 0, [True])
    mine.close()


def test_a_frame_never_holds_a_newline() -> None:
    """Ready-made JSON may be laid out over lines; inside text a newline is escaped anyway."""
    assert encode_frame({"a": Encoded(b'[\n1,\r\n"x\\n"]')}) == b'{"a":[1,"x\\n"]}'


# -- readers ------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@on_both_loops
@both_kinds
async def test_frames_arrive_and_the_end_comes_after_them(pollable: bool) -> None:
    """Several in one chunk, one in two chunks, one too long, and the last one without its end."""
    async with reading(pollable=pollable) as (reader, far):
        os.write(far, b"one\ntwo\nthr")
        assert [await reader.next_frame() for _ in range(2)] == [b"one", b"two"]
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, os.write, far, b"ee\nlast")
            assert await reader.next_frame() == b"three"
        os.close(far)
        assert await reader.next_frame() == b"last"
        for _ in range(2):
            with pytest.raises(anyio.EndOfStream):
                await reader.next_frame()


@pytest.mark.anyio
@on_both_loops
@both_kinds
async def test_much_more_than_is_taken_waits_in_the_pipe(pollable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading rests with full hands and goes on when they are empty; nothing is lost and nothing piles up."""
    monkeypatch.setattr(_pipes, "_REST_FRAMES", 10)
    async with reading(pollable=pollable) as (reader, far):

        def flood() -> None:
            for i in range(3000):
                os.write(far, b"%d " % i + b"x" * 1000 + b"\n")
            os.close(far)

        thread = threading.Thread(target=flood)
        thread.start()
        got = 0
        with anyio.fail_after(30):
            while True:
                try:
                    frame = await reader.next_frame()
                except anyio.EndOfStream:
                    break
                assert isinstance(frame, bytes)
                assert frame.startswith(b"%d " % got)
                got += 1
                assert len(reader.frames) <= 2000
                await anyio.sleep(0)
        thread.join()
        assert got == 3000


@pytest.mark.anyio
@on_both_loops
@both_kinds
@pytest.mark.parametrize("how", ["finish", "discard", "close"])
async def test_ending_a_reader_wakes_who_waits(pollable: bool, how: str) -> None:
    """The server stops, the process died, the connection closes: in each case a task waits in `next_frame`."""
    async with reading(pollable=pollable) as (reader, far):
        ended: list[bool] = []

        async def wait() -> None:
            with pytest.raises(anyio.EndOfStream):
                await reader.next_frame()
            ended.append(True)

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                getattr(reader, how)()
        assert ended == [True]
        os.close(far)  # frees the thread, where one reads


@pytest.mark.anyio
@on_both_loops
async def test_finishing_hands_out_what_is_in_the_pipe() -> None:
    """Output of a process before its end counts, also if no task waited for it."""
    async with reading(pollable=True) as (reader, far):
        os.write(far, b"one\ntwo\n")
        reader.finish()
        assert [await reader.next_frame() for _ in range(2)] == [b"one", b"two"]
        with pytest.raises(anyio.EndOfStream):
            await reader.next_frame()


@pytest.mark.anyio
@on_both_loops
@both_kinds
async def test_a_discarded_pipe_never_blocks_its_writer(pollable: bool) -> None:
    """A server that ends may still write answers that are not needed any more."""
    async with reading(pollable=pollable) as (reader, far):
        os.write(far, b"early\n" * 2000)
        with anyio.fail_after(30):
            # On asyncio reading rests after these frames; on trio nothing reads before a task waits for a frame.
            while not getattr(reader, "_resting", True):
                await anyio.sleep(0.001)
        reader.discard()
        with anyio.fail_after(30):
            for _ in range(100):
                await anyio.to_thread.run_sync(os.write, far, b"x" * 60_000)
        with pytest.raises(anyio.EndOfStream):
            await reader.next_frame()


@pytest.mark.anyio
@on_both_loops
async def test_a_cancelled_wait_loses_no_frame() -> None:
    """Waiting with a limit is ordinary."""
    async with reading(pollable=True) as (reader, far):
        with anyio.move_on_after(0.01):
            await reader.next_frame()
        os.write(far, b"kept\n")
        assert await reader.next_frame() == b"kept"


@pytest.mark.anyio
@on_both_loops
async def test_a_frame_that_is_too_long_stands_in_its_place() -> None:
    """Before and after it frames are whole."""
    async with reading(pollable=True) as (reader, far):
        os.write(far, b"a\n")
        assert await reader.next_frame() == b"a"

        def flood() -> None:
            for _ in range(200):
                os.write(far, b"x" * 65536)
            os.write(far, b"\nb\n")

        thread = threading.Thread(target=flood)
        thread.start()
        assert isinstance(await reader.next_frame(), FrameTooLong)
        assert await reader.next_frame() == b"b"
        thread.join()


# -- writers ------------------------------------------------------------------------------------------------------


def read_until(far: int, size: int) -> bytes:
    """Exactly so many bytes."""
    read = bytearray()
    while len(read) < size:
        chunk = os.read(far, size - len(read))
        assert chunk
        read += chunk
    return bytes(read)


@pytest.mark.anyio
@on_both_loops
@both_kinds
async def test_frames_leave_in_order_through_a_full_pipe(pollable: bool) -> None:
    """Small and large ones, flushed and not, while the far end reads slowly; the waiting ends when all is out."""
    async with writing(pollable=pollable) as (writer, far):
        frames = [b"%d" % i + b"x" * (10 ** (i % 6)) for i in range(60)]
        expected = b"".join(frame + b"\n" for frame in frames)
        for i, frame in enumerate(frames):
            writer.send_nowait(frame, flush=i % 3 == 0)
        assert writer.outbox.unsent_bytes > 100_000
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(writer.wait_below, 0)
                assert await anyio.to_thread.run_sync(read_until, far, len(expected)) == expected
        assert writer.outbox.unsent_bytes == 0


@pytest.mark.anyio
async def test_one_flushed_frame_is_written_before_the_next_loop_pass() -> None:
    """A single answer must not wait for a pass of the loop; the others of the pass leave with it in one write."""
    async with writing(pollable=True) as (writer, far):
        writer.send_nowait(b"one", flush=False)
        writer.send_nowait(b"two", flush=False)
        os.set_blocking(far, False)
        with pytest.raises(BlockingIOError):
            os.read(far, 100)
        writer.send_nowait(b"three", flush=True)
        assert os.read(far, 100) == b"one\ntwo\nthree\n"
        writer.send_nowait(b"four", flush=False)
        await anyio.sleep(0)
        assert os.read(far, 100) == b"four\n"


@pytest.mark.anyio
@on_both_loops
@both_kinds
async def test_a_closed_peer_is_reported_and_ends_waits(pollable: bool) -> None:
    """No task may wait for a reader that has ended."""
    async with writing(pollable=pollable) as (writer, far):
        told: list[bool] = []
        writer.outbox.on_broken = lambda: told.append(True)
        writer.send_nowait(b"x" * 3_000_000, flush=True)
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(writer.wait_below, 0)
                await anyio.wait_all_tasks_blocked()
                os.close(far)
        assert writer.outbox.broken
        assert told == [True]
        writer.send_nowait(b"y", flush=True)
        assert writer.outbox.unsent_bytes == 0


@pytest.mark.anyio
@on_both_loops
@both_kinds
async def test_closing_a_writer_frees_who_waits(pollable: bool) -> None:
    """The bound of a shutdown has passed; the far end still does not read."""
    async with writing(pollable=pollable) as (writer, _):
        writer.send_nowait(b"x" * 3_000_000, flush=True)
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(writer.wait_below, 0)
                await anyio.wait_all_tasks_blocked()
                writer.close()
        assert writer.outbox.broken


@pytest.mark.anyio
async def test_what_was_written_before_the_end_is_read_where_a_thread_reads() -> None:
    """Pipes that cannot be polled, as on Windows: a server that ends right after its answer has given it."""
    from ferrule.transports.stdio.pipes_asyncio import ThreadReader

    for _ in range(50):
        end, start = os.pipe()
        source = NonBlockingFd(end, writing=False)
        source.pollable = False
        os.set_blocking(source.fd, True)
        reader = ThreadReader(source, 1000)
        os.write(start, b'{"a":1}\n')
        os.close(start)
        reader.finish()
        assert await reader.next_frame() == b'{"a":1}'
        with pytest.raises(anyio.EndOfStream):
            await reader.next_frame()


@pytest.mark.anyio
async def test_a_pipe_that_others_hold_open_is_given_up_where_a_thread_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process has ended, and a child of its own has not."""
    from ferrule.transports.stdio import pipes_asyncio as _pipes_asyncio

    monkeypatch.setattr(_pipes_asyncio, "_LAST_READ_S", 0.01)
    end, start = os.pipe()
    source = NonBlockingFd(end, writing=False)
    source.pollable = False
    os.set_blocking(source.fd, True)
    reader = _pipes_asyncio.ThreadReader(source, 1000)
    reader.finish()
    with pytest.raises(anyio.EndOfStream):
        await reader.next_frame()
    os.close(start)
