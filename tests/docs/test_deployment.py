"""The files of the page about deployment: a server that ends as its manifest expects, and a function that serves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from ferrule.transports.asgi import HttpOptions
from tests.docs.test_snippets import load
from tests.transports.asgi.support import modern, modern_call

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "snippets" / "deploy"


def status_of(port: int, path: str) -> int:
    """Of a GET."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_the_server_of_a_pod_is_probed_and_ends() -> None:
    """By the address of the pod, whatever names it serves."""
    environment = {**os.environ, "PORT": "0", "FOUNDRY_HOST": "127.0.0.1"}
    command = [sys.executable, str(FOLDER / "server.py")]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().split()[1])
        assert (status_of(port, "/healthz"), status_of(port, "/readyz")) == (200, 200)
        process.send_signal(signal.SIGINT)  # as SIGTERM, without the five seconds of notice
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


def test_the_manifest_fits_the_server() -> None:
    """Paths, port and patience are those that the code has."""
    yaml = pytest.importorskip("yaml")
    deployment, service = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text())
    pod: Any = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": HttpOptions().ready_path, "port": 8000}
    assert container["livenessProbe"]["httpGet"] == {"path": HttpOptions().health_path, "port": 8000}
    assert container["ports"] == [{"containerPort": 8000}]
    assert service["spec"]["ports"][0]["targetPort"] == 8000
    assert "notice_s=5, drain_s=20" in (FOLDER / "server.py").read_text()
    assert pod["terminationGracePeriodSeconds"] > 5 + 20


@pytest.mark.anyio
async def test_the_function_serves_without_keeping_anything() -> None:
    """One call, and no legacy session."""
    handler = load(FOLDER / "serverless.py").handler
    message = modern(1, "tools/call", {"name": "melt", "arguments": {"metal": "brass"}})
    answer = await modern_call(handler, message, host="mcp.example.com").run()
    assert answer.json["result"]["content"][0]["text"] == "brass is liquid"
    await handler.aclose()
