"""A `ferrule` for shells: Tab reaches the real program, Enter writes down the arguments instead of running anything."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.cli.support import LIMIT_S, environment

_PROGRAM = """#!{python}
import json, os, sys
if "_FERRULE_COMPLETE" in os.environ or sys.argv[1:2] == ["completion"]:
    from ferrule.cli import main
    sys.exit(main())
with open({ran!r}, "a") as stream:
    stream.write(json.dumps(sys.argv[1:]) + "\\n")
"""

STARTS: dict[str, list[str]] = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "--interactive"],
}
SETUPS: dict[str, str] = {
    "bash": 'eval "$(ferrule completion bash)"',
    "zsh": 'autoload -U compinit; compinit -u -D; eval "$(ferrule completion zsh)"',
    "fish": "ferrule completion fish | source",
}


def shell_environment(folder: Path) -> dict[str, str]:
    """Return variables with which ``ferrule`` is the program in ``folder``, and the names are kept in it too."""
    program = folder / "bin" / "ferrule"
    program.parent.mkdir(exist_ok=True)
    program.write_text(_PROGRAM.format(python=sys.executable, ran=str(folder / "ran.jsonl")))
    program.chmod(0o755)
    return environment(
        folder,
        PATH=f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        FERRULE_COMPLETION_CACHE=str(folder / "names"),
        TERM="xterm",
        PS1="READY> ",
        HISTFILE="",
        XDG_CONFIG_HOME=str(folder / "config"),
        XDG_DATA_HOME=str(folder / "data"),
    )


@contextmanager
def interactive(shell: str, folder: Path) -> Iterator[Callable[[str], list[str]]]:
    """Start a shell at a terminal in ``folder``; yield a function that types text and Enter.

    The function returns the arguments with which ``ferrule`` then ran.
    """
    ran = folder / "ran.jsonl"
    master, slave = pty.openpty()
    process = subprocess.Popen(
        STARTS[shell],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        preexec_fn=_take_terminal,
        env=shell_environment(folder),
        cwd=folder,
    )
    os.close(slave)
    seen = bytearray()

    def send(text: str) -> None:
        os.write(master, text.encode())

    def wait(what: Callable[[], bool]) -> None:
        end = time.monotonic() + LIMIT_S
        while not what():
            assert time.monotonic() < end, seen.decode("utf-8", "replace")
            if select.select([master], [], [], 0.02)[0]:
                seen.extend(os.read(master, 65536))

    def type_line(text: str) -> list[str]:
        before = len(_lines(ran))
        send(f"{text}\r")
        wait(lambda: len(_lines(ran)) > before)
        found: list[str] = json.loads(_lines(ran)[-1])
        return found

    try:
        send(f"{SETUPS[shell]}; ferrule ready\r")
        wait(lambda: bool(_lines(ran)))
        yield type_line
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _take_terminal() -> None:
    import fcntl
    import termios

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def completions(line: str, variables: Mapping[str, str]) -> list[str]:
    """Return the words that Tab would offer after a line, as zsh gets them."""
    done = subprocess.run(
        [sys.executable, "-m", "ferrule"],
        capture_output=True,
        text=True,
        check=False,
        env={**variables, "_FERRULE_COMPLETE": "zsh_complete", "COMP_WORDS": line},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [words[1] for words in (each.split("\t") for each in done.stdout.splitlines()) if len(words) > 1]
