"""The tutorial that builds a notes app, done as its reader does it: step by step, in an empty folder, in both eras."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial" / "notes.md"
BLOCK = re.compile(
    r"^(?:<!-- code: (?P<file>\S+) -->\n)?```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)
PNG_BYTES = 6321
"""The size of the picture in what the page shows."""


class Reader:
    """What a reader has: a folder, and a shell in which `ferrule` and `python` are those of the environment.

    Args:
        folder: an empty folder.
        mode: the era that every command of the client uses; ``None`` for the default.
        port: used instead of 8000.
    """

    def __init__(self, folder: Path, mode: str | None, port: int) -> None:
        self.folder = folder
        self.mode = mode
        self.port = port
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environment = {**os.environ, "PATH": path, "PORT": str(port), "NO_COLOR": "1", "NO_PROXY": "127.0.0.1"}
        (folder / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n".ljust(PNG_BYTES, b"\0"))

    def save(self, name: str, text: str) -> None:
        """Add lines to a file, as the page asks for `notes.py`, or make it."""
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(text)

    def run(self, command: str) -> str:
        """Run a command; return what it prints to stdout and, where it fails, to stderr."""
        words = shlex.split(command.replace(":8000", f":{self.port}"))
        if self.mode and words[:2] == ["ferrule", "call"]:
            words += ["--mode", self.mode]
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=100, check=False
        )
        return done.stdout.strip() or done.stderr.strip()

    @contextmanager
    def serving(self, command: str) -> Iterator[None]:
        """Run the command of the other terminal until the end of the block."""
        variable, *words = shlex.split(command)
        name, _, value = variable.partition("=")
        words[0] = sys.executable
        process = subprocess.Popen(words, cwd=self.folder, env={**self.environment, name: value})
        try:
            while not self._is_ready():
                assert process.poll() is None
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            process.wait(30)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=30) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def steps() -> dict[str, list[re.Match[str]]]:
    """The code blocks of the page, under the heading of their step."""
    text = PAGE.read_text(encoding="utf-8")
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:]
    return {title: list(BLOCK.finditer(body)) for title, body in zip(parts[::2], parts[1::2], strict=True)}


@pytest.mark.parametrize("mode", [None, "legacy"], ids=["modern", "legacy"])
def test_each_step_works_as_the_page_shows_it(tmp_path: Path, mode: str | None) -> None:
    """After each step the file is a server, and each command prints what is below it."""
    reader = Reader(tmp_path, mode, free_port())
    compared = 0
    for title, blocks in steps().items():
        server = ""
        for block in blocks:
            if block["file"]:
                reader.save(Path(block["file"].partition(":")[0]).name, block["body"])
            elif block["kind"] == "sh" and "serve.py" in block["body"]:
                server = block["body"].strip()
            elif block["kind"] == "sh" and "pytest" in block["body"] and title.startswith("6."):
                assert re.search(r"\b12 passed\b", reader.run("python -m pytest -p no:cacheprovider")), title
            elif block["kind"] == "console":
                for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block["body"], re.MULTILINE):
                    if server:
                        with reader.serving(server):
                            assert "A token is needed" in reader.run(command.replace("--token secret", ""))
                            assert reader.run(command) == shown.strip(), title
                    else:
                        assert reader.run(command) == shown.strip(), title
                    compared += 1
    assert compared == 9


def test_the_minutes_of_the_steps_are_those_of_the_title() -> None:
    """A reader plans by the title."""
    minutes = [int(found) for title in steps() for found in re.findall(r"\((\d+) minutes?\)", title)]
    assert len(minutes) == 8
    assert sum(minutes) == 20
