"""The endpoint in a Flask application, under the servers that run such applications."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import anyio
import pytest

from ferrule import Client
from tests.conftest import ROOT
from tests.host_processes import hosted, program_environment

pytest.importorskip("flask")

pytestmark = pytest.mark.anyio

TARGET = "tests.integrations.flask.hosted:app"
CALLS = 12


async def use(url: str, mode: str) -> set[int]:
    """Call the tools many times at once; the processes that answered."""
    pids: set[int] = set()

    async with Client(url, mode=mode) as client:
        assert sorted(tool.name for tool in await client.list_tools()) == ["calls_back", "item", "plain"]

        async def call(number: int) -> None:
            shown = await client.call_tool("item", {"number": number})
            assert shown.data["number"] == number, shown.text
            assert shown.data["host"] == url.split("/")[2]
            pids.add(shown.data["pid"])
            assert (await client.call_tool("plain", {"number": number})).text == str(number + 1)
            assert (await client.call_tool("calls_back", {"number": number})).data["number"] == number

        async with anyio.create_task_group() as tasks:
            for number in range(CALLS):
                tasks.start_soon(call, number)
    return pids


gunicorn = pytest.mark.skipif(sys.platform == "win32", reason="gunicorn needs fork()")
GUNICORN = ["gunicorn", "--bind", "127.0.0.1:0", "--timeout", "120", "--graceful-timeout", "20", TARGET]


@gunicorn
@pytest.mark.parametrize(
    "options",
    [["--workers", "2"], ["--workers", "2", "--preload"], ["--workers", "1", "--threads", "8"]],
    ids=["processes", "preloaded", "threads"],
)
async def test_gunicorn_serves_both_eras(options: list[str]) -> None:
    """A worker with one thread could not answer a tool's request to the application by itself."""
    with hosted([*GUNICORN, *options]) as host:
        for mode in ("auto", "2025-06-18"):
            pids = await use(host.url, mode)
            assert host.process.pid not in pids
        assert host.stop() == 0
        text = "".join(host.lines)
    assert "Traceback" not in text, text
    assert "SIGKILL" not in text, text


@gunicorn
@pytest.mark.skipif(find_spec("gevent") is None, reason="no gevent")
async def test_gunicorn_serves_by_greenlets_of_gevent() -> None:
    with hosted([*GUNICORN, "--workers", "1", "--worker-class", "gevent"]) as host:
        for mode in ("auto", "2025-11-25"):
            assert host.process.pid not in await use(host.url, mode)


@gunicorn
async def test_gunicorn_may_reload_its_workers() -> None:
    with hosted([*GUNICORN, "--workers", "1"]) as host:
        (before,) = await use(host.url, "auto")
        host.process.send_signal(signal.SIGHUP)
        with anyio.fail_after(60):
            while True:
                async with Client(host.url) as client:
                    found = (await client.call_tool("item", {"number": 1})).data["pid"]
                if found != before:
                    break
                await anyio.sleep(0.05)
        assert host.stop() == 0


async def test_waitress_serves_both_eras() -> None:
    with hosted(["waitress", "--listen", "127.0.0.1:0", TARGET], r"Serving on http://127\.0\.0\.1:(\d+)") as host:
        for mode in ("auto", "2025-11-25"):
            assert await use(host.url, mode) == {host.process.pid}


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's own name
        pass


@pytest.mark.parametrize("mode", ["auto", "2025-06-18"])
async def test_a_host_with_one_thread_is_enough(mode: str) -> None:
    """As mod_wsgi with ``threads=1``, or ``flask run --without-threads``: the tool calls the application meanwhile."""
    from tests.integrations.flask.hosted import app

    with make_server("127.0.0.1", 0, app, handler_class=_Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            assert await use(f"http://127.0.0.1:{server.server_port}/mcp", mode) == {os.getpid()}
        finally:
            server.shutdown()
            thread.join()


async def test_the_endpoint_may_be_dispatched_by_werkzeug() -> None:
    from werkzeug.middleware.dispatcher import DispatcherMiddleware

    from tests.integrations.flask.hosted import app, mcp

    both = DispatcherMiddleware(app, {"/tools": mcp.wsgi()})
    with make_server("127.0.0.1", 0, both, handler_class=_Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            await use(f"http://127.0.0.1:{server.server_port}/tools", "auto")
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork()")
def test_a_process_that_has_served_may_fork() -> None:
    """As a host that forks later: the child has no event loop and no worker thread of its parent's, and begins anew."""
    program = (
        "import os\n"
        "from tests.integrations.flask.calls import wsgi_call\n"
        "from tests.integrations.flask.hosted import app\n"
        "def call():\n"
        "    answers = [wsgi_call(app, name, {}, '/mcp', '127.0.0.1', number=1) for name in ('item', 'plain')]\n"
        "    return str(os.getpid()) in answers[0] and answers[1] == '2'\n"
        "assert call()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os._exit(0 if call() and call() else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert call()\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=ROOT,
        env=program_environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
