"""ferrule.transports.asgi.endpoint: what is judged before any era is known, and which era it then is."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ferrule.kernel.server import Server
from ferrule.transports.asgi import HttpContext, HttpEndpoint, HttpOptions, HttpRefusal
from tests.transports.asgi.support import (
    ACCEPT,
    CAPABILITIES_KEY,
    MODERN,
    VERSION_KEY,
    Call,
    Steered,
    get_call,
    legacy_call,
    legacy_headers,
    modern,
    modern_call,
    modern_headers,
    open_session,
    request,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

ECHO = {"name": "echo", "arguments": {"text": "hi"}}


def good(**meta: Any) -> dict[str, Any]:
    return modern(1, "tools/call", ECHO, **meta)


@pytest.mark.parametrize(
    ("path", "root_path", "status"),
    [
        ("/mcp", "", 200),
        ("/mcp/", "", 200),
        ("/", "", 404),
        ("/mcp/x", "", 404),
        ("/api/mcp", "/api", 200),
        ("/api/mcp/", "/api", 200),
        ("/api/mcp", "/api/", 200),
        ("/mcp", "/api", 200),  # hosts that strip the prefix from the path
        ("/api/mcp/mcp", "/api", 404),
    ],
)
async def test_it_is_found_with_and_without_slash_below_any_prefix(path: str, root_path: str, status: int) -> None:
    """Never by a redirect, which would drop https and the credential."""
    message = good()
    app = Steered().endpoint()
    call = Call(app, path=path, root_path=root_path, headers=modern_headers(message), body=json.dumps(message).encode())
    answer = await call.run()
    assert answer.status == status


async def test_it_can_be_the_root_of_a_mount() -> None:
    """``Mount("/mcp", app.asgi(path="/"))`` leaves an empty path or a slash."""
    message = good()
    app = Steered().endpoint(path="/")
    for path, root_path in (("/mcp", "/mcp"), ("/mcp/", "/mcp"), ("/", "")):
        call = Call(
            app, path=path, root_path=root_path, headers=modern_headers(message), body=json.dumps(message).encode()
        )
        assert (await call.run()).status == 200


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"accept": "text/html"}, 406),
        ({"accept": "application/json"}, 406),
        ({"accept": "text/event-stream"}, 406),
        ({"accept": "*/*, text/event-stream;q=0"}, 406),
        ({"accept": "application/*;q=0.1, text/*;q=0.2"}, 200),
        ({"accept": "*/*"}, 200),
        ({"accept": None}, 200),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": None}, 415),
        ({"content_type": "application/json; charset=utf-8"}, 200),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
    ],
)
async def test_what_is_refused_early_is_a_plain_4xx_and_the_next_request_works(
    changes: dict[str, str | None], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """And nothing above a warning is logged."""
    app = Steered().endpoint()
    with caplog.at_level(logging.WARNING):
        answer = await modern_call(app, good(), **changes).run()
        assert answer.status == status
        assert (await modern_call(app, good()).run()).status == 200
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"NOT JSON", -32700),
        (b"", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method"', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"a":"\xff\xfe"}}', -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b"5", -32600),
        (b'"text"', -32600),
        (b"null", -32600),
    ],
)
async def test_a_body_that_is_no_message_is_named(body: bytes, code: int) -> None:
    """400 with the right code, and the endpoint serves the next request."""
    app = Steered().endpoint()
    answer = await Call(app, headers=modern_headers(good()), body=body).run()
    assert (answer.status, answer.json["error"]["code"]) == (400, code)
    assert (await modern_call(app, good()).run()).status == 200


@pytest.mark.parametrize(
    ("change", "code", "id"),
    [
        ({"jsonrpc": "1.0"}, -32600, 1),
        ({"id": None}, -32600, None),
        ({"id": 1.5}, -32600, None),
        ({"id": True}, -32600, None),
        ({"id": {}}, -32600, None),
        ({"method": ""}, -32600, 1),
        ({"method": 7}, -32600, 1),
        ({"params": []}, -32602, 1),
        ({"params": 3}, -32602, 1),
    ],
)
async def test_a_malformed_request_is_answered_with_its_id(change: dict[str, Any], code: int, id: Any) -> None:
    """The id is echoed where it could be read."""
    app = Steered().endpoint()
    headers = modern_headers(good())
    answer = await Call(app, headers=headers, body=json.dumps({**good(), **change}).encode()).run()
    assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (400, code, id)


async def test_a_body_in_pieces_is_joined() -> None:
    """Servers hand over what the socket gave."""
    raw = json.dumps(good()).encode()
    app = Steered().endpoint()
    answer = await Call(app, headers=modern_headers(good()), body=[raw[i : i + 1] for i in range(len(raw))]).run()
    assert answer.json["result"]["content"][0]["text"] == "hi"


@pytest.mark.parametrize("declared", [True, False])
async def test_a_large_body_is_refused_before_it_is_read(declared: bool) -> None:
    """413 by the declared length, or as soon as too much has arrived."""
    app = Steered().endpoint(max_body_bytes=1000)
    headers = modern_headers(good())
    parts = [b"x" * 600] * 10_000
    if declared:
        headers["content-length"] = "1000000000"
    call = Call(app, headers=headers, body=parts)
    answer = await call.run()
    assert (answer.status, answer.complete, answer.headers["connection"]) == (413, True, "close")
    assert call.read_bytes < 5_000_000
    assert answer.json["error"]["code"] == -32600


async def test_a_body_that_came_in_one_piece_is_measured_as_well() -> None:
    """In-process clients and some servers give the whole body at once, without a declared length."""
    app = Steered().endpoint(max_body_bytes=1000)
    answer = await Call(app, headers=modern_headers(good()), body=b"x" * 1001).run()
    assert answer.status == 413
    raw = json.dumps(good()).encode().ljust(1000)
    assert (await Call(app, headers=modern_headers(good()), body=raw).run()).status == 200


async def test_a_client_that_vanishes_in_mid_body_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """No answer, no traceback."""
    app = Steered().endpoint()
    call = Call(app, headers=modern_headers(good()), body=[b"{", b""])
    call._parts[1:] = []
    original = call.receive

    async def receive() -> Any:
        message = await original()
        if message["type"] == "http.request":
            message["more_body"] = True
            call.disconnect()
        return message

    with caplog.at_level(logging.WARNING):
        await app(call.scope, receive, call.send)
    assert (call.answer.sends, caplog.messages) == (0, [])


@pytest.mark.parametrize("name", ["mcp-method", "mcp-protocol-version", "mcp-name", "origin", "host", "content-type"])
async def test_a_header_that_may_stand_once_may_not_stand_twice(name: str) -> None:
    """Two values would let a proxy read one request and us another."""
    message = good()
    pairs = [*modern_headers(message, origin="http://x").items()]
    value = dict(pairs)[name]
    answer = await Call(
        Steered().endpoint(allowed_origins=["*"]), headers=[*pairs, (name, value)], body=json.dumps(message).encode()
    ).run()
    assert answer.status == 400
    assert answer.json["error"]["code"] == (-32020 if name.startswith("mcp") else -32600)


async def test_a_repeated_list_header_is_joined() -> None:
    """Accept may come in two lines (RFC 9110, 5.3)."""
    message = good()
    pairs = [*modern_headers(message, accept=None).items(), ("accept", "application/json"), ("accept", "text/*")]
    assert (await Call(Steered().endpoint(), headers=pairs, body=json.dumps(message).encode()).run()).status == 200


async def test_a_foreign_origin_is_refused_and_a_listed_one_may_read() -> None:
    """403 before anything is looked at; CORS headers on every answer to a listed origin, errors included."""
    app = Steered().endpoint(loopback=True, allowed_origins=["https://app.example.com"])
    assert (await modern_call(app, good(), origin="https://evil.example.com").run()).status == 403
    assert (await modern_call(app, good(), host="evil.example.com").run()).status == 403
    assert (await get_call(app, "x", origin="https://evil.example.com").run()).status == 403
    for message in (good(), modern(1, "nothing/such"), modern(2, "tools/call", {"name": "progress"}, progressToken=1)):
        answer = await modern_call(app, message, origin="https://app.example.com").run()
        assert answer.headers["access-control-allow-origin"] == "https://app.example.com"
        assert "mcp-session-id" in answer.headers["access-control-expose-headers"]
    assert "access-control-allow-origin" not in (await modern_call(app, good()).run()).headers


async def test_a_preflight_is_answered() -> None:
    """Browsers ask before they send custom headers."""
    app = Steered().endpoint(allowed_origins=["https://app.example.com"])
    headers = {
        "origin": "https://app.example.com",
        "access-control-request-method": "POST",
        "access-control-request-headers": "mcp-param-region, content-type",
    }
    answer = await Call(app, "OPTIONS", headers=headers).run()
    assert (answer.status, answer.body) == (204, b"")
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "mcp-param-region, content-type"
    assert (await Call(app, "OPTIONS", headers={**headers, "origin": "https://evil"}).run()).status == 403


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "TRACE"])
async def test_other_verbs_are_405(method: str) -> None:
    """With the verbs that there are."""
    answer = await Call(Steered().endpoint(), method).run()
    assert (answer.status, answer.headers["allow"]) == (405, "GET, POST, DELETE, OPTIONS")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_get_and_delete_are_405_where_only_the_modern_era_is_meant(method: str) -> None:
    """Legacy is off, or the request names a modern revision."""
    call = Call(Steered().endpoint(legacy=False), method, headers={"accept": "text/event-stream"})
    assert (await call.run()).status == 405
    call = Call(Steered().endpoint(), method, headers={"mcp-protocol-version": MODERN, "accept": ACCEPT})
    assert (await call.run()).status == 405


# --- which era ------------------------------------------------------------------------------------------------------


async def code_of(call: Call) -> tuple[int, int]:
    answer = await call.run()
    return answer.status, answer.json["error"]["code"]


async def test_an_envelope_that_names_a_legacy_revision_is_an_unsupported_version() -> None:
    """Its header agrees, so it does not contradict itself; it would need initialize."""
    message = good(**{VERSION_KEY: "2025-11-25"})
    call = modern_call(Steered().endpoint(), message, mcp_protocol_version="2025-11-25")
    assert await code_of(call) == (400, -32022)


async def test_an_envelope_without_the_version_header_is_a_header_mismatch() -> None:
    """The body is modern, so the missing header is an error of the modern era."""
    assert await code_of(modern_call(Steered().endpoint(), good(), mcp_protocol_version=None)) == (400, -32020)
    assert await code_of(modern_call(Steered().endpoint(), good(), mcp_protocol_version="2025-11-25")) == (400, -32020)


@pytest.mark.parametrize("meta", [None, {}, {VERSION_KEY: MODERN}, {CAPABILITIES_KEY: {}}])
async def test_a_modern_header_without_a_whole_envelope_names_what_is_missing(meta: Any) -> None:
    """-32602, which a client can act on."""
    params = {"name": "echo", "arguments": {}} if meta is None else {"name": "echo", "arguments": {}, "_meta": meta}
    message = request(1, "tools/call", params)
    assert await code_of(modern_call(Steered().endpoint(), message)) == (400, -32602)


async def test_a_modern_header_and_no_params_at_all() -> None:
    """Absent params are an absent envelope, not a crash."""
    assert await code_of(modern_call(Steered().endpoint(), request(1, "tools/list"))) == (400, -32602)


async def test_discover_without_anything_is_modern() -> None:
    """No legacy revision has it; the answer names the missing envelope."""
    call = legacy_call(Steered().endpoint(), request(1, "server/discover"), version=None)
    assert await code_of(call) == (400, -32602)


async def test_an_unknown_version_without_a_session_says_what_is_spoken() -> None:
    """A client of a later revision can choose an older one."""
    answer = await legacy_call(Steered().endpoint(), request(1, "tools/list"), version="2099-01-01").run()
    assert (answer.status, answer.json["error"]["code"]) == (400, -32022)
    assert answer.json["error"]["data"] == {"supported": [MODERN], "requested": "2099-01-01"}


async def test_an_unknown_version_in_a_session_is_a_plain_400() -> None:
    """Legacy clients would take -32022 for a proof of a modern server."""
    app = Steered().endpoint()
    session = await open_session(app)
    assert await code_of(legacy_call(app, request(1, "tools/list"), session, version="nonsense")) == (400, -32600)
    answer = await legacy_call(app, request(1, "tools/list"), session).run()
    assert answer.status == 200


async def test_initialize_is_legacy_whatever_the_header_says() -> None:
    """Its body decides; a client that has probed first may still send its modern header."""
    app = Steered().endpoint()
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    answer = await legacy_call(app, request(1, "initialize", params), version=MODERN).run()
    assert answer.json["result"]["protocolVersion"] == "2025-06-18"


async def test_without_the_legacy_era_initialize_learns_what_is_spoken() -> None:
    """It is the only diagnostic that a legacy user gets."""
    app = Steered().endpoint(legacy=False)
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    answer = await legacy_call(app, request(1, "initialize", params), version=None).run()
    assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (400, -32022, 1)
    assert MODERN in answer.json["error"]["message"]
    answer = await legacy_call(app, request(1, "tools/list"), "some-session").run()
    assert (answer.status, answer.json["error"]["code"]) == (400, -32022)


async def test_modern_requests_ignore_sessions() -> None:
    """A session header is neither read nor minted nor echoed."""
    answer = await modern_call(Steered().endpoint(), good(), mcp_session_id="nonsense").run()
    assert answer.status == 200
    assert "mcp-session-id" not in answer.headers


async def test_both_eras_share_one_url() -> None:
    """Even interleaved, from one client."""
    app = Steered().endpoint()
    session = await open_session(app)
    for _ in range(2):
        assert (await modern_call(app, good()).run()).json["result"]["resultType"] == "complete"
        answer = await legacy_call(app, request(1, "tools/call", ECHO), session).run()
        assert "resultType" not in answer.json["result"]


# --- hooks ----------------------------------------------------------------------------------------------------------


async def test_authenticate_refuses_with_its_challenge_on_both_spellings() -> None:
    """401 with WWW-Authenticate, with and without the slash."""

    async def authenticate(context: HttpContext) -> str:
        if context.headers.get("authorization") != "Bearer good":
            raise HttpRefusal(401, "A token is needed", [("WWW-Authenticate", 'Bearer realm="x"')])
        return "somebody"

    steered = Steered()
    seen: list[Any] = []

    async def look(ctx: Any, call_next: Any) -> Any:
        seen.append(ctx.transport.principal)
        return await call_next(ctx)

    steered.server.middleware.append(look)
    app = steered.endpoint(authenticate=authenticate)
    for path in ("/mcp", "/mcp/"):
        for extra, status in (({}, 401), ({"authorization": "Bearer good"}, 200)):
            headers = {**modern_headers(good()), **extra, "x-forwarded-proto": "https"}
            answer = await Call(app, path=path, headers=headers, body=json.dumps(good()).encode()).run()
            assert answer.status == status
            assert ("www-authenticate" in answer.headers) is (status == 401)
            assert "location" not in answer.headers
    assert seen == ["somebody", "somebody"]
    for verb in ("GET", "DELETE"):
        assert (await Call(app, verb, headers=legacy_headers("x")).run()).status == 401


async def test_the_judged_host_is_that_of_handlers_and_hooks() -> None:
    """Behind a trusted proxy that is what it forwards; the ``Host`` header of such a request is checked by nothing."""
    seen: list[Any] = []

    async def authenticate(context: HttpContext) -> object:
        seen.append(context.host)
        return "somebody"

    async def look(ctx: Any, call_next: Any) -> Any:
        seen.append(ctx.transport.host)
        return await call_next(ctx)

    for proxies, forwarded, expected in (
        (["127.0.0.1"], {"host": "victim", "x-forwarded-host": "A.example:8443"}, "a.example"),
        (["127.0.0.1"], {"host": "a.example"}, "a.example"),
        (["10.0.0.1"], {"host": "A.example.", "x-forwarded-host": "victim"}, "a.example"),
        ([], {"host": "a.example", "x-forwarded-host": "victim"}, "a.example"),
    ):
        steered = Steered()
        steered.server.middleware.append(look)
        app = steered.endpoint(authenticate=authenticate, allowed_hosts=["a.example"], trusted_proxies=proxies)
        for _ in range(2):  # the second one is a pair of names that is known
            seen.clear()
            headers = {**modern_headers(good()), **forwarded}
            answer = await Call(app, headers=headers, body=json.dumps(good()).encode()).run()
            assert (answer.status, seen) == (200, [expected, expected])


async def test_a_server_that_cannot_start_answers_503_without_details() -> None:
    """Nothing internal in any answer; the next request tries again."""
    from contextlib import asynccontextmanager

    attempts = 0

    @asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[Any]:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise RuntimeError("the password is hunter2")
        yield {}

    steered = Steered()
    steered.server = Server("x", lifespan=lifespan)
    steered.server.add_request_handler("tools/call", steered.call_tool)
    app = HttpEndpoint(steered.server, HttpOptions())
    answer = await modern_call(app, good()).run()
    assert answer.status == 503
    assert b"hunter2" not in answer.body
    assert (await modern_call(app, good()).run()).status == 200
    await app.aclose()
