"""The official client signs in when an exposed application answers 401."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.processes import free_port, wait_until_served

SCRIPT = Path(__file__).with_name("mcp_sign_in_script.py")

pytestmark = [pytest.mark.peer, pytest.mark.slow]

PROGRAM = """
import sys
from ferrule.expose import expose
from tests.expose.answers.test_challenges import fastapi_app
expose(fastapi_app(), include="*", forward_headers=("authorization",)).run("http", port=int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a FastAPI application, exposed, that wants a bearer token."""
    port, log = free_port(), tmp_path_factory.mktemp("sign-in") / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(port)], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
        )
    try:
        wait_until_served(process, port, log)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize(("mode", "revision"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
def test_the_official_client_signs_in_and_repeats_the_call(
    url: str, peer_python: str, mode: str, revision: str
) -> None:
    """Once, within the call; the next one has the token."""
    done = subprocess.run([peer_python, str(SCRIPT), mode, url], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout)
    assert seen["protocol_version"] == revision
    assert [json.loads(text) if text[:1] == '"' else text for text in seen["found"]] == ["Ann", "Ann"]
    assert seen["challenges"] == ['Bearer realm="shop"']
