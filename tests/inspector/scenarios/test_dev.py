"""`ferrule dev` with each kind of target, and when the server changes, fails or requires authorization."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inspector.conftest import LIMIT_S, ROOT, WORKSHOP, Dev, developing, watching

SMALL = (
    "from ferrule import MCPServer\n\napp = MCPServer({name!r})\n\n\n@app.tool\ndef {name}() -> int:\n    return 1\n"
)


def connection(running: Dev, state: str, **wanted: Any) -> dict[str, Any]:
    """Return the main connection's event once it has that state."""
    for event in running.events():
        is_main = event["kind"] == "connection" and event["key"] == "main" and event["state"] == state
        if is_main and all(event.get(name) == value for name, value in wanted.items()):
            return event
    raise AssertionError("the feed ended")


def test_a_url_is_inspected_with_its_http(http_url: str) -> None:
    """Statuses and headers are recorded with each message."""
    with developing(http_url) as running:
        connection(running, "open")
        assert running.job("a", "call", tool="add", arguments={"a": 1})["state"] == "done"
        for event in running.events():
            if event["kind"] == "message" and event["direction"] == "in" and event.get("method") == "tools/call":
                break
        found = running.call("message", number=event["number"])
        assert found["http"]["status"] == 200
        assert found["message"]["result"]["content"][0]["text"] == "3"
        assert event["took_ms"] > 0


def test_a_legacy_session_over_http_shows_its_session_and_stream(http_url: str) -> None:
    """Also what carries no message: the standing stream, and the end of the session."""
    with developing(http_url, "--mode", "legacy") as running:
        assert connection(running, "open")["version"] == "2025-11-25"
        running.job("a", "call", tool="polish", arguments={"passes": 1, "pause_ms": 1})
        running.call("disconnect")
        titles = []
        for event in running.events():
            if event["kind"] == "message":
                titles.append((event["what"], event.get("method")))
            if event["kind"] == "caught_up":
                break
        assert ("request", "initialize") in titles
        assert ("http", "GET /mcp") in titles
        assert ("http", "DELETE /mcp") in titles
        assert ("notification", "notifications/progress") in titles
        assert ("notification", "notifications/message") in titles


def test_a_configuration_names_a_server(tmp_path: Path) -> None:
    """With --config, and the variables of its entry."""
    config = tmp_path / "mcp.json"
    entry = {"command": sys.executable, "args": [str(WORKSHOP)], "env": {"SECRET": "hush"}}
    config.write_text(json.dumps({"mcpServers": {"bench": entry, "other": {"command": "nothing"}}}))
    with developing(f"{config}:bench") as running:
        assert connection(running, "open")["server"]["name"] == "workshop"
        running.job("a", "call", tool="add", arguments={"a": 1})
        text = running.call("snippet", job="a", form="python")["text"]
        assert "hush" not in text
        assert 'os.environ["SECRET"]' in text


@pytest.mark.parametrize("options", [["a.py", "--config", "b"], [str(WORKSHOP), "--mode", "1999-01-01"]], ids=str)
def test_wrong_usage_is_reported(options: list[str]) -> None:
    """With the status for it, before anything listens."""
    done = subprocess.run(
        [sys.executable, "-m", "ferrule", "dev", *options, "--no-open"],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_reported() -> None:
    """With the status of a connection that could not be made."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "ferrule", "dev", str(WORKSHOP), "--no-open", "--port", str(port)],
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "cannot listen" in done.stderr


def test_it_listens_on_loopback_only() -> None:
    """Other machines of the network must not be able to load the page."""
    with developing(WORKSHOP) as running, socket.socket() as other:
        other.settimeout(1)
        with pytest.raises(OSError):
            other.connect(("127.0.0.2", running.port))


def test_a_changed_source_starts_the_server_again(tmp_path: Path) -> None:
    """The page receives the new tools without a request of the user."""
    path = tmp_path / "small.py"
    path.write_text(SMALL.format(name="first"))
    with developing(path) as running:
        assert connection(running, "open")["server"]["name"] == "first"
        path.write_text(SMALL.format(name="second_one"))
        for event in running.events():
            if event["kind"] == "connection" and event["state"] == "open" and event["server"]["name"] == "second_one":
                break
        assert running.job("t", "list", list="tools")["outcome"][0]["name"] == "second_one"


def test_a_server_that_fails_is_quoted_and_tried_again(tmp_path: Path, browser: Any) -> None:
    """The page shows why the connection failed; after a correction of the file it connects without an action."""
    path = tmp_path / "small.py"
    path.write_text("from ferrule import MCPServer\n\nraise SystemExit('no brass today')\n")
    with developing(path) as running, watching(browser, running.url) as watched:
        banner = watched.page.locator("#failed")
        banner.wait_for()
        assert "no brass today" in banner.inner_text()
        watched.shoot("no-connection")
        path.write_text(SMALL.format(name="mended"))
        watched.page.locator('.item[data-key="mended"]').wait_for()
        banner.wait_for(state="detached")


def test_the_page_shows_that_the_inspector_ended(tmp_path: Path, browser: Any) -> None:
    """The page shows that the inspector has ended."""
    with developing(WORKSHOP) as running, watching(browser, running.url) as watched:
        watched.page.wait_for_selector(".item")
        running.process.terminate()
        watched.page.get_by_text("ferrule dev does not answer").wait_for()
        watched.complaints = [line for line in watched.complaints if "ERR_" not in line]  # the browser's own


@pytest.mark.skipif(sys.platform == "win32", reason="the browser is a shell script here")
def test_the_browser_is_started_with_a_ticket(tmp_path: Path, browser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with the token: every user of the machine can read a command line. The ticket works once."""
    asked = tmp_path / "asked"
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {asked}.part && mv {asked}.part {asked}\n')
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(program))
    monkeypatch.setenv("DISPLAY", ":none")
    with developing(WORKSHOP, is_opened=True) as running:
        until = time.monotonic() + LIMIT_S
        while not asked.exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        address = asked.read_text()
        assert running.token not in address
        with watching(browser, address) as watched:
            watched.page.wait_for_selector(".item")
            assert "ticket" not in watched.page.url
            watched.page.reload()
            watched.page.wait_for_selector(".item")
        with watching(browser, address) as again:
            again.page.get_by_role("heading", name="This page needs its token").wait_for()
            again.complaints = [line for line in again.complaints if "401" not in line]  # the browser's own line


def test_what_is_no_message_is_pointed_out(tmp_path: Path) -> None:
    """A print in the server is the most frequent reason for "my host does not see my tool"."""
    path = tmp_path / "noisy.py"
    path.write_text(
        f"import runpy\n\nprint('brass is in', flush=True)\nrunpy.run_path({str(WORKSHOP)!r}, run_name='__main__')\n"
    )
    with developing(path) as running:
        connection(running, "open")
        for event in running.events():
            if event["kind"] == "notice":
                break
        assert "brass is in" in event["text"]


@pytest.mark.peer
def test_a_published_server_is_inspected(peer_node: tuple[str, Path]) -> None:
    """A server of another author, with its requests to the user."""
    node, folder = peer_node
    program = folder / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    with developing(f"{node} {program}") as running:
        assert not connection(running, "open")["is_modern"]
        assert "The sum of 2 and 3 is 5" in json.dumps(
            running.job("sum", "call", tool="get-sum", arguments={"a": 2, "b": 3})
        )
        running.call(
            "run", job="ask", op="call", params={"tool": "trigger-sampling-request", "arguments": {"prompt": "x"}}
        )
        for event in running.events():
            if event["kind"] == "question" and event["state"] == "open":
                said = {"type": "text", "text": "brass lasts"}
                answer = {"role": "assistant", "model": "m", "stopReason": "endTurn", "content": said}
                running.call("answer", question=event["key"], answer=answer)
            if event["kind"] == "job" and event["key"] == "ask" and event["state"] == "done":
                break
        assert "brass lasts" in json.dumps(running.call("outcome", job="ask"))


@pytest.fixture(scope="package")
def protected() -> Iterator[str]:
    """The protected example with its authorization server; gives the URL."""
    pytest.importorskip("joserfc", reason="ferrule[auth] is not installed")
    ports = []
    for _ in range(2):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
    issuer = f"http://localhost:{ports[0]}"
    folder = ROOT / "examples" / "protected"
    commands = (["issuer.py", "--port", str(ports[0])], ["server.py", "--issuer", issuer, "--port", str(ports[1])])
    processes = [
        subprocess.Popen([sys.executable, *command], cwd=folder, stderr=subprocess.DEVNULL) for command in commands
    ]
    try:
        until = time.monotonic() + LIMIT_S
        for port in ports:
            while True:
                try:
                    socket.create_connection(("localhost", port), 1).close()
                    break
                except OSError:
                    assert time.monotonic() < until
                    time.sleep(0.05)
        yield f"http://localhost:{ports[1]}/mcp"
    finally:
        for process in processes:
            process.terminate()
            process.wait(LIMIT_S)


def test_a_protected_server_is_signed_in_to_from_the_page(
    protected: str, tmp_path: Path, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page shows the URL of the sign-in; after it the connection opens. No token is kept."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    with developing(protected, "--oauth") as running:
        with watching(browser, running.url) as watched:
            link = watched.page.locator(".banner.ask a")
            link.wait_for()
            assert "/authorize" in link.inner_text()
            watched.shoot("sign-in")
            with watched.context.expect_page() as opened:
                link.click()
            opened.value.get_by_text("Authorization received").wait_for()
            opened.value.close()
            watched.page.locator('.item[data-key="whoami"]').wait_for()
            watched.page.locator(".banner.ask").wait_for(state="detached")
            watched.requests = [each for each in watched.requests if each.startswith(watched.origin)]
        answer = running.job("who", "call", tool="whoami", arguments={})
        assert answer["outcome"]["result"]["content"][0]["text"].startswith("ada")
        kept: list[str] = []
        for event in running.events():
            kept.append(json.dumps(event))
            if event["kind"] == "message":
                kept.append(json.dumps(running.call("message", number=event["number"])))
            if event["kind"] == "caught_up":
                break
        assert not re.search(r"eyJ[\w-]{20,}", "".join(kept))


def test_an_unfinished_sign_in_can_be_cancelled(
    protected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connecting again does not wait for the time limit of the sign-in."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    with developing(protected, "--oauth") as running:
        seen: list[str] = []
        for event in running.events():
            if event["kind"] == "sign_in" and event["url"] and event["url"] not in seen:
                seen.append(event["url"])
                if len(seen) == 2:
                    break
                running.call("connect")
        running.call("connect", oauth=False)
        assert "needs an access token" in connection(running, "failed")["error"]


def test_without_a_token_the_refusal_is_shown(protected: str) -> None:
    """The page shows the server's message."""
    with developing(protected) as running:
        assert "needs an access token" in connection(running, "failed")["error"]
