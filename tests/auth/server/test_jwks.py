"""The keys of an issuer: an issuer that is away, or answers with nonsense, makes no token bad."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from ferrule.auth import DemoIssuer, IntrospectedTokens, InvalidToken, JwtTokens
from ferrule.auth.http import AuthRequest, AuthResponse
from ferrule.auth.jose import generate_key, key_thumbprint, sign_jwt
from ferrule.auth.server.jwks import KeySource
from ferrule.auth.server.verifiers import VerifierUnavailable
from ferrule.testing import ManualClock
from ferrule.wire.codec import encode

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

ISSUER = "https://as.example"


class Document:
    """What is at the ``jwks_uri`` at the moment: a value, or an error."""

    def __init__(self, found: Any) -> None:
        self.found = found
        self.status = 200
        self.asked = 0
        self.gate: anyio.Event | None = None

    async def fetch(self, request: AuthRequest) -> AuthResponse:
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.found, Exception):
            raise self.found
        return AuthResponse(self.status, {}, encode(self.found))


def source(document: Document, clock: ManualClock, **options: Any) -> KeySource:
    keys = KeySource(ISSUER, jwks_uri=f"{ISSUER}/jwks", clock=clock, **options)
    keys.fetch = document.fetch
    return keys


@pytest.fixture
def issuer() -> DemoIssuer:
    return DemoIssuer(ISSUER)


def kid_of(issuer: DemoIssuer) -> str:
    return str(issuer.settings.key_set()["keys"][0]["kid"])


async def test_keys_that_cannot_be_fetched_make_no_token_invalid(issuer: DemoIssuer) -> None:
    """A client would discard a token that is refused as invalid, although the tokens are valid."""
    document = Document(OSError("away"))
    document.gate = anyio.Event()
    keys = source(document, ManualClock())
    seen: list[type[Exception]] = []

    async def find() -> None:
        try:
            await keys.find("ES256", kid_of(issuer))
        except Exception as error:
            seen.append(type(error))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(find)
        await anyio.wait_all_tasks_blocked()
        document.gate.set()
    assert seen == [VerifierUnavailable] * 10
    assert document.asked == 1


async def test_a_fetch_that_was_cancelled_makes_no_token_invalid(issuer: DemoIssuer) -> None:
    """One who waits for a new key goes away: the others, for whom nothing was found out, look again."""
    document, clock = Document(issuer.settings.key_set()), ManualClock()
    keys = source(document, clock)
    assert await keys.find("ES256", kid_of(issuer))
    clock.advance(20)
    document.found = {"keys": [{**issuer.settings.key_set()["keys"][0], "kid": "new"}]}
    document.gate = anyio.Event()
    found: list[int] = []

    async def find() -> None:
        found.append(len(await keys.find("ES256", "new")))

    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as first:
                first.start_soon(find)
                await anyio.wait_all_tasks_blocked()
                group.start_soon(find)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        document.gate.set()
    assert found == [1]


@pytest.mark.parametrize("error", [ValueError("port"), RuntimeError("closed"), anyio.EndOfStream()], ids=repr)
async def test_whatever_goes_wrong_with_asking_makes_no_token_invalid(error: Exception) -> None:
    """What keys and verdicts are fetched with may be the program's own, and fails in ways of its own."""
    document = Document(error)
    keys = source(document, ManualClock())
    with pytest.raises(VerifierUnavailable):
        await keys.find("ES256", "any")
    tokens = IntrospectedTokens(ISSUER, f"{ISSUER}/introspect", "id", "secret")
    tokens.fetch = document.fetch
    with pytest.raises(VerifierUnavailable):
        await tokens.verify("opaque", ["https://rs.example/mcp"])


NONSENSE: dict[str, tuple[int, Any]] = {
    "no keys": (200, {"keys": []}),
    "an error object": (200, {"error": "server_error"}),
    "keys of the wrong type": (200, {"keys": "none"}),
    "keys for encryption": (200, {"keys": [{"kty": "EC", "use": "enc"}]}),
    "no object": (200, ["keys"]),
    "unavailable": (503, {"keys": []}),
}


@pytest.mark.parametrize("case", NONSENSE)
async def test_good_keys_outlive_a_document_without_any(issuer: DemoIssuer, case: str) -> None:
    """For their stale time; then nothing can be judged, which is not the token's fault."""
    document, clock = Document(issuer.settings.key_set()), ManualClock()
    keys = source(document, clock, max_age_s=600, max_stale_s=3600)
    assert await keys.find("ES256", kid_of(issuer))
    document.status, document.found = NONSENSE[case]
    clock.advance(601)
    assert await keys.find("ES256", kid_of(issuer))
    clock.advance(3599)
    assert await keys.find("ES256", kid_of(issuer))
    clock.advance(1)
    for _ in range(2):  # the second one comes too soon to fetch again
        with pytest.raises(VerifierUnavailable):
            await keys.find("ES256", kid_of(issuer))
    document.status, document.found = 200, issuer.settings.key_set()
    clock.advance(20)
    assert await keys.find("ES256", kid_of(issuer))


async def test_an_unknown_key_is_judged_by_a_document_that_was_read(issuer: DemoIssuer) -> None:
    """The issuer may have signed with a new key: whether it publishes that one is not known while it is away."""
    document, clock = Document(issuer.settings.key_set()), ManualClock()
    keys = source(document, clock)
    assert await keys.find("ES256", kid_of(issuer))
    clock.advance(20)
    with pytest.raises(InvalidToken):
        await keys.find("ES256", "invented")
    document.found = OSError("away")
    clock.advance(20)
    for _ in range(3):
        with pytest.raises(VerifierUnavailable):
            await keys.find("ES256", "invented")
    assert document.asked == 3


@pytest.mark.parametrize(
    "bound",
    [
        {"x5t#S256": "abc"},
        {},
        {"jkt": 5},
        {"jkt": ""},
        {"jkt": "a", "x5t#S256": "b"},
        {"jwk": {}},
        "text",
        ["jkt"],
    ],
    ids=repr,
)
async def test_a_token_that_is_bound_in_another_way_is_refused(issuer: DemoIssuer, bound: Any) -> None:
    """Who stole it could use it like a bearer token: what it is bound to cannot be seen from here."""
    resource = "https://rs.example/mcp"
    verifier = JwtTokens(ISSUER, jwks=issuer.settings.key_set())
    with pytest.raises(InvalidToken, match="bound to something else"):
        await verifier.verify(issuer.mint(resource, cnf=bound), [resource])
    asking = IntrospectedTokens(ISSUER, f"{ISSUER}/introspect", "rs", "secret")
    asking.fetch = Document({"active": True, "aud": resource, "sub": "ada", "cnf": bound}).fetch
    with pytest.raises(InvalidToken, match="bound to something else"):
        await asking.verify("opaque", [resource])


@pytest.mark.parametrize("name", ["exp", "nbf"])
@pytest.mark.parametrize("value", ["soon", "", -1, True, [], 10**400, "inf", "nan"], ids=lambda value: repr(value)[:9])
async def test_an_invalid_introspected_time_is_refused(name: str, value: Any) -> None:
    """A token whose end cannot be read would be one without end."""
    tokens = IntrospectedTokens(ISSUER, f"{ISSUER}/introspect", "rs", "secret", clock=lambda: 1000.0)
    tokens.fetch = Document({"active": True, "aud": "x", name: value}).fetch
    with pytest.raises(InvalidToken):
        await tokens.verify("opaque", ["x"])


async def test_an_introspected_end_may_be_in_quotation_marks() -> None:
    """As some servers write all numbers."""
    tokens = IntrospectedTokens(ISSUER, f"{ISSUER}/introspect", "rs", "secret", clock=lambda: 1000.0)
    document = Document({"active": True, "aud": "x", "exp": "1001"})
    tokens.fetch = document.fetch
    assert (await tokens.verify("opaque", ["x"])).expires_at == 1001.0
    document.found["exp"] = "1000"
    with pytest.raises(InvalidToken, match="expired"):
        await tokens.verify("opaque", ["x"])


async def test_a_key_that_an_issuer_does_not_publish_signs_nothing(issuer: DemoIssuer) -> None:
    """The other half: fixed keys need no fetching, and what they do not cover is refused."""
    other = generate_key()
    claims = {"iss": ISSUER, "aud": "x", "exp": 4_000_000_000}
    token = sign_jwt({"alg": "ES256", "typ": "at+jwt", "kid": key_thumbprint(other)}, claims, other)
    with pytest.raises(InvalidToken, match="does not publish"):
        await JwtTokens(ISSUER, jwks=issuer.settings.key_set()).verify(token, ["x"])


async def test_keys_that_have_moved_are_looked_for_again(issuer: DemoIssuer, caplog: pytest.LogCaptureFixture) -> None:
    """Where they are was discovered once; it is discovered anew when they are not there any more."""
    places = {f"{ISSUER}/old": issuer.settings.key_set()}
    named = [f"{ISSUER}/old"]

    async def fetch(request: AuthRequest) -> AuthResponse:
        if request.url.endswith("/.well-known/oauth-authorization-server"):
            return AuthResponse(200, {}, encode({"issuer": f"{ISSUER}/", "jwks_uri": named[0]}))
        return AuthResponse(200, {}, encode(places[request.url])) if request.url in places else AuthResponse(404)

    clock = ManualClock()
    keys = KeySource(ISSUER, clock=clock, max_age_s=600)
    keys.fetch = fetch
    assert await keys.find("ES256", kid_of(issuer))
    assert f"names itself {ISSUER}/" in caplog.text  # its tokens will say so, and are compared character for character
    named[0] = f"{ISSUER}/new"
    places[f"{ISSUER}/new"] = places.pop(f"{ISSUER}/old")
    for _ in range(2):
        clock.advance(700)
        assert await keys.find("ES256", kid_of(issuer))
    clock.advance(500)
    assert keys._age_s() == 500


async def test_a_fetch_that_was_cancelled_is_made_by_those_who_wait_for_it(issuer: DemoIssuer) -> None:
    """The client of the first request has gone; the requests of others must not fail for that."""
    document = Document(issuer.settings.key_set())
    document.gate = anyio.Event()
    keys = source(document, ManualClock())
    found: list[int] = []

    async def find() -> None:
        found.append(len(await keys.find("ES256", kid_of(issuer))))

    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as first:
            async with anyio.create_task_group() as inner:
                inner.start_soon(find)
                await anyio.wait_all_tasks_blocked()
                for _ in range(3):
                    group.start_soon(find)
                await anyio.wait_all_tasks_blocked()
                first.cancel()
        await anyio.wait_all_tasks_blocked()
        document.gate.set()
    assert (found, document.asked) == ([1, 1, 1], 2)
