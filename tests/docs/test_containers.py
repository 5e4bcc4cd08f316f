"""The files of the page about Docker and systemd fit the server; no image is built and no unit is started here."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client
from ferrule.errors import FerruleError
from ferrule.transports.hosting.http_protocol import HttpLimits
from tests.processes import free_port

DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "snippets" / "deploy"
FOLDER = DEPLOY / "container"


def instructions() -> list[tuple[str, str]]:
    """The lines of the Dockerfile, without comments."""
    lines = (FOLDER / "Dockerfile").read_text(encoding="utf-8").splitlines()
    pairs = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in pairs]


def health_command() -> list[str]:
    """The command of HEALTHCHECK."""
    (check,) = (rest for name, rest in instructions() if name == "HEALTHCHECK")
    return list(json.loads(check.partition("CMD ")[2]))


def seconds(text: str) -> int:
    """A duration of compose, or of systemd."""
    return int(text.removesuffix("s"))


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The server, started as the image starts it, with its variables, on a free port."""
    (command,) = (json.loads(rest) for name, rest in instructions() if name == "CMD")
    (variables,) = (rest for name, rest in instructions() if name == "ENV")
    given = dict(pair.split("=", 1) for pair in variables.split())
    assert given["HOST"] == "0.0.0.0"
    port = free_port()
    given |= {"HOST": "127.0.0.1", "PORT": str(port), "STORE": given["STORE"].replace("/data", str(tmp_path))}
    process = subprocess.Popen(
        [sys.executable, *command[1:]],
        cwd=FOLDER,
        env={**os.environ, **given, "MCP_TOKEN": "secret", "PUBLIC_URL": f"http://127.0.0.1:{port}/mcp"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert "Serving" in process.stderr.readline()
        yield port
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


def test_the_image_gets_files_that_exist() -> None:
    """What is copied, and what is started."""
    copied = [word for name, rest in instructions() if name == "COPY" for word in rest.split()[:-1]]
    assert copied
    assert all((FOLDER / name).is_file() for name in copied)
    assert "server.py" in copied
    assert [name for name, _ in instructions()].index("USER") < [name for name, _ in instructions()].index("CMD")


@pytest.mark.anyio
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_server_of_the_image_is_healthy_and_protected(port: int, mode: str) -> None:
    """By the command of HEALTHCHECK; a call needs the token, and SIGTERM ends it in an orderly way (the fixture)."""
    command = [sys.executable, *(word.replace("8000", str(port)) for word in health_command()[1:])]
    assert subprocess.run(command, timeout=30).returncode == 0
    url = f"http://127.0.0.1:{port}/mcp"
    async with Client(url, headers={"Authorization": "Bearer secret"}, mode=mode, proxy=None) as client:
        assert (await client.call_tool("count", {"part": "bolt"})).data == 4
    with pytest.raises(FerruleError):
        async with Client(url, mode=mode, proxy=None) as client:
            await client.list_tools()


def test_compose_fits_the_server() -> None:
    """Its volume is where the store is, it waits longer than the server drains, and it sets what the server reads."""
    yaml = pytest.importorskip("yaml")
    compose: Any = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    service = compose["services"]["stock"]
    assert service["volumes"] == ["data:/data"]
    assert "data" in compose["volumes"]
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    assert seconds(service["stop_grace_period"]) > HttpLimits().drain_s
    read = set(re.findall(r'environ(?:\.get\(|\[)"(\w+)"', (FOLDER / "server.py").read_text(encoding="utf-8")))
    assert set(service["environment"]) <= read


def test_the_unit_fits_the_server() -> None:
    """It waits longer than the server drains, and systemd reads every line of it."""
    text = (DEPLOY / "stock.service").read_text(encoding="utf-8")
    assert seconds(re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[0]) > HttpLimits().drain_s
    assert "sqlite:////var/lib/stock/" in text
    assert "StateDirectory=stock" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_reads_the_unit() -> None:
    """Without a word about unknown lines; the program of ExecStart is on other machines."""
    command = ["systemd-analyze", "verify", str(DEPLOY / "stock.service")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    said = [line for line in (done.stderr + done.stdout).splitlines() if "stock.service:" in line]
    assert [line for line in said if "is not executable" not in line] == []
