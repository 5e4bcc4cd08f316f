"""Servers as real processes that the tests may hurt, and what they wrote down meanwhile.

``FERRULE_CHAOS_SEED`` repeats a run, ``FERRULE_CHAOS_KILLS`` makes it longer (the default is 50, what is promised).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from ferrule.protocol.errors import ConnectionClosed, RemoteError
from ferrule.transports.http.backend import HttpConnectFailed

SEED = int(os.environ.get("FERRULE_CHAOS_SEED", secrets.randbits(32)))
KILLS = int(os.environ.get("FERRULE_CHAOS_KILLS", "50"))
STUCK_S = 100.0
"""Seconds after which a client that waits for one answer counts as stuck."""

LOST = (ConnectionClosed, HttpConnectFailed, OSError)
"""What a call in flight may end with when its worker dies."""

HEAD = """
import os, sys, time
offset = float(os.environ.get("CHAOS_CLOCK_OFFSET", "0"))
if offset:
    true_time = time.time
    time.time = lambda: true_time() + offset
import anyio
from ferrule import Context, MCPServer
from ferrule.extensions.tasks import Tasks

app = MCPServer(
    "chaos",
    store=os.environ["CHAOS_STORE"],
    extensions=[Tasks(lease_s=1, poll_interval_ms=50)],
    state_keys=[b"k" * 32],
)

def note(line: str) -> None:
    file = os.open(os.environ["CHAOS_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\\n".encode())
    os.close(file)

def effect(name: str) -> str:
    note(f"effect {name}")
    return name
"""


class Program:
    """A program of the tests, run as one process or as a supervisor with workers.

    Args:
        folder: where its file and its notes go.
        text: what follows `HEAD`; it ends by itself in ``app.run(…)``.
        store: of all its processes.
    """

    def __init__(self, folder: Path, text: str, store: str) -> None:
        folder.mkdir(exist_ok=True)
        self.script = folder / "program.py"
        self.script.write_text(HEAD + text)
        self.notes_file = folder / "notes"
        self.store = store

    @contextmanager
    def running(self, **environment: str) -> Generator[Running]:
        """Run it; ends with the block."""
        env = {**os.environ, "CHAOS_STORE": self.store, "CHAOS_FILE": str(self.notes_file), **environment}
        process = subprocess.Popen([sys.executable, str(self.script)], env=env, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield Running(process, int(process.stdout.readline()))
        finally:
            process.terminate()
            try:
                process.wait(30)
            finally:
                process.kill()
                process.communicate()

    def notes(self) -> list[tuple[str, str]]:
        """What was noted, in order: ``(word, name)``."""
        lines = self.notes_file.read_text().splitlines() if self.notes_file.exists() else []
        return [(line.split()[0], line.split()[1]) for line in lines]


class Running:
    """A process that serves, and its children if it has any."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}/mcp"

    def workers(self) -> list[int]:
        """The children."""
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True)
        rows = [line.split() for line in listed.stdout.splitlines()]
        return [int(pid) for pid, parent, state in rows if int(parent) == self.process.pid and state[0] != "Z"]


def repeated_effects(notes: list[tuple[str, str]]) -> list[str]:
    """Steps that took effect again after their result had been kept; there may be none."""
    kept: set[str] = set()
    wrong: list[str] = []
    for word, name in notes:
        if word == "kept":
            kept.add(name)
        elif word == "effect" and name in kept:
            wrong.append(name)
    return wrong


class Traffic:
    """Clients that go on until they are told to stop; each failure but a lost connection is remembered.

    Attributes:
        done, lost: how many calls ended well, and how many with their worker.
        wrong: everything else.
    """

    def __init__(self) -> None:
        self.is_over = False
        self.done = 0
        self.lost = 0
        self.wrong: list[str] = []

    @asynccontextmanager
    async def going(
        self, *clients: Callable[[], Awaitable[None]], last: Callable[[], Awaitable[None]]
    ) -> AsyncGenerator[None]:
        """Run the clients while the block runs; afterwards each finishes what it has begun, and ``last`` after all."""
        async with asyncio.TaskGroup() as lasting:
            ending = lasting.create_task(self._forever(last, until_cancelled=True))
            async with asyncio.TaskGroup() as group:
                for client in clients:
                    group.create_task(self._forever(client))
                try:
                    yield
                finally:
                    self.is_over = True
            ending.cancel()

    async def _forever(self, client: Callable[[], Awaitable[None]], until_cancelled: bool = False) -> None:
        while until_cancelled or not self.is_over:
            try:
                async with asyncio.timeout(STUCK_S):
                    await client()
            except LOST as error:
                if isinstance(error, TimeoutError):
                    self.wrong.append(f"{client.__name__} is stuck")
                else:
                    self.lost += 1
            except RemoteError as error:
                if "process that served this request has ended" in str(error):
                    self.lost += 1
                else:
                    self.wrong.append(f"{client.__name__}: {error}")
            except Exception as error:
                self.wrong.append(f"{client.__name__}: {type(error).__name__}: {error}")
                await asyncio.sleep(0.05)
            else:
                self.done += 1
