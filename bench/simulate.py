"""A discrete-event simulation of workers on processors, beside what was measured, and what it predicts.

    python bench/simulate.py            the measured points, simulated
    python bench/simulate.py scale      the table of docs/topics/at-scale.md

A process is a queue of jobs that it does one after the other; up to as many processes run at full speed as there are
processors, and more share them evenly, as Linux does. A call is a chain of jobs: the client that sends it, its
worker, for a call in a legacy session the store, the worker again, and the client that reads the answer. Workers of
one machine have their connections in equal parts. A job of a process that had nothing to do costs `WAKE_S` more: the
process is woken, its caches are cold, and it asks the system for one message where a busy one gets many. `Costs` has
the constants, each measured (bench/RESULTS.md).
"""

from __future__ import annotations

import heapq
import random
import sys
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import Any

WAKE_S = 20e-6
"""CPU per stateless call of two workers that wait for the client at times (63 µs), less that of a busy one (43 µs)."""


@dataclass(frozen=True)
class Costs:
    """CPU seconds of the jobs of a call.

    Attributes:
        worker: of the worker, with what the tool burns.
        client: of the client, on the same processors; 0 if it runs on another machine.
        store: of the store, on the same processors; 0 if there is none.
    """

    worker: float
    client: float = 0.0
    store: float = 0.0


@dataclass
class Process:
    """A process: its jobs in order, and what is left of the first, in CPU seconds."""

    jobs: deque[tuple[float, Call]] = field(default_factory=deque)
    left_s: float = 0.0
    used_s: float = 0.0


@dataclass
class Call:
    """A call: the processes that it still has to pass, with the cost of each, and when it began."""

    steps: deque[tuple[Process, float]]
    began_s: float
    connection: int


class Machine:
    """Workers, a client and a store on some processors.

    Args:
        processors: their number.
        workers: the number of workers.
        costs: see `Costs`.
    """

    def __init__(self, processors: int, workers: int, costs: Costs) -> None:
        self.processors, self.costs = processors, costs
        self.workers = [Process() for _ in range(workers)]
        self.client, self.store = Process(), Process()
        self.everything = [*self.workers, self.client, self.store]
        self.now_s = 0.0
        self.latencies_s: list[float] = []

    def begin(self, connection: int) -> None:
        """Send a call on a connection."""
        costs, worker = self.costs, self.workers[connection % len(self.workers)]
        steps: deque[tuple[Process, float]] = deque()
        if costs.client:
            steps.append((self.client, costs.client))
        if costs.store:
            steps += [(worker, costs.worker / 2), (self.store, costs.store), (worker, costs.worker / 2)]
        else:
            steps.append((worker, costs.worker))
        self._go_on(Call(steps, self.now_s, connection))

    def _go_on(self, call: Call) -> None:
        process, cost_s = call.steps.popleft()
        process.jobs.append((cost_s, call))
        if len(process.jobs) == 1:
            process.left_s = cost_s + WAKE_S

    def run(self, until_s: float, arrivals: list[float] | None = None, connections: int = 0) -> None:
        """Simulate up to a time.

        Args:
            until_s: when to stop, in simulated seconds.
            arrivals: when calls begin, as a heap; each goes to a random connection (open load).
            connections: so many connections have one call open each, always (closed load).
        """
        numbers = count()
        for connection in range(connections):
            self.begin(connection)
        while self.now_s < until_s:
            ready = [process for process in self.everything if process.jobs]
            crowd = max(1.0, len(ready) / self.processors)
            ends_s = min((process.left_s * crowd for process in ready), default=float("inf"))
            if arrivals and self.now_s + ends_s > arrivals[0]:
                step_s = max(0.0, arrivals[0] - self.now_s)
            elif ready:
                step_s = ends_s
            else:
                return
            self.now_s += step_s
            for process in ready:
                process.left_s -= step_s / crowd
                process.used_s += step_s / crowd
            while arrivals and arrivals[0] <= self.now_s:
                heapq.heappop(arrivals)
                self.begin(random.randrange(1 << 30) if not connections else next(numbers))
            for process in ready:
                while process.jobs and process.left_s <= 1e-12:
                    _, call = process.jobs.popleft()
                    process.left_s = process.jobs[0][0] if process.jobs else 0.0
                    if call.steps:
                        self._go_on(call)
                        continue
                    self.latencies_s.append(self.now_s - call.began_s)
                    if connections:
                        self.begin(call.connection)


CONNECTIONS = 32
MEASURED: list[tuple[str, Costs, dict[int, float]]] = [
    # name, costs, calls per second by number of workers (bench/workers.py, two processors, 2026-11-28 and later)
    ("tool that burns 5 ms", Costs(worker=5.2e-3, client=42.7e-6), {1: 192, 2: 376, 4: 371}),
    ("stateless call", Costs(worker=42.7e-6, client=42.7e-6), {1: 23_402, 2: 18_284, 4: 19_235}),
    ("call in a session, Redis", Costs(worker=163e-6, client=42.7e-6, store=25e-6), {1: 6_123, 2: 7_743}),
]
"""What `bench/workers.py` measured with 32 connections on two processors, and the costs that it measured."""


def simulated(workers: int, costs: Costs, processors: int = 2) -> tuple[float, float]:
    """Return calls per second of a closed load on `CONNECTIONS` connections, and processors that the workers used."""
    machine = Machine(processors, workers, costs)
    length_s = max(0.2, 400 * costs.worker)
    machine.run(length_s, connections=CONNECTIONS)
    used = sum(worker.used_s for worker in machine.workers)
    return len(machine.latencies_s) / machine.now_s, used / machine.now_s


def open_load(calls_per_s: float, workers: int, costs: Costs, processors: int) -> tuple[float, float]:
    """Return the median and the 99th percentile of the time of a call, in seconds, of calls that arrive at random."""
    generator = random.Random(7)
    machine = Machine(processors, workers, costs)
    arrivals: list[float] = []
    at_s, length_s = 0.0, 20_000 / calls_per_s
    while at_s < length_s:
        at_s += generator.expovariate(calls_per_s)
        arrivals.append(at_s)
    machine.run(length_s, arrivals)
    ordered = sorted(machine.latencies_s)
    return ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]


def points() -> None:
    """Print the measured points beside the simulated ones."""
    print("| 32 connections, two processors | workers | measured, calls/s | simulated, calls/s | off by |")
    print("|---|---:|---:|---:|---:|")
    for name, costs, measured in MEASURED:
        for workers in (1, 2, 4):
            found, _ = simulated(workers, costs)
            if workers in measured:
                off = f"{found / measured[workers] - 1:+.0%}"
                print(f"| {name} | {workers} | {measured[workers]:,.0f} | {found:,.0f} | {off} |")
            else:
                print(f"| {name} | {workers} | – | {found:,.0f} | |")


def scale() -> None:
    """Print what the simulation predicts for machines of eight processors and loads that come from elsewhere."""
    print("| a machine of 8 processors, 8 workers | load of the processors | calls/s | median, ms | 99 %, ms |")
    print("|---|---:|---:|---:|---:|")
    kinds = [
        ("stateless calls", Costs(worker=42.7e-6)),
        ("calls in sessions (the store elsewhere)", Costs(worker=163e-6)),
        ("a tool that burns 5 ms", Costs(worker=5.2e-3)),
    ]
    for name, costs in kinds:
        for load in (0.3, 0.6, 0.8, 0.9):
            rate = load * 8 / costs.worker
            median, late = open_load(rate, 8, costs, 8)
            print(f"| {name} | {load:.0%} | {rate:,.0f} | {median * 1e3:.2f} | {late * 1e3:.2f} |")


def main(arguments: list[str]) -> Any:
    """Run what the arguments name."""
    random.seed(7)
    return {(): points, ("scale",): scale}.get(tuple(arguments), lambda: sys.exit(__doc__))()


if __name__ == "__main__":
    main(sys.argv[1:])
