"""GatewayViews of a gateway: what they show is all that can be listed, called, read and subscribed to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from ferrule import Client, MCPError, MCPServer, Server
from ferrule.client.gateway.views import GatewayViews, View
from ferrule.kernel.dispatch import TransportContext
from tests.cli.gateway.support import Running, docs_server, names, running, served, write_file
from tests.client.patience import patient_gateway

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
    """The users that a view names get it on every path, and no other user can enter it."""
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


def with_methods_of_its_own(name: str, got: list[str]) -> Server[Any]:
    """A legacy server with a tool, a task and a method of its own."""
    server: Server[Any] = Server(name)
    task = {"taskId": f"task-of-{name}", "status": "completed", "createdAt": "2026-01-01T00:00:00Z"}

    def serve(method: str, result: dict[str, Any]) -> None:
        async def handler(ctx: Any) -> Any:
            got.append(f"{method} {name}")
            return result

        server.add_request_handler(method, handler, params_type=dict[str, Any], trusted=True)

    serve("tools/list", {"tools": [{"name": "f", "inputSchema": {"type": "object"}}]})
    serve("tasks/list", {"tasks": [{**task, "lastUpdatedAt": task["createdAt"], "ttl": 1000}]})
    serve("tasks/result", {"content": [{"type": "text", "text": name}]})
    serve(f"x/{name}", {"name": name})
    return server


@pytest.mark.parametrize("is_outer", [True, False])
async def test_what_the_gateway_only_forwards_reaches_the_servers_of_the_view(is_outer: bool) -> None:
    """Tasks and methods that the gateway knows nothing of; other handlers of the server in front are refused."""
    got: list[str] = []
    gateway = patient_gateway({name: with_methods_of_its_own(name, got) for name in "ab"}, mode="legacy")
    views = GatewayViews(gateway, {"v": View("v", servers=frozenset({"a"}))}, default="v")
    gateway.server.middleware.insert(0 if is_outer else len(gateway.server.middleware), views)

    async def own(ctx: Any) -> Any:
        return {"all": "servers"}

    gateway.server.add_request_handler("x/front", own, params_type=dict[str, Any], trusted=True)
    async with Client(gateway, mode="2025-11-25") as client:
        assert [task["taskId"] for task in (await client.request("tasks/list", {}))["tasks"]] == ["task-of-a"]
        assert (await client.request("x/a", {}))["name"] == "a"
        await client.request("ping", {})
        got.clear()
        for method, code in {"x/b": -32601, "x/front": -32601}.items():
            with pytest.raises(MCPError) as raised:
                await client.request(method, {})
            assert raised.value.code == code
        # The server that is shown does not check the ids; the other is not asked.
        await client.request("tasks/result", {"taskId": "task-of-b"})
        assert got == ["tasks/result a"]


def with_completion(name: str) -> MCPServer[Any]:
    """A prompt and a template whose argument can be completed."""
    app: MCPServer[Any] = MCPServer(name)

    @app.prompt
    def ask(a: Literal["one", "other"]) -> str:
        return a

    @app.resource(f"{name}://{{q}}")
    def read(q: Literal["one", "other"]) -> str:
        return q

    return app


async def test_a_completion_is_judged_by_the_type_of_its_reference() -> None:
    """A reference with the members of both types is not taken for one to what the view shows."""
    gateway = patient_gateway({name: with_completion(name) for name in "ab"})
    views = GatewayViews(gateway, {"v": View("v", servers=frozenset({"a"}))}, default="v")
    gateway.server.middleware.insert(0, views)
    argument = {"name": "q", "value": "o"}
    async with Client(gateway) as client:
        shown = {"type": "ref/resource", "uri": "a://{q}"}
        found = await client.request("completion/complete", {"ref": shown, "argument": argument})
        assert found["completion"]["values"] == ["one", "other"]
        for hidden in (
            {"type": "ref/resource", "uri": "b://{q}"},
            {"type": "ref/resource", "uri": "b://{q}", "name": "a_ask"},
            {"type": "ref/prompt", "name": "b_ask", "uri": "a://{q}"},
        ):
            with pytest.raises(MCPError, match="Unknown reference"):
                await client.request("completion/complete", {"ref": hidden, "argument": argument})
