"""Tokens of the packages with which Django projects make them: accepted, and refused, in both eras."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from typing import Any

import aiohttp
import pytest

from ferrule import Client
from ferrule.auth.challenges import parse_challenges
from tests.django.access.example_sites import ExampleSite
from tests.transports.asgi.support import LEGACY, META

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.peer,
    pytest.mark.parametrize("site", ["token", "simplejwt", "knox", "oauth_toolkit"], indirect=True, scope="module"),
]

METHODS: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "auto": (
        "tools/list",
        {"_meta": META},
        {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"},
    ),
    LEGACY: (
        "initialize",
        {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
        {},
    ),
}
"""Per era: the first request of a client."""


async def posted(
    site: ExampleSite, method: str, params: Any, headers: dict[str, str]
) -> tuple[int, Any, str, str | None]:
    """Send a request; return status, message, challenges and session of the answer."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    given = {"accept": "application/json, text/event-stream", **headers}
    async with aiohttp.ClientSession() as http, http.post(site.endpoint, json=body, headers=given) as answer:
        challenges = ", ".join(answer.headers.getall("www-authenticate", []))
        text = await answer.text()
        return answer.status, json.loads(text) if text else None, challenges, answer.headers.get("mcp-session-id")


async def first(site: ExampleSite, mode: str, authorization: str | None) -> tuple[int, Any, str, str | None]:
    """Send the first request of an era."""
    method, params, headers = METHODS[mode]
    return await posted(
        site, method, params, headers if authorization is None else {**headers, "authorization": authorization}
    )


async def used(site: ExampleSite, mode: str, authorization: str) -> None:
    """Check what a function and a view say of the user."""
    headers = {"authorization": authorization}
    async with Client(site.endpoint, headers=headers, mode=mode, proxy=None) as client:
        assert "my_name" in {tool.name for tool in await client.list_tools()}
        assert (await client.call_tool("my_name")).text == "ada"
        assert (await client.call_tool("account_view_get")).structured_content == {"username": "ada"}


@pytest.mark.parametrize("mode", ["auto", LEGACY])
async def test_a_token_is_accepted(site: ExampleSite, mode: str) -> None:
    """Those of `manage.py mcp token`; django-oauth-toolkit makes its own."""
    await used(site, mode, site.header("valid"))


async def test_a_token_of_the_package_s_own_login_is_accepted(site: ExampleSite) -> None:
    if site.package == "oauth_toolkit":
        pytest.skip("its clients sign in at a browser: test_oauth_toolkit.py")
    given: dict[str, Any] = {"json": {"username": "ada", "password": "x"}}
    if site.package == "knox":
        given = {"headers": {"authorization": "Basic " + b64encode(b"ada:x").decode()}}
    async with aiohttp.ClientSession() as http, http.post(f"{site.url}/login/", **given) as answer:
        assert answer.status == 200, await answer.text()
        found = await answer.json()
    await used(site, "auto", site.header(found.get("access") or found["token"]))


@pytest.mark.parametrize("mode", ["auto", LEGACY])
async def test_other_tokens_are_refused_with_a_challenge(site: ExampleSite, mode: str) -> None:
    """And with the metadata, where the project has an authorization server."""
    sent = {"missing": None, "wrong": site.header(site.tokens["valid"][:-3] + "xyz")}
    if "expired" in site.tokens:
        sent["expired"] = site.header("expired")
    for kind, authorization in sent.items():
        status, message, challenges, _ = await first(site, mode, authorization)
        (challenge,) = parse_challenges(challenges)
        assert (status, challenge.scheme) == (401, site.tokens["keyword"].lower()), kind
        assert "ada" not in json.dumps(message), kind
        if challenge.scheme == "bearer":
            assert challenge.error == (None if kind == "missing" else "invalid_token"), kind
        url = challenge.resource_metadata
        assert (url is None) == (site.package != "oauth_toolkit"), kind
        if url is not None:
            async with aiohttp.ClientSession() as http, http.get(url) as answer:
                document = await answer.json()
            assert document["resource"] == site.endpoint
            assert document["authorization_servers"] == [f"{site.url}/o"]


async def test_each_request_of_a_session_needs_the_token(site: ExampleSite) -> None:
    """The session is no credential (2025-11-25, "Security Best Practices", "Session Hijacking")."""
    status, _, _, session = await first(site, LEGACY, site.header("valid"))
    assert status == 200
    headers = {"mcp-protocol-version": LEGACY, **({} if session is None else {"mcp-session-id": session})}
    for authorization, expected in ((None, 401), (site.header("no-token"), 401), (site.header("valid"), 200)):
        sent = headers if authorization is None else {**headers, "authorization": authorization}
        status, message, challenges, _ = await posted(site, "tools/list", {}, sent)
        assert status == expected, message
        assert bool(challenges) == (expected == 401)


async def test_a_token_in_another_place_is_none(site: ExampleSite) -> None:
    """A URL is written to logs (2025-11-25, "Authorization", "Token Requirements")."""
    method, params, headers = METHODS["auto"]
    place = f"{site.endpoint}?access_token={site.tokens['valid']}"
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    given = {"accept": "application/json, text/event-stream", **headers}
    async with aiohttp.ClientSession() as http, http.post(place, json=body, headers=given) as answer:
        assert answer.status == 401


async def test_users_who_call_at_once_stay_apart(site: ExampleSite) -> None:
    """Their requests share the process and its threads."""
    params = {"name": "my_name", "arguments": {}, "_meta": META}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "my_name"}

    async def name_of(token: str) -> str:
        sent = {**headers, "authorization": site.header(token)}
        status, message, _, _ = await posted(site, "tools/call", params, sent)
        assert status == 200, message
        return str(message["result"]["content"][0]["text"])

    assert await asyncio.gather(*(name_of(token) for token in ("valid", "other") * 6)) == ["ada", "bob"] * 6
