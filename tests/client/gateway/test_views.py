"""GatewayViews of a gateway: what they show is all that can be listed, called, read and subscribed to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ferrule import Client, MCPError
from ferrule.client.gateway.views import GatewayViews, View
from ferrule.kernel.dispatch import TransportContext
from tests.cli.gateway.support import Running, docs_server, names, running, served, write_file

pytestmark = pytest.mark.anyio

ERAS = ["2026-07-28", "2025-11-25"]
VIEWS: dict[str, Any] = {
    "work": {"servers": ["one"], "excludeTools": ["one_write"]},
    "admins": {"subjects": ["root"]},
    "readers": {"scopes": ["read"], "includeTools": ["*_search"]},
}
TOKENS = {
    "token-of-root": "root",
    "token-of-reader": {"subject": "ada", "scopes": ["read"]},
    "token-of-bob": {"subject": "bob"},
}


async def refused(client: Client, name: str) -> None:
    with pytest.raises(MCPError):
        await client.call_tool(name, {"query": "x", "page": "x", "name": "x"})


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("search", [False, True])
async def test_a_view_at_a_path_of_its_own(tmp_path: Path, mode: str, search: bool) -> None:
    """Lists, calls, prompts, reads and instructions, also where the main path lists a search."""
    async with served(docs_server(), docs_server()) as (one, two):
        path = write_file(tmp_path / "mcp.json", {"one": {"url": one}, "two": {"url": two}}, views=VIEWS)
        async with running(path, tool_search=search) as gateway:
            async with gateway.client("work", mode=mode) as work:
                assert await names(work) == ["one_header", "one_search"]
                assert (await work.call_tool("one_search", {"query": "x"})).text == "found x"
                for hidden in ("one_write", "two_search", "gateway_status", "search_tools"):
                    await refused(work, hidden)
                assert [prompt.name for prompt in await work.list_prompts()] == ["one_summary"]
                with pytest.raises(MCPError):
                    await work.get_prompt("two_summary")
                assert work.instructions == "one: Read before you write."
                assert (await work.read_resource("docs://start")).contents[0].text == "start"
            async with gateway.client(mode=mode) as everything:
                found = await names(everything)
                assert len(found) == 3 if search else "two_write" in found


async def test_a_call_before_any_list_is_judged_too(tmp_path: Path) -> None:
    """The gateway reads the lists itself where it does not know whose a name or a URI is."""
    async with served(docs_server(), docs_server()) as (one, two):
        path = write_file(tmp_path / "mcp.json", {"one": {"url": one}, "two": {"url": two}}, views=VIEWS)
        async with running(path) as gateway, gateway.client("work") as work:
            assert (await work.read_resource("docs://start")).contents[0].text == "start"
            await refused(work, "two_search")
            with pytest.raises(MCPError):
                await work.read_resource("docs://elsewhere")


async def test_a_view_for_some_callers(tmp_path: Path) -> None:
    """Whom a view names gets it on every path, and nobody else can enter it."""
    async with served(docs_server()) as (one,):
        path = write_file(tmp_path / "mcp.json", {"one": {"url": one}}, views=VIEWS, auth={"tokens": TOKENS})
        async with running(path) as gateway:

            async def seen(token: str, view: str = "") -> list[str] | None:
                try:
                    async with gateway.client(view, auth=token) as client:
                        return await names(client)
                except MCPError as error:
                    return None if "not for this caller" in str(error) else ["?"]

            assert await seen("token-of-reader") == ["one_search"]
            assert await seen("token-of-reader", "readers") == ["one_search"]
            assert await seen("token-of-reader", "work") is None  # would show more than its own
            assert await seen("token-of-bob", "work") == ["one_header", "one_search"]
            assert await seen("token-of-bob", "readers") is None
            assert await seen("token-of-bob", "admins") is None
            assert await seen("token-of-root") == ["one_header", "one_search", "one_write"]


async def test_a_default_view_and_a_path_that_is_none(tmp_path: Path) -> None:
    """The main path shows the default; other paths are no endpoint. A reload replaces the views."""
    async with served(docs_server()) as (one,):
        path = tmp_path / "mcp.json"
        write_file(path, {"one": {"url": one}}, views=VIEWS, defaultView="work")
        async with running(path) as gateway:
            async with gateway.client() as client:
                assert await names(client) == ["one_header", "one_search"]
            await no_endpoint(gateway, "nothing")
            write_file(path, {"one": {"url": one}}, views={"play": {"includeTools": ["one_write"]}})
            assert await gateway.app.reload()
            await no_endpoint(gateway, "work")
            async with gateway.client("play") as client:
                assert await names(client) == ["one_write"]


async def no_endpoint(gateway: Running, view: str) -> None:
    with pytest.raises(Exception, match="no MCP endpoint"):
        async with gateway.client(view):
            pass


def test_a_principal_without_members_is_named_by_no_view() -> None:
    """A program's own verifier may return anything."""
    view = View("v", subjects=frozenset({"ada"}), scopes=frozenset({"s"}))
    assert not view.names(None)
    assert not view.names("ada")
    views = GatewayViews(None, {"v": view})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert views.view_of(TransportContext("stdio")) is None
    with pytest.raises(ValueError, match="There is no view 'w'; there are v"):
        views.replace({"v": view}, "w")
