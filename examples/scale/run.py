"""Four workers on Redis, a long task with a question, a client and a worker that are killed in the middle of it.

    scripts/demo --scale                            installs what it needs, starts a Redis, and runs this
    python examples/scale/run.py [redis://…]        with a Redis of your own; localhost:6379 if not said

What you see: the client gets a handle at once and is killed; so is the worker that runs the task. Another worker takes
the task over without ordering the metal twice; the client starts again, finds the task by its id, answers the question
and gets the result.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Program:
    """A child whose output is shown line by line, with its name before it."""

    def __init__(self, name: str, *arguments: str, **environment: str) -> None:
        command = [sys.executable, str(HERE / f"{name}.py"), *arguments]
        env = {**os.environ, **environment}
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        self.name = name
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            print(f"{self.name:>7}: {line}", end="", flush=True)
            self.lines.append(line.strip())

    def wait_for(self, start: str, timeout_s: float = 60) -> str:
        """The rest of the first line that begins so."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if line.startswith(start):
                    return line.removeprefix(start).strip()
            if self.process.poll() is not None and not self._reader.is_alive():
                break
            time.sleep(0.02)
        raise SystemExit(f"{self.name} did not say {start!r}")

    def kill(self) -> None:
        """``kill -9``."""
        self.process.kill()
        self.end()

    def end(self) -> None:
        """Wait for its end."""
        self.process.wait(30)
        self._reader.join()


def main() -> None:
    """Play the story."""
    store = sys.argv[1] if len(sys.argv) > 1 else "redis://localhost:6379/0"
    server = Program("server", "0", FERRULE_EXAMPLE_STORE=store)
    try:
        url = server.wait_for("serving ")
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "task.id")
            client = Program("client", url, file)
            client.wait_for("has begun task")
            client.kill()
            print("  story: the client is killed")
            worker = int(server.wait_for("[worker ").partition("]")[0])
            time.sleep(0.5)  # the order is kept by now
            os.kill(worker, signal.SIGKILL)
            print(f"  story: worker {worker}, which runs the task, is killed")
            client = Program("client", url, file)
            client.wait_for("has got:")
            client.end()
    finally:
        server.process.terminate()
        server.end()
    orders = [line for line in server.lines if "ordered" in line]
    print(f"  story: metal was ordered {len(orders)} time(s)")
    if len(orders) != 1:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
