"""The example of orders: one body, every era and transport, several processes, one charge."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.processes import free_port, wait_until_served

PROGRAM = Path(__file__).with_name("orders_program.py")
SCRIPT = Path(__file__).with_name("mcp_orders_script.py")
LEGACY, MODERN = "2025-11-25", "2026-07-28"
KEY = "the state key of all the workers, 32+"

Start = Callable[..., int]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where charges are written; the servers of a test inherit it."""
    path = tmp_path / "ledger"
    monkeypatch.setenv("ORDERS_LEDGER", str(path))
    monkeypatch.setenv("ORDERS_STATE_KEY", KEY)
    monkeypatch.setenv("ORDERS_STORE", f"sqlite:///{tmp_path / 'orders.db'}")
    return path


def charges(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines() if ledger.exists() else []


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a worker; gives its port."""
    with ExitStack() as stack:

        def started(**environment: str) -> int:
            port = free_port()
            log = tmp_path / f"log{port}"
            with log.open("wb") as stream:
                process = subprocess.Popen(
                    [sys.executable, str(PROGRAM), str(port)],
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=stream,
                    env={**os.environ, **environment},
                )
            stack.callback(process.wait, 10)
            stack.callback(process.terminate)
            wait_until_served(process, port, log)
            return port

        yield started


# -- the official client -----------------------------------------------------------------------------------------------


class Alternating(BaseHTTPRequestHandler):
    """A proxy that hands each POST to the next worker: no two rounds of a call meet the same process."""

    ports: list[int]
    turns: count[int]
    served: list[int]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        port = self.ports[next(self.turns) % len(self.ports)]
        self.served.append(port)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", self.path, body, {**headers, "host": f"127.0.0.1:{port}"})
        answer = connection.getresponse()
        payload = answer.read()
        connection.close()
        self.send_response(answer.status)
        self.send_header("content-type", answer.getheader("content-type") or "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *args: Any) -> None:
        """Quietly."""


@pytest.fixture
def proxy() -> Iterator[Callable[[list[int]], tuple[str, list[int]]]]:
    with ExitStack() as stack:

        def made(ports: list[int]) -> tuple[str, list[int]]:
            served: list[int] = []
            handler = type("Handler", (Alternating,), {"ports": ports, "turns": count(), "served": served})
            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), handler))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_address[1]}/mcp", served

        yield made


def converse(python: str, mode: str, *target: str) -> dict[str, Any]:
    done = subprocess.run([python, str(SCRIPT), mode, *target], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-6000:]
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


def check(seen: dict[str, Any], revision: str, ledger: Path) -> None:
    (charge,) = charges(ledger)
    amount, key = charge.split()
    assert (seen["protocol_version"], amount) == (revision, "1100")
    assert seen["asked"] == [
        "Which size of ferrule?",
        "Charge 11.00 euros for one ferrule in M?",
        "Thank somebody for ordering one ferrule, in one short line.",
    ]
    receipt = {"product": "ferrule", "size": "M", "charge": f"ch_{key[:8]}", "note": "Thank you!"}
    assert seen["result"]["structuredContent"] == receipt
    assert not seen["result"].get("isError")


@pytest.mark.peer
@pytest.mark.parametrize(("mode", "revision"), [("legacy", LEGACY), (MODERN, MODERN), ("auto", MODERN)])
def test_the_same_body_serves_the_official_client_over_stdio(peer_python, ledger, examples_dir, mode, revision):
    """Two questions, one sampled line, one charge; the file is the example's, unchanged."""
    # The client passes on a short list of variables only, so that the command sets them.
    variables = [f"{name}={os.environ[name]}" for name in ("ORDERS_LEDGER", "ORDERS_STATE_KEY", "ORDERS_STORE")]
    command = ["/usr/bin/env", *variables, sys.executable, str(examples_dir / "orders.py")]
    check(converse(peer_python, mode, "stdio", *command), revision, ledger)


@pytest.mark.peer
@pytest.mark.parametrize(("mode", "revision"), [("legacy", LEGACY), (MODERN, MODERN), ("auto", MODERN)])
def test_the_same_body_serves_the_official_client_over_http(peer_python, ledger, start, mode, revision):
    check(converse(peer_python, mode, "http", f"http://127.0.0.1:{start()}/mcp"), revision, ledger)


@pytest.mark.peer
def test_each_round_may_reach_another_process(peer_python, ledger, start, proxy):
    """Same keys, one store, two workers that take turns: one order, one charge."""
    url, served = proxy([start(), start()])
    check(converse(peer_python, MODERN, "http", url), MODERN, ledger)
    assert len(set(served)) == 2
    assert len(served) >= 4


# -- retries by hand ---------------------------------------------------------------------------------------------------

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}},
}
HEADERS = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": MODERN,
    "mcp-method": "tools/call",
    "mcp-name": "order",
}


def post(port: int, retry: dict[str, Any] | None = None) -> dict[str, Any]:
    """One round; an error is given as it came."""
    params = {"name": "order", "arguments": {"product": "ferrule"}, "_meta": META, **(retry or {})}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/mcp", body, HEADERS)
        answer = json.loads(connection.getresponse().read())
        return answer.get("result") or answer["error"]
    finally:
        connection.close()


def retry_of(answer: dict[str, Any]) -> dict[str, Any]:
    """What a client sends next."""
    answers: dict[str, Any] = {}
    for key, asked in answer["inputRequests"].items():
        if asked["method"] == "sampling/createMessage":
            content = {"type": "text", "text": "Thank you!"}
            answers[key] = {"role": "assistant", "content": content, "model": "a model"}
        else:
            is_consent = "Charge" in asked["params"]["message"]
            answers[key] = {"action": "accept", "content": {"value": True if is_consent else "S"}}
    return {"inputResponses": answers, "requestState": answer["requestState"]}


def last_retry(port: int) -> dict[str, Any]:
    """The retry that charges."""
    answer = post(port)
    for _ in range(2):
        answer = post(port, retry_of(answer))
    return retry_of(answer)


def test_the_same_post_twice_charges_once(ledger, start):
    """A client that did not see the answer sends its retry again."""
    port = start()
    retry = last_retry(port)
    first, second = post(port, retry), post(port, retry)
    assert first["structuredContent"] == second["structuredContent"]
    assert len(charges(ledger)) == 1


def test_two_workers_at_once_charge_once(ledger, start):
    """The same retry reaches both while the provider is slow: one charges, the other waits for its result."""
    ports = [start(TROUBLE_WAIT_S="0.5"), start(TROUBLE_WAIT_S="0.5")]
    retry = last_retry(ports[0])
    answers: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda port=port: answers.append(post(port, retry))) for port in ports * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(charges(ledger)) == 1
    assert [answer["structuredContent"]["charge"] for answer in answers] == [
        answers[0]["structuredContent"]["charge"]
    ] * 4


def test_a_kill_between_charge_and_reply_charges_once(ledger, start):
    """It is unknown whether the charge happened, so the next worker does not repeat it: the step is in doubt."""
    doomed, other = start(TROUBLE="killed"), start(STEP_WAIT_S="0.2")
    retry = last_retry(doomed)
    with pytest.raises((http.client.HTTPException, OSError)):
        post(doomed, retry)
    for _ in range(2):
        answer = post(other, retry)
        assert answer["isError"] is True
    assert len(charges(ledger)) == 1


def test_without_a_shared_store_each_worker_charges_under_one_key(ledger, start, monkeypatch):
    """A weaker guarantee: once per chain of rounds, with a key by which the provider recognizes the same order."""
    monkeypatch.setenv("ORDERS_STORE", "memory:")
    ports = [start(), start()]
    retry = last_retry(ports[0])
    for port in ports:
        post(port, retry)
    assert len(charges(ledger)) == 2
    assert len(set(charges(ledger))) == 1


def test_workers_without_a_common_key_refuse_each_others_states(ledger, start, monkeypatch):
    """Before anything is charged; the log of the worker names the option."""
    monkeypatch.delenv("ORDERS_STATE_KEY")
    ports = [start(), start()]
    retry = last_retry(ports[0])
    assert post(ports[1], retry)["data"] == {"reason": "unknown_key"}
    assert charges(ledger) == []
