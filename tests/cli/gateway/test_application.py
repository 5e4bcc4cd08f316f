"""A gateway does what its configuration says, and follows the file while it runs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ferrule import MCPError
from ferrule.app.middleware.builtin import RateLimit
from tests.cli.gateway.support import docs_server, names, running, served, write_file

pytestmark = pytest.mark.anyio


async def test_settings_of_entries_are_heeded(tmp_path: Path) -> None:
    """Filters, other names and texts, headers; what is disabled is not there, and unknown to calls too."""
    async with served(docs_server(), docs_server(), docs_server()) as (one, two, three):
        servers = {
            "one": {"url": one, "includeTools": ["search", "header"], "headers": {"x-key": "k1"}},
            "two": {
                "url": two,
                "disabledTools": ["write"],
                "tools": {"search": {"name": "find", "description": "Looks things up."}},
            },
            "off": {"url": three, "disabled": True},
        }
        async with running(write_file(tmp_path / "mcp.json", servers)) as gateway, gateway.client() as client:
            assert await names(client) == ["one_header", "one_search", "two_find", "two_header"]
            described = {tool.name: tool.description for tool in await client.list_tools()}
            assert described["two_find"] == "Looks things up."
            assert (await client.call_tool("two_find", {"query": "x"})).text == "found x"
            assert (await client.call_tool("one_header", {"name": "x-key"})).text == "k1"
            for hidden in ("one_write", "two_write", "two_search", "off_search"):
                with pytest.raises(MCPError):
                    await client.call_tool(hidden, {"query": "x", "page": "x"})


async def test_a_changed_file_touches_only_what_changed(tmp_path: Path) -> None:
    """Sessions and the connections of other servers stay; added, changed and removed servers are taken."""
    path = tmp_path / "mcp.json"
    async with served(docs_server(), docs_server()) as (one, two):
        write_file(path, {"one": {"url": one}, "old": {"url": two}})
        async with running(path) as gateway, gateway.client(mode="2025-11-25") as client:
            assert "old_search" in await names(client)
            kept = gateway.app.gateway.upstreams["one"]
            write_file(path, {"one": {"url": one}, "new": {"url": two, "includeTools": ["search"]}})
            assert await gateway.app.reload()
            assert await names(client) == ["new_search", "one_header", "one_search", "one_write"]
            assert gateway.app.gateway.upstreams["one"] is kept
            write_file(path, {"one": {"url": one}, "new": {"url": two, "includeTools": ["write"]}})
            assert await gateway.app.reload()
            assert gateway.app.gateway.upstreams["one"] is kept
            assert await names(client) == ["new_write", "one_header", "one_search", "one_write"]
            assert (await client.call_tool("one_search", {"query": "x"})).text == "found x"


BROKEN = {
    "no JSON": '{"mcpServers": {',
    "a broken new entry": '{"mcpServers": {"one": {"url": "%s"}, "two": {"args": []}}}',
    "a view of nothing": '{"mcpServers": {"one": {"url": "%s"}}, "gateway": {"views": {"v": {"servers": ["x"]}}}}',
    "an unknown key": '{"mcpServers": {"one": {"url": "%s"}}, "gateway": {"nmae": "x"}}',
    "no servers": '{"mcpServers": {}}',
}


@pytest.mark.parametrize("case", BROKEN)
async def test_a_broken_file_changes_nothing_and_is_named(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log, once, and in the status tool; a mended file clears it."""
    path = tmp_path / "mcp.json"
    async with served(docs_server()) as (one,):
        write_file(path, {"one": {"url": one}})
        async with running(path, status_tool=True) as gateway, gateway.client() as client:
            before = await names(client)
            path.write_text(BROKEN[case].replace("%s", one))
            with caplog.at_level(logging.ERROR, "ferrule.gateway"):
                assert not await gateway.app.reload()
                assert not await gateway.app.reload()
            assert len([each for each in caplog.records if "stays in force" in each.getMessage()]) == 1
            assert await names(client) == before
            assert (await client.call_tool("one_search", {"query": "x"})).text == "found x"
            assert "not in force" in (await client.call_tool("gateway_status")).text
            write_file(path, {"one": {"url": one}})
            assert await gateway.app.reload()
            assert "not in force" not in (await client.call_tool("gateway_status")).text


async def test_callers_are_authorized_at_the_front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By tokens of the configuration, whose values may come from the environment; a changed list is taken at once."""
    path = tmp_path / "mcp.json"
    monkeypatch.setenv("ADA_TOKEN", "token-of-ada")
    async with served(docs_server()) as (one,):
        write_file(path, {"one": {"url": one}}, auth={"tokens": {"${ADA_TOKEN}": "ada"}})
        async with running(path) as gateway:
            async with gateway.client(auth="token-of-ada") as ada:
                assert "one_search" in await names(ada)
                # The caller's token is for the gateway: it does not arrive behind.
                assert (await ada.call_tool("one_header", {"name": "authorization"})).text == "none"
            with pytest.raises(MCPError, match="access token"):
                async with gateway.client() as nobody:
                    await nobody.list_tools()
            write_file(path, {"one": {"url": one}}, auth={"tokens": {"token-of-bob": "bob"}})
            assert await gateway.app.reload()
            with pytest.raises(MCPError):
                async with gateway.client(auth="token-of-ada") as ada:
                    await ada.list_tools()
            async with gateway.client(auth="token-of-bob") as bob:
                assert "one_search" in await names(bob)


async def test_middleware_of_a_server_works_on_a_gateway(tmp_path: Path) -> None:
    """Such as the limit of calls of each caller."""
    path = tmp_path / "mcp.json"
    async with served(docs_server()) as (one,):
        tokens = {"token-of-ada": "ada", "token-of-bob": "bob"}
        write_file(path, {"one": {"url": one}}, auth={"tokens": tokens})
        async with running(path) as gateway:
            gateway.app.lowlevel.middleware.append(RateLimit(2, per_s=3600, methods=["tools/call"]))
            async with gateway.client(auth="token-of-ada") as ada, gateway.client(auth="token-of-bob") as bob:
                for client in (ada, bob):
                    for _ in range(2):
                        assert (await client.call_tool("one_search", {"query": "x"})).text == "found x"
                    with pytest.raises(MCPError):
                        await client.call_tool("one_search", {"query": "x"})


async def test_credentials_of_callers_need_known_callers(tmp_path: Path) -> None:
    """A gateway that anybody on the network may use as anybody does not start."""
    from ferrule.cli.gateway.application import GatewayApplication

    path = write_file(tmp_path / "mcp.json", {"one": {"url": "http://127.0.0.1:1/mcp", "auth": "user"}})
    with pytest.raises(ValueError, match="one is used with each caller's own credentials"):
        GatewayApplication(str(path), http=True, base_url="http://127.0.0.1:2/mcp")
