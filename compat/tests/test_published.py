"""Small published servers, in an environment with the ``mcp`` 2 that broke them, against themselves on ``mcp`` 1.30."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from compat.published import published
from compat.tests.support import COMPAT, ERAS, SOURCES
from ferrule import Client, StdioServer

pytestmark = [pytest.mark.peer, pytest.mark.anyio]

LISTED = tomllib.loads((COMPAT / "published" / "servers.toml").read_text())["server"]
SERVERS = {each["package"]: each for each in LISTED if each.get("tests")}


def environment(name: str) -> Path:
    """The folder with the programs of an environment that ``scripts/test`` installs."""
    folder = Path(os.environ.get("FERRULE_CACHE") or COMPAT.parent / ".cache") / name / "bin"
    if not folder.is_dir():
        if os.environ.get("FERRULE_REQUIRE_PEERS"):
            pytest.fail(f"no environment {name}, though scripts/test installs it")
        pytest.skip(f"no environment {name} (scripts/test installs it)")
    return folder


async def seen(line: list[str], mode: str, call: Any, work: Path) -> dict[str, Any]:
    """What a client sees, in the form that `published.differences` compares."""
    program, *rest = line
    server = StdioServer(program, rest, cwd=str(work), env={"PYTHONPATH": SOURCES, "HOME": str(work)})
    async with Client(server, mode=mode, timeout_s=60) as client:
        made: dict[str, Any] = {"templates": []}
        for kind in ("tools", "resources", "prompts"):
            has = kind in client.server_capabilities
            made[kind] = (await client.request(f"{kind}/list"))[kind] if has else []
        result = await client.request("tools/call", {"name": call[0], "arguments": call[1]})
        made["result"] = {key: result.get(key) for key in ("content", "structuredContent", "isError")}
    return made


@pytest.mark.parametrize("package", SERVERS)
async def test_a_published_server_is_the_same_on_ferrule(package: str, tmp_path: Path) -> None:
    """In both eras: what it lists, with required arguments and types, and one result; fresh it does not even start."""
    server = SERVERS[package]
    broken, sdk = environment("peer-published"), environment("peer-published-sdk")
    fresh = subprocess.run(
        [str(broken / package)], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False, cwd=tmp_path
    )
    assert fresh.returncode != 0
    expected = await seen([str(sdk / package)], "legacy", server["call"], tmp_path)
    for mode in ERAS:
        line = [str(broken / "python"), "-m", "ferrule_compat", package]
        found = await seen(line, mode, server["call"], tmp_path)
        assert published.differences(expected, found, server.get("changing", "")) == []
