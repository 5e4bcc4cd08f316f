"""Writes audit records in order, through a bounded queue, in a thread.

The thread ends when there is nothing to write, and is not a daemon: at the end of the program the interpreter waits for
it until the sink has taken all records. If the sink fails then, the thread ends and the remaining records are lost.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Final
from weakref import finalize

import anyio.to_thread

from ferrule.app.middleware.audit.chain import Chain
from ferrule.app.middleware.audit.record import AuditRecord
from ferrule.app.middleware.audit.sinks import AuditFunction, AuditSink
from ferrule.wire.codec import encode, to_builtins

__all__ = ["AuditWriter", "SinkFailed"]

logger = logging.getLogger("ferrule.audit")

_IDLE_S: Final = 0.2
"""Seconds without a record after which the thread ends."""
_RETRY_S: Final = 1.0
"""Seconds between two attempts to write to a sink that fails."""


class SinkFailed(Exception):
    """The sink has not taken a record."""


@dataclass(slots=True)
class _Waiting:
    record: AuditRecord
    lost: int


class AuditWriter:
    """The queue and the thread of one `Audit`.

    Args:
        sink: where records go.
        chain: links the lines; ``None`` for plain ones.
        max_queued: maximum number of records that wait; further ones are lost, and counted in the next record.

    Attributes:
        lost: the number of records that could not be written since the last one.
        is_failing: whether the last attempt to write has failed.
    """

    def __init__(self, sink: AuditSink | AuditFunction, chain: Chain | None, max_queued: int) -> None:
        self._sink = sink
        self._chain = chain
        self._max_queued = max_queued
        self._waiting: deque[_Waiting] = deque()
        self._adding = threading.Lock()
        self._turn = threading.Lock()
        self._start = threading.Lock()
        self._arrived = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.lost = 0
        self.is_failing = False

    # -- with an answer -------------------------------------------------------------------------------------------

    async def write(self, record: AuditRecord) -> None:
        """Write one record, and those before it that the sink has not taken.

        Raises:
            SinkFailed: the sink has not taken it, and it waits for the next attempt; or there was no room for it.
        """
        if not self._put(record):
            raise SinkFailed("too many records wait")
        await self.retry()

    async def retry(self) -> None:
        """Write the records that wait.

        Raises:
            SinkFailed: the sink does not take them.
        """
        # Not abandoned when the request is cancelled: the next attempt would wait for the lock of this one.
        await anyio.to_thread.run_sync(self._drain)

    # -- without waiting ------------------------------------------------------------------------------------------

    def submit(self, record: AuditRecord) -> None:
        """Write one record soon."""
        self._put(record)
        self._arrived.set()
        with self._start:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, name="ferrule-audit", daemon=False)
                self._thread.start()

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until all records are written, and return whether they are.

        Args:
            timeout_s: seconds to wait at most.
        """
        ends_at = time.monotonic() + timeout_s
        while True:
            try:
                self._drain()
                return True
            except SinkFailed:
                if time.monotonic() >= ends_at:
                    return False
                time.sleep(min(_IDLE_S, timeout_s))

    # -- the thread -----------------------------------------------------------------------------------------------

    def _put(self, record: AuditRecord) -> bool:
        """Add a record to those that wait, or count it as lost; return whether there was room."""
        with self._adding:  # requests end in several threads
            if len(self._waiting) >= self._max_queued:
                self.lost += 1
                return False
            self._waiting.append(_Waiting(record, self.lost))
            self.lost = 0
            return True

    def _serve(self) -> None:
        while True:
            self._arrived.clear()
            try:
                self._drain()
            except SinkFailed:
                if not threading.main_thread().is_alive():
                    return
                time.sleep(_RETRY_S)
                continue
            if self._arrived.wait(_IDLE_S if threading.main_thread().is_alive() else 0):
                continue
            with self._start:
                if not self._waiting:
                    self._thread = None
                    return

    def _drain(self) -> None:
        """Write the records that wait, in order.

        Raises:
            SinkFailed: the sink does not take the first of them.
        """
        with self._turn:
            while self._waiting:
                waiting = self._waiting[0]
                try:
                    self._write(waiting)
                except Exception as error:
                    if not self.is_failing:  # once, and not for each record while it lasts
                        logger.error("Audit records cannot be written: %s: %s", type(error).__name__, error)
                    self.is_failing = True
                    raise SinkFailed(str(error)) from error
                self._waiting.popleft()
                if self.is_failing:
                    logger.warning("Audit records can be written again")
                    self.is_failing = False

    def _write(self, waiting: _Waiting) -> None:
        record: dict[str, Any] = to_builtins(waiting.record)
        if waiting.lost:
            record["lost"] = waiting.lost
        if self._chain is None:
            self._send(record, encode(record))
            return
        line, written = self._chain.link(record)
        self._send(record, line)
        written()

    def _send(self, record: Mapping[str, Any], line: bytes) -> None:
        if isinstance(self._sink, AuditSink):
            self._sink.write(record, line)
            return
        found = self._sink(record)
        if isawaitable(found):
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                finalize(self, self._loop.close)
            self._loop.run_until_complete(_awaited(found))


async def _awaited(found: Any) -> None:
    await found
