"""The origin of views, without a browser: what it serves, once and to whom; what it takes as a report."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from ferrule.inspector.view_origin import MAX_REPORTS, ViewOrigin
from tests.inspector.conftest import LIMIT_S, Dev

FRAME = {"sec-fetch-dest": "iframe"}


class Sent:
    """What the origin answers."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""

    async def __call__(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message["body"]


class Origin:
    """An origin at fixed ports, with the reports that it published."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, Mapping[str, Any]]] = []
        self.served = ViewOrigin(lambda key, facts: self.reports.append((key, facts)))
        self.served.page_port, self.served.port = 1001, 1002

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Sent:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        sent = Sent()
        given = {"host": "127.0.0.1:1002", **{name.replace("_", "-"): value for name, value in headers.items()}}
        await self.served.serve({"method": method, "path": path}, given, receive, sent)
        return sent


@pytest.fixture
def origin() -> Origin:
    """One for each test."""
    return Origin()


@pytest.mark.anyio
async def test_the_proxy_page_is_served_once_with_the_policy(origin: Origin) -> None:
    """Its address is no secret: every view can read it."""
    ticket, key = origin.served.admit("default-src 'none'")
    sent = await origin.ask("GET", f"/{ticket}", sec_fetch_dest="iframe")
    assert sent.status == 200
    assert sent.headers["content-security-policy"] == (
        "default-src 'none'; frame-ancestors http://127.0.0.1:1001 http://localhost:1001; "
        f"report-uri http://127.0.0.1:1002/report/{key}"
    )
    assert sent.headers["cache-control"] == "no-store"
    assert b'data-hosts="http://127.0.0.1:1001 http://localhost:1001"' in sent.body
    assert (await origin.ask("GET", f"/{ticket}", sec_fetch_dest="iframe")).status == 401


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/TICKET", {"host": "evil.example"}, 403),
        ("GET", "/TICKET", {"sec_fetch_dest": "document"}, 403),
        ("GET", "/TICKET", {"sec_fetch_dest": "empty"}, 403),
        ("POST", "/TICKET", {}, 405),
        ("GET", "/", {}, 401),
        ("GET", "/api/state", {}, 401),
        ("POST", "/api/state", {}, 405),
        ("GET", "/main.js", {}, 401),
    ],
    ids=str,
)
@pytest.mark.anyio
async def test_nothing_else_is_served(
    origin: Origin, method: str, path: str, headers: dict[str, Any], status: int
) -> None:
    """A refused request does not use the ticket up, and has a policy too."""
    ticket, _ = origin.served.admit("default-src 'none'")
    sent = await origin.ask(method, path.replace("TICKET", ticket), **headers)
    assert sent.status == status
    assert sent.headers["content-security-policy"].startswith("default-src 'none'; frame-ancestors http://127.0.0.1")
    assert (await origin.ask("GET", f"/{ticket}", sec_fetch_dest="iframe")).status == 200


REPORT = {"csp-report": {"effective-directive": "img-src", "blocked-uri": "https://x.example/a.png", "line-number": 3}}


@pytest.mark.anyio
async def test_reports_are_published_within_bounds(origin: Origin) -> None:
    """A view may be refused something in a loop, and may write reports itself."""
    _, key = origin.served.admit("default-src 'none'")
    body = json.dumps(REPORT).encode()
    sent = await origin.ask("POST", f"/report/{key}", body)
    assert sent.status == 204
    assert "content-length" not in sent.headers  # RFC 9110, 8.6
    assert origin.reports == [(key, {"directive": "img-src", "blocked": "https://x.example/a.png", "line": "3"})]
    for odd in (b"", b"{", b"[1]", b'{"csp-report": 1}', b'{"x": "' + b"a" * 70_000 + b'"}'):
        assert (await origin.ask("POST", f"/report/{key}", odd)).status == 204
    assert (await origin.ask("POST", "/report/unknown", body)).status == 204
    assert len(origin.reports) == 1
    for _ in range(MAX_REPORTS):
        await origin.ask("POST", f"/report/{key}", body)
    assert len(origin.reports) == MAX_REPORTS - 5


@contextmanager
def asking(port: int, method: str, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
    """The answer of a port of this machine."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request(method, path, body="{}" if method == "POST" else None, headers=headers)
        yield connection.getresponse()
    finally:
        connection.close()


def test_the_port_of_views_has_no_api(dev: Dev) -> None:
    """Not even with the token; and the page's port serves no proxy page."""
    made = dev.call("view", policy="default-src 'none'")
    assert made["port"] != dev.port
    token = {"x-ferrule-token": dev.token, "content-type": "application/json"}
    with asking(made["port"], "POST", "/api/state", **token) as answer:
        assert answer.status == 405
    with asking(dev.port, "GET", made["path"]) as answer:
        assert answer.status == 404
    # The port of the socket decides, whatever the sender calls it.
    with asking(made["port"], "GET", "/", host=f"127.0.0.1:{dev.port}") as answer:
        assert answer.status == 401
    with asking(made["port"], "GET", made["path"], **FRAME) as answer:
        assert answer.status == 200
        assert "default-src 'none'" in answer.getheader("content-security-policy", "")


def test_the_page_may_frame_views_only(dev: Dev) -> None:
    """And pass on to them what views may ask for."""
    port = dev.call("view", policy="default-src 'none'")["port"]
    with asking(dev.port, "GET", "/") as answer:
        policy = answer.getheader("content-security-policy", "")
        assert f"frame-src http://127.0.0.1:{port} http://localhost:{port}" in policy
        assert "frame-ancestors 'none'" in policy
        assert f'camera=("http://127.0.0.1:{port}"' in answer.getheader("permissions-policy", "")


@pytest.mark.parametrize("policy", [None, 5, "a\r\nx-evil: 1", "ä", "x" * 200_000], ids=lambda value: str(value)[:12])
def test_a_policy_is_one_short_line(dev: Dev, policy: Any) -> None:
    """It becomes a header."""
    status, _ = dev.request("POST", "/api/view", json.dumps({"policy": policy}).encode())
    assert status == 400


def test_messages_are_checked(dev: Dev) -> None:
    """Against the dialect of views."""
    good = {"jsonrpc": "2.0", "id": 1, "method": "ui/open-link", "params": {"url": "https://x.example"}}
    assert dev.call("view_check", sender="view", message=good) == {"problems": []}
    assert dev.call("view_check", sender="host", message=good) == {"problems": ["a host does not send ui/open-link"]}
    assert dev.call("view_check", method="tools/call", result={})["problems"]
    for body in ({"sender": "me"}, {"method": "nothing", "result": {}}):
        assert dev.request("POST", "/api/view_check", json.dumps(body).encode())[0] == 400
