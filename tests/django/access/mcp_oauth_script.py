"""Runs inside the environment of the official ``mcp`` package: a client that signs in with its own OAuth.

Usage: mcp_oauth_script.py MODE URL IDENTITY, where IDENTITY is a JSON object: ``{"client_id": …}`` for a client that is
known before, ``{"client_metadata_url": …}`` for one with a document, and ``{}`` for one that registers. Prints one JSON
object, and imports nothing of Ferrule.
"""

# The package is in an environment of its own.
# pyright: basic, reportMissingImports=false
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata

from tests.django.access.browser import Person
from tests.django.access.serve_example import REDIRECT_URI


class Storage:
    """Keeps tokens and the identity of the client in memory."""

    def __init__(self, client: Any) -> None:
        self.tokens: Any = None
        self.client = client

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client: Any) -> None:
        self.client = client


async def main(mode: str, url: str, identity: dict[str, str]) -> None:
    person = Person(REDIRECT_URI)
    visited: list[str] = []
    sent: list[str] = []

    async def note(request: Any) -> None:
        sent.append(f"{request.method} {request.url.path}")

    async def redirect(authorize_url: str) -> None:
        visited.append(await asyncio.to_thread(person.visit, authorize_url))

    async def callback() -> Any:
        query = parse_qs(urlsplit(visited[-1]).query)
        return AuthorizationCodeResult(code=query["code"][0], state=query["state"][0], iss=query.get("iss", [None])[0])

    known = None
    if "client_id" in identity:
        known = OAuthClientInformationFull(
            client_id=identity["client_id"], redirect_uris=[REDIRECT_URI], token_endpoint_auth_method="none"
        )
    storage = Storage(known)
    auth = OAuthClientProvider(
        url,
        OAuthClientMetadata(redirect_uris=[REDIRECT_URI], client_name="A client", token_endpoint_auth_method="none"),
        storage,
        redirect,
        callback,
        client_metadata_url=identity.get("client_metadata_url"),
    )
    async with (
        httpx2.AsyncClient(auth=auth, timeout=60, event_hooks={"request": [note]}) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, read_timeout_seconds=60) as client,
    ):
        tools = [tool.name for tool in (await client.list_tools()).tools]
        name = await client.call_tool("my_name", {})
        account = await client.call_tool("account_view_get", {})
        written = await client.call_tool("note_view_post", {"title": "a"})
        forgotten = await client.call_tool("forget_notes", {})
        print(
            json.dumps(
                {
                    "protocol_version": client.protocol_version,
                    "tools": tools,
                    "name": name.content[0].text,
                    "account": account.structured_content,
                    "written": written.structured_content,
                    "forgotten": forgotten.content[0].text,
                    "asked": person.asked,
                    "client_id": storage.client.client_id,
                    "sent": sent,
                }
            )
        )


asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
