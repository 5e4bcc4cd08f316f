"""The protection of a server on real sockets: each kind of refused request, and its response."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import MCPServer
from ferrule.auth import DpopPolicy, InvalidToken, JwtTokens, Principal, ResourceServer, StaticTokens
from ferrule.auth.challenges import parse_challenges
from ferrule.auth.dpop_proof import InvalidProof, make_proof
from ferrule.auth.jose import generate_key, key_thumbprint, sign_jwt
from ferrule.auth.server.verifiers import VerifierUnavailable
from ferrule.stores.marks import MemoryMarks
from ferrule.wire.codec import encode
from tests.auth.support import Protected, protected, text_of
from tests.transports.asgi.support import modern, modern_call, modern_headers, request

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> AsyncIterator[Protected]:
    async with protected() as found:
        yield found


def part(value: Any) -> str:
    return urlsafe_b64encode(encode(value)).rstrip(b"=").decode()


def forged(server: Protected, algorithm: str) -> str:
    """A token with good claims and a bad signature: none at all, or an HMAC under the public key."""
    claims = {"iss": server.issuer.settings.issuer, "sub": "root", "aud": server.url, "exp": int(time.time()) + 600}
    if algorithm == "none":
        return f"{part({'alg': 'none', 'typ': 'at+jwt'})}.{part(claims)}."
    import hashlib
    import hmac

    public = encode(server.issuer.settings.key_set()["keys"][0])
    kid = server.issuer.settings.key_set()["keys"][0]["kid"]
    signed = f"{part({'alg': 'HS256', 'typ': 'at+jwt', 'kid': kid})}.{part(claims)}"
    mac = hmac.digest(public, signed.encode(), hashlib.sha256)
    return f"{signed}.{urlsafe_b64encode(mac).rstrip(b'=').decode()}"


async def test_a_good_token_is_served(server: Protected) -> None:
    """The rest of the table means nothing without it."""
    token = server.token(sub="ada")
    reply = await server.call(token)
    assert reply.status == 200
    assert text_of(reply) == f"ada {token[-8:]} {token[-8:]}"


async def test_without_a_token_the_answer_leads_to_one(server: Protected) -> None:
    """The challenge has the URL of the metadata and the scopes, and no error code, since no token was sent."""
    reply = await server.call(None)
    assert reply.status == 401
    (challenge,) = parse_challenges(reply.challenge)
    assert challenge.scheme == "bearer"
    assert challenge.error is None
    assert challenge.scopes == ("mcp",)
    assert challenge.resource_metadata is not None
    document = await server.send("GET", challenge.resource_metadata)
    assert document.status == 200
    assert document.headers["content-type"] == "application/json"
    assert document.json["resource"] == server.url
    assert document.json["authorization_servers"] == [server.issuer.settings.issuer]
    assert document.json["scopes_supported"] == ["mcp"]


REFUSED = {
    "rubbish": (lambda s: "rubbish", 401, "invalid_token"),
    "empty": (lambda s: "", 400, "invalid_request"),
    "two words": (lambda s: "a b", 400, "invalid_request"),
    "expired": (lambda s: s.token(exp=int(time.time()) - 120), 401, "invalid_token"),
    "not yet valid": (lambda s: s.token(nbf=int(time.time()) + 600), 401, "invalid_token"),
    "from the future": (lambda s: s.token(iat=int(time.time()) + 600), 401, "invalid_token"),
    "no expiry": (lambda s: s.token(exp=None), 401, "invalid_token"),
    "wrong issuer": (lambda s: s.token(iss="https://evil.example"), 401, "invalid_token"),
    "issuer in other spelling": (lambda s: s.token(iss=s.issuer.settings.issuer + "/"), 401, "invalid_token"),
    "wrong audience": (lambda s: s.token("https://other.example/mcp"), 401, "invalid_token"),
    "no audience": (lambda s: s.issuer.mint("", aud=None, scope="mcp"), 401, "invalid_token"),
    "audience above": (lambda s: s.token(s.url.removesuffix("/mcp")), 401, "invalid_token"),
    "alg none": (lambda s: forged(s, "none"), 401, "invalid_token"),
    "HS256 with the public key": (lambda s: forged(s, "HS256"), 401, "invalid_token"),
    "signature changed": (lambda s: s.token()[:-4] + "AAAA", 401, "invalid_token"),
    "missing scope": (lambda s: s.token(scope="other"), 403, "insufficient_scope"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_token_that_is_not_good_is_refused(server: Protected, case: str) -> None:
    """With the right status, error code and challenge, and without a hint about valid tokens."""
    make, status, error = REFUSED[case]
    token = make(server)
    reply = await server.call(token)
    assert reply.status == status
    (challenge,) = parse_challenges(reply.challenge)
    assert challenge.error == error
    assert challenge.resource_metadata is not None
    assert challenge.parameters.get("error_description")
    assert reply.json["error"]["message"]
    if len(token) > 20:
        assert token[:20] not in reply.challenge + reply.body.decode()


async def test_a_token_of_another_kind_of_jwt_is_refused(server: Protected) -> None:
    """An ID token, a logout token or a DPoP proof is signed with the same keys and is not an access token."""
    settings = server.issuer.settings
    claims = {"iss": settings.issuer, "aud": server.url, "exp": int(time.time()) + 60, "scope": "mcp", "sub": "ada"}
    kid = key_thumbprint(settings.signing_key)
    for kind in ("logout+jwt", "oauth-id-jag+jwt", "dpop+jwt"):
        token = sign_jwt({"alg": "ES256", "typ": kind, "kid": kid}, claims, settings.signing_key)
        assert (await server.call(token)).status == 401
    assert (await server.call(sign_jwt({"alg": "ES256", "kid": kid}, claims, settings.signing_key))).status == 200


async def test_a_token_with_a_foreign_signature_is_refused(server: Protected) -> None:
    """The key inside the token, or one under a known id, proves nothing."""
    settings, key = server.issuer.settings, generate_key()
    claims = {"iss": settings.issuer, "aud": server.url, "exp": int(time.time()) + 60, "scope": "mcp", "sub": "ada"}
    for kid in (key_thumbprint(key), key_thumbprint(settings.signing_key)):
        header = {"alg": "ES256", "typ": "at+jwt", "kid": kid, "jwk": key.as_dict(private=False)}
        reply = await server.call(sign_jwt(header, claims, key))
        assert (reply.status, parse_challenges(reply.challenge)[0].error) == (401, "invalid_token")


async def test_a_token_in_the_query_is_no_token(server: Protected) -> None:
    """URLs end up in logs and referrers (RFC 6750, 5.3)."""
    token = server.token()
    reply = await server.call(None, url=f"{server.url}?access_token={token}")
    assert (reply.status, parse_challenges(reply.challenge)[0].error) == (401, "invalid_request")
    reply = await server.call(token, url=f"{server.url}?access_token={token}")
    assert (reply.status, parse_challenges(reply.challenge)[0].error) == (400, "invalid_request")


async def test_another_scheme_is_like_no_token(server: Protected) -> None:
    """The challenge names the right scheme."""
    reply = await server.call(None, authorization="Basic YTpi")
    assert reply.status == 401
    assert parse_challenges(reply.challenge)[0].error is None


async def test_a_revoked_token_is_refused_when_its_issuer_is_asked() -> None:
    """By introspection; a JWT that is verified here lives until its end, which is why it is short."""
    async with protected(introspects=True) as server:
        token = server.token(sub="ada", jti="j1")
        assert (await server.call(token)).status == 200
        await server.issuer.settings.provider.put("revoked j1", {}, ttl_s=60)
        reply = await server.call(token)
        assert (reply.status, parse_challenges(reply.challenge)[0].error) == (401, "invalid_token")
        assert (await server.call(server.token("https://other.example/"))).status == 401
        assert (await server.call("opaque")).status == 401


async def test_no_verdict_is_no_refusal_of_the_token() -> None:
    """Keys that cannot be fetched are this side's trouble: 503, so that clients keep their token."""

    def make(issuer: str, url: str) -> ResourceServer:
        return ResourceServer(JwtTokens(issuer, jwks_uri=f"{issuer}/nowhere"), resource=url)

    async with protected(make) as server:
        reply = await server.call(server.token())
        assert reply.status == 503
        assert "www-authenticate" not in reply.headers


@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
async def test_a_session_belongs_to_who_opened_it(server: Protected, verb: str) -> None:
    """A session id is not a credential: another principal gets "not found", and DELETE does not end the session."""
    ada, eve = server.token(sub="ada"), server.token(sub="eve")
    session_id = await server.open_session(ada)
    message = request(2, "tools/list") if verb == "POST" else None
    reply = await server.legacy(verb, eve, session_id, message)
    assert reply.status == 404
    assert "Session not found" in reply.body.decode()
    assert (await server.legacy("POST", ada, session_id, request(3, "tools/list"))).status == 200
    reply = await server.send(verb, server.url, {"mcp-session-id": session_id, "accept": "text/event-stream"})
    assert reply.status in (401, 415)


async def test_the_same_subject_of_another_issuer_is_another_principal() -> None:
    """Names are unique within their issuer only."""
    tokens = [
        StaticTokens({"one": {"subject": "ada", "scopes": ["mcp"]}}, issuer="https://one.example"),
        StaticTokens({"two": {"subject": "ada", "scopes": ["mcp"]}}, issuer="https://two.example"),
    ]
    async with protected(lambda issuer, url: ResourceServer(tokens, resource=url)) as server:
        session_id = await server.open_session("one")
        assert (await server.legacy("POST", "two", session_id, request(2, "tools/list"))).status == 404
        assert (await server.legacy("POST", "one", session_id, request(2, "tools/list"))).status == 200


async def test_a_handler_sees_the_token_of_its_own_request(server: Protected) -> None:
    """Not the one that opened the session: a refreshed token, and every header beside it."""
    first, second = server.token(sub="ada"), server.token(sub="ada", jti="another")
    session_id = await server.open_session(first)
    for token in (first, second, first):
        params = {"name": "whoami", "arguments": {}}
        reply = await server.legacy("POST", token, session_id, request(2, "tools/call", params))
        assert text_of(reply) == f"ada {token[-8:]} {token[-8:]}"


@pytest.mark.parametrize(("tool", "needed"), [("write", "files:write"), ("dynamic", "files:read files:list")])
async def test_a_tool_that_needs_a_scope_says_so_and_is_served_with_it(
    server: Protected, tool: str, needed: str
) -> None:
    """403 with all scopes of the operation in one challenge, on both eras, so that a client can step up."""
    reply = await server.call(server.token(), tool)
    assert reply.status == 403
    (challenge,) = parse_challenges(reply.challenge)
    assert challenge.error == "insufficient_scope"
    assert challenge.scopes == ("mcp", *needed.split())
    assert challenge.resource_metadata is not None
    assert reply.json["error"]["data"] == {"requiredScopes": ["mcp", *needed.split()]}
    session_id = await server.open_session(server.token())
    params = {"name": tool, "arguments": {}}
    reply = await server.legacy("POST", server.token(), session_id, request(2, "tools/call", params))
    assert (reply.status, parse_challenges(reply.challenge)[0].error) == (403, "insufficient_scope")
    assert (await server.call(server.token(scope=f"mcp {needed}"), tool)).status == 200


async def test_a_tool_that_is_not_allowed_does_not_exist(server: Protected) -> None:
    """Neither in the list nor in a call; and lists of one user are not shown to another."""

    async def listed(token: str) -> set[str]:
        message = modern(1, "tools/list")
        headers = {**modern_headers(message), "authorization": f"Bearer {token}"}
        reply = await server.send("POST", server.url, headers, encode(message))
        assert reply.json["result"]["cacheScope"] == "private"
        return {tool["name"] for tool in reply.json["result"]["tools"]}

    ada, root = server.token(sub="ada"), server.token(sub="root")
    for _ in range(2):
        assert "shutdown" in await listed(root)
        assert "shutdown" not in await listed(ada)
    reply = await server.call(ada, "shutdown")
    assert "Unknown tool" in reply.json["error"]["message"]
    assert text_of(await server.call(root, "shutdown")) == "down"


async def test_a_scope_may_imply_others() -> None:
    """Hierarchies are the server's to judge."""

    def make(issuer: str, url: str) -> ResourceServer:
        return ResourceServer(JwtTokens(issuer), resource=url, implies={"admin": ["files"], "files": ["files:write"]})

    async with protected(make) as server:
        assert (await server.call(server.token(scope="admin"), "write")).status == 200
        assert (await server.call(server.token(scope="other"), "write")).status == 403


async def test_a_new_key_is_found_and_an_old_one_forgotten(server: Protected) -> None:
    """Rotation: a token under an unknown key id makes the keys be fetched again, once for many at a time."""
    assert (await server.call(server.token())).status == 200
    server.resource_server.verifiers[0].keys._min_interval_s = 0.0  # type: ignore[attr-defined]
    server.issuer.settings.key = generate_key()
    fetched = server.issuer.log.count("GET /jwks")
    replies = await asyncio.gather(*(server.call(server.token(sub=f"u{number}")) for number in range(10)))
    assert {reply.status for reply in replies} == {200}
    assert server.issuer.log.count("GET /jwks") == fetched + 1


async def test_invented_key_ids_do_not_hammer_the_issuer(server: Protected) -> None:
    """A client can invent key ids; keys are fetched at most once in an interval."""
    assert (await server.call(server.token())).status == 200
    key, settings = generate_key(), server.issuer.settings
    for number in range(20):
        header = {"alg": "ES256", "kid": f"invented-{number}"}
        claims = {"iss": settings.issuer, "aud": server.url, "exp": int(time.time()) + 60}
        assert (await server.call(sign_jwt(header, claims, key))).status == 401
    assert server.issuer.log.count("GET /jwks") == 1


async def test_a_known_token_is_not_verified_again_and_not_kept_beyond_its_end() -> None:
    """What makes verification cheap must not make a token live longer."""
    now = [time.time()]

    def make(issuer: str, url: str) -> ResourceServer:
        clock = lambda: now[0]  # noqa: E731
        return ResourceServer(JwtTokens(issuer, clock=clock, leeway_s=0), resource=url, clock=clock)

    async with protected(make) as server:
        token = server.token(exp=int(now[0]) + 100)
        assert (await server.call(token)).status == 200
        now[0] += 99
        assert (await server.call(token)).status == 200
        now[0] += 2
        assert (await server.call(token)).status == 401


# -- DPoP ------------------------------------------------------------------------------------------------------------


def bound(server: Protected, **claims: Any) -> tuple[Any, str]:
    """A key, and a token that is bound to it."""
    key = generate_key()
    return key, server.token(cnf={"jkt": key_thumbprint(key)}, **claims)


async def dpop_call(server: Protected, token: str, proof: str | None) -> Any:
    headers = {} if proof is None else {"dpop": proof}
    return await server.call(None, authorization=f"DPoP {token}", **headers)


async def test_a_bound_token_is_served_with_its_proof_once(server: Protected) -> None:
    """A proof that is seen again was overheard (RFC 9449, 11.1)."""
    key, token = bound(server)
    proof = server.proof(key, token)
    assert (await dpop_call(server, token, proof)).status == 200
    reply = await dpop_call(server, token, proof)
    (challenge,) = parse_challenges(reply.challenge)
    assert (reply.status, challenge.scheme, challenge.error) == (401, "dpop", "invalid_dpop_proof")
    assert challenge.parameters["algs"]


async def test_a_proof_is_good_for_one_of_all_workers(tmp_path: Path) -> None:
    """What was overheard on its way to one is not taken by another, where they share a store."""
    servers = [ResourceServer(JwtTokens("https://as.example"), resource="https://rs.example/mcp") for _ in range(2)]
    for resource_server in servers:
        MCPServer("x", auth=resource_server, store=f"sqlite:///{tmp_path}/store.db")
    key = generate_key()
    proof = make_proof(key, "POST", "https://rs.example/mcp", token="t", now=time.time())
    one, other = (server.dpop for server in servers)
    await one.check(proof, "POST", "https://rs.example/mcp", "t", key_thumbprint(key))
    with pytest.raises(InvalidProof, match="used before"):
        await other.check(proof, "POST", "https://rs.example/mcp", "t", key_thumbprint(key))
    given = MemoryMarks()
    alone = DpopPolicy(replays=given)
    alone.share(MemoryMarks())
    await alone.check(proof, "POST", "https://rs.example/mcp", "t", key_thumbprint(key))
    assert len(given) == 1


async def test_a_proof_is_refused_while_its_earlier_use_cannot_be_checked(server: Protected) -> None:
    """The status is 503, and the same proof is accepted when the store can be reached again."""

    class Away(MemoryMarks):
        async def begin(self, key: str, *, ttl_s: float) -> Any:
            raise ConnectionError("away")

    key, token = bound(server)
    proof = server.proof(key, token)
    server.resource_server.dpop.share(Away())
    assert (await dpop_call(server, token, proof)).status == 503
    server.resource_server.dpop.share(MemoryMarks())
    assert (await dpop_call(server, token, proof)).status == 200


def proof_at(iat: Any, server: Protected, key: Any, token: str) -> str:
    """A proof with any value as its time."""
    header, claims, _ = server.proof(key, token).split(".")
    parts = [json.loads(urlsafe_b64decode(part + "==")) for part in (header, claims)]
    return sign_jwt(parts[0], {**parts[1], "iat": iat}, key)


BAD_PROOFS = {
    "none": lambda s, k, t: None,
    "rubbish": lambda s, k, t: "rubbish",
    "another method": lambda s, k, t: s.proof(k, t, "GET"),
    "another URL": lambda s, k, t: s.proof(k, t, url=s.url + "/other"),
    "another host": lambda s, k, t: s.proof(k, t, url="https://evil.example/mcp"),
    "another token": lambda s, k, t: s.proof(k, t + "x"),
    "another key": lambda s, k, t: s.proof(generate_key(), t),
    "too old": lambda s, k, t: s.proof(k, t, now=time.time() - 400),
    "from the future": lambda s, k, t: s.proof(k, t, now=time.time() + 400),
    "of no time": lambda s, k, t: proof_at(float("nan"), s, k, t),  # joserfc reads NaN
    "of a time beyond any float": lambda s, k, t: proof_at(10**400, s, k, t),
}


@pytest.mark.parametrize("case", BAD_PROOFS)
async def test_a_proof_that_proves_something_else_is_refused(server: Protected, case: str) -> None:
    """RFC 9449, 4.3, point by point."""
    key, token = bound(server)
    reply = await dpop_call(server, token, BAD_PROOFS[case](server, key, token))
    assert (reply.status, parse_challenges(reply.challenge)[0].error) == (401, "invalid_dpop_proof")
    assert (await dpop_call(server, token, server.proof(key, token))).status == 200


async def test_a_bound_token_is_no_bearer_token(server: Protected) -> None:
    """Else binding it would have been for nothing (RFC 9449, 7.1); and the other way round."""
    key, token = bound(server)
    assert (await server.call(token)).status == 401
    assert (await server.call(token, dpop=server.proof(key, token))).status == 401
    plain = server.token()
    assert (await dpop_call(server, plain, server.proof(key, plain))).status == 401


async def test_a_nonce_is_demanded_and_given() -> None:
    """The first proof is refused with the nonce in the answer, the second one holds it (RFC 9449, 9)."""

    def make(issuer: str, url: str) -> ResourceServer:
        return ResourceServer(JwtTokens(issuer), resource=url, dpop=DpopPolicy(needs_nonce=True, is_required=True))

    async with protected(make) as server:
        key, token = bound(server)
        reply = await dpop_call(server, token, server.proof(key, token))
        assert (reply.status, parse_challenges(reply.challenge)[0].error) == (401, "use_dpop_nonce")
        nonce = reply.headers["dpop-nonce"]
        assert (await dpop_call(server, token, server.proof(key, token, nonce=nonce))).status == 200
        assert (await dpop_call(server, token, server.proof(key, token, nonce="guessed"))).status == 401
        assert (await server.call(server.token())).status == 401


# -- what the server is called -------------------------------------------------------------------------------------


async def test_the_metadata_are_at_both_forms(server: Protected) -> None:
    """Clients try the path form first and the root form then."""
    origin = server.url.removesuffix("/mcp")
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
        reply = await server.send("GET", origin + path)
        assert (reply.status, reply.json["resource"]) == (200, server.url)
        assert reply.headers["access-control-allow-origin"] == "*"
        assert (await server.send("POST", origin + path)).status == 405
        assert (await server.send("OPTIONS", origin + path)).status == 204
    assert (await server.send("GET", origin + "/.well-known/oauth-protected-resource/other")).status == 404


@pytest.mark.parametrize("root_path", ["/tools", "/deep/er"])
async def test_below_a_prefix_the_challenge_names_a_place_that_exists(root_path: str) -> None:
    """A mounted application is not asked for the host's own well-known paths, so it names one below its prefix."""
    resource = f"https://example.com{root_path}/mcp"
    app: MCPServer[Any] = MCPServer("mounted", auth=ResourceServer(StaticTokens({"t": {}}), resource=resource))
    endpoint = app.asgi()
    from tests.transports.asgi.support import Call

    call = Call(endpoint, path=f"{root_path}/mcp", root_path=root_path, headers=modern_headers(modern(1, "tools/list")))
    answer = await call.run()
    url = parse_challenges(answer.headers["www-authenticate"])[0].resource_metadata
    assert url is not None
    assert url == f"https://example.com{root_path}/.well-known/oauth-protected-resource/mcp"
    assert url is not None
    found = await Call(endpoint, "GET", url.removeprefix("https://example.com"), root_path=root_path).run()
    assert (found.status, found.json["resource"]) == (200, resource)


async def test_a_server_that_does_not_know_its_url_believes_no_host_header() -> None:
    """Otherwise a token for any server would do: its holder would simply name that server as the Host."""
    app: MCPServer[Any] = MCPServer("nameless", auth=StaticTokens({"t": {}}))
    app.add_tool(lambda: "x", name="x")
    from tests.transports.asgi.support import Call

    message = modern(1, "tools/list")
    headers = {**modern_headers(message), "authorization": "Bearer t"}
    for host, status in (("evil.example", 503), ("localhost:9999", 503), ("localhost:8000", 200)):
        call = Call(app.asgi(), headers={**headers, "host": host}, body=encode(message))
        assert (await call.run()).status == status


async def test_a_verifier_alone_checks_the_issuer_too() -> None:
    """A server with one verifier does not depend on who chose it."""
    from ferrule.auth import DemoIssuer, InvalidToken

    issuer = DemoIssuer("https://as.example")
    verifier = JwtTokens("https://as.example", jwks=issuer.settings.key_set())
    assert (await verifier.verify(issuer.mint("https://me/"), ["https://me/"])).subject == "demo-user"
    with pytest.raises(InvalidToken, match="another issuer"):
        await verifier.verify(issuer.mint("https://me/", iss="https://as.example/"), ["https://me/"])


FORMS = {
    "another scheme": ({"authorization": "Basic {token}"}, "", 401),
    "no known scheme": ({"authorization": "foo {token}"}, "", 401),
    "the bare token": ({"authorization": "{token}"}, "", 401),
    "a scheme alone": ({"authorization": "Bearer"}, "", 400),
    "the DPoP scheme": ({"authorization": "DPoP {token}"}, "", 401),
    "a token in the query, too": ({"authorization": "Bearer {token}"}, "?access_token={token}", 400),
    "an escaped one in the query, too": ({"authorization": "Bearer {token}"}, "?a=1&%61ccess_token=x", 400),
    "an empty one in the query, too": ({"authorization": "Bearer {token}"}, "?access_token", 400),
    "in the query alone": ({}, "?access_token={token}", 401),
    "another scheme and the query": ({"authorization": "Basic {token}"}, "?access_token={token}", 401),
    "two tokens": ({"authorization": "Bearer {token}, Bearer {token}"}, "", 400),
    "lower case": ({"authorization": "bearer {token}"}, "", 200),
    "upper case": ({"authorization": "BEARER {token}"}, "", 200),
    "two spaces": ({"authorization": "Bearer  {token}"}, "", 200),
    "a query of another kind": ({"authorization": "Bearer {token}"}, "?not_access_token=1&q=access_token%3D", 200),
}


@pytest.mark.parametrize("form", FORMS)
async def test_the_form_of_a_request_is_judged_whether_its_token_is_known_or_not(server: Protected, form: str) -> None:
    """A verdict that is kept is about the token: scheme, query and audience are of the request, and judged first."""
    headers, query, status = FORMS[form]
    token = server.token(sub="ada")
    headers = {name: value.format(token=token) for name, value in headers.items()}
    url = server.url + query.format(token=token)
    cold = await server.call(None, url=url, **headers)
    assert (await server.call(token)).status == 200
    warm = await server.call(None, url=url, **headers)
    assert (cold.status, warm.status) == (status, status)
    assert cold.challenge == warm.challenge


async def test_a_verdict_is_kept_for_its_audience_alone() -> None:
    """Without a fixed URL the audience depends on the request, so a result for one name does not hold for another."""
    asked: list[str] = []

    class Named(StaticTokens):
        async def verify(self, token: str, audience: Any) -> Any:
            asked.append(sorted(audience)[-1])
            if "http://localhost:8000/mcp" not in audience:
                raise InvalidToken("The token is meant for another resource")
            return await super().verify(token, audience)

    endpoint = MCPServer("s", auth=ResourceServer(Named({"t": {"subject": "ada"}}))).asgi()
    message = modern(1, "ping")
    statuses = [
        (await modern_call(endpoint, message, authorization="Bearer t", host=host).run()).status
        for host in ("127.0.0.1:8000", "localhost:8000", "127.0.0.1:8000", "localhost:8000", "evil.example")
    ]
    assert [status if status in (401, 503) else 0 for status in statuses] == [401, 0, 401, 0, 503]
    assert asked == [f"http://{host}:8000/mcp" for host in ("127.0.0.1", "localhost", "127.0.0.1")]


async def test_the_session_of_a_token_without_identity_is_its_own() -> None:
    """Two tokens that name neither subject nor client: one may not post to, listen to, resume or end the other's."""
    tokens = StaticTokens({"a": {"scopes": ["mcp"]}, "b": {"scopes": ["mcp"]}})
    async with protected(lambda issuer, url: ResourceServer(tokens, resource=url)) as server:
        session_id = await server.open_session("a")
        assert (await server.legacy("POST", "b", session_id, request(2, "tools/list"))).status == 404
        assert (await server.legacy("GET", "b", session_id)).status == 404
        assert (await server.legacy("DELETE", "b", session_id)).status == 404
        assert (await server.legacy("POST", "a", session_id, request(3, "tools/list"))).status == 200


async def test_a_custom_verifier_without_a_subject_gives_separate_principals() -> None:
    """Also if its principal has no token: the server adds the token of the request."""

    class Anonymous:
        issuers = ("https://as.example",)

        def may_know(self, token: str) -> bool:
            return True

        async def verify(self, token: str, audience: Any) -> Principal:
            return Principal("https://as.example", None)

    async with protected(lambda issuer, url: ResourceServer(Anonymous(), resource=url)) as server:
        session_id = await server.open_session("a")
        assert (await server.legacy("POST", "b", session_id, request(2, "tools/list"))).status == 404


class Scripted:
    """A verifier with prepared results, which records its calls."""

    def __init__(self, issuer: str, outcome: Any, *, takes_any_token: bool = False) -> None:
        self.issuers = (issuer,)
        self.takes_any_token = takes_any_token
        self.outcome = outcome
        self.asked: list[str] = []

    def may_know(self, token: str) -> bool:
        return True

    async def verify(self, token: str, audience: Any) -> Principal:
        self.asked.append(token)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return Principal(self.issuers[0], str(self.outcome), token=token)


async def asked_of(verifiers: list[Any], token: str) -> int:
    endpoint = MCPServer("s", auth=ResourceServer(verifiers, resource="http://127.0.0.1:8000/mcp")).asgi()
    message = modern(1, "server/discover")
    return (await modern_call(endpoint, message, authorization=f"Bearer {token}").run()).status


async def test_a_token_is_sent_only_to_its_issuer() -> None:
    """An unreachable authorization server does not affect tokens of another one, and does not receive them."""
    away = Scripted("https://one.example", VerifierUnavailable("away"), takes_any_token=True)
    good = Scripted("https://two.example", "ada")
    token = f"{part({'alg': 'ES256'})}.{part({'iss': 'https://two.example'})}.AA"
    assert await asked_of([away, good], token) == 200
    assert away.asked == []
    ones = f"{part({'alg': 'ES256'})}.{part({'iss': 'https://one.example'})}.AA"
    assert await asked_of([away, good], ones) == 503
    assert good.asked == [token]


async def test_an_opaque_token_is_first_checked_without_a_request() -> None:
    """Tokens that are written down here need not be shown to a server elsewhere."""
    away = Scripted("https://one.example", VerifierUnavailable("away"), takes_any_token=True)
    assert await asked_of([away, StaticTokens({"t": {"subject": "ada"}})], "t") == 200
    assert away.asked == []


async def test_one_verifier_that_is_away_leaves_the_others() -> None:
    """Another verifier may accept the token; if none does, the unreachable one might have accepted it."""
    away = Scripted("https://one.example", VerifierUnavailable("away"), takes_any_token=True)
    good = Scripted("https://two.example", "ada", takes_any_token=True)
    wrong = Scripted("https://two.example", InvalidToken("unknown"), takes_any_token=True)
    assert await asked_of([away, good], "opaque") == 200
    assert await asked_of([away, wrong], "opaque") == 503
    assert await asked_of([wrong, away], "opaque") == 503
    assert await asked_of([wrong, wrong], "opaque") == 401


async def test_many_with_one_token_share_the_answer_that_it_cannot_be_judged() -> None:
    """Each would otherwise wait for the time-out of all before it."""
    gate = anyio.Event()

    class Slow(Scripted):
        async def verify(self, token: str, audience: Any) -> Principal:
            self.asked.append(token)
            await gate.wait()
            raise VerifierUnavailable("away")

    slow = Slow("https://one.example", None)
    endpoint = MCPServer("s", auth=ResourceServer(slow, resource="http://127.0.0.1:8000/mcp")).asgi()
    answers: list[Any] = []

    async def call() -> None:
        message = modern(1, "server/discover")
        answers.append(await modern_call(endpoint, message, authorization="Bearer t").run())

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert [answer.status for answer in answers] == [503] * 10
    assert all("www-authenticate" not in answer.headers for answer in answers)
    assert slow.asked == ["t"]


async def test_a_hook_that_fails_refuses_and_is_logged() -> None:
    """The client gets no details of an internal error."""
    broken = Scripted("https://one.example", KeyError("a secret of the inside"))
    endpoint = MCPServer("s", auth=ResourceServer(broken, resource="http://127.0.0.1:8000/mcp")).asgi()
    answer = await modern_call(endpoint, modern(1, "server/discover"), authorization="Bearer t").run()
    assert answer.status == 500
    assert b"secret" not in answer.body


async def test_a_token_is_never_served_after_its_end() -> None:
    """For every verifier, also for static tokens and for a verifier that does not check the expiry."""
    now = [1000.0]
    tokens = StaticTokens({"t": {"subject": "ada", "expires_at": 1060}})
    guard = ResourceServer(tokens, resource="http://127.0.0.1:8000/mcp", clock=lambda: now[0])
    endpoint = MCPServer("s", auth=guard).asgi()
    statuses: list[int] = []
    for moment in (1000.0, 1059.0, 1060.0, 1100.0):
        now[0] = moment
        message = modern(1, "server/discover")
        statuses.append((await modern_call(endpoint, message, authorization="Bearer t").run()).status)
    assert statuses == [200, 200, 401, 401]


async def test_a_token_that_is_written_down_may_be_bound_to_a_key() -> None:
    """And one that is bound in another way is refused, as those of an issuer are."""
    key = generate_key()
    bound_to = {"subject": "ada", "cnf": {"jkt": key_thumbprint(key)}}
    tokens = StaticTokens({"t": bound_to, "x": {"subject": "ada", "cnf": {"x5t#S256": "y"}}})
    async with protected(lambda issuer, url: ResourceServer(tokens, resource=url)) as server:
        assert (await server.call("t")).status == 401
        assert (await server.call("x")).status == 401
        assert (await dpop_call(server, "t", server.proof(key, "t"))).status == 200
