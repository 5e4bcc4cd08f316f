"""The command line as its users meet it: as a process with pipes, and as a process with a terminal."""

from __future__ import annotations

import atexit
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.warm_python import WarmPython

HERE = Path(__file__).parent
PROBE = str(HERE / "servers" / "probe.py")
FERRULE = (sys.executable, "-m", "ferrule")
LIMIT_S = 60.0
_MODULES = (
    "click",
    "ferrule.app.search",
    "ferrule.app.server",
    "ferrule.cli.connect",
    "ferrule.cli.output",
    "ferrule.cli.targets",
    "ferrule.client.groups.behind_search",
    "ferrule.extensions.tasks",
    "ferrule.transports.http.adapters",
    "ferrule.transports.stdio.client",
)
_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[()][A-Z0-9])")


def environment(home: Path | None = None, **extra: str) -> dict[str, str]:
    """Return this process's environment without variables that change the outcome; with ``HOME`` if it is given."""
    made = {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "120", "XDG_CACHE_HOME": _caches(), **extra}
    for name in ("FERRULE_TOKEN", "FERRULE_DEBUG", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "LINES"):
        if name not in extra:
            made.pop(name, None)
    if home is not None:
        made["HOME"] = str(home)
        made["APPDATA"] = str(home / "AppData" / "Roaming")
    return made


def ferrule(
    *arguments: str, stdin: str | None = None, home: Path | None = None, cwd: Path | None = None, **extra: str
) -> subprocess.CompletedProcess[str]:
    """Run to the end with pipes; stdin is empty unless it is given."""
    return _python().run(
        *FERRULE[1:],
        *arguments,
        input="" if stdin is None else stdin,
        timeout=LIMIT_S,
        env=environment(home, **extra),
        cwd=cwd or Path.cwd(),
    )


@cache
def _caches() -> str:
    """Return a folder for what programs cache for their user; it goes with this process."""
    folder = TemporaryDirectory(prefix="ferrule-caches-")
    atexit.register(folder.cleanup)
    return folder.name


@cache
def _python() -> WarmPython:
    return WarmPython(_MODULES, environment())


class Terminal:
    """A process whose stdin, stdout and stderr are one pseudo-terminal."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self._master = master
        self.seen = ""
        self.raw = ""

    def read_until(self, words: str) -> str:
        """Everything seen, once ``words`` are among it (escape sequences removed)."""
        deadline = time.monotonic() + LIMIT_S
        while words not in self.seen:
            if not self._read(deadline):
                raise AssertionError(f"{words!r} did not come; what came:\n{self.seen}")
        return self.seen

    def type(self, line: str) -> None:
        """What a person types, and Enter."""
        os.write(self._master, f"{line}\n".encode())

    def press(self, key: bytes) -> None:
        """One key."""
        os.write(self._master, key)

    def wait(self) -> int:
        """Read to the end; the exit status."""
        deadline = time.monotonic() + LIMIT_S
        while self._read(deadline):
            pass
        return self.process.wait(LIMIT_S)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            chunk = os.read(self._master, 65536)
        except OSError:  # Linux says EIO where the other end is closed
            return False
        text = chunk.decode("utf-8", "replace")
        self.raw += text
        self.seen += _ESCAPES.sub("", text).replace("\r\n", "\n")
        return bool(chunk)


@contextmanager
def terminal(*arguments: str, home: Path | None = None, cwd: Path | None = None, **extra: str) -> Iterator[Terminal]:
    """Run in a pseudo-terminal of 120 columns."""
    import fcntl
    import pty
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))

    def take_terminal() -> None:
        # A terminal's programs can be interrupted, whatever the tests were started by (a shell's `&` ignores it).
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [*FERRULE, *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        preexec_fn=take_terminal,
        env=environment(home, **{"TERM": "xterm-256color", **extra}),
        cwd=cwd,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)


class Running:
    """A process that serves, and what it said so far."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.log = log

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first place in what it said that matches."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            found = re.search(pattern, self.log.read_text(encoding="utf-8", errors="replace"))
            if found is not None:
                return found
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{pattern!r} did not come ({self.process.poll()}):\n{self.log.read_text()}")
            time.sleep(0.02)

    @property
    def url(self) -> str:
        """Return the address in the server's output."""
        return self.wait_for(r"serving (http://\S+)")[1]


@contextmanager
def serving(
    log: Path, *arguments: str, command: tuple[str, ...] = FERRULE, env: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Run a server beside the test; at the end it is stopped, and must end with status 0."""
    with log.open("w") as stream:
        process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            text=True,
            env=environment(None, **dict(env or {})),
        )
    running: Any = Running(process, log)
    try:
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
