"""Access to the inspector's API: only its own page may call it; other requests are refused before they are parsed."""

from __future__ import annotations

import json

import pytest

from ferrule.inspector.access import AccessCheck, AccessRefused
from tests.inspector.conftest import Dev

CALL = b"{}"


def test_the_page_itself_is_served(dev: Dev) -> None:
    """The other tests of this file are only meaningful if the right request passes."""
    assert dev.request("POST", "/api/state", CALL)[0] == 200
    assert dev.request("POST", "/api/state", CALL, origin=f"http://127.0.0.1:{dev.port}")[0] == 200
    assert dev.request("GET", "/", content_type=None, x_ferrule_token=None)[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x_ferrule_token": None}, 401),
        ({"x_ferrule_token": ""}, 401),
        ({"x_ferrule_token": "wrong"}, 401),
        ({"x_ferrule_token": "\xff" * 43}, 401),
        ({"host": "evil.example"}, 403),
        ({"host": "evil.example:80"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": None}, 403),
        ({"host": "[::1"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "https://127.0.0.1"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"content_type": None}, 415),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
    ],
    ids=str,
)
def test_a_foreign_request_is_refused(dev: Dev, headers: dict[str, str | None], status: int) -> None:
    """Cross-site forgery, rebound names, other ports of this machine, plain forms, guessed tokens."""
    found, body = dev.request("POST", "/api/state", CALL, **headers)
    assert found == status or (headers.get("host", "") is None and found == 400)
    assert b"workshop" not in body


@pytest.mark.parametrize("path", ["/api/events", "/api/state"])
def test_reading_needs_the_token_too(dev: Dev, path: str) -> None:
    """The feed holds everything that the server said."""
    assert dev.request("GET", path, x_ferrule_token=None)[0] == 401
    assert dev.request("GET", path, host="evil.example")[0] == 403


def test_a_rebound_name_does_not_even_get_the_page(dev: Dev) -> None:
    """So that nothing of it runs under a foreign name."""
    assert dev.request("GET", "/", host="evil.example")[0] == 403


def test_a_cors_preflight_grants_nothing(dev: Dev) -> None:
    """The API has no CORS: the response to a preflight has no ``access-control-allow-*`` header."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", dev.port, timeout=30)
    headers = {"origin": "http://evil.example", "access-control-request-method": "POST"}
    connection.request("OPTIONS", "/api/run", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 403
    assert not [name for name, _ in answer.getheaders() if name.lower().startswith("access-control")]
    connection.close()


def test_every_answer_forbids_frames_scripts_and_referrers(dev: Dev) -> None:
    """Also the errors: a page may put any address into a frame."""
    import http.client

    for path in ("/", "/main.js", "/nothing", "/api/state"):
        connection = http.client.HTTPConnection("127.0.0.1", dev.port, timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        policy = answer.getheader("content-security-policy", "")
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.getheader("referrer-policy") == "no-referrer"
        assert answer.getheader("x-content-type-options") == "nosniff"
        assert answer.getheader("cache-control") == "no-store"
        assert answer.getheader("set-cookie") is None
        connection.close()


def test_a_large_body_is_refused(dev: Dev) -> None:
    """By its declared length before it is read, and by what arrived where it declares nothing."""
    assert dev.request("POST", "/api/state", b"", content_length=str(1 << 30))[0] == 413
    size = (8 << 20) + 1000
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (size, b" " * size)
    assert dev.request("POST", "/api/state", chunked, content_length=None, transfer_encoding="chunked")[0] == 413


@pytest.mark.parametrize("body", [b"[1]", b"{", b'"x"', b"\xff"])
def test_a_malformed_body_is_refused(dev: Dev, body: bytes) -> None:
    """With a status of the caller's fault and no traceback."""
    status, answer = dev.request("POST", "/api/state", body)
    assert status == 400
    assert "error" in json.loads(answer)


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("run", {}),
        ("run", {"job": "x", "op": "nothing"}),
        ("run", {"job": "x", "op": "call", "connection": "elsewhere"}),
        ("run", {"job": "x" * 100, "op": "ping"}),
        ("message", {"number": 10**9}),
        ("message", {"number": "1"}),
        ("outcome", {"job": "unknown"}),
        ("connect", {"mode": "1999-01-01"}),
        ("connect", {"headers": "no colon"}),
        ("log_level", {"level": "loud"}),
        ("roots", {"roots": [{"uri": "http://not.a.file"}]}),
        ("answer", {"question": "q", "answer": 5}),
        ("complete", {}),
        ("snippet", {"form": "python", "op": "ping"}),
        ("subscribe", {"uris": [1]}),
        ("connect_to", {"url": "http://other"}),
    ],
    ids=str,
)
def test_a_senseless_action_is_refused(dev: Dev, action: str, body: dict[str, object]) -> None:
    """As the caller's mistake, and the inspector goes on."""
    status, answer = dev.request("POST", f"/api/{action}", json.dumps(body).encode())
    assert status in (400, 404), answer
    assert dev.request("POST", "/api/state", CALL)[0] == 200


@pytest.mark.parametrize("path", ["/../web.py", "/static/index.html", "/%2e%2e/web.py", "//index.html", "/index.html/"])
def test_only_the_static_files_are_served(dev: Dev, path: str) -> None:
    """Files are looked up by name in a table, so a path cannot leave the folder."""
    assert dev.request("GET", path)[0] == 404


def test_a_short_token_is_a_mistake() -> None:
    """A program that makes its own must not make a guessable one."""
    with pytest.raises(ValueError, match="16"):
        AccessCheck("short")


def test_only_the_whole_token_is_accepted() -> None:
    """Neither a part of it nor more than it."""
    gate = AccessCheck("t" * 43)
    headers = {"host": "127.0.0.1:1", "content-type": "application/json"}
    gate.check_call("POST", {**headers, "x-ferrule-token": "t" * 43})
    for token in ("t" * 42, "t" * 44, "T" * 43):
        with pytest.raises(AccessRefused):
            gate.check_call("POST", {**headers, "x-ferrule-token": token})


def test_a_ticket_is_exchanged_once_and_soon() -> None:
    """Other users of the machine can read the ticket in the list of processes."""
    now = [0.0]
    gate = AccessCheck("t" * 43, clock=lambda: now[0])
    ticket = gate.make_ticket()
    for wrong in ("", None, 7, ticket[:-1], ticket + "x", "\ud800"):
        with pytest.raises(AccessRefused, match="already"):
            gate.redeem(wrong)
    assert gate.redeem(ticket) == "t" * 43
    with pytest.raises(AccessRefused):
        gate.redeem(ticket)
    late = gate.make_ticket()
    now[0] += 61
    with pytest.raises(AccessRefused):
        gate.redeem(late)


def test_a_ticket_is_no_way_around_the_other_checks(dev: Dev) -> None:
    """A request of a foreign page is refused before its ticket is compared."""
    body = b'{"ticket": "guess"}'
    assert dev.request("POST", "/api/ticket", body, x_ferrule_token=None)[0] == 401
    assert dev.request("POST", "/api/ticket", body, origin="http://evil.example")[0] == 403
    assert dev.request("POST", "/api/ticket", body, host="evil.example")[0] == 403
    assert dev.request("POST", "/api/ticket", body, content_type="text/plain")[0] == 415
