"""ferrule.auth.client's flows, driven by a table of URLs: no socket, no clock, no user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from ferrule.auth.challenges import Challenge, parse_challenges
from ferrule.auth.client.discovery import authorization_server_urls, discover
from ferrule.auth.client.flow import FlowSettings, choose_scopes, obtain_tokens, refresh_tokens, revoke_tokens
from ferrule.auth.client.grants import AuthorizationCodeGrant, ClientCredentialsGrant, read_callback
from ferrule.auth.client.registration import ClientMetadata
from ferrule.auth.client.tokens import ClientIdentity, TokenSet
from ferrule.auth.errors import (
    AuthError,
    AuthorizationDenied,
    DiscoveryFailed,
    RegistrationFailed,
    TokenRequestFailed,
    UnsafeUrl,
    UntrustedCallback,
)
from ferrule.auth.http import AskUser, AskValue, AuthRequest, AuthResponse, OpenRedirect, Step, run_flow
from ferrule.auth.urls import UrlPolicy, is_same_issuer
from ferrule.wire.codec import encode

SERVER = "https://mcp.example.com/tools/mcp"
ISSUER = "https://as.example.com"
REDIRECT = "http://127.0.0.1:4000/callback"
PRM_URL = "https://mcp.example.com/.well-known/oauth-protected-resource/tools/mcp"
PRM_ROOT = "https://mcp.example.com/.well-known/oauth-protected-resource"
AS_URL = f"{ISSUER}/.well-known/oauth-authorization-server"
OIDC_URL = f"{ISSUER}/.well-known/openid-configuration"


def prm(**changes: Any) -> dict[str, Any]:
    return {"resource": SERVER, "authorization_servers": [ISSUER], **changes}


def metadata(issuer: str = ISSUER, **changes: Any) -> dict[str, Any]:
    found = {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "registration_endpoint": f"{issuer}/register",
        "code_challenge_methods_supported": ["S256"],
        **changes,
    }
    return {name: value for name, value in found.items() if value is not None}


class World:
    """Answers a flow's steps; remembers what was asked."""

    def __init__(self, documents: dict[str, Any], came_back: dict[str, str] | None = None) -> None:
        self.documents = documents
        self.asked: list[AuthRequest] = []
        self.visits: list[dict[str, str]] = []
        self.redirects: list[str | None] = []
        self.came_back = came_back or {}
        self.kept: dict[str, Any] = {}
        self.token: Any = {"access_token": "token-1", "token_type": "Bearer", "expires_in": 3600}

    @property
    def urls(self) -> list[str]:
        return [request.url for request in self.asked]

    def form(self, url: str) -> dict[str, str]:
        (found,) = [request for request in self.asked if request.url == url]
        return dict(parse_qsl(found.body.decode()))

    def __call__(self, step: Step) -> Any:
        if isinstance(step, OpenRedirect):
            self.redirects.append(step.preferred)
            return step.preferred or REDIRECT
        if isinstance(step, AskUser):
            query = dict(parse_qsl(urlsplit(step.url).query))
            self.visits.append(query)
            answer = {"code": "the-code", "state": query["state"], **self.came_back}
            return f"{query['redirect_uri']}?" + "&".join(f"{k}={v}" for k, v in answer.items() if v is not None)
        if isinstance(step, AskValue):
            value: Any = step.function()
            try:
                value.send(None)
            except StopIteration as stop:
                return stop.value
            raise AssertionError
        self.asked.append(step)
        if step.url.endswith("/register"):
            return AuthResponse(201, {}, encode({"client_id": "made"}))
        if step.url.endswith("/token"):
            answer = self.token.pop(0) if isinstance(self.token, list) else self.token
            if isinstance(answer, Exception):
                raise answer
            status = 400 if "error" in answer else 200
            return AuthResponse(answer.pop("_status", status) if "_status" in answer else status, {}, encode(answer))
        found = self.documents.get(step.url)
        if found is None:
            return AuthResponse(404, {}, b"not found")
        if isinstance(found, AuthResponse):
            return found
        return AuthResponse(200, {"content-type": "application/json"}, encode(found))

    async def stored(self, issuer: str) -> ClientIdentity | None:
        return self.kept.get(issuer)

    async def remember(self, issuer: str, identity: ClientIdentity) -> None:
        self.kept[issuer] = identity

    def settings(self, grant: Any = None, **options: Any) -> FlowSettings:
        return FlowSettings(
            grant=grant or AuthorizationCodeGrant(),
            metadata=ClientMetadata(),
            policy=UrlPolicy(),
            stored=self.stored,
            remember=self.remember,
            **options,
        )

    def obtain(self, header: str | None = None, grant: Any = None, **options: Any) -> TokenSet:
        challenges = parse_challenges(header)
        flow_options = {name: options.pop(name) for name in ("previous", "bound_issuer") if name in options}
        flow = obtain_tokens(
            self.settings(grant, **options), SERVER, challenges[0] if challenges else None, now=1000.0, **flow_options
        )
        return run_flow(flow, self)


USUAL = {PRM_URL: prm(), AS_URL: metadata()}


# -- discovery ---------------------------------------------------------------------------------------------------------


def test_the_usual_way() -> None:
    """Path form first, OAuth metadata first, `resource` on both legs, PKCE, state."""
    world = World(USUAL)
    tokens = world.obtain()
    assert world.urls == [PRM_URL, AS_URL, f"{ISSUER}/register", f"{ISSUER}/token"]
    (visit,) = world.visits
    assert visit["resource"] == SERVER
    assert visit["code_challenge_method"] == "S256"
    form = world.form(f"{ISSUER}/token")
    assert form["resource"] == SERVER
    assert form["code"] == "the-code"
    assert "scope" not in visit
    assert tokens.expires_at == 4600.0
    assert world.kept[ISSUER].client_id == "made"


def test_the_challenge_says_where_to_begin() -> None:
    """`resource_metadata` goes before the well-known URIs."""
    url = "https://mcp.example.com/elsewhere"
    world = World({url: prm(), AS_URL: metadata()})
    world.obtain(f'Bearer resource_metadata="{url}"')
    assert world.urls[0] == url


def test_the_root_form_is_tried_after_the_path_form() -> None:
    """Some servers publish only one of them."""
    world = World({PRM_ROOT: prm(resource="https://mcp.example.com"), AS_URL: metadata()})
    tokens = world.obtain()
    assert world.urls[:2] == [PRM_URL, PRM_ROOT]
    assert tokens.resource == "https://mcp.example.com"
    assert world.visits[0]["resource"] == "https://mcp.example.com"


@pytest.mark.parametrize("resource", ["https://other.example.com/tools/mcp", "https://mcp.example.com/tools/mcp2"])
def test_metadata_of_another_resource_end_the_flow(resource: str) -> None:
    """They could lead to another server's authorization server."""
    with pytest.raises(DiscoveryFailed, match="are those of"):
        World({PRM_URL: prm(resource=resource), AS_URL: metadata()}).obtain()


def test_metadata_of_an_issuer_with_a_path_are_tried_in_order() -> None:
    """OAuth inserted, OpenID inserted, OpenID appended."""
    assert authorization_server_urls("https://as.example.com/tenant/one") == [
        "https://as.example.com/.well-known/oauth-authorization-server/tenant/one",
        "https://as.example.com/.well-known/openid-configuration/tenant/one",
        "https://as.example.com/tenant/one/.well-known/openid-configuration",
    ]
    assert authorization_server_urls(ISSUER) == [AS_URL, OIDC_URL]


@pytest.mark.parametrize(
    "named",
    [
        f"{ISSUER}//",
        f"{ISSUER}/a",
        "https://AS.example.com",
        f"{ISSUER}:443",
        "https://evil.example",
        "",
        f"{ISSUER}/?",
    ],
)
def test_a_document_of_another_issuer_is_discarded(named: str) -> None:
    """Character for character: no case folding, no default port."""
    world = World({PRM_URL: prm(), AS_URL: metadata(named), OIDC_URL: metadata()})
    assert world.obtain().issuer == ISSUER
    with pytest.raises(DiscoveryFailed, match="name the issuer"):
        World({PRM_URL: prm(), AS_URL: metadata(named)}).obtain()


@pytest.mark.parametrize(
    ("listed", "named"), [("https://as.example.com", "https://as.example.com/"), ("https://as.example.com/",) * 2,
                          ("https://as.example.com/", "https://as.example.com")],
)  # fmt: skip
def test_the_slash_behind_a_host_is_no_other_issuer(listed: str, named: str) -> None:
    """Common servers list themselves without it and publish it with it; the document's spelling is kept for ``iss``."""
    documents = {PRM_URL: prm(authorization_servers=[listed]), AS_URL: metadata(named)}
    world = World(documents, {"iss": named})
    assert world.obtain().issuer == named
    if listed != named:
        with pytest.raises(UntrustedCallback):  # RFC 9207 compares with what the metadata say
            World(documents, {"iss": listed}).obtain()


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("http://h", "http://h/", True),
        ("http://h:1/", "http://h:1", True),
        ("http://h/a", "http://h/a/", False),
        ("http://h", "http://h//", False),
        ("http://h", "https://h/", False),
        ("http://h", "http://H/", False),
        ("http://h?", "http://h/?", False),
        ("http:///", "http://", True),
    ],
)
def test_two_spellings_of_an_issuer(one: str, other: str, is_same: bool) -> None:
    """A path with a slash behind it is another path."""
    assert is_same_issuer(one, other) is is_same
    assert is_same_issuer(other, one) is is_same


WRONG_MEMBERS = {
    ("prm", "bearer_methods_supported"): "header",
    ("prm", "scopes_supported"): "a b",
    ("prm", "resource_name"): 5,
    ("as", "scopes_supported"): "a b",
    ("as", "grant_types_supported"): {"a": 1},
    ("as", "response_types_supported"): "code",
}
NEEDED_MEMBERS = {
    ("prm", "resource"): 5,
    ("prm", "authorization_servers"): ISSUER,
    ("prm", "dpop_bound_access_tokens_required"): "true",
    ("as", "issuer"): [ISSUER],
    ("as", "authorization_endpoint"): 5,
    ("as", "token_endpoint"): ["https://as.example.com/token"],
    ("as", "registration_endpoint"): False,
    ("as", "code_challenge_methods_supported"): "S256",
    ("as", "token_endpoint_auth_methods_supported"): "none",
    ("as", "authorization_response_iss_parameter_supported"): "true",
    ("as", "client_id_metadata_document_supported"): 1,
}


def with_member(kind: str, member: str, value: Any) -> World:
    documents = {PRM_URL: prm(), AS_URL: metadata()}
    documents[PRM_URL if kind == "prm" else AS_URL][member] = value
    return World(documents)


@pytest.mark.parametrize(("kind", "member"), WRONG_MEMBERS)
def test_a_hint_of_a_wrong_type_is_ignored(kind: str, member: str, caplog: pytest.LogCaptureFixture) -> None:
    """The rest of the document holds: a client must not go elsewhere because of a list that was written as text."""
    world = with_member(kind, member, WRONG_MEMBERS[kind, member])
    assert world.obtain().issuer == ISSUER
    assert member in caplog.text
    assert all(url.startswith((ISSUER, "https://mcp.example.com/.well-known/")) for url in world.urls)


@pytest.mark.parametrize(("kind", "member"), NEEDED_MEMBERS)
def test_a_needed_member_of_a_wrong_type_is_an_error_that_names_it(kind: str, member: str) -> None:
    """Registration, code and token go to the server that is meant, or to none."""
    world = with_member(kind, member, NEEDED_MEMBERS[kind, member])
    with pytest.raises(DiscoveryFailed, match=member):
        world.obtain()
    assert not any(step.method == "POST" for step in world.asked)
    assert world.visits == []


@pytest.mark.parametrize(("kind", "member"), [("prm", "resource"), ("as", "issuer")])
@pytest.mark.parametrize("header", [None, f'Bearer resource_metadata="{PRM_URL}"'])
def test_metadata_that_do_not_say_whose_they_are_are_an_error(kind: str, member: str, header: str | None) -> None:
    """They have endpoints: ignoring them would send registration and code to the MCP server."""
    world = with_member(kind, member, None)
    del world.documents[PRM_URL if kind == "prm" else AS_URL][member]
    with pytest.raises(DiscoveryFailed, match=member):
        world.obtain(header)
    assert not any(step.method == "POST" for step in world.asked)
    assert world.visits == []


@pytest.mark.parametrize(
    "answer",
    [
        AuthResponse(200, {}, b'{"resource": "https://mcp.example.com/tools/mcp",}'),
        AuthResponse(200, {}, b"[]"),
        AuthResponse(200, {}, b"<html>sign in</html>"),
        AuthResponse(200, {}, b'{"detail": "nothing here"}'),
        AuthResponse(503, {}, b""),
    ],
)
def test_metadata_that_a_server_names_and_cannot_show_lead_nowhere_else(answer: AuthResponse) -> None:
    """It is not a server of 2025-03-26: registration and code do not go there because of a typing error."""
    hint = "https://mcp.example.com/metadata"
    world = World({hint: answer})
    with pytest.raises(DiscoveryFailed, match="which the server names for its metadata"):
        world.obtain(f'Bearer resource_metadata="{hint}"')
    assert world.urls == [hint]
    world = World({PRM_URL: prm(), AS_URL: metadata()})  # nothing there at all: the usual places
    assert world.obtain(f'Bearer resource_metadata="{hint}"').issuer == ISSUER


def test_what_is_no_metadata_document_is_passed_by() -> None:
    """Some servers answer any path with an object of their own; the next place is looked at."""
    root = "https://mcp.example.com/.well-known/oauth-protected-resource"
    world = World({PRM_URL: {"detail": "nothing here"}, root: prm(), AS_URL: {}, OIDC_URL: metadata()})
    assert world.obtain().issuer == ISSUER


def test_a_server_of_2025_03_26_is_its_own_issuer() -> None:
    """No resource metadata: the origin's, and failing those the default endpoints."""
    origin = "https://mcp.example.com"
    world = World({f"{origin}/.well-known/oauth-authorization-server": metadata(origin)})
    assert world.obtain().issuer == origin
    assert world.asked[2].headers["mcp-protocol-version"] == "2025-03-26"
    world = World({})
    tokens = world.obtain()
    assert tokens.issuer is None
    assert tokens.token_endpoint == f"{origin}/token"
    assert world.urls[-2:] == [f"{origin}/register", f"{origin}/token"]


def test_pkce_must_be_promised() -> None:
    """A server whose metadata do not list S256 may ignore the challenge."""
    refused: list[dict[str, Any]] = [
        {"code_challenge_methods_supported": None},
        {"code_challenge_methods_supported": ["plain"]},
    ]
    for changes in refused:
        with pytest.raises(DiscoveryFailed, match="PKCE"):
            World({PRM_URL: prm(), AS_URL: metadata(**changes)}).obtain()


@pytest.mark.parametrize("documents", [
    {PRM_URL: AuthResponse(302, {"location": "http://169.254.169.254/latest/meta-data"})},
    {PRM_URL: AuthResponse(302, {"location": "https://localhost/x"})},
    {PRM_URL: prm(authorization_servers=["https://10.0.0.1"])},
    {PRM_URL: prm(authorization_servers=["http://as.example.com"])},
    {PRM_URL: prm(), AS_URL: metadata(token_endpoint="https://127.0.0.1/token")},
    {PRM_URL: prm(), AS_URL: metadata(authorization_endpoint="javascript:alert(1)")},
    {PRM_URL: prm(), AS_URL: metadata(registration_endpoint="file:///x")},
])  # fmt: skip
def test_no_discovered_url_leads_inside(documents: dict[str, Any]) -> None:
    """Every URL and every redirect, not only the first."""
    world = World(documents)
    with pytest.raises(UnsafeUrl):
        world.obtain()
    assert all(urlsplit(url).hostname in ("mcp.example.com", "as.example.com") for url in world.urls)


def test_redirects_end() -> None:
    """A loop would keep the client busy for ever."""
    world = World({PRM_URL: AuthResponse(302, {"location": PRM_URL})})
    with pytest.raises(UnsafeUrl, match="redirects"):
        world.obtain()
    assert len(world.asked) == 4


def test_several_issuers_are_the_programs_choice() -> None:
    """A resource may name several (RFC 9728, 7.6); the program decides which one to trust."""
    other = "https://other.example.com"
    documents = {
        PRM_URL: prm(authorization_servers=[ISSUER, other]),
        f"{other}/.well-known/oauth-authorization-server": metadata(other),
    }
    found = run_flow(discover(SERVER, UrlPolicy(), choose=lambda issuers: issuers[1]), World(documents))
    assert found.issuer == other


# -- scopes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("header", "listed", "expected"), [
    (f'Bearer resource_metadata="{PRM_URL}"', ["a", "b"], "a b"),
    (f'Bearer resource_metadata="{PRM_URL}", scope="c"', ["a", "b"], "c"),
    (f'Bearer resource_metadata="{PRM_URL}"', None, None),
    (f'Bearer resource_metadata="{PRM_URL}"', [], None),
    (None, ["a"], "a"),
])  # fmt: skip
def test_scopes_are_chosen_in_order(header: str | None, listed: list[str] | None, expected: str | None) -> None:
    """Challenge, else all that are listed, else none; never a URL."""
    world = World({PRM_URL: prm(scopes_supported=listed), AS_URL: metadata()})
    world.obtain(header)
    assert world.visits[0].get("scope") == expected


def test_a_step_up_asks_for_the_union() -> None:
    """What was granted before must not get lost."""
    found = run_flow(discover(SERVER, UrlPolicy()), World({PRM_URL: prm(scopes_supported=["x"]), AS_URL: metadata()}))
    challenge = Challenge("bearer", {"scope": "b c"})
    assert choose_scopes(challenge, found, own=("own",), previous=("a", "b")) == ("a", "b", "own", "c")


def test_offline_access_is_asked_for_where_it_is_listed() -> None:
    """And never alone, which would unask the default scopes."""
    documents = {PRM_URL: prm(scopes_supported=["a"]), AS_URL: metadata(scopes_supported=["a", "offline_access"])}
    world = World(documents)
    world.obtain()
    assert world.visits[0]["scope"] == "a offline_access"
    world = World({**documents, PRM_URL: prm()})
    world.obtain()
    assert "scope" not in world.visits[0]


# -- the callback ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("promised", "said", "accepted"), [
    (True, ISSUER, True), (True, None, False), (False, ISSUER, True), (False, None, True),
    (True, "https://evil.example", False), (False, "https://evil.example", False),
    (True, f"{ISSUER}/", False), (True, ISSUER.upper(), False), (True, f"{ISSUER}:443", False),
])  # fmt: skip
def test_the_issuer_of_a_response(promised: bool, said: str | None, accepted: bool) -> None:
    """The whole table, and before any token endpoint is touched."""
    documents = {PRM_URL: prm(), AS_URL: metadata(authorization_response_iss_parameter_supported=promised)}
    world = World(documents, {} if said is None else {"iss": said})
    if accepted:
        world.obtain()
        return
    with pytest.raises(UntrustedCallback):
        world.obtain()
    assert f"{ISSUER}/token" not in world.urls


def test_an_error_of_another_issuer_is_not_shown() -> None:
    """It may be a text for the user to fall for."""
    url = f"{REDIRECT}?error=access_denied&error_description=call+0190&state=s&iss=https://evil.example"
    with pytest.raises(UntrustedCallback) as caught:
        read_callback(url, state="s", issuer=ISSUER, needs_issuer=True)
    assert "0190" not in str(caught.value)
    assert "access_denied" not in str(caught.value)
    with pytest.raises(AuthorizationDenied, match="access_denied"):
        read_callback(url.replace("https://evil.example", ISSUER), state="s", issuer=ISSUER, needs_issuer=True)


@pytest.mark.parametrize("query", [
    "code=x&state=other", "code=x", "state=s", "code=x&code=y&state=s", "code=x&state=s&state=s", "", "code=&state=s",
])  # fmt: skip
def test_a_response_that_is_not_ours_is_not_used(query: str) -> None:
    """State, presence and uniqueness."""
    with pytest.raises(UntrustedCallback):
        read_callback(f"{REDIRECT}?{query}", state="s", issuer=None, needs_issuer=False)


def test_pasting_the_query_alone_will_do() -> None:
    """People copy what they see."""
    assert read_callback(" code=x&state=s\n", state="s", issuer=None, needs_issuer=False) == "x"


# -- registration ------------------------------------------------------------------------------------------------------


def test_a_document_goes_before_registration() -> None:
    """The URL is the id, and no secret is made."""
    url = "https://client.example.com/client.json"
    documents = {PRM_URL: prm(), AS_URL: metadata(client_id_metadata_document_supported=True)}
    world = World(documents)
    world.obtain(grant=AuthorizationCodeGrant(client_metadata_url=url))
    assert world.visits[0]["client_id"] == url
    assert f"{ISSUER}/register" not in world.urls
    world = World(USUAL)
    world.obtain(grant=AuthorizationCodeGrant(client_metadata_url=url))
    assert world.visits[0]["client_id"] == "made"


def test_a_registration_is_used_again_by_its_issuer_only() -> None:
    """Another authorization server gets another one."""
    world = World(USUAL)
    world.obtain()
    world.obtain()
    assert world.urls.count(f"{ISSUER}/register") == 1
    assert world.redirects[1] == REDIRECT
    other = "https://new.example.com"
    world.documents = {
        PRM_URL: prm(authorization_servers=[other]),
        f"{other}/.well-known/oauth-authorization-server": metadata(other),
    }
    world.obtain()
    assert world.urls.count(f"{other}/register") == 1


@pytest.mark.parametrize("bound", [True, False])
def test_given_credentials_stay_with_their_issuer(bound: bool) -> None:
    """A server that names another one must not get the secret there."""
    identity = ClientIdentity("mine", "secret")
    grant = AuthorizationCodeGrant(identity=identity, issuer=None if bound else "https://first.example.com")
    world = World(USUAL)
    options = {"bound_issuer": "https://first.example.com"} if bound else {}
    with pytest.raises(RegistrationFailed, match=r"first\.example\.com"):
        world.obtain(grant=grant, **options)
    assert world.visits == []
    assert all(b"secret" not in request.body for request in world.asked)


def test_without_any_way_to_register_the_error_names_the_missing_option() -> None:
    """After client metadata documents and dynamic registration there is only a client id of the program's."""
    with pytest.raises(RegistrationFailed, match="client_id="):
        World({PRM_URL: prm(), AS_URL: metadata(registration_endpoint=None)}).obtain()


def test_the_kind_of_application_is_sent_and_changed_once_if_refused() -> None:
    """A loopback redirect is native; a server that requires the other type refuses it."""
    refused = {"error": "invalid_redirect_uri"}
    world = World(USUAL)
    bodies: list[Any] = []

    def answer(step: Step) -> Any:
        if isinstance(step, AuthRequest) and step.url.endswith("/register"):
            from ferrule.wire.codec import decode

            bodies.append(decode(step.body))
            if len(bodies) == 1:
                return AuthResponse(400, {}, encode(refused))
        return world(step)

    run_flow(obtain_tokens(world.settings(), SERVER, None, now=0.0), answer)
    assert [body["application_type"] for body in bodies] == ["native", "web"]
    assert bodies[0]["grant_types"] == ["authorization_code", "refresh_token"]
    assert "scope" not in bodies[0]  # some servers would refuse every step-up beyond it


# -- tokens ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("supported", "check"), [
    (["client_secret_basic"], lambda request, form: request.headers["authorization"].startswith("Basic ")),
    (["client_secret_post"], lambda request, form: form["client_secret"] == "s3cr3t %"),
    (None, lambda request, form: request.headers["authorization"].startswith("Basic ")),
])  # fmt: skip
def test_clients_authenticate_as_the_server_lists(
    supported: list[str] | None, check: Callable[[AuthRequest, dict[str, str]], bool]
) -> None:
    """Servers differ between basic and post; names inside basic are form-encoded (RFC 6749, 2.3.1)."""
    world = World({PRM_URL: prm(), AS_URL: metadata(token_endpoint_auth_methods_supported=supported)})
    grant = ClientCredentialsGrant(identity=ClientIdentity("me", "s3cr3t %"))
    tokens = world.obtain(grant=grant)
    request = world.asked[-1]
    assert check(request, world.form(request.url))
    assert "s3cr3t" not in repr(request)
    assert "s3cr3t" not in repr(tokens)


def test_a_method_that_cannot_be_done_is_an_error_before_anything_is_sent() -> None:
    """Credentials are not tried out."""
    world = World({PRM_URL: prm(), AS_URL: metadata(token_endpoint_auth_methods_supported=["private_key_jwt"])})
    with pytest.raises(AuthError, match="private_key_jwt"):
        world.obtain(grant=ClientCredentialsGrant(identity=ClientIdentity("me", "secret")))
    assert f"{ISSUER}/token" not in world.urls


@pytest.mark.parametrize(("answer", "expires_at"), [
    ({"expires_in": 60}, 1060.0), ({"expires_in": "60"}, 1060.0), ({}, None), ({"expires_in": None}, None),
    ({"expires_in": "soon"}, None), ({"expires_in": 0}, None), ({"expires_in": -5}, None),
    ({"expires_in": 10**400}, None), ({"expires_in": []}, None),
])  # fmt: skip
def test_life_times_of_real_servers(answer: dict[str, Any], expires_at: float | None) -> None:
    """Some send numbers as text, or none, which must not mean "expired"."""
    world = World(USUAL)
    world.token = {"access_token": "x", "token_type": "bearer", **answer}
    assert world.obtain().expires_at == expires_at


def test_an_error_under_status_200_is_an_error() -> None:
    """GitHub answers so."""
    world = World(USUAL)
    world.token = {"_status": 200, "error": "bad_verification_code", "error_description": "expired"}
    with pytest.raises(TokenRequestFailed) as caught:
        world.obtain()
    assert caught.value.error == "bad_verification_code"


def stored(world: World, **changes: Any) -> TokenSet:
    world.token = {"access_token": "old", "token_type": "bearer", "expires_in": 60, "refresh_token": "r1"}
    found = world.obtain('Bearer scope="a b"')
    assert TokenSet.from_json(found.to_json()) == found
    return found


def test_a_refresh_keeps_scope_resource_and_method() -> None:
    """Some servers require the scope, others the resource, all the same authentication; only the stored facts are
    used."""
    world = World(USUAL)
    tokens = stored(world)
    world.documents, world.asked = {}, []
    world.token = {"access_token": "new", "token_type": "bearer"}
    fresh = run_flow(refresh_tokens(tokens, world.settings(), SERVER, now=2000.0), world)
    assert world.urls == [f"{ISSUER}/token"]
    assert world.form(f"{ISSUER}/token") == {
        "grant_type": "refresh_token",
        "refresh_token": "r1",
        "scope": "a b",
        "resource": SERVER,
        "client_id": "made",
    }
    assert (fresh.access_token, fresh.refresh_token, fresh.scope) == ("new", "r1", "a b")


@pytest.mark.parametrize("trouble", [{"_status": 503, "error": "server_error"}, OSError("gone")])
def test_a_refresh_that_fails_for_no_fault_of_its_own_is_tried_once_more(trouble: Any) -> None:
    """The server may have rotated the token already; only asking again finds out."""
    world = World(USUAL)
    tokens = stored(world)
    world.token = [trouble, {"access_token": "new", "token_type": "bearer", "refresh_token": "r2"}]
    fresh = run_flow(refresh_tokens(tokens, world.settings(), SERVER, now=2000.0), world)
    assert fresh.refresh_token == "r2"


def test_a_refresh_that_is_refused_is_not() -> None:
    """`invalid_grant` is an answer."""
    world = World(USUAL)
    tokens = stored(world)
    world.token = [{"error": "invalid_grant"}]
    with pytest.raises(TokenRequestFailed, match="invalid_grant"):
        run_flow(refresh_tokens(tokens, world.settings(), SERVER, now=2000.0), world)


def test_nothing_secret_is_in_a_repr_or_an_error() -> None:
    """They end up in logs and bug reports."""
    world = World(USUAL)
    tokens = stored(world)
    assert "old" not in repr(tokens)
    assert "r1" not in repr(tokens)
    world.token = [{"error": "invalid_grant", "error_description": "no"}]
    with pytest.raises(TokenRequestFailed) as caught:
        run_flow(refresh_tokens(tokens, world.settings(), SERVER, now=2000.0), world)
    assert "r1" not in str(caught.value)
    for step in world.asked:
        assert "the-code" not in repr(step)


# -- answers as real servers write them --------------------------------------------------------------------------------


def answered(status: int, headers: dict[str, str], body: bytes) -> TokenSet:
    """The tokens of a token endpoint that answers so."""
    world = World(USUAL)
    asked = world.__call__

    def answer(step: Step) -> Any:
        if isinstance(step, AuthRequest) and step.url.endswith("/token"):
            return AuthResponse(status, headers, body)
        return asked(step)

    flow = obtain_tokens(world.settings(), SERVER, None, now=1000.0)
    return run_flow(flow, answer)


FORM = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (201, {"content-type": "application/json"}, b'{"access_token":"t1","token_type":"bearer","scope":"a b"}'),
        (200, FORM, b"access_token=t1&scope=a+b&token_type=bearer&expires_in=60"),
        (201, FORM, b"access_token=t1&scope=a%20b&token_type=bearer"),
        (200, {"content-type": "text/plain"}, b"access_token=t1&scope=a%20b"),
        (200, {"content-type": "text/html"}, b'{"access_token":"t1","scope":"a b"}'),
    ],
)
def test_a_token_answer_may_be_a_form_or_say_created(status: int, headers: dict[str, str], body: bytes) -> None:
    """Some servers answer with a form whatever is asked for, others with 201."""
    tokens = answered(status, headers, body)
    assert (tokens.access_token, tokens.scope) == ("t1", "a b")


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"error=bad_verification_code&error_description=It+expired", "bad_verification_code"),
        (400, b"error=invalid_grant", "invalid_grant"),
        (200, b"<html>access_token=t1</html>", None),
        (200, b"access_token=&error=", None),
        (200, b"", None),
        (202, b"access_token=t1", None),
        (200, b"&".join(b"a%d=1" % number for number in range(200)) + b"&access_token=t1", None),
    ],
)
def test_a_form_that_refuses_is_a_refusal(status: int, body: bytes, error: str | None) -> None:
    """Also with status 200, as some servers send errors: it is a refusal and not a lost connection."""
    with pytest.raises(TokenRequestFailed) as refused:
        answered(status, FORM, body)
    assert refused.value.error == error
    if error is not None:
        assert refused.value.status == 400


# -- what was granted --------------------------------------------------------------------------------------------------


def test_a_refresh_asks_for_what_was_granted() -> None:
    """Less than was asked for, where the user or the server gave less: more is refused, and a new sign-in follows."""
    world = World(USUAL)
    tokens = replace(stored(world), scope="a")
    world.documents, world.asked = {}, []
    world.token = {"access_token": "new", "token_type": "bearer"}
    fresh = run_flow(refresh_tokens(tokens, world.settings(), SERVER, now=2000.0), world)
    assert world.form(f"{ISSUER}/token")["scope"] == "a"
    assert (fresh.scope, fresh.requested) == ("a", tokens.requested)


def test_tokens_of_a_client_with_a_private_key_are_revoked_after_a_restart() -> None:
    """The key is not stored: the program's own is used; without it the error names the missing key."""
    from ferrule.auth.jose import generate_key

    own = ClientIdentity("me", method="private_key_jwt", private_key=generate_key().as_dict(private=True))
    world = World({AS_URL: metadata(revocation_endpoint=f"{ISSUER}/revoke")})
    tokens = replace(stored(World(USUAL)), identity=replace(own, private_key=None))
    tokens = TokenSet.from_json(tokens.to_json()) or tokens
    world.documents[f"{ISSUER}/revoke"] = AuthResponse(200)
    settings = world.settings(AuthorizationCodeGrant(identity=own))
    assert run_flow(revoke_tokens(tokens, settings, SERVER, now=2000.0), world)
    sent = [dict(parse_qsl(step.body.decode())) for step in world.asked if step.url.endswith("/revoke")]
    assert [form["token_type_hint"] for form in sent] == ["refresh_token", "access_token"]
    assert all(form["client_assertion"] for form in sent)
    with pytest.raises(AuthError, match="private key"):
        run_flow(revoke_tokens(tokens, world.settings(), SERVER, now=2000.0), world)
