"""ferrule.auth.client.interaction: a browser on loopback, a pasted address, and what neither of them opens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from ferrule.auth.client.interaction import (
    BrowserInteraction,
    PasteInteraction,
    check_openable,
    default_interaction,
)
from ferrule.auth.errors import InteractionFailed, UnsafeUrl

pytestmark = pytest.mark.anyio

AUTHORIZE = "https://as.example.com/authorize?client_id=x"


async def visit(url: str, target: str) -> bytes:
    """What a browser does when it is sent back: one GET."""
    port = int(url.split(":")[2].split("/")[0])
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(f"GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
        found = b""
        try:
            while True:
                found += await stream.receive()
        except anyio.EndOfStream:
            return found


async def run(interaction: BrowserInteraction, come_back: Callable[[str], Any]) -> str:
    """Start, authorize, and come back as ``come_back`` does."""
    uri = await interaction.start(None)
    answers: list[str] = []

    async def authorize() -> None:
        answers.append(await interaction.authorize(AUTHORIZE))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(authorize)
            await come_back(uri)
    return answers[0]


async def test_the_browser_comes_back_to_a_free_port(any_backend: str) -> None:
    """Only the callback counts: browsers ask for icons, and other programs may knock."""
    opened: list[str] = []
    interaction = BrowserInteraction(open_url=lambda url: opened.append(url) or True)
    pages: list[bytes] = []

    async def come_back(uri: str) -> None:
        pages.append(await visit(uri, "/favicon.ico"))
        pages.append(await visit(uri, "/callback"))
        pages.append(await visit(uri, "/callback?code=abc&state=s"))

    assert (await run(interaction, come_back)).endswith("/callback?code=abc&state=s")
    assert opened == [AUTHORIZE]
    assert [page.split()[1] for page in pages] == [b"404", b"404", b"200"]
    assert b"no-store" in pages[2]
    assert b"abc" not in pages[2]


async def test_who_does_not_know_the_state_does_not_end_the_waiting() -> None:
    """Every page in the browser can try the ports of this machine, and a wrong answer must not be the answer."""
    interaction = BrowserInteraction(open_url=lambda url: True)
    uri = await interaction.start(None)
    answers: list[str] = []
    pages: list[bytes] = []

    async def authorize() -> None:
        answers.append(await interaction.authorize(f"{AUTHORIZE}&state=a%2Bb"))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(authorize)
            wrong = ("error=access_denied", "code=evil&state=guess", "state=", "code=evil", "state=x&state=a%2Bb")
            pages += [await visit(uri, f"/callback?{query}") for query in wrong]
            pages.append(await visit(uri, "/callback?code=abc&state=a%2Bb"))
    assert [page.split()[1] for page in pages] == [b"404"] * 5 + [b"200"]
    assert answers[0].endswith("/callback?code=abc&state=a%2Bb")


async def test_a_registered_port_is_taken_again_or_replaced() -> None:
    """The last run has registered a port; if another program uses it now, a new one is registered."""
    first = BrowserInteraction(open_url=lambda url: True)
    uri = await first.start(None)
    second = BrowserInteraction(open_url=lambda url: True)
    other = await second.start(uri)
    assert other != uri
    await first.aclose()
    await second.aclose()
    assert await second.start(uri) == uri
    await second.aclose()


async def test_a_redirect_uri_elsewhere_cannot_be_listened_on() -> None:
    """A web application receives its users itself."""
    with pytest.raises(InteractionFailed):
        await BrowserInteraction().start("https://app.example.com/callback")


async def test_the_wait_for_the_user_is_bounded() -> None:
    """And the port is free again."""
    interaction = BrowserInteraction(open_url=lambda url: True, timeout_s=0.05)
    uri = await interaction.start(None)
    with pytest.raises(InteractionFailed, match=r"within 0\.05 s"):
        await interaction.authorize(AUTHORIZE)
    with pytest.raises(OSError):
        await visit(uri, "/callback?code=x&state=y")


async def test_a_browser_that_does_not_open_is_no_end(capfd: pytest.CaptureFixture[str]) -> None:
    """The address is shown instead, on standard error: standard output may belong to a protocol."""

    def broken(url: str) -> bool:
        raise OSError("no display")

    assert await run(BrowserInteraction(open_url=broken), lambda uri: visit(uri, "/callback?code=a&state=s"))
    out, err = capfd.readouterr()
    assert (out, AUTHORIZE in err) == ("", True)


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "http://example.com/",
        "vbscript:x",
        "https://a.example/\x1b[2J",
        "https://a.example/\x9b2J",
        "https://a.example/\u202e",
        "https://a.example/ b",
        "http://localhost\\@evil.example/",
    ],
)
async def test_only_web_addresses_are_opened(url: str) -> None:
    """What opens a URL opens anything."""
    opened: list[str] = []
    with pytest.raises(UnsafeUrl):
        check_openable(url)
    interaction = BrowserInteraction(open_url=opened.append)
    await interaction.start(None)
    with pytest.raises(UnsafeUrl):
        await interaction.authorize(url)
    await interaction.aclose()
    assert opened == []


async def test_an_address_is_pasted() -> None:
    """For shells on other machines; no server listens at the redirect URI."""
    shown: list[str] = []
    interaction = PasteInteraction(show=shown.append, ask=lambda prompt: " http://127.0.0.1/callback?code=a&state=s\n")
    assert await interaction.start("http://127.0.0.1:1/callback") == "http://127.0.0.1:1/callback"
    assert await interaction.authorize(AUTHORIZE) == "http://127.0.0.1/callback?code=a&state=s"
    assert AUTHORIZE in shown[0]
    with pytest.raises(InteractionFailed):
        await PasteInteraction(show=shown.append, ask=lambda prompt: "\n").authorize(AUTHORIZE)


@pytest.mark.parametrize(("variables", "kind"), [
    ({"SSH_CONNECTION": "x"}, PasteInteraction),
    ({"SSH_CONNECTION": "x", "DISPLAY": ":0"}, BrowserInteraction),
    ({}, BrowserInteraction),
])  # fmt: skip
def test_the_default_looks_where_it_is(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], kind: type[Any]
) -> None:
    """In a remote shell without a display, the user could not see a browser."""
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("SSH_CONNECTION", "SSH_TTY", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert isinstance(default_interaction(), kind)
