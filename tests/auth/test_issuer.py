"""ferrule.auth.issuer, endpoint by endpoint, without a socket: strict enough to test clients against."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from ferrule.auth import DemoIssuer, MemoryProvider, RegisteredClient
from ferrule.auth.dpop_proof import make_proof
from ferrule.auth.http import AuthRequest, AuthResponse
from ferrule.auth.issuer.clients import match_redirect
from ferrule.auth.issuer.settings import Reply
from ferrule.auth.jose import generate_key, verify_jwt
from ferrule.auth.pkce import challenge_of
from ferrule.wire.codec import decode, encode

pytestmark = pytest.mark.anyio

ISSUER = "https://as.example.com/tenant"
REDIRECT = "http://127.0.0.1:4000/callback"
VERIFIER = "v" * 43
GRANTS = ("authorization_code", "refresh_token", "client_credentials")
PUBLIC = RegisteredClient("public", None, (REDIRECT, "https://app.example.com/cb"), "P", GRANTS[:2])
SECRET = RegisteredClient("secret", "s3cr3t", (REDIRECT,), "S", GRANTS, "client_secret_basic")


class Visitor:
    """A client of an issuer."""

    def __init__(self, **options: Any) -> None:
        self.now = [1_800_000_000.0]
        provider = MemoryProvider(clients=(PUBLIC, SECRET), clock=lambda: self.now[0])
        self.issuer = DemoIssuer(ISSUER, provider, clock=lambda: self.now[0], **options)

    async def get(self, path: str, **query: str | None) -> Reply:
        text = urlencode({name: value for name, value in query.items() if value is not None})
        return await self.issuer.answer("GET", path, text, {}, b"")

    async def post(self, path: str, headers: dict[str, str] | None = None, **form: str | None) -> tuple[int, Any]:
        text = urlencode({name: value for name, value in form.items() if value is not None})
        sent = {"content-type": "application/x-www-form-urlencoded", **(headers or {})}
        reply = await self.issuer.answer("POST", f"/tenant{path}", "", sent, text.encode())
        assert dict(reply.headers)["cache-control"] == "no-store"
        return reply.status, decode(reply.body)

    async def authorize(self, **changes: str | None) -> dict[str, str]:
        query = {
            "response_type": "code",
            "client_id": "public",
            "redirect_uri": REDIRECT,
            "state": "s",
            "code_challenge": challenge_of(VERIFIER),
            "code_challenge_method": "S256",
            "scope": "a b",
            "resource": "https://mcp.example.com/mcp",
            **changes,
        }
        reply = await self.get("/tenant/authorize", **query)
        assert reply.status == 302, reply.body
        return dict(parse_qsl(urlsplit(dict(reply.headers)["location"]).query))

    async def redeem(self, with_code: str, **changes: str | None) -> tuple[int, Any]:
        form: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "client_id": "public",
            "code": with_code,
            "redirect_uri": REDIRECT,
            "code_verifier": VERIFIER,
            "resource": "https://mcp.example.com/mcp",
            **changes,
        }
        return await self.post("/token", None, **form)

    async def refresh(self, token: str, **changes: str | None) -> tuple[int, Any]:
        form: dict[str, str | None] = {"grant_type": "refresh_token", "client_id": "public", "refresh_token": token}
        return await self.post("/token", None, **{**form, **changes})

    async def is_active(self, token: str) -> bool:
        status, found = await self.post("/introspect", {"authorization": "Basic c2VjcmV0OnMzY3IzdA=="}, token=token)
        assert status == 200
        return bool(found["active"])


@pytest.mark.parametrize("path", [
    "/.well-known/oauth-authorization-server/tenant", "/.well-known/openid-configuration/tenant",
    "/tenant/.well-known/openid-configuration",
])  # fmt: skip
async def test_the_metadata_are_where_clients_look(path: str) -> None:
    """An issuer with a path: all three places."""
    reply = await Visitor().get(path)
    assert decode(reply.body)["issuer"] == ISSUER
    assert decode(reply.body)["token_endpoint"] == f"{ISSUER}/token"


async def test_a_code_becomes_tokens_for_its_resource() -> None:
    """Audience, scope and issuer are those of the request."""
    v = Visitor()
    back = await v.authorize()
    assert (back["state"], back["iss"]) == ("s", ISSUER)
    status, tokens = await v.redeem(back["code"])
    assert (status, tokens["token_type"], tokens["scope"]) == (200, "Bearer", "a b")
    assert await v.is_active(tokens["access_token"])


@pytest.mark.parametrize(("changes", "error"), [
    ({"response_type": "token"}, "unsupported_response_type"),
    ({"code_challenge": None}, "invalid_request"),
    ({"code_challenge_method": "plain"}, "invalid_request"),
    ({"resource": "no url"}, "invalid_target"),
    ({"scope": "a unknown"}, "invalid_scope"),
])  # fmt: skip
async def test_a_bad_request_goes_back_as_an_error(changes: dict[str, str | None], error: str) -> None:
    """With state and issuer, so that the client can assign the error to its request."""
    back = await Visitor(scopes=("a", "b")).authorize(**changes)
    assert (back["error"], back["state"], back["iss"]) == (error, "s", ISSUER)
    assert "code" not in back


@pytest.mark.parametrize("changes", [
    {"client_id": "nobody"}, {"redirect_uri": "https://evil.example/"}, {"redirect_uri": f"{REDIRECT}/../x"},
    {"redirect_uri": "http://127.0.0.1.evil.example/callback"}, {"redirect_uri": "http://localhost:4000/callback"},
    {"redirect_uri": "https://app.example.com/cb?x"}, {"redirect_uri": "https://app.example.com:8443/cb"},
])  # fmt: skip
async def test_an_unregistered_redirect_uri_is_never_used(changes: dict[str, str]) -> None:
    """An open redirector would hand codes out."""
    query = {"response_type": "code", "client_id": "public", "redirect_uri": REDIRECT, **changes}
    reply = await Visitor().get("/tenant/authorize", **query)
    assert reply.status == 400
    assert "location" not in dict(reply.headers)


def test_only_the_port_of_loopback_is_free() -> None:
    """RFC 8252, 7.3."""
    assert match_redirect(PUBLIC, "http://127.0.0.1:5555/callback") == "http://127.0.0.1:5555/callback"
    assert match_redirect(PUBLIC, "http://127.0.0.1:5555/other") is None
    assert match_redirect(PUBLIC, "https://app.example.com:1/cb") is None


@pytest.mark.parametrize("uri", [
    "http://127.0.0.1:5555/callback#x", " http://127.0.0.1:5555/callback", "http://127.0.0.1:5555/call\nback",
    "http://127.0.0.1:5555/callback\t", "http://127.0.0.1:5555/callback\x00",
], ids=repr)  # fmt: skip
def test_what_parsers_leave_out_is_compared_too(uri: str) -> None:
    """Blanks and line ends vanish when a URL is taken apart; a code in a fragment reaches no program."""
    assert match_redirect(PUBLIC, uri) is None


@pytest.mark.parametrize(("changes", "error"), [
    ({"code_verifier": "w" * 43}, "invalid_grant"),
    ({"code_verifier": None}, "invalid_grant"),
    ({"redirect_uri": "https://app.example.com/cb"}, "invalid_grant"),
    ({"redirect_uri": None}, "invalid_grant"),
    ({"resource": "https://other.example.com/"}, "invalid_target"),
    ({"code": "guessed"}, "invalid_grant"),
    ({"client_id": "nobody"}, "invalid_client"),
    ({"client_id": "secret"}, "invalid_client"),
    ({"client_secret": "x"}, "invalid_client"),
    ({"grant_type": "password"}, "unsupported_grant_type"),
    ({"grant_type": "client_credentials"}, "unauthorized_client"),
])  # fmt: skip
async def test_a_code_is_for_its_own_request_only(changes: dict[str, str | None], error: str) -> None:
    """Verifier, redirect URI, resource and client must all be those of the authorization request."""
    v = Visitor()
    back = await v.authorize()
    status, found = await v.redeem(back["code"], **changes)
    assert (status, found["error"]) == (401 if error == "invalid_client" else 400, error)


async def test_a_code_is_used_once_and_its_second_use_ends_what_came_of_it() -> None:
    """A second use means that the code was stolen (RFC 6749, 4.1.2)."""
    v = Visitor()
    code = (await v.authorize())["code"]
    _, tokens = await v.redeem(code)
    assert (await v.redeem(code))[1]["error"] == "invalid_grant"
    assert not await v.is_active(tokens["access_token"])
    assert (await v.refresh(tokens["refresh_token"]))[1]["error"] == "invalid_grant"


async def test_a_code_ends() -> None:
    """A minute is long for a redirect."""
    v = Visitor()
    code = (await v.authorize())["code"]
    v.now[0] += 61
    assert (await v.redeem(code))[1]["error"] == "invalid_grant"


async def test_refresh_tokens_rotate_with_a_grace_window() -> None:
    """A client that lost the answer may ask again for a minute; later use means that two parties hold it."""
    v = Visitor(grace_s=60.0)
    _, tokens = await v.redeem((await v.authorize())["code"])
    _, second = await v.refresh(tokens["refresh_token"])
    assert second["refresh_token"] != tokens["refresh_token"]
    v.now[0] += 59
    status, third = await v.refresh(tokens["refresh_token"])
    assert status == 200
    assert (await v.refresh(second["refresh_token"]))[0] == 200
    v.now[0] += 2
    assert (await v.refresh(tokens["refresh_token"]))[1]["error"] == "invalid_grant"
    assert (await v.refresh(third["refresh_token"]))[1]["error"] == "invalid_grant"
    assert not await v.is_active(third["access_token"])


@pytest.mark.parametrize(("changes", "error"), [
    ({"scope": "a b c"}, "invalid_scope"),
    ({"resource": "https://other.example.com/"}, "invalid_target"),
    ({"client_id": "secret", "client_secret": "s3cr3t"}, "invalid_grant"),
])  # fmt: skip
async def test_a_refresh_widens_nothing(changes: dict[str, str], error: str) -> None:
    """Neither scope nor resource nor client."""
    v = Visitor()
    _, tokens = await v.redeem((await v.authorize())["code"])
    assert (await v.refresh(tokens["refresh_token"], **changes))[1]["error"] == error
    status, narrow = await v.refresh(tokens["refresh_token"], scope="a")
    assert (status, narrow["scope"]) == (200, "a")


async def test_a_bound_refresh_token_needs_its_key() -> None:
    """RFC 9449, 5."""
    v = Visitor()
    key = generate_key()

    def proof(with_key: Any) -> dict[str, str]:
        return {"dpop": make_proof(with_key, "POST", f"{ISSUER}/token", now=v.now[0])}

    code = (await v.authorize())["code"]
    form = {"grant_type": "authorization_code", "client_id": "public", "code": code, "redirect_uri": REDIRECT}
    _, tokens = await v.post("/token", proof(key), code_verifier=VERIFIER, **form)
    assert tokens["token_type"] == "DPoP"
    again = {"grant_type": "refresh_token", "client_id": "public", "refresh_token": tokens["refresh_token"]}
    assert (await v.post("/token", None, **again))[1]["error"] == "invalid_dpop_proof"
    assert (await v.post("/token", proof(generate_key()), **again))[1]["error"] == "invalid_dpop_proof"
    assert (await v.post("/token", {"dpop": "rubbish"}, **again))[1]["error"] == "invalid_dpop_proof"
    assert (await v.post("/token", proof(key), **again))[0] == 200


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
async def test_a_revoked_token_is_dead(which: str) -> None:
    """A revocation by another client has no effect."""
    v = Visitor()
    _, tokens = await v.redeem((await v.authorize())["code"])
    other = {"authorization": "Basic c2VjcmV0OnMzY3IzdA=="}
    assert (await v.post("/revoke", other, token=tokens[which]))[0] == 200
    assert await v.is_active(tokens["access_token"])
    assert (await v.post("/revoke", token=tokens[which], client_id="public"))[0] == 200
    assert (await v.post("/revoke", token="unknown", client_id="public"))[0] == 200
    assert not await v.is_active(tokens["access_token"])


async def test_introspection_is_for_those_with_a_secret() -> None:
    """Otherwise any client could test tokens."""
    status, found = await Visitor().post("/introspect", token="x", client_id="public")
    assert (status, found["error"]) == (401, "invalid_client")


@pytest.mark.parametrize(("changes", "error"), [
    ({"redirect_uris": []}, "invalid_redirect_uri"),
    ({"redirect_uris": ["http://example.com/cb"]}, "invalid_redirect_uri"),
    ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
    ({"redirect_uris": ["https://e.com/#x"]}, "invalid_redirect_uri"),
    ({"token_endpoint_auth_method": "tls"}, "invalid_client_metadata"),
    ({"grant_types": ["client_credentials"]}, "invalid_client_metadata"),
])  # fmt: skip
async def test_what_cannot_be_registered(changes: dict[str, Any], error: str) -> None:
    """Any program may register, so the allowed metadata are limited."""
    body = encode({"redirect_uris": [REDIRECT], **changes})
    headers = {"content-type": "application/json"}
    reply = await Visitor().issuer.answer("POST", "/tenant/register", "", headers, body)
    assert (reply.status, decode(reply.body)["error"]) == (400, error)


@pytest.mark.parametrize(("method", "has_secret"), [("none", False), ("client_secret_post", True)])
async def test_who_registers_gets_what_they_asked_for(method: str, has_secret: bool) -> None:
    """A secret only for those who want one."""
    v = Visitor()
    wish = {"client_secret": "its own", "client_secret_expires_at": 5}
    body = encode({"redirect_uris": [REDIRECT], "token_endpoint_auth_method": method, **wish})
    reply = await v.issuer.answer("POST", "/tenant/register", "", {"content-type": "application/json"}, body)
    found = decode(reply.body)
    assert reply.status == 201
    assert ("client_secret" in found) is has_secret
    assert found.get("client_secret") != "its own"
    assert found.get("client_secret_expires_at") == (0 if has_secret else None)
    assert (await v.authorize(client_id=found["client_id"]))["code"]


DOCUMENT_URL = "https://client.example.com/client.json"


@pytest.mark.parametrize(("document", "accepted"), [
    ({"client_id": DOCUMENT_URL, "redirect_uris": [REDIRECT], "client_name": "C"}, True),
    ({"client_id": DOCUMENT_URL + "x", "redirect_uris": [REDIRECT]}, False),
    ({"client_id": DOCUMENT_URL, "redirect_uris": []}, False),
    ({"client_id": DOCUMENT_URL, "redirect_uris": ["https://other.example/"]}, False),
    ({"redirect_uris": [REDIRECT]}, False),
    (None, False),
])  # fmt: skip
async def test_a_client_may_be_its_document(document: Any, accepted: bool) -> None:
    """It must name its own URL and the redirect URI; fetched once in a while."""
    fetched: list[str] = []

    async def fetch(request: AuthRequest) -> AuthResponse:
        fetched.append(request.url)
        return AuthResponse(404) if document is None else AuthResponse(200, {}, encode(document))

    v = Visitor(fetch=fetch)
    query = {"client_id": DOCUMENT_URL, "redirect_uri": REDIRECT, "response_type": "code"}
    replies = [await v.get("/tenant/authorize", **query) for _ in range(2)]
    assert {reply.status == 302 for reply in replies} == {accepted}
    assert len(fetched) == (1 if accepted or "https://other.example/" in str(document) else 2)


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1/c.json", "https://10.0.0.1/c.json", "http://e.com/c", "https://e.com"]
)
async def test_a_document_inside_is_not_fetched(url: str) -> None:
    """SSRF from the other side."""

    async def fetch(request: AuthRequest) -> AuthResponse:
        raise AssertionError(request.url)

    reply = await Visitor(fetch=fetch).get("/tenant/authorize", client_id=url, redirect_uri=REDIRECT)
    assert reply.status in (400, 401)


async def test_a_parameter_given_twice_is_refused() -> None:
    """Two readers would read two requests."""
    reply = await Visitor().issuer.answer("GET", "/tenant/authorize", "client_id=public&client_id=x", {}, b"")
    assert reply.status == 400


async def test_a_user_who_does_not_consent_goes_back_without_a_code() -> None:
    """`access_denied`."""
    v = Visitor()
    provider: Any = v.issuer.settings.provider
    provider.subject = None
    assert (await v.authorize())["error"] == "access_denied"


async def test_an_error_page_repeats_nothing_that_could_run() -> None:
    """The page is the authorization server's own origin."""
    reply = await Visitor().get("/tenant/authorize", client_id="<script>alert(1)</script>")
    assert b"<script>" not in reply.body


# -- requests that are not what they should be -------------------------------------------------------------------------


async def test_a_token_is_for_what_was_consented_to_and_nothing_else() -> None:
    """A client that named no resource when the user consented gets no token for one afterwards."""
    victim = "https://victim.example/mcp"
    v = Visitor()
    for consented, named in ((None, victim), ("https://mcp.example.com/mcp", victim)):
        code = (await v.authorize(resource=consented))["code"]
        status, answer = await v.redeem(code, resource=named)
        assert (status, answer["error"]) == (400, "invalid_target")
        code = (await v.authorize(resource=consented))["code"]
        status, tokens = await v.redeem(code, resource=consented)
        assert status == 200
        for wrong in (named, "", "https://[::1"):
            status, answer = await v.refresh(tokens["refresh_token"], resource=wrong)
            assert (status, answer["error"]) == (400, "invalid_target"), wrong
        status, fresh = await v.refresh(tokens["refresh_token"], resource=consented)
        assert status == 200
        claims = verify_jwt(fresh["access_token"], v.issuer.settings.signing_key, ["ES256"])[1]
        assert claims["aud"] == (consented or ISSUER)


@pytest.mark.parametrize("resource", ["https://[::1", "no url", "https://h/#f", "//h/", "https://"])
async def test_a_resource_that_is_no_url_is_refused(resource: str) -> None:
    """At the authorization endpoint and for a client's own credentials."""
    v = Visitor()
    assert (await v.authorize(resource=resource))["error"] == "invalid_target"
    basic = {"authorization": "Basic c2VjcmV0OnMzY3IzdA=="}
    status, answer = await v.post("/token", basic, grant_type="client_credentials", resource=resource)
    assert (status, answer["error"]) == (400, "invalid_target")


@pytest.mark.parametrize("uri", [
    "https://[::1", "https://h:port/cb", "https://\u4f8b.example/cb", "https://h/c\u00e4", "https://h/\ud83d\ude00", "https://",
    "https://h/a b", "https://u@h/cb", "javascript:alert(1)", 5, None, ["https://h/cb"], "http://example.com/cb",
])  # fmt: skip
async def test_a_redirect_uri_that_cannot_be_one_is_not_registered(uri: Any) -> None:
    """Nor makes the endpoint fail: what is registered becomes the header of an answer one day."""
    v = Visitor()
    body = encode({"redirect_uris": [uri]})
    reply = await v.issuer.answer("POST", "/tenant/register", "", {"content-type": "application/json"}, body)
    assert (reply.status, decode(reply.body)["error"]) == (400, "invalid_redirect_uri")


async def test_a_redirect_uri_that_a_program_registered_makes_a_header() -> None:
    """Whatever its letters are."""
    client = RegisteredClient("wide", None, ("https://app.example.com/zur\u00fcck/\u4f8b",))
    issuer = DemoIssuer(ISSUER, MemoryProvider(clients=(client,)))
    query = urlencode(
        {
            "response_type": "code",
            "client_id": "wide",
            "state": "s",
            "code_challenge": challenge_of(VERIFIER),
            "code_challenge_method": "S256",
        }
    )
    reply = await issuer.answer("GET", "/tenant/authorize", query, {}, b"")
    location = dict(reply.headers)["location"]
    assert location.isascii()
    assert location.startswith("https://app.example.com/zur%C3%BCck/%E4%BE%8B?")
    assert "code=" in location


@pytest.mark.parametrize(
    "challenge", ["\u00e9" * 43, "a" * 42 + "=", "a" * 42, "a" * 44, "a" * 42 + "+", "a" * 42 + "\n"]
)
async def test_a_challenge_that_is_no_hash_is_refused(challenge: str) -> None:
    """Before there is a code, not when it is redeemed."""
    assert (await Visitor().authorize(code_challenge=challenge))["error"] == "invalid_request"


@pytest.mark.parametrize("verifier", ["\u00e9" * 43, "v" * 42, "v" * 129, "v" * 42 + " ", "v" * 42 + "/", ""])
async def test_a_verifier_that_cannot_be_one_is_refused(verifier: str) -> None:
    """RFC 7636, 4.1."""
    v = Visitor()
    status, answer = await v.redeem((await v.authorize())["code"], code_verifier=verifier)
    assert (status, answer["error"]) == (400, "invalid_grant")


async def test_what_fails_inside_is_an_oauth_error_and_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A client can read that; the program's own error is not for it."""

    class Broken(MemoryProvider):
        async def get_client(self, client_id: str) -> RegisteredClient | None:
            raise KeyError("a secret of the inside")

    issuer = DemoIssuer(ISSUER, Broken())
    sent = {"content-type": "application/x-www-form-urlencoded"}
    reply = await issuer.answer("POST", "/tenant/token", "", sent, b"client_id=x&grant_type=refresh_token")
    assert (reply.status, decode(reply.body)["error"]) == (500, "server_error")
    assert b"secret" not in reply.body
    assert "a secret of the inside" in caplog.text


ODD = ["", "\x00", "\u00e9", "\u4f8b", "%", "https://[::1", "a" * 300, "[]", "{}", "null", "..", "0", " ", "\n"]


@pytest.mark.parametrize("value", ODD)
async def test_no_value_of_a_parameter_makes_an_endpoint_fail(value: str, caplog: pytest.LogCaptureFixture) -> None:
    """One at a time, in every place where a stranger writes it."""
    v = Visitor()
    for name in ("response_type", "client_id", "redirect_uri", "state", "code_challenge", "code_challenge_method",
                 "scope", "resource"):  # fmt: skip
        query = {
            "response_type": "code", "client_id": "public", "redirect_uri": REDIRECT, "state": "s",
            "code_challenge": challenge_of(VERIFIER), "code_challenge_method": "S256", name: value,
        }  # fmt: skip
        assert (await v.get("/tenant/authorize", **query)).status in (302, 400)
    for grant in ("authorization_code", "refresh_token", "client_credentials"):
        for name in ("grant_type", "code", "redirect_uri", "code_verifier", "resource", "refresh_token", "scope",
                     "client_id", "client_secret"):  # fmt: skip
            form = {"client_id": "public", "grant_type": grant, name: value}
            assert (await v.post("/token", None, **form))[0] in (400, 401)
    for path in ("/revoke", "/introspect"):
        basic = {"authorization": "Basic c2VjcmV0OnMzY3IzdA=="}
        assert (await v.post(path, basic, token=value))[0] == 200
    for header in ("authorization", "dpop"):
        latin = value.encode("utf-8").decode("latin-1")
        for prefix in ("", "Basic ", "DPoP "):
            status, _ = await v.post("/token", {header: prefix + latin}, grant_type="refresh_token", client_id="public")
            assert status in (400, 401)
    assert not caplog.records
