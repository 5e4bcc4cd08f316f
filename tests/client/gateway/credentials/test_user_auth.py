"""A caller's token is exchanged, or passed on where that was said; never another caller's."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

import anyio
import pytest

from ferrule import MCPError
from ferrule.client.gateway.credentials.user_auth import ExchangedToken, PassedOnToken, TokenExchange
from tests.auth.support import serving
from tests.client.gateway.credentials.support import front

pytestmark = pytest.mark.anyio


class Exchanger:
    """A token endpoint of RFC 8693 that mints a token for the subject of the one it gets."""

    def __init__(self) -> None:
        self.requests: list[dict[str, str]] = []
        self.mint: Any = None
        self.lifetime_s = 300

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        fields = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        headers = dict(scope["headers"])
        self.requests.append({**fields, "authorization": headers.get(b"authorization", b"").decode()})
        subject = fields["subject_token"].removeprefix("token-of-")
        status, answer = 200, {"access_token": "", "token_type": "Bearer", "expires_in": self.lifetime_s}
        if subject == "bob" and fields.get("scope") == "none-for-bob":
            status, answer = 400, {"error": "invalid_target"}
        else:
            answer["access_token"] = self.mint(subject)
        made = json.dumps(answer).encode()
        start = {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]}
        await send(start)
        await send({"type": "http.response.body", "body": made})


async def test_tokens_are_exchanged_once_for_each_caller() -> None:
    """With the members of the RFC; calls side by side share one exchange, and each caller is itself behind."""
    exchanger = Exchanger()
    async with serving(exchanger) as port:
        exchange = TokenExchange(f"http://127.0.0.1:{port}/token", client_id="gw", client_secret="s", scopes=["mcp"])
        async with front(make_auth=lambda key, context, server: ExchangedToken(exchange)) as gateway:
            exchanger.mint = lambda subject: gateway.behind.token(sub=f"{subject}@files")
            async with gateway.client("ada") as ada, gateway.client("bob") as bob:
                said: dict[str, set[str]] = {"ada": set(), "bob": set()}

                async def ask(name: str, client: Any) -> None:
                    for _ in range(4):
                        said[name].add((await client.call_tool("files_whoami")).text.partition(" ")[0])

                async with anyio.create_task_group() as group:
                    for _ in range(2):
                        group.start_soon(ask, "ada", ada)
                        group.start_soon(ask, "bob", bob)
            assert said == {"ada": {"ada@files"}, "bob": {"bob@files"}}
            sent = [request["subject_token"] for request in exchanger.requests]
            assert sorted(set(sent)) == ["token-of-ada", "token-of-bob"]
            first = exchanger.requests[0]
            assert first["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
            assert first["subject_token_type"] == "urn:ietf:params:oauth:token-type:access_token"
            assert first["resource"] == gateway.behind.url
            assert first["scope"] == "mcp"
            assert first["authorization"].startswith("Basic ")


async def test_a_refused_exchange_is_the_callers_own_failure() -> None:
    """Without words of the token endpoint, and others are served."""
    exchanger = Exchanger()
    async with serving(exchanger) as port:
        exchange = TokenExchange(f"http://127.0.0.1:{port}/token", scopes=["none-for-bob"])
        async with front(make_auth=lambda key, context, server: ExchangedToken(exchange)) as gateway:
            exchanger.mint = lambda subject: gateway.behind.token(sub=f"{subject}@files")
            async with gateway.client("ada") as ada, gateway.client("bob") as bob:
                with pytest.raises(MCPError, match="No credential of yours for 'files' can be obtained") as refused:
                    await bob.call_tool("files_whoami")
                assert "invalid_target" not in str(refused.value)
                assert (await ada.call_tool("files_whoami")).text.startswith("ada@files ")


async def test_a_token_is_passed_on_only_where_that_was_said() -> None:
    """Each caller's own; the server behind refuses these here, because they are no tokens for it."""
    seen: list[str] = []

    async with front(make_auth=lambda key, context, server: PassedOnToken()) as gateway:
        authenticate = gateway.behind.resource_server.authenticate

        async def watched(facts: Any) -> Any:
            seen.append(facts.headers.get("authorization", ""))
            return await authenticate(facts)

        gateway.behind.resource_server.authenticate = watched  # type: ignore[method-assign]
        async with gateway.client("ada") as ada:
            with pytest.raises(MCPError):
                await ada.call_tool("files_whoami")
    assert seen
    assert set(seen) == {"Bearer token-of-ada"}
