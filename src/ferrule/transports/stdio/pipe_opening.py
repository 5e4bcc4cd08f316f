"""Opens framed pipes in the running event loop; imports the module for this event loop on first use."""

from __future__ import annotations

from ferrule.transports.stdio.descriptors import NonBlockingFd
from ferrule.transports.stdio.pipes import FrameReader, FrameWriter
from ferrule.transports.watch import runs_on_trio

__all__ = ["open_reader", "open_writer"]


def open_reader(source: NonBlockingFd, max_message_bytes: int) -> FrameReader:
    """Return a reader of frames from a descriptor, which it owns from then on, in the running event loop."""
    if runs_on_trio():
        from ferrule.transports.stdio.pipes_trio import TrioReader

        return TrioReader(source, max_message_bytes)
    from ferrule.transports.stdio.pipes_asyncio import open_reader as open_asyncio_reader

    return open_asyncio_reader(source, max_message_bytes)


def open_writer(target: NonBlockingFd) -> FrameWriter:
    """Return a writer of frames to a descriptor, which it owns from then on, in the running event loop."""
    if runs_on_trio():
        from ferrule.transports.stdio.pipes_trio import TrioWriter

        return TrioWriter(target)
    from ferrule.transports.stdio.pipes_asyncio import open_writer as open_asyncio_writer

    return open_asyncio_writer(target)
