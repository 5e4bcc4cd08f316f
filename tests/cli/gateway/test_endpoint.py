"""The pages with which a caller of a gateway signs in to a server behind it."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ferrule.wire.types import ElicitResult
from tests.auth.support import Protected, Reply, protected
from tests.cli.gateway.support import Running, running, write_file

pytestmark = pytest.mark.anyio
TOKENS = {"token-of-ada": "ada", "token-of-bob": "bob"}


async def sign_in(gateway: Running, behind: Protected, link: str, subject: str) -> Reply:
    """Do what a person does: open the link, read whom it is for, go on, and come back to the gateway."""
    assert link.startswith(gateway.url)
    page = await behind.send("GET", link)
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert f"the account <b>{subject.partition('@')[0]}</b>" in page.body.decode()
    found = re.search(r'href="([^"]+)"', page.body.decode())
    assert found is not None
    provider: Any = behind.issuer.settings.provider
    provider.subject = subject
    agreed = await behind.send("GET", unescape(found[1]))
    return await behind.send("GET", agreed.headers["location"])


async def test_two_callers_sign_in_by_the_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each as itself; the tokens are in files that are sealed, and not in the log."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    caplog.set_level("DEBUG")
    async with protected() as behind:
        path = write_file(
            tmp_path / "mcp.json", {"files": {"url": behind.url, "auth": "user"}}, auth={"tokens": TOKENS}
        )
        async with running(path) as gateway:
            said: dict[str, str] = {}
            for user in ("ada", "bob"):

                async def visit(params: Any, *, user: str = user) -> ElicitResult:
                    done = await sign_in(gateway, behind, params.url, f"{user}@files")
                    assert done.status == 200
                    assert "close this page" in done.body.decode()
                    again = await behind.send("GET", params.url.rpartition("/")[0] + "/callback?state=x&code=y")
                    assert again.status == 404
                    return ElicitResult("accept")

                client = gateway.client(
                    auth=f"token-of-{user}", elicitation_handler=visit, elicitation_modes=("form", "url")
                )
                async with client:
                    said[user] = (await client.call_tool("files_whoami")).text
            assert {user: text.partition(" ")[0] for user, text in said.items()} == {
                "ada": "ada@files",
                "bob": "bob@files",
            }
            tails = [text.split()[1] for text in said.values()]  # the last characters of each token
            kept = b"".join(file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file())
            assert kept
            assert not any(tail in caplog.text or tail.encode() in kept for tail in tails)


async def test_an_unknown_link_shows_nothing(tmp_path: Path) -> None:
    """Neither a page nor an endpoint; and pages take no POST."""
    async with protected() as behind:
        path = write_file(
            tmp_path / "mcp.json", {"files": {"url": behind.url, "auth": "user"}}, auth={"tokens": TOKENS}
        )
        async with running(path) as gateway:
            for link in ("x", "callback", "callback?state=", "callback?code=1&state=" + "s" * 9000):
                reply = await behind.send("GET", f"{gateway.url}/sign-in/{link}")
                assert reply.status == 404, link
                assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
            assert (await behind.send("POST", f"{gateway.url}/sign-in/x")).status == 405
            parts = urlsplit(gateway.url)
            elsewhere = await behind.send("GET", f"{gateway.url}/sign-in/x", {"host": f"evil.example:{parts.port}"})
            assert elsewhere.status == 403
