"""Each caller of a gateway signs in for itself, and no credential of one is used for another."""

from __future__ import annotations

import anyio
import pytest

from ferrule import Client, MCPError
from tests.client.gateway.credentials.support import front

pytestmark = pytest.mark.anyio

ERAS = ["2026-07-28", "2025-11-25"]


async def names(client: Client) -> list[str]:
    return sorted(tool.name for tool in await client.list_tools())


@pytest.mark.parametrize("mode", ERAS)
async def test_two_callers_sign_in_each_for_itself(mode: str) -> None:
    """By a question in the call: each is, at the server behind, the user who signed in, also side by side."""
    async with (
        front() as gateway,
        gateway.client("ada", visits="ada@files", mode=mode) as ada,
        gateway.client("bob", visits="bob@files", mode=mode) as bob,
    ):
        assert await names(ada) == ["files_sign_in"]
        assert "signed in to files" in (await ada.call_tool("files_sign_in")).text
        assert "files_whoami" in await names(ada)
        assert await names(bob) == ["files_sign_in"]
        assert (await bob.call_tool("files_whoami")).text.startswith("bob@files ")  # asks, and goes on
        said: dict[str, set[str]] = {"ada": set(), "bob": set()}

        async def ask(name: str, client: Client) -> None:
            for _ in range(5):
                said[name].add((await client.call_tool("files_whoami")).text.partition(" ")[0])

        async with anyio.create_task_group() as group:
            group.start_soon(ask, "ada", ada)
            group.start_soon(ask, "bob", bob)
        assert said == {"ada": {"ada@files"}, "bob": {"bob@files"}}
        assert len(gateway.links) == 2
        assert len(set(gateway.links)) == 2


async def test_a_client_that_shows_no_links_gets_one_in_the_text() -> None:
    """The call fails with it; the next call after the sign-in works."""
    async with front() as gateway, gateway.client("ada") as ada:
        refused = await ada.call_tool("files_whoami")
        assert refused.is_error
        link = next(word for word in refused.text.split() if word.startswith("http"))
        again = await ada.call_tool("files_whoami")
        assert link in again.text  # one sign-in, not one for each call
        assert await gateway.visit(link, "ada@files") == "files"
        with anyio.fail_after(20):
            while (found := await ada.call_tool("files_whoami")).is_error:
                await anyio.sleep(0.01)
        assert found.text.startswith("ada@files ")


async def test_a_person_who_refuses_is_not_signed_in() -> None:
    """And nothing was sent to the server behind for the call."""

    async with front() as gateway:

        async def refuse(params: object) -> object:
            from ferrule.wire.types import ElicitResult

            return ElicitResult("decline")

        client = gateway.client("ada", elicitation_handler=refuse, elicitation_modes=("form", "url"))
        async with client:
            found = await client.call_tool("files_whoami")
            assert (found.is_error, found.text) == (True, "You did not sign in to files.")
            assert gateway.storage.entries() == {} or all("token" not in key for key in gateway.storage.entries())


async def test_lists_start_no_sign_in() -> None:
    """No client registers at the issuer, and no user is asked, before a call needs it."""
    async with front() as gateway, gateway.client("ada") as ada:
        assert await names(ada) == ["files_sign_in"]
        assert await ada.list_prompts() == []
        assert [line for line in gateway.behind.issuer.log if "register" in line or "authorize" in line] == []


async def test_an_anonymous_caller_of_a_network_gets_no_credential() -> None:
    """A caller without a principal could be any user."""
    from ferrule.client.gateway.credentials.caller import OWNER, UnknownCaller, caller_id
    from ferrule.kernel.dispatch import TransportContext

    assert caller_id(TransportContext("stdio"), "files") == OWNER
    with pytest.raises(UnknownCaller, match="does not know its callers"):
        caller_id(TransportContext("http", is_network=True), "files")
    assert issubclass(UnknownCaller, MCPError)
