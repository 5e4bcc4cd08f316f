"""Mixed load on four workers while one of them is killed each minute: soak.py --store URL [--minutes 120]

Plain calls, sync tools, calls that fail, ask and report progress, legacy sessions with state, streams of changes, and
tasks run side by side, in both eras; every answer is compared. Each minute one worker, never the oldest, is ended by
SIGKILL. Printed: how often each kind of work was right, what ended with which of the `ALLOWED` errors, what was wrong
(each one a fault), the lines of the server's log at the level ERROR, and the growth of memory of the worker that is not
killed, after the first quarter. ``--pause-ms`` leaves the processor to others between two pieces of work.

The exit status is 1 if anything was wrong, if an error was not an allowed one, if the server logged an error, or if
that worker grows by more than 1 MB an hour. Needs Linux.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from ferrule import Client

SERVER = Path(__file__).resolve().parent / "servers" / "soak_server.py"
ALLOWED = {"HttpConnectionLost", "HttpConnectFailed", "ConnectionClosed"}
"""Errors of a call that was under way with a worker that is killed, or that met its port before it was taken over;
`ConnectionClosed`: the stream of its answer ended."""
ALLOWED_TEXT = "The process that served this request has ended"
"""What another worker answers for a request that was under way with a worker that is killed."""
MOST_GROWTH_MB_PER_H = 1.0
ERROR_LINE = re.compile(r"\b(ERROR|CRITICAL)\b|^[\w.]+(Error|Exception)\b")


class Wrong(Exception):
    """An answer is not the expected one."""


def expect(found: Any, expected: Any) -> None:
    """Raise `Wrong` if an answer is not the expected one."""
    if found != expected:
        raise Wrong(f"{found!r:.200} in place of {expected!r:.200}")


class Soak:
    """The load, and what came of it.

    Args:
        url: the address of the server.
        pause_s: between two pieces of work of one kind, in seconds.
    """

    def __init__(self, url: str, pause_s: float) -> None:
        self.url = url
        self.pause_s = pause_s
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.problems: list[str] = []
        self.numbers = random.Random(1)

    def _client(self, mode: str) -> Client:
        return Client(self.url, mode=mode, elicitation_handler=lambda params: {"value": params.message})

    async def calls(self, mode: str) -> None:
        """Some calls on one client."""
        numbers = self.numbers
        async with self._client(mode) as client:
            for _ in range(20):
                text = "x" * numbers.choice((1, 100, 5_000, 60_000))
                expect((await client.call_tool("echo", {"text": text})).data, text)
                many = [numbers.randrange(1000) for _ in range(numbers.randrange(50))]
                expect((await client.call_tool("add", {"numbers": many})).data, sum(many))
                expect((await client.call_tool("steps", {"count": 3})).data, 3)
                failed = await client.call_tool("fail", {"text": "no"}, raise_on_error=False)
                expect(failed.is_error, True)

    async def questions(self, mode: str) -> None:
        """Calls that ask."""
        async with self._client(mode) as client:
            for number in range(5):
                expect((await client.call_tool("ask", {"question": f"{number}?"})).data, f"{number}? {number}?")

    async def sessions(self, mode: str) -> None:
        """A legacy session whose state goes from call to call, on whichever worker."""
        async with self._client("2025-11-25") as client:
            before = ""
            for number in range(10):
                expect((await client.call_tool("remember", {"value": str(number)})).data, before)
                before = str(number)

    async def streams(self, mode: str) -> None:
        """A stream that gets a change which another client makes."""
        key = f"k{self.numbers.randrange(1 << 30)}"
        async with self._client(mode) as client, self._client(mode) as other:
            async with client.listen(uris=[f"soak://{key}"]) as changes:
                await other.call_tool("change", {"key": key})
                with anyio.fail_after(20):
                    async for event in changes:
                        if event.kind in ("gap", "resource"):
                            break

    async def tasks(self, mode: str) -> None:
        """A task, whose result is there even if the worker that ran it was killed."""
        async with self._client(mode) as client:
            number = self.numbers.randrange(1000)
            handle = await client.start_tool("work", {"number": number})
            end = time.monotonic() + 60
            while True:
                try:
                    expect((await handle.result(timeout_s=60)).data, number * 2)
                    return
                except Exception as error:
                    # The handle outlives the connection on which it was waited for.
                    if type(error).__name__ not in ALLOWED or time.monotonic() > end:
                        raise
                    await anyio.sleep(0.2)

    async def run(self, kind: Callable[[str], Awaitable[None]], until_s: float) -> None:
        """Repeat one kind of work, in both eras in turn, and count what comes of it."""
        name = kind.__name__
        turn = 0
        while time.monotonic() < until_s:
            turn += 1
            try:
                with anyio.fail_after(90):
                    await kind(("auto", "2025-11-25")[turn % 2])
                self.outcomes[name, "right"] += 1
            except Exception as error:
                outcome = ALLOWED_TEXT if ALLOWED_TEXT in str(error) else type(error).__name__
                self.outcomes[name, outcome] += 1
                if outcome not in ALLOWED and outcome != ALLOWED_TEXT:
                    self.problems.append(f"{name}: {outcome}: {error!s:.300}")
                await anyio.sleep(0.1)
            await anyio.sleep(self.pause_s)


def children(pid: int) -> list[int]:
    """Return the processes that a process has started, the oldest first."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sorted(int(each) for task in tasks for each in (task / "children").read_text().split())


def resident_mb(pid: int) -> float:
    """Return the resident size of a process in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Watch:
    """Kills a worker each minute, and samples the memory of the oldest one.

    Args:
        pid: the process that started the workers.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.samples: list[tuple[float, float]] = []
        self.kills = 0
        self.oldest = self._workers()[0]

    def _workers(self) -> list[int]:
        return [each for each in children(self.pid) if resident_mb(each) > 20]

    async def run(self, until_s: float) -> None:
        """Go on until a time."""
        began = time.monotonic()
        next_kill_s = began + 60
        while time.monotonic() < until_s:
            await anyio.sleep(5)
            self.samples.append((time.monotonic() - began, resident_mb(self.oldest)))
            if time.monotonic() >= next_kill_s and time.monotonic() < until_s - 20 and self.kill_one():
                next_kill_s += 60

    def kill_one(self) -> bool:
        """Kill a worker other than the oldest, and return whether there was one: another may not have started yet."""
        others = [each for each in self._workers() if each != self.oldest]
        if others:
            os.kill(random.choice(others), signal.SIGKILL)
            self.kills += 1
        return bool(others)

    def growth_mb_per_h(self) -> float:
        """Return the slope of the memory of the oldest worker after the first quarter."""
        rest = self.samples[len(self.samples) // 4 :]
        return statistics.linear_regression([at for at, _ in rest], [size for _, size in rest]).slope * 3600


def logged_errors(log: Path) -> list[str]:
    """Return the errors that a server has logged, and the last lines of tracebacks; not the workers that are killed."""
    lines = log.read_text(errors="replace").splitlines()
    return [line for line in lines if ERROR_LINE.search(line) and "ended with code -9" not in line]


async def soak(url: str, pid: int, minutes: float, pause_s: float, log: Path) -> bool:
    """Run the load and print what came of it; return whether all is well."""
    made, watch = Soak(url, pause_s), Watch(pid)
    until_s = time.monotonic() + minutes * 60
    kinds = [made.calls, made.calls, made.questions, made.sessions, made.sessions, made.streams, made.tasks, made.tasks]
    async with anyio.create_task_group() as group:
        group.start_soon(watch.run, until_s)
        for kind in kinds:
            group.start_soon(made.run, kind, until_s)
    print("| work | outcome | times |\n|---|---|---:|")
    for (name, outcome), times in sorted(made.outcomes.items()):
        print(f"| {name} | {outcome} | {times:,} |")
    first, last = watch.samples[len(watch.samples) // 4][1], watch.samples[-1][1]
    slope = watch.growth_mb_per_h()
    print(f"\n{watch.kills} workers killed in {minutes:g} minutes")
    print(
        f"the worker that was not: {first:.1f} MB after the first quarter, {last:.1f} MB at the end, {slope:+.2f} MB/h"
    )
    for problem in made.problems[:20]:
        print(problem)
    errors = logged_errors(log)
    print(f"{len(errors)} errors in the log of the server", *errors[:20], sep="\n")
    return not made.problems and not errors and slope <= MOST_GROWTH_MB_PER_H


def main() -> None:
    """Start the server, and run the load against it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", required=True, help="redis://… or postgresql://…")
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--pause-ms", type=float, default=0.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                [sys.executable, str(SERVER), options.store], stdout=subprocess.PIPE, stderr=output, text=True
            )
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"
            time.sleep(3)  # the last worker may still be importing
            is_well = anyio.run(soak, url, server.pid, options.minutes, options.pause_ms / 1000, log)
        finally:
            server.terminate()
            server.wait(30)
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
