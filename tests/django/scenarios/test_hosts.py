"""A project under the servers that run Django, as the official client sees it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from http.client import HTTPConnection
from typing import Any

import django
import pytest

from tests.conftest import ROOT, peer_program
from tests.django.scenarios.conftest import Database
from tests.host_processes import Host, hosted
from tests.processes import free_port

SCRIPT = ROOT / "tests" / "interop" / "mcp_django_script.py"
GUNICORN = ["gunicorn", "--bind", "127.0.0.1:0", "--timeout", "120", "--graceful-timeout", "20"]
WSGI = "tests.django.hosting.wsgi:application"
ASGI = "tests.django.hosting.asgi:application"
UVICORN = (["uvicorn", "--port", "0", "--lifespan", "off", ASGI], r"running on http://127\.0\.0\.1:(\d+)")

SHARED = {"HOSTED_STORE": "django:default"}

gunicorn = pytest.mark.skipif(sys.platform == "win32", reason="gunicorn needs fork()")


@pytest.fixture(scope="module")
def wsgi_host(database_of_hosts: Database) -> Generator[Host]:
    with hosted([*GUNICORN, "--workers", "2", WSGI], environment=database_of_hosts.environment) as host:
        yield host


@pytest.fixture(scope="module")
def asgi_host(database_of_hosts: Database) -> Generator[Host]:
    command, listening = UVICORN
    with hosted([*command, "--workers", "2"], listening, database_of_hosts.environment) as host:
        yield host


def converse(
    python: str,
    mode: str,
    host: Host,
    token: str,
    calls: list[tuple[str, dict[str, Any]]],
    *,
    at_once: bool = False,
) -> dict[str, Any]:
    """What the official client saw, which makes the calls one by one or at once."""
    done = subprocess.run(
        [python, str(SCRIPT), mode, f"{host.url}/", token, json.dumps(calls), *(["at-once"] if at_once else [])],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr[-4000:] + "".join(host.lines)[-6000:]
    return json.loads(done.stdout)


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("write", {"title": "kept"}),
    ("write", {"title": "lost", "fail": True}),
    ("invoice_list", {}),
    ("count_later", {"prefix": "kept"}),
    ("steps", {}),
    ("invoice_create", {"title": " ", "amount": "-"}),
    ("invoice_retrieve", {"id": 0}),
]


def check(seen: dict[str, Any], database: Database, before: int) -> None:
    """What holds under every host."""
    assert {"write", "where", "invoice_list"} <= set(seen["tools"])
    assert "invoice_purge" not in seen["tools"], "only staff may"
    wrote, failed, listed, counted, stepped, wrong, missing = seen["results"][: len(CALLS)]
    assert (wrote["is_error"], failed["is_error"], stepped["text"]) == (False, True, "done")
    assert listed["data"]["count"] >= 1
    assert counted["text"] == str(before + 1)
    assert wrong["is_error"]
    assert "title: This field may not be blank." in wrong["text"]
    assert "amount: A valid number is required." in wrong["text"]
    assert "404" in missing["text"]
    assert database.titles("lost") == []
    assert not any(each["is_error"] for each in seen["many"])


@gunicorn
@pytest.mark.peer
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_gunicorn_serves_the_official_client(
    peer_python: str, mode: str, wsgi_host: Host, database_of_hosts: Database
) -> None:
    before = len(database_of_hosts.titles("kept"))
    seen = converse(peer_python, mode, wsgi_host, database_of_hosts.token, CALLS)
    check(seen, database_of_hosts, before)
    assert all(each["data"]["is_main"] for each in seen["many"]), "the thread of the request runs sync functions"
    assert seen["progress"] == []


@pytest.mark.peer
def test_uvicorn_serves_the_official_client(peer_python: str, asgi_host: Host, database_of_hosts: Database) -> None:
    before = len(database_of_hosts.titles("kept"))
    seen = converse(peer_python, "auto", asgi_host, database_of_hosts.token, CALLS)
    check(seen, database_of_hosts, before)
    assert seen["progress"] == [0, 1, 2]


@pytest.mark.peer
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_questions_are_asked_under_uvicorn(peer_python: str, mode: str, database_of_hosts: Database) -> None:
    """Of two processes: the store in the database passes on what reaches the one that did not ask."""
    title = f"asked {mode}"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("ask", {}),
        ("ask_in_thread", {"title": title}),
        ("ask_in_thread", {"title": f"failed {mode}", "fail": True}),
    ]
    command, listening = UVICORN
    before = len(database_of_hosts.titles("kept"))
    environment = {**database_of_hosts.environment, **SHARED}
    if django.VERSION >= (5, 1):  # which have the option for transactions
        environment["HOSTED_SQLITE"] = "immediate"
    with hosted([*command, "--workers", "2"], listening, environment) as host:
        seen = converse(peer_python, mode, host, database_of_hosts.token, [*CALLS, *calls])
        check(seen, database_of_hosts, before)
        assert seen["progress"] == [0, 1, 2]
        asked, in_thread, failed = seen["results"][-3:]
        assert (asked["text"], in_thread["text"], failed["is_error"]) == ("accept", "accept True", True)
        assert seen["asked"] == ["Go on?"] * 3
    assert database_of_hosts.titles(title) == [f"{title} before", f"{title} after"]
    # The question has ended the first transaction; the second one was rolled back.
    assert database_of_hosts.titles(f"failed {mode}") == [f"failed {mode} before"]


@pytest.mark.peer
@pytest.mark.parametrize("database_of_hosts", ["sqlite"], indirect=True)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("server", ["uvicorn", pytest.param("gunicorn", marks=gunicorn)])
def test_sqlite_as_a_new_project_has_it_serves_two_processes(
    peer_python: str, server: str, mode: str, database_of_hosts: Database
) -> None:
    """Its default journal and time-out, and transactions that wait for no lock: nothing of the store may be lost."""
    title = f"plain {server} {mode}"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("write", {"title": f"{title} written"}),
        ("steps", {}),
        ("ask", {}),
        ("ask_in_thread", {"title": title}),
    ]
    asks = server == "uvicorn" or mode == "auto"  # of a legacy client a WSGI host cannot ask a question
    command = [*UVICORN[0], "--workers", "2"] if server == "uvicorn" else [*GUNICORN, "--workers", "2", WSGI]
    listening = UVICORN[1] if server == "uvicorn" else r"Listening at: http://127\.0\.0\.1:(\d+)"
    environment = {**database_of_hosts.environment, **SHARED, "HOSTED_SQLITE": "plain"}
    with hosted(command, listening, environment) as host:
        seen = converse(peer_python, mode, host, database_of_hosts.token, calls if asks else calls[:2])
        said = "".join(host.lines)
    assert not any(each["is_error"] for each in [*seen["results"], *seen["many"]]), said
    assert seen["asked"] == (["Go on?"] * 2 if asks else [])
    # Without ATOMIC_REQUESTS there is no transaction to go on in.
    assert [each["text"] for each in seen["results"][2:]] == (["accept", "accept False"] if asks else [])
    wanted = [f"{title} written", *([f"{title} before", f"{title} after"] if asks else [])]
    assert database_of_hosts.titles(title) == wanted
    assert "is locked" not in said, said
    assert "did not reach" not in said, said


@gunicorn
@pytest.mark.peer
@pytest.mark.parametrize("database_of_hosts", ["sqlite"], indirect=True)
def test_questions_are_rounds_under_gunicorn(peer_python: str, database_of_hosts: Database) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [("ask", {}), ("ask_in_thread", {"title": "rounds"})]
    with hosted([*GUNICORN, "--workers", "1", WSGI], environment=database_of_hosts.environment) as host:
        seen = converse(peer_python, "auto", host, database_of_hosts.token, calls)
    assert [each["text"] for each in seen["results"]] == ["accept", "accept True"]
    assert database_of_hosts.titles("rounds") == ["rounds before", "rounds after"]


ACROSS: list[tuple[str, dict[str, Any]]] = [("ask_across", {})] * 12


@gunicorn
@pytest.mark.peer
def test_another_process_of_gunicorn_goes_on_after_a_question(peer_python: str, database_of_hosts: Database) -> None:
    """Of two with one thread each, which calls at once keep busy. Legacy clients cannot be asked without a stream."""
    environment = {**database_of_hosts.environment, **SHARED}
    with hosted([*GUNICORN, "--workers", "2", WSGI], environment=environment) as host:
        found: list[Any] = []
        for _ in range(8):  # which process takes a request is chance
            seen = converse(peer_python, "auto", host, database_of_hosts.token, ACROSS, at_once=True)
            assert seen["asked"] == ["Go on?"] * len(ACROSS)
            found += [each["data"] for each in seen["results"]]
            if any(before != after for before, after in found):
                break
        assert any(before != after for before, after in found), found
        (refused,) = converse(peer_python, "legacy", host, database_of_hosts.token, ACROSS[:1])["results"]
        assert refused["is_error"]


@gunicorn
@pytest.mark.peer
@pytest.mark.parametrize("database_of_hosts", ["sqlite"], indirect=True)
def test_workers_with_greenlets_are_refused(database_of_hosts: Database) -> None:
    """Django would refuse every query in their thread once an event loop runs there."""
    python = peer_program("django-5.2")
    command = [*GUNICORN, "--worker-class", "gevent", WSGI]
    with hosted(command, environment=database_of_hosts.environment, python=python) as host:
        for _ in range(2):
            found, _, answer = request(host, database_of_hosts)
            assert (found, b"MCP is not served in a worker with gevent" in answer) == (503, True)


@gunicorn
@pytest.mark.peer
@pytest.mark.parametrize("database_of_hosts", ["postgresql"], indirect=True)
@pytest.mark.parametrize("options", [["--workers", "2", "--preload"], ["--workers", "1", "--threads", "4"]])
def test_gunicorn_with_other_workers(peer_python: str, options: list[str], database_of_hosts: Database) -> None:
    before = len(database_of_hosts.titles("kept"))
    with hosted([*GUNICORN, *options, WSGI], environment=database_of_hosts.environment) as host:
        check(converse(peer_python, "auto", host, database_of_hosts.token, CALLS), database_of_hosts, before)
        assert host.stop() == 0
    assert "SIGKILL" not in "".join(host.lines)


@pytest.mark.peer
@pytest.mark.parametrize("database_of_hosts", ["sqlite"], indirect=True)
def test_runserver_serves_the_official_client(peer_python: str, database_of_hosts: Database) -> None:
    port = free_port()
    command = ["django", "runserver", "--noreload", f"127.0.0.1:{port}"]
    before = len(database_of_hosts.titles("kept"))
    with hosted(command, r"server at http://127\.0\.0\.1:(\d+)", database_of_hosts.environment) as host:
        check(converse(peer_python, "auto", host, database_of_hosts.token, CALLS), database_of_hosts, before)


# -- requests that no client of the package makes ----------------------------------------------------------------------

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def request(
    host: Host, database: Database, method: str = "POST", padding: int = 0, tool: str = "where", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """A call of a tool; status, headers and body of the answer."""
    arguments = {} if tool == "where" else {"title": tool}
    params = {"name": tool, "arguments": arguments, "_meta": {**META, "padding": "x" * padding}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    sent = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
        "Authorization": f"Token {database.token}",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    connection = HTTPConnection("127.0.0.1", int(host.url.split(":")[2].split("/")[0]), timeout=60)
    try:
        connection.request(method, "/mcp/", None if method == "GET" else json.dumps(body), sent)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


@pytest.fixture(params=[pytest.param("wsgi_host", marks=gunicorn), "asgi_host"])
def either_host(request: pytest.FixtureRequest) -> Host:
    found: Host = request.getfixturevalue(request.param)
    return found


def test_what_must_be_refused_is_refused(either_host: Host, database_of_hosts: Database) -> None:
    def status(**headers: Any) -> int:
        return request(either_host, database_of_hosts, **headers)[0]

    assert status() == 200
    assert status(Origin="http://evil.example") == 403
    assert status(Host="evil.example") == 400
    assert status(Authorization="Token wrong") == 401
    assert status(padding=100_000) == 413, "".join(either_host.lines)[-5000:]


def test_middleware_may_read_the_body_first(either_host: Host, database_of_hosts: Database) -> None:
    found, _, answer = request(either_host, database_of_hosts, X_Read_First="yes", padding=1000)
    assert found == 200
    assert "result" in json.loads(answer)
    assert request(either_host, database_of_hosts, X_Read_First="yes", padding=100_000)[0] == 413


@gunicorn
def test_a_stream_is_refused_under_wsgi(wsgi_host: Host, database_of_hosts: Database) -> None:
    found, headers, _ = request(wsgi_host, database_of_hosts, "GET", Accept="text/event-stream")
    assert (found, headers["allow"]) == (405, "POST, OPTIONS")


def eventually(found: Callable[[], Any], wanted: Any) -> None:
    """Wait until a value is the wanted one."""
    until = time.monotonic() + 60
    while found() != wanted and time.monotonic() < until:
        time.sleep(0.02)
    assert found() == wanted


def test_a_client_that_leaves_cancels_its_call_under_asgi(asgi_host: Host, database_of_hosts: Database) -> None:
    """Django watches the connection from version 5.0 on."""
    import socket

    port = int(asgi_host.url.split(":")[2].split("/")[0])
    params = {"name": "wait", "arguments": {"title": "cancelled"}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    head = (
        f"POST /mcp/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\n"
        "Mcp-Method: tools/call\r\nMcp-Name: wait\r\n"
        f"Authorization: Token {database_of_hosts.token}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(head.encode() + body)
        eventually(lambda: database_of_hosts.titles("cancelled"), ["cancelled waits"])
    if django.VERSION >= (5, 0):
        eventually(lambda: database_of_hosts.titles("cancelled"), ["cancelled"])


def test_no_connection_is_left_open(either_host: Host, database_of_hosts: Database) -> None:
    """With ``CONN_MAX_AGE`` of 0, Django's default."""
    from concurrent.futures import ThreadPoolExecutor

    def call(number: int) -> int:
        tool = ("where", "write")[number % 2] if number % 10 else "ask"
        return request(either_host, database_of_hosts, tool=tool)[0]

    with ThreadPoolExecutor(8) as pool:
        statuses = set(pool.map(call, range(200)))
    assert statuses <= {200, 400}
    eventually(database_of_hosts.connections, [])
