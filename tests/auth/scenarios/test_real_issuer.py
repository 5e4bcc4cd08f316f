"""The flow against another implementation of an authorization server (npm ``oidc-provider``), with its log-in page."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client, Context, MCPServer
from ferrule.auth import AuthError, CallbackInteraction, DpopPolicy, JwtTokens, MemoryStorage, OAuth, ResourceServer
from tests.auth.support import Relay, serving
from tests.conftest import missing_peer

pytestmark = [pytest.mark.anyio, pytest.mark.peer]

REDIRECT_URI = "http://127.0.0.1:33418/callback"
PROGRAM = str(Path(__file__).with_name("oidc_provider.mjs"))
_HIDDEN = re.compile(r'<input type="hidden" name="prompt" value="(\w+)"')
_ACTION = re.compile(r'<form[^>]* action="([^"]+)"')


class _StaysHere(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Person:
    """A browser with cookies, and a user who fills in the forms."""

    def __init__(self) -> None:
        self.visits: list[str] = []
        self.pages: list[str] = []
        self._opener = urllib.request.build_opener(
            _StaysHere(), urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
        )

    async def visit(self, url: str) -> str:
        self.visits.append(url)
        return await asyncio.to_thread(self._walk, url)

    def _walk(self, url: str) -> str:
        data: bytes | None = None
        for _ in range(20):
            try:
                with self._opener.open(url, data, timeout=10) as response:
                    page = response.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    if error.code not in (302, 303):
                        raise AssertionError(error.read().decode()) from None
                    url, data = urllib.parse.urljoin(url, error.headers["location"]), None
                if url.startswith(REDIRECT_URI):
                    return url
                continue
            prompt, action = _HIDDEN.search(page), _ACTION.search(page)
            assert prompt is not None, page
            assert action is not None, page
            self.pages.append(prompt.group(1))
            url = urllib.parse.urljoin(url, action.group(1))
            data = urllib.parse.urlencode({"prompt": prompt.group(1), "login": "ada", "password": "x"}).encode()
        raise AssertionError("the pages never end")


@asynccontextmanager
async def real_issuer(node: tuple[str, Path], resource: str) -> AsyncIterator[str]:
    """The program, on a free port."""
    program, folder = node
    if not (folder / "node_modules" / "oidc-provider").is_dir():
        missing_peer("oidc-provider is not installed")
    process = await asyncio.create_subprocess_exec(
        program,
        PROGRAM,
        str(folder),
        resource,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("serving "), line
        yield line.split()[1]
    finally:
        process.stdin.close()
        async with asyncio.timeout(30):
            await process.wait()


@asynccontextmanager
async def world(node: tuple[str, Path], **options: Any) -> AsyncIterator[tuple[str, list[float]]]:
    """A protected server that takes the real issuer's tokens; its URL, and a clock that the client goes by."""
    ahead = [0.0]
    relay = Relay()
    async with serving(relay) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with real_issuer(node, url) as issuer:
            auth = ResourceServer(JwtTokens(issuer), resource=url, required_scopes=["read"], **options)
            app: MCPServer[Any] = MCPServer("real", auth=auth)

            @app.tool
            async def whoami(ctx: Context) -> str:
                return f"{ctx.principal.subject} {' '.join(sorted(ctx.principal.scopes))}"

            @app.tool(scopes=["write"])
            async def write() -> str:
                return "written"

            relay.app = endpoint = app.asgi(loopback=True)
            try:
                yield url, ahead
            finally:
                await endpoint.aclose()


async def test_sign_in_step_up_refresh_and_restart(peer_node: tuple[str, Path]) -> None:
    """Dynamic registration, PKCE, `resource`, `iss`, offline access and rotation with another implementation."""
    async with world(peer_node) as (url, ahead):
        person, storage = Person(), MemoryStorage()

        def oauth() -> OAuth:
            interaction = CallbackInteraction(REDIRECT_URI, person.visit)
            return OAuth(interaction=interaction, storage=storage, clock=lambda: time.time() + ahead[0])

        async with Client(url, auth=oauth(), proxy=None) as client:
            assert (await client.call_tool("whoami")).text == "ada read"
            assert person.pages == ["login", "consent"]
            assert (await client.call_tool("write")).text == "written"
            assert (await client.call_tool("whoami")).text == "ada read write"
            assert len(person.visits) == 2
            session: Any = client._sessions.connector.auth
            before = session.tokens
            assert before.refresh_token
            ahead[0] = 700.0
            await asyncio.gather(*(client.call_tool("whoami") for _ in range(20)))
            assert session.tokens.access_token != before.access_token
            assert session.tokens.refresh_token != before.refresh_token
        ahead[0] = 1400.0
        async with Client(url, auth=oauth(), proxy=None) as client:
            assert (await client.call_tool("whoami")).text == "ada read write"
            assert len(person.visits) == 2


async def test_bound_tokens(peer_node: tuple[str, Path]) -> None:
    """Proofs as another implementation checks them, and its `cnf` as ours reads it."""
    async with world(peer_node, dpop=DpopPolicy(is_required=True)) as (url, ahead):
        person = Person()
        auth = OAuth(interaction=CallbackInteraction(REDIRECT_URI, person.visit), clock=lambda: time.time() + ahead[0])
        async with Client(url, auth=auth, proxy=None) as client:
            assert (await client.call_tool("whoami")).text == "ada read"
            session: Any = client._sessions.connector.auth
            assert session.tokens.token_type == "dpop"


async def test_a_resource_that_the_issuer_does_not_know_is_its_no(peer_node: tuple[str, Path]) -> None:
    """The error in the redirect becomes an `AuthorizationDenied`."""
    relay = Relay()
    async with serving(relay) as port, real_issuer(peer_node, "https://other.example/mcp") as issuer:
        url = f"http://127.0.0.1:{port}/mcp"
        relay.app = endpoint = MCPServer("real", auth=ResourceServer(JwtTokens(issuer), resource=url)).asgi()
        interaction = CallbackInteraction(REDIRECT_URI, Person().visit)
        with pytest.raises(AuthError, match="denied"):
            await Client(url, auth=OAuth(interaction=interaction), proxy=None).connect()
        await endpoint.aclose()
