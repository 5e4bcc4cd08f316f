"""ferrule.transports.asgi.headers.forwarded, and who is believed."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Context, MCPServer
from ferrule.transports.asgi.headers.forwarded import forwarded_chain, forwarded_host, forwarded_prefix
from ferrule.transports.asgi.security import SecurityPolicy
from tests.transports.asgi.support import modern, modern_call


@pytest.mark.parametrize(
    ("headers", "host"),
    [
        ({}, None),
        ({"x-forwarded-host": "evil.com, mcp.example.com"}, "mcp.example.com"),
        ({"forwarded": "host=evil.com, for=1.2.3.4;host=mcp.example.com;proto=https"}, "mcp.example.com"),
        ({"forwarded": 'For="[2001:db8::1]:47"; Host="mcp.example.com:8443"'}, "mcp.example.com:8443"),
        ({"forwarded": "for=1.2.3.4"}, None),
        ({"forwarded": "garbage"}, None),
        ({"x-forwarded-host": "a", "forwarded": "host=b"}, "a"),
    ],
)
def test_the_nearest_proxy_names_the_host(headers: dict[str, str], host: str | None) -> None:
    """What stands before it in a list came from the client."""
    assert forwarded_host(headers) == host


@pytest.mark.parametrize(
    ("headers", "chain"),
    [
        ({}, []),
        ({"x-forwarded-for": "9.9.9.9, 10.0.0.1"}, ["10.0.0.1", "9.9.9.9"]),
        ({"x-forwarded-for": "9.9.9.9:1234, [2001:db8::1]:5, 2001:db8::2"}, ["2001:db8::2", "2001:db8::1", "9.9.9.9"]),
        ({"forwarded": 'for=9.9.9.9, for="[2001:db8::1]:80", for=_hidden'}, ["_hidden", "2001:db8::1", "9.9.9.9"]),
    ],
)
def test_addresses_come_nearest_first_and_without_ports(headers: dict[str, str], chain: list[str]) -> None:
    """In every spelling that proxies use."""
    assert forwarded_chain(headers) == chain


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("", ""),
        ("/tools/", "/tools"),
        ("/x, /tools", "/tools"),
        ("//evil.com", ""),
        ("https://evil.com", ""),
        ("/a?b", ""),
    ],
)
def test_a_prefix_is_a_path(given: str, taken: str) -> None:
    """Anything else would send a client somewhere else."""
    assert forwarded_prefix({"x-forwarded-prefix": given}) == taken


def test_the_client_is_the_last_one_that_no_trusted_proxy_is() -> None:
    """A client may write any list of its own in front."""
    policy = SecurityPolicy(trusted_proxies=["10.0.0.0/8"])
    headers = {"x-forwarded-for": "1.1.1.1, 9.9.9.9, 10.0.0.5"}
    assert policy.effective_client(headers, ("10.0.0.9", 1)) == "9.9.9.9"
    assert policy.effective_client(headers, ("8.8.8.8", 1)) is None
    assert policy.effective_client({}, ("10.0.0.9", 1)) is None
    assert policy.effective_client({"x-forwarded-for": "10.0.0.5"}, ("10.0.0.9", 1)) == "10.0.0.5"
    assert policy.effective_client({"x-forwarded-for": "9.9.9.9, unknown"}, ("10.0.0.9", 1)) is None
    forwarded = {"forwarded": "for=1.1.1.1, for=9.9.9.9"}
    assert policy.effective_client(forwarded, ("10.0.0.9", 1)) == "9.9.9.9"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("peer", "seen"), [("10.0.0.9", ("9.9.9.9", 0)), ("8.8.8.8", ("8.8.8.8", 50000))], ids=["trusted", "anybody"]
)
async def test_a_handler_sees_the_client_behind_a_trusted_proxy(peer: str, seen: Any) -> None:
    """So that a limit per address is not one for all."""
    app = MCPServer("x")
    found: list[Any] = []

    @app.tool
    async def who(ctx: Context) -> str:
        found.append(ctx.transport.client)  # type: ignore[attr-defined]
        return "ok"

    endpoint = app.asgi(allowed_hosts=["127.0.0.1"], trusted_proxies=["10.0.0.0/8"])
    for _ in range(2):
        call = modern_call(
            endpoint, modern(1, "tools/call", {"name": "who", "arguments": {}}), x_forwarded_for="9.9.9.9"
        )
        call.scope["client"] = (peer, 50000)
        assert (await call.run()).status == 200
    assert found == [seen] * 2
    await endpoint.aclose()
