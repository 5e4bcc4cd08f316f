"""django-oauth-toolkit: clients sign in at the project itself, knowing nothing but the URL of the endpoint."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client
from ferrule.auth import CallbackInteraction, MemoryStorage, OAuth
from tests.conftest import ROOT
from tests.django.access.browser import Person
from tests.django.access.example_sites import ExampleSite
from tests.django.access.serve_example import CLIENT_DOCUMENT, REDIRECT_URI

SCRIPT = Path(__file__).with_name("mcp_oauth_script.py")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.peer,
    pytest.mark.parametrize("site", ["oauth_toolkit"], indirect=True),
]

IDENTITIES: dict[str, dict[str, str]] = {
    "registers": {},
    "known": {"client_id": "known"},
    "document": {"client_metadata_url": CLIENT_DOCUMENT},
}
EACH = [("auto", "registers"), ("2025-11-25", "registers"), ("auto", "known"), ("2025-11-25", "document")]


@pytest.mark.parametrize(("mode", "identity"), EACH)
async def test_a_client_signs_in_from_the_metadata_alone(site: ExampleSite, mode: str, identity: str) -> None:
    """Discovery, PKCE, `resource`, a view with the bound token, and more scopes where they are needed."""
    person = Person(REDIRECT_URI)

    async def visit(url: str) -> str:
        return await asyncio.to_thread(person.visit, url)

    given: Any = IDENTITIES[identity]
    oauth = OAuth(interaction=CallbackInteraction(REDIRECT_URI, visit), storage=MemoryStorage(), **given)
    async with Client(site.endpoint, auth=oauth, mode=mode, proxy=None) as client:
        assert (await client.call_tool("my_name")).text == "ada"
        assert (await client.call_tool("account_view_get")).structured_content == {"username": "ada"}
        assert person.asked == ["read"]
        names = {tool.name for tool in await client.list_tools()}
        assert {"forget_notes", "note_view_post"} <= names
        written = await client.call_tool("note_view_post", {"title": "a"})
        assert written.structured_content == {"title": "a"}
        assert (await client.call_tool("forget_notes")).text == "forgotten"
        assert len(person.asked) == 2
        assert set(person.asked[1].split()) == {"read", "write"}


@pytest.mark.parametrize(("mode", "identity"), EACH)
def test_the_official_client_signs_in(site: ExampleSite, peer_python: str, mode: str, identity: str) -> None:
    """With its own OAuth, which asks the metadata, the authorization server and the endpoint in its own way."""
    mode, revision = {"auto": ("auto", "2026-07-28")}.get(mode, ("legacy", mode))
    done = subprocess.run(
        [peer_python, str(SCRIPT), mode, site.endpoint, json.dumps(IDENTITIES[identity])],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "NO_PROXY": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout)
    assert seen["protocol_version"] == revision
    assert {"my_name", "account_view_get", "note_view_post", "forget_notes"} <= set(seen["tools"])
    assert (seen["name"], seen["account"], seen["written"], seen["forgotten"]) == (
        "ada",
        {"username": "ada"},
        {"title": "a"},
        "forgotten",
    )
    assert [set(asked.split()) for asked in seen["asked"]] == [{"read"}, {"read", "write"}]
    assert "GET /.well-known/oauth-protected-resource/mcp/" in seen["sent"]
    assert "GET /.well-known/oauth-authorization-server/o" in seen["sent"]
    assert ("POST /o/register/" in seen["sent"]) == (identity == "registers")
    if identity != "registers":
        assert seen["client_id"] == next(iter(IDENTITIES[identity].values()))
