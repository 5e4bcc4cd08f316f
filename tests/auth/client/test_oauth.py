"""`OAuth` with concurrent requests: one refresh for all, no task waits for ever, no token is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from ferrule import Client, Context, MCPError, MCPServer
from ferrule.auth import (
    AuthError,
    CallbackInteraction,
    ClientCredentials,
    DemoIssuer,
    DpopPolicy,
    EncryptedFileStorage,
    JwtTokens,
    MemoryProvider,
    MemoryStorage,
    OAuth,
    RegisteredClient,
    ResourceServer,
)
from ferrule.auth.errors import RegistrationFailed, ScopeRefused, TokenRequestFailed
from ferrule.auth.issuer.settings import Reply, json_reply
from ferrule.transports.http.aiohttp_backend import AiohttpClient
from ferrule.transports.http.backend import HttpClientOptions, HttpClientRequest
from tests.auth.support import Relay, serving
from tests.loop_clock import LoopClock

pytestmark = pytest.mark.anyio

REDIRECT_URI = "http://127.0.0.1:33418/callback"
MODES = ("legacy", "2026-07-28")


class User:
    """Goes where the client sends them, and comes back."""

    def __init__(self) -> None:
        self.visits: list[dict[str, list[str]]] = []
        self.gate: asyncio.Event | None = None

    async def visit(self, url: str) -> str:
        self.visits.append(parse_qs(urlsplit(url).query))
        if self.gate is not None:
            await self.gate.wait()
        http = AiohttpClient(HttpClientOptions(proxy=None))
        response = await http.open(HttpClientRequest("GET", url))
        await response.aclose()
        await http.aclose()
        return response.headers["location"]

    def scopes(self, number: int) -> set[str]:
        return set(self.visits[number].get("scope", [""])[0].split())


class Troubled(DemoIssuer):
    """An issuer whose token endpoint can be made to fail, and to wait."""

    trouble: list[int]
    gate: asyncio.Event | None
    reached: asyncio.Event

    async def answer(self, method: str, path: str, query: str, headers: dict[str, str], body: bytes) -> Reply:
        if path.endswith("/token"):
            self.reached.set()
            if self.gate is not None:
                await self.gate.wait()
            if self.trouble:
                return json_reply({"error": "server_error"}, self.trouble.pop(0))
        return await super().answer(method, path, query, headers, body)


@dataclass
class World:
    """An issuer, a server, a clock that both sides share, and a user."""

    url: str
    issuer: Troubled
    now: list[float]
    server_relay: Relay
    issuers: list[str]
    user: User = field(default_factory=User)
    storage: Any = field(default_factory=MemoryStorage)

    def clock(self) -> float:
        return self.now[0]

    def oauth(self, **options: Any) -> OAuth:
        options.setdefault("interaction", CallbackInteraction(REDIRECT_URI, self.user.visit))
        given: dict[str, Any] = {"storage": self.storage, "clock": self.clock, **options}
        return OAuth(**given)

    def client(self, mode: str = "2026-07-28", auth: Any = None, **options: Any) -> Client:
        return Client(self.url, auth=auth or self.oauth(), mode=mode, proxy=None, **options)

    def refreshes(self) -> int:
        return self.issuer.log.count("POST /token")


def make_app(world: World, resource_server: ResourceServer) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("oauth", auth=resource_server)

    @app.tool
    async def whoami(ctx: Context) -> str:
        return f"{ctx.principal.issuer} {ctx.principal.subject}"

    @app.tool(scopes=["write"])
    async def write() -> str:
        return "written"

    return app


@asynccontextmanager
async def world(*, dpop: DpopPolicy | None = None, **options: Any) -> AsyncIterator[World]:
    now = [1_800_000_000.0]
    issuer_relay, server_relay = Relay(), Relay()
    async with serving(issuer_relay) as issuer_port, serving(server_relay) as server_port:
        issuer_url, url = f"http://127.0.0.1:{issuer_port}", f"http://127.0.0.1:{server_port}/mcp"
        issuer = Troubled(
            issuer_url, MemoryProvider(clock=lambda: now[0]), clock=lambda: now[0], access_ttl_s=600.0, **options
        )
        issuer.trouble, issuer.gate, issuer.reached = [], None, asyncio.Event()
        issuer_relay.app = issuer
        made = World(url, issuer, now, server_relay, [issuer_url])
        resource_server = ResourceServer(
            JwtTokens(issuer_url, clock=made.clock, leeway_s=0),
            resource=url,
            required_scopes=["read"],
            dpop=dpop,
            clock=made.clock,
        )
        endpoint = make_app(made, resource_server).asgi(loopback=True)
        server_relay.app = endpoint
        try:
            yield made
        finally:
            await endpoint.aclose()


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_signs_in_once_and_is_known(mode: str) -> None:
    """Both eras; many calls, one visit."""
    async with world() as w, w.client(mode) as client:
        answers = await asyncio.gather(*(client.call_tool("whoami") for _ in range(10)))
        assert {answer.text for answer in answers} == {f"{w.issuers[0]} demo-user"}
        assert len(w.user.visits) == 1


@pytest.mark.parametrize("mode", MODES)
async def test_fifty_calls_at_the_moment_of_expiry_cause_one_refresh(mode: str) -> None:
    """None of them fails; in the legacy era with an open GET stream."""
    async with world() as w, w.client(mode) as client:
        await client.call_tool("whoami")
        before = w.refreshes()
        w.now[0] += 601
        await asyncio.gather(*(client.call_tool("whoami") for _ in range(50)))
        assert w.refreshes() == before + 1
        assert len(w.user.visits) == 1


async def test_a_token_is_renewed_before_it_ends() -> None:
    """So that no call has to be refused first."""
    async with world() as w, w.client() as client:
        await client.call_tool("whoami")
        before = w.refreshes()
        w.now[0] += 560
        await client.call_tool("whoami")
        assert w.refreshes() == before
        w.now[0] += 15
        await client.call_tool("whoami")
        assert w.refreshes() == before + 1


async def test_calls_that_are_refused_together_cause_one_refresh() -> None:
    """The server's clock is ahead, or the token was revoked: 401 for all at once."""
    async with world() as w, w.client(auth=w.oauth(clock=lambda: 1_800_000_000.0)) as client:
        await client.call_tool("whoami")
        before = w.refreshes()
        w.now[0] += 601  # the client does not notice
        await asyncio.gather(*(client.call_tool("whoami") for _ in range(20)))
        assert w.refreshes() == before + 1


@pytest.mark.parametrize("trouble", [[503], [503, 503], [429, 500]])
async def test_a_refresh_that_fails_recovers(trouble: list[int]) -> None:
    """Once is not noticed; twice fails the calls that wait for it and not the next one. The user is not asked."""
    async with world() as w, w.client() as client:
        await client.call_tool("whoami")
        w.now[0] += 601
        w.issuer.trouble = list(trouble)
        if len(trouble) > 1:
            outcomes = await asyncio.gather(*(client.call_tool("whoami") for _ in range(5)), return_exceptions=True)
            assert all(isinstance(outcome, TokenRequestFailed) for outcome in outcomes)
        assert (await client.call_tool("whoami")).text.endswith("demo-user")
        assert len(w.user.visits) == 1


async def test_trouble_before_the_end_is_no_trouble() -> None:
    """The old token is still valid, so the call uses it."""
    async with world() as w, w.client() as client:
        await client.call_tool("whoami")
        w.now[0] += 590
        w.issuer.trouble = [503] * 8
        await asyncio.gather(*(client.call_tool("whoami") for _ in range(5)))
        assert len(w.issuer.trouble) == 6
        assert len(w.user.visits) == 1


async def test_a_refresh_token_that_is_dead_leads_to_a_new_sign_in() -> None:
    """Revoked, or its family ended: the user is asked, with the scopes that were granted before."""
    async with world() as w, w.client() as client:
        await client.call_tool("write")
        w.now[0] += 601
        w.issuer.settings.provider._records.clear()  # type: ignore[attr-defined]
        await client.call_tool("whoami")
        assert w.user.scopes(2) >= {"read", "write"}
        assert len(w.user.visits) == 3


async def test_a_cancelled_caller_loses_no_token_and_leaves_no_lock() -> None:
    """The refresh was sent: its answer holds the only good refresh token from now on."""
    async with world(grace_s=0.0) as w, w.client() as client:
        await client.call_tool("whoami")
        w.now[0] += 601
        w.issuer.gate = asyncio.Event()
        w.issuer.reached.clear()
        call = asyncio.ensure_future(client.call_tool("whoami"))
        await w.issuer.reached.wait()
        call.cancel()
        await asyncio.sleep(0)
        w.issuer.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        before = w.refreshes()
        assert (await client.call_tool("whoami")).text.endswith("demo-user")
        assert w.refreshes() == before
        assert len(w.user.visits) == 1


async def test_when_the_one_who_asks_the_user_is_cancelled_another_one_does() -> None:
    """Waiting tasks must not wait for a task that has ended (py#3382)."""
    async with world() as w:
        w.user.gate = asyncio.Event()
        client = w.client()
        first = asyncio.ensure_future(client.connect())
        while not w.user.visits:
            await asyncio.sleep(0.01)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        w.user.gate.set()
        await client.connect()
        assert (await client.call_tool("whoami")).text.endswith("demo-user")
        await client.aclose()


async def test_the_users_time_is_not_the_calls_time() -> None:
    """A consent takes minutes; the call's time-out bounds the server, not the person."""
    async with world() as w:
        clock = LoopClock()
        w.user.gate = asyncio.Event()
        client = w.client(timeout_s=2, connect_timeout_s=2, probe_timeout_s=2)
        connecting = asyncio.ensure_future(client.connect())
        while not w.user.visits:
            await asyncio.sleep(0.01)
        # Less than the idle connections of client and server are kept.
        await clock.advance(3)
        w.user.gate.set()
        await connecting
        await client.aclose()


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_another_process_goes_on_where_the_last_one_ended(kind: str, tmp_path: Any) -> None:
    """Nothing but the storage is needed, also when the token has expired meanwhile."""
    async with world() as w:
        w.storage = MemoryStorage() if kind == "memory" else EncryptedFileStorage(tmp_path)
        async with w.client() as client:
            await client.call_tool("whoami")
        if kind == "file":
            w.storage = EncryptedFileStorage(tmp_path)
        w.now[0] += 601
        w.issuer.log.clear()
        async with w.client() as client:
            await client.call_tool("whoami")
        assert w.issuer.log == ["POST /token"]
        assert len(w.user.visits) == 1


async def test_two_processes_share_one_refresh(tmp_path: Any) -> None:
    """The second finds the new tokens in storage; without grace a second refresh would end both."""
    async with world(grace_s=0.0) as w:
        w.storage = EncryptedFileStorage(tmp_path, key=bytes(32))
        async with w.client() as one:
            await one.call_tool("whoami")
            other_storage = EncryptedFileStorage(tmp_path, key=bytes(32))
            async with w.client(auth=w.oauth(storage=other_storage)) as other:
                await other.call_tool("whoami")
                before = w.refreshes()
                w.now[0] += 601
                await asyncio.gather(*(client.call_tool("whoami") for client in (one, other) * 10))
                assert w.refreshes() == before + 1
                assert len(w.user.visits) == 1


async def test_a_process_that_ends_between_refresh_and_store_is_not_locked_out() -> None:
    """The helper's grace window: the old refresh token works a little longer."""
    async with world() as w:
        async with w.client() as client:
            await client.call_tool("whoami")
        kept = w.storage.entries()
        w.now[0] += 601
        async with w.client() as client:
            await client.call_tool("whoami")
        for key, value in kept.items():
            await w.storage.set(key, value)  # as if the new ones had never been stored
        async with w.client() as client:
            await client.call_tool("whoami")
        assert len(w.user.visits) == 1


@pytest.mark.parametrize("mode", MODES)
async def test_a_step_up_asks_for_the_union_and_is_kept(mode: str) -> None:
    """403 in the middle of a session: one visit more, both scopes, and the call is made again."""
    async with world() as w, w.client(mode) as client:
        assert (await client.call_tool("whoami")).text
        answers = await asyncio.gather(*(client.call_tool("write") for _ in range(5)))
        assert {answer.text for answer in answers} == {"written"}
        assert w.user.scopes(1) == {"read", "write"}
        assert len(w.user.visits) == 2


async def test_a_step_up_that_does_not_help_ends() -> None:
    """The issuer grants less than was asked for: the user is not asked for ever."""
    async with world() as w, w.client() as client:
        await client.call_tool("whoami")
        sign = w.issuer.settings.sign_access_token
        w.issuer.settings = Stingy(w.issuer.settings, sign)  # type: ignore[assignment]
        for _ in range(3):
            with pytest.raises(ScopeRefused, match="write"):
                await client.call_tool("write")
        assert len(w.user.visits) == 3


class Stingy:
    """Settings that never grant `write`."""

    def __init__(self, settings: Any, sign: Any) -> None:
        self._settings = settings
        self._sign = sign

    def __getattr__(self, name: str) -> Any:
        return getattr(self._settings, name)

    def sign_access_token(self, claims: Any) -> str:
        return str(self._sign({**claims, "scope": "read"}))


async def test_a_server_that_moves_to_another_issuer_gets_new_credentials_there() -> None:
    """And the old client id, its secret and the refresh token never reach the new one."""
    async with world() as w, w.client() as client:
        await client.call_tool("whoami")
        relay = Relay()
        async with serving(relay) as port:
            issuer_url = f"http://127.0.0.1:{port}"
            issuer = DemoIssuer(issuer_url, MemoryProvider(clock=w.clock), clock=w.clock)
            relay.app = issuer
            moved = ResourceServer(
                JwtTokens(issuer_url, clock=w.clock), resource=w.url, required_scopes=["read"], clock=w.clock
            )
            endpoint = make_app(w, moved).asgi(loopback=True)
            w.server_relay.app = endpoint
            tokens_before = w.refreshes()
            assert (await client.call_tool("whoami")).text == f"{issuer_url} demo-user"
            assert w.refreshes() == tokens_before
            assert "POST /register" in issuer.log
            await endpoint.aclose()


async def test_given_credentials_do_not_follow_a_server_to_another_issuer() -> None:
    """An attacker that takes over a server must not get the secrets of its clients."""
    async with world() as w:
        client_of = RegisteredClient("me", "secret", grants=("client_credentials",), method="client_secret_basic")
        await w.issuer.settings.provider.save_client(client_of)
        auth = ClientCredentials("me", "secret", storage=w.storage, clock=w.clock)
        async with w.client(auth=auth) as client:
            assert (await client.call_tool("whoami")).text.endswith(" me")
            relay = Relay()
            async with serving(relay) as port:
                issuer = DemoIssuer(f"http://127.0.0.1:{port}", clock=w.clock)
                relay.app = issuer
                moved = ResourceServer(JwtTokens(issuer.settings.issuer), resource=w.url, clock=w.clock)
                endpoint = make_app(w, moved).asgi(loopback=True)
                w.server_relay.app = endpoint
                with pytest.raises(RegistrationFailed, match="belong to"):
                    await client.call_tool("whoami")
                assert "POST /token" not in issuer.log
                await endpoint.aclose()


async def test_a_token_that_is_refused_as_soon_as_it_is_given_ends_the_matter() -> None:
    """Asking the user again would give the same token again."""
    async with world() as w:
        sign = w.issuer.settings.sign_access_token
        w.issuer.settings = Misaddressed(w.issuer.settings, sign)  # type: ignore[assignment]
        with pytest.raises(AuthError, match="refuses the token"):
            await w.client().connect()
        assert len(w.user.visits) == 1


class Misaddressed(Stingy):
    """Settings that issue tokens for another audience."""

    def sign_access_token(self, claims: Any) -> str:
        return str(self._sign({**claims, "aud": "https://somebody.else.example"}))


@pytest.mark.parametrize("needs_nonce", [False, True])
@pytest.mark.parametrize("mode", MODES)
async def test_bound_tokens_are_used_where_the_server_wants_them(mode: str, needs_nonce: bool) -> None:
    """The resource's metadata demand it; refresh, restart and GET stream included."""
    now = lambda: 1_800_000_000.0  # noqa: E731
    policy = DpopPolicy(is_required=True, needs_nonce=needs_nonce, window_s=10_000.0, clock=now)
    async with world(dpop=policy) as w:
        async with w.client(mode) as client:
            assert (await client.call_tool("whoami")).text
            w.now[0] += 601
            await asyncio.gather(*(client.call_tool("whoami") for _ in range(10)))
        async with w.client(mode) as client:
            await client.call_tool("write")
        assert len(w.user.visits) == 2


async def test_signing_out_forgets_and_revokes() -> None:
    """The refresh token is worth nothing afterwards, and storage is empty of tokens."""
    async with world() as w:
        auth = w.oauth()
        async with w.client(auth=auth) as client:
            await client.call_tool("whoami")
            session: Any = client._sessions.connector.auth
            await session.sign_out()
            assert session.tokens is None
            assert "POST /revoke" in w.issuer.log
            await client.call_tool("whoami")
            assert len(w.user.visits) == 2


async def test_calls_without_a_token_ask_the_user_once() -> None:
    """However many are refused together, one page is opened."""
    async with world() as w, w.client() as client:
        session: Any = client._sessions.connector.auth
        await session.sign_out()
        await asyncio.gather(*(client.call_tool("whoami") for _ in range(10)))
        assert len(w.user.visits) == 2


async def test_what_was_cached_for_one_user_is_not_shown_to_the_next() -> None:
    """A new sign-in may be another person's."""
    async with world() as w, w.client() as client:
        await client.list_tools()
        session: Any = client._sessions.connector.auth
        changes = dict(client.cache._changes)
        await session.sign_out()
        await client.call_tool("whoami")
        assert client.cache._changes != changes


async def test_no_secret_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """No token, code, verifier or secret is logged at any level."""
    caplog.set_level(logging.DEBUG)
    async with world() as w, w.client("legacy") as client:
        await client.call_tool("write")
        w.now[0] += 601
        w.issuer.trouble = [503]
        await client.call_tool("whoami")
        texts = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("ferrule"))
        secrets = [value for text in w.storage.entries().values() for value in _secrets(text)]
        assert secrets
        assert not [secret for secret in secrets if secret in texts]


def _secrets(text: str) -> list[str]:
    from ferrule.auth.client.tokens import TokenSet

    tokens = TokenSet.from_json(text)
    return [] if tokens is None else [tokens.access_token, tokens.refresh_token or "-"]


async def test_a_token_never_leaves_its_origin() -> None:
    """Also if the program requests a header for another origin."""
    async with world() as w, w.client() as client:
        await client.call_tool("whoami")
        session: Any = client._sessions.connector.auth
        assert await session.headers(HttpClientRequest("POST", w.url))
        other = w.url.replace("127.0.0.1", "localhost")
        assert await session.headers(HttpClientRequest("POST", other)) == {}
        assert await session.headers(HttpClientRequest("POST", w.url.replace("/mcp", "@evil.example/mcp"))) == {}


async def test_the_word_and_the_token_are_enough() -> None:
    """``auth="oauth"`` makes an `OAuth`; any other text is a bearer token."""
    async with world() as w:
        assert Client(w.url, auth="oauth")._sessions.connector.auth is not None
        token = w.issuer.mint(w.url, scope="read", client_id="x")
        async with Client(w.url, auth=token, proxy=None) as client:
            assert (await client.call_tool("whoami")).text.endswith("demo-user")


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_a_client_without_credentials_gets_an_error_that_names_the_option(mode: str) -> None:
    """Where to sign in is in the metadata that the challenge names."""
    async with world() as w:
        with pytest.raises(MCPError, match="access token") as caught:
            await Client(w.url, mode=mode, proxy=None).connect()
        said = str(caught.value)
        assert 'auth="oauth"' in said
        assert w.issuers[0] in said
        assert said.count("auth=:") == 1
        with pytest.raises(MCPError, match="token") as caught:  # it has credentials, only no good ones
            await Client(w.url, mode=mode, proxy=None, headers={"Authorization": "Bearer x"}).connect()
        assert "auth=" not in str(caught.value)


async def test_an_open_get_stream_stands_in_no_calls_way() -> None:
    """A stored token that holds, a GET stream held open, calls, then the expiry with calls under way."""
    async with world() as w:
        async with w.client("legacy") as client:
            await client.call_tool("whoami")
        async with w.client("legacy") as client:
            link: Any = client.session.channel
            await link.wait_listening(5)
            assert link._listening is not None
            async with asyncio.timeout(30):
                await asyncio.gather(*(client.call_tool("whoami") for _ in range(5)))
                before = w.refreshes()
                w.now[0] += 601
                await asyncio.gather(*(client.call_tool("whoami") for _ in range(5)))
            assert w.refreshes() == before + 1
            assert link._listening is not None
            session: Any = client._sessions.connector.auth
            assert session._shared_work is None


async def test_signing_out_is_not_undone_by_a_refresh() -> None:
    """The refreshed tokens are revoked and not stored; the next call signs in again."""
    async with world() as w, w.client() as client:
        await client.call_tool("whoami")
        session: Any = client._sessions.connector.auth
        w.now[0] += 601
        w.issuer.gate = asyncio.Event()
        w.issuer.reached.clear()
        call = asyncio.ensure_future(client.call_tool("whoami"))
        await w.issuer.reached.wait()
        w.user.gate = asyncio.Event()  # the call goes on to a new sign-in, which is not what this is about
        leaving = asyncio.ensure_future(session.sign_out())
        await asyncio.sleep(0)
        assert session.tokens is None
        w.issuer.gate.set()
        await leaving
        assert session.tokens is None
        assert not _secrets_of(w.storage)
        assert w.issuer.log.count("POST /revoke") == 4  # both tokens of the old pair and of the new one
        call.cancel()
        await asyncio.wait([call])


async def test_signing_out_ends_a_sign_in() -> None:
    """The user said so after it had begun."""
    async with world() as w:
        client = w.client()
        w.user.gate = asyncio.Event()
        opening = asyncio.ensure_future(client.connect())
        while not w.user.visits:
            await asyncio.sleep(0.001)
        session: Any = client._sessions.connector.auth
        await session.sign_out()
        w.user.gate.set()
        with pytest.raises(AuthError, match="Signed out"):
            await opening
        assert session.tokens is None
        assert not _secrets_of(w.storage)
        assert "POST /revoke" in w.issuer.log
        await client.aclose()


def _secrets_of(storage: MemoryStorage) -> list[str]:
    return [secret for text in storage.entries().values() for secret in _secrets(text)]


async def test_a_user_who_grants_less_is_asked_once() -> None:
    """A refresh requests the granted scopes; a request for all would be refused, and cause a second sign-in."""

    class Narrow(MemoryProvider):
        async def put(self, key: str, record: dict[str, Any], *, ttl_s: float) -> None:
            if key.startswith("code "):
                record = {**record, "scopes": ["read"]}
            await super().put(key, record, ttl_s=ttl_s)

    async with world() as w:
        w.issuer.settings.provider = Narrow(clock=w.clock)
        async with w.client(auth=w.oauth(scopes="read write")) as client:
            await client.call_tool("whoami")
            for _ in range(3):
                w.now[0] += 601
                await client.call_tool("whoami")
            assert len(w.user.visits) == 1
            assert w.user.scopes(0) == {"read", "write"}


def test_a_misspelt_option_is_refused_with_the_one_that_was_meant() -> None:
    """The options of the usual grant are carried in one value, which takes no others."""
    with pytest.raises(TypeError, match=r"OAuth has no option 'client_uid'; did you mean 'client_id'\?"):
        OAuth(client_uid="a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_a_secret_needs_its_client_id_with_another_grant_too() -> None:
    """Credentials that belong to nothing are a mistake, also where they would not be used."""
    with pytest.raises(ValueError, match="belong to a client_id"):
        OAuth(client_secret="s", grant=OAuth().grant)
