"""A server made of a client: either era before, either era behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client, MCPError, MCPServer, Server
from ferrule.client.errors import InputRequiredError
from ferrule.client.gateway.proxy import proxy
from ferrule.wire.types import ElicitResult, ListToolsResult, Tool, ToolResult, text_block
from tests.client.server_program import make_app
from tests.extensions.skills.support import add_skill

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

ERAS = ["2026-07-28", "2025-11-25"]
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def asking_server(cancelled: list[str] | None = None) -> Server[Any]:
    """A low-level server whose tools ask in whichever way the era has."""
    server: Server[Any] = Server("behind", version="9")

    @server.request("tools/list")
    async def tools(ctx: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool("greet", {"type": "object"}), Tool("hang", {"type": "object"})])

    @server.request("tools/call")
    async def call(ctx: Any) -> Any:
        if ctx.params.name == "hang":
            try:
                await anyio.sleep_forever()
            finally:
                if cancelled is not None:
                    cancelled.append("hang")
        question = {"message": "Who are you?", "requestedSchema": FORM}
        if not ctx.session.connection.is_modern:
            first = await ctx.session.elicit(question["message"], FORM)
            second = await ctx.session.elicit("Sure?", FORM)
            return ToolResult(content=[text_block(f"{first.content['name']}, {second.content['name']}")])
        answers = ctx.params.input_responses or {}
        if "a" not in answers:
            requests = {"a": {"method": "elicitation/create", "params": question}}
            return {"resultType": "input_required", "inputRequests": requests, "requestState": "st"}
        assert ctx.params.request_state == "st"
        name = answers["a"]["content"]["name"]
        return ToolResult(content=[text_block(f"{name}, {name}")])

    return server


@pytest.mark.parametrize("before", ERAS)
@pytest.mark.parametrize("behind", ERAS)
async def test_everything_passes_through(before: str, behind: str) -> None:
    """Identity, lists, calls, failures, reads, prompts and progress are those of the server behind."""
    seen: list[float] = []
    async with Client(proxy(make_app(), mode=behind), mode=before) as client:
        assert client.server_info is not None
        assert (client.server_info.name, client.instructions) == ("probe", "Be nice.")
        assert "echo" in [tool.name for tool in await client.list_tools()]
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        assert (await client.call_tool("add", {"a": 1})).structured_content == {"sum": 3}
        assert (await client.call_tool("fail", {"why": "no paper"})).is_error
        await client.call_tool(
            "steps", {"count": 3}, on_progress=lambda progress, total, message: seen.append(progress)
        )
        assert seen == [1, 2, 3]
        assert (await client.read_resource("memo://mon/tea")).contents[0].text == "tea on mon"
        assert (await client.get_prompt("greet", {"name": "Ada"})).messages
        with pytest.raises(MCPError):
            await client.read_resource("memo://nothing")
        with pytest.raises(MCPError):
            await client.call_tool("no such tool")


@pytest.mark.parametrize("before", ERAS)
@pytest.mark.parametrize("behind", ERAS)
async def test_questions_pass_through(before: str, behind: str) -> None:
    """Pushed or returned as a round on either side; each of several clients is asked its own question."""

    async def ask(name: str, results: dict[str, str]) -> None:
        def elicit(params: Any) -> ElicitResult:
            return ElicitResult("accept", content={"name": name})

        async with Client(front, mode=before, elicitation_handler=elicit) as client:
            for _ in range(2):
                results[name] = (await client.call_tool("greet")).text

    results: dict[str, str] = {}
    front = proxy(asking_server(), mode=behind)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for name in ("Ada", "Bob", "Cyd"):
                group.start_soon(ask, name, results)
    assert results == {name: f"{name}, {name}" for name in ("Ada", "Bob", "Cyd")}


@pytest.mark.parametrize("before", ERAS)
@pytest.mark.parametrize("behind", ERAS)
async def test_cancellation_passes_through(before: str, behind: str) -> None:
    """A cancellation of the client stops the call at the backend."""
    cancelled: list[str] = []
    async with Client(proxy(asking_server(cancelled), mode=behind), mode=before) as client:
        with anyio.move_on_after(0.2):
            await client.call_tool("hang")
        with anyio.fail_after(30):
            while not cancelled:
                await anyio.sleep(0.01)
        await client.ping()


@pytest.mark.parametrize("before", ERAS)
@pytest.mark.parametrize("behind", ERAS)
async def test_changes_pass_through(before: str, behind: str) -> None:
    """Changes of lists and updates of single resources reach each listening client."""
    app = make_app()
    app.lowlevel.list_changed.add("tools")
    app.lowlevel.resource_updates = True
    async with Client(proxy(app, mode=behind), mode=before) as client:
        async with client.listen(tools=True, uris=["memo://today"]) as changes:
            with anyio.fail_after(30):
                await client.list_tools()

                @app.tool
                def late() -> str:
                    """Came late."""
                    return "x"

                assert (await anext(changes)).kind == "tools"
                app.notify_resource_updated("memo://today")
                event = await anext(changes)
        assert (event.kind, event.uri) == ("resource", "memo://today")


async def test_state_of_a_parked_call_serves_once_and_only_its_own_request() -> None:
    """Legacy behind, modern before: the state is a handle, and no other request may go on with it."""
    async with Client(
        proxy(asking_server(), mode=ERAS[1]), mode=ERAS[0], elicitation_handler=lambda p: {"name": "x"}, max_rounds=0
    ) as client:
        with pytest.raises(InputRequiredError) as asked:
            await client.call_tool("greet")
        round_ = asked.value.result
        (key,) = round_["inputRequests"]
        answers = {key: {"action": "accept", "content": {"name": "x"}}}
        with pytest.raises(MCPError, match="unknown or has expired"):
            await client.call_tool("hang", input_responses=answers, request_state=round_["requestState"])


@pytest.mark.parametrize("before", ERAS)
@pytest.mark.parametrize("behind", ERAS)
async def test_skills_pass_through(before: str, behind: str, tmp_path: Path) -> None:
    """Announced in either era, with the hints that the modern one requires, and verified as if read directly."""
    skill = add_skill(tmp_path, "refunds")
    (skill / "policy.md").write_text("policy", encoding="utf-8")
    app: MCPServer[Any] = MCPServer("behind")
    app.add_skills(tmp_path)
    async with Client(proxy(app, mode=behind), mode=before) as client:
        (found,) = await client.list_skills()
        assert (await found.load()).endswith("# Do it\n")
        assert await found.read("policy.md") == b"policy"
        assert [each.name for each in await client.read_directory("skill://refunds")] == ["SKILL.md", "policy.md"]
        if client.is_modern:
            assert "ttlMs" in await client.request("skills/get", {"uri": found.uri})
        with pytest.raises(MCPError) as caught:
            await client.get_skill("skill://nothing/SKILL.md")
        assert caught.value.code == -32602
