"""A model's calls: made side by side, bounded in time and number, asked for first, and each one answered."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from ferrule import Client, ClientGroup, MCPServer, SyncClient
from ferrule.bridges import ToolBridge, ToolUse, tokens_of
from ferrule.protocol.errors import LocalError
from ferrule.wire.types import Tool
from tests.client.bridges.recorded import RESPONSES
from tests.loop_clock import LoopClock

pytestmark = pytest.mark.anyio
anywhere = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
PROVIDERS = pytest.mark.parametrize("api", ["anthropic", "openai", "openai-chat", "gemini", "gemini-openapi"])


def calculator() -> MCPServer[Any]:
    """A server with two tools."""
    app = MCPServer("calculator")

    @app.tool(annotations={"readOnlyHint": True})
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @app.tool
    def delete(path: str, recursive: bool | None = None) -> str:
        """Delete a file."""
        return f"{path} {recursive}"

    return app


def names_in(tools: list[dict[str, Any]]) -> list[str]:
    """The names in a list of any API."""
    found: list[str] = []
    for tool in tools:
        if "functionDeclarations" in tool:
            found += names_in(tool["functionDeclarations"])
        elif tool.get("type") == "namespace":
            found += names_in(tool["tools"])
        elif "name" in tool or "function" in tool:
            found.append(tool.get("name") or tool["function"]["name"])
    return found


@anywhere
@PROVIDERS
async def test_a_group_is_one_list_in_one_order(api: Any) -> None:
    """Whatever order servers and lists come in; the same bytes every time."""
    one, two = calculator(), calculator()
    async with ClientGroup({"b": one, "a": two}) as group:
        first = await group.tools_for(api)
        assert names_in(first) == ["a_add", "a_delete", "b_add", "b_delete"]
        assert json.dumps(await group.tools_for(api)) == json.dumps(first)
    async with ClientGroup({"a": calculator(), "b": calculator()}) as group:
        assert json.dumps(await group.tools_for(api)) == json.dumps(first)


@anywhere
async def test_calls_run_side_by_side_and_are_answered_in_order() -> None:
    """Each waits for all others to have begun; at most so many at once as is said."""
    running: list[int] = []
    most: list[int] = []
    together = anyio.Event()
    app = MCPServer("s")

    @app.tool
    async def meet(n: int) -> int:
        running.append(n)
        most.append(len(running))
        if len(running) == 3:
            together.set()
        await together.wait()
        running.remove(n)
        return n

    response = RESPONSES["openai-chat"](*[(f"c{n}", "meet", {"n": n}) for n in range(3)])
    async with Client(app) as client:
        with anyio.fail_after(30):
            answer = await client.answer(response)
        assert [message["content"] for message in answer] == ["0", "1", "2"]
        most.clear()
        answer = await client.answer(response, max_concurrent=1)
    assert [message["content"] for message in answer] == ["0", "1", "2"]
    assert most == [1, 1, 1]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_slow_call_does_not_cost_the_others() -> None:
    """It is cancelled at its server, and told to the model as a time-out."""
    app = MCPServer("s")
    begun, ended, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.tool
    async def slow() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    @app.tool
    async def quick() -> str:
        ended.set()
        return "here"

    async with Client(app) as client:
        clock = LoopClock()
        response = RESPONSES["anthropic"](("a", "slow", {}), ("b", "quick", {}))
        answering = asyncio.ensure_future(client.answer(response, timeout_s=1000))
        await begun.wait()
        await ended.wait()
        await clock.advance(999)
        assert not answering.done()
        await clock.advance(2)
        (message,) = await answering
        await cancelled.wait()
    slow_block, quick_block = message["content"]
    assert slow_block["is_error"]
    assert "1000 s" in slow_block["content"][0]["text"]
    assert quick_block["content"] == [{"type": "text", "text": "here"}]


@anywhere
async def test_cancelling_the_answer_cancels_the_calls() -> None:
    """At the servers, too."""
    app = MCPServer("s")
    begun, ended = anyio.Event(), anyio.Event()

    @app.tool
    async def slow() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with Client(app) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.answer, RESPONSES["gemini"](("a", "slow", {})))
        await begun.wait()
        tasks.cancel_scope.cancel()
    assert ended.is_set()


@anywhere
async def test_approval_comes_before_any_call_and_sees_what_would_be_called() -> None:
    """One question after the other; a refusal has its reason; the rest is called."""
    called: list[int] = []
    app = MCPServer("s")

    @app.tool
    def note(n: int) -> int:
        called.append(n)
        return n

    asked: list[ToolUse] = []

    async def approve(use: ToolUse) -> bool | str:
        assert called == []
        asked.append(use)
        return {0: True, 1: False, 2: "Too dear"}[use.arguments["n"]]

    calls = [(f"c{n}", "s_note", {"n": n}) for n in range(3)]
    async with ClientGroup({"s": app}) as group:
        answer = await group.answer(RESPONSES["openai"](*calls), approve=approve)
    assert called == [0]
    assert [item["output"] for item in answer] == ["0", "Error: The user did not allow this call", "Error: Too dear"]
    assert [(use.id, use.name, use.server) for use in asked] == [(f"c{n}", "s_note", "s") for n in range(3)]
    assert [outcome.status for outcome in answer.outcomes] == ["done", "denied", "denied"]


async def test_a_sync_approval_may_wait_for_a_person() -> None:
    """It runs in a thread, so that the loop goes on."""
    threads: list[int] = []

    def approve(use: ToolUse) -> bool:
        threads.append(threading.get_ident())
        return use.tool.annotations is not None and bool(use.tool.annotations.read_only_hint)

    async with Client(calculator()) as client:
        calls = [("a", "add", {"a": 1}), ("b", "delete", {"path": "/"})]
        answer = await client.answer(RESPONSES["openai"](*calls), approve=approve)
    assert [item["output"] for item in answer] == ["3", "Error: The user did not allow this call"]
    assert threading.get_ident() not in threads


@anywhere
async def test_what_approval_raises_is_raised_and_nothing_is_called() -> None:
    """It is the program's own mistake."""
    called: list[str] = []
    app = MCPServer("s")
    app.add_tool(lambda: called.append("x"), name="t", input_schema={"type": "object"})

    async def approve(use: ToolUse) -> bool:
        raise RuntimeError("no terminal")

    async with Client(app) as client:
        with pytest.raises(RuntimeError, match="no terminal"):
            await client.answer(RESPONSES["openai"](("a", "t", {})), approve=approve)
    assert called == []


@anywhere
async def test_calls_of_others_are_left_alone() -> None:
    """Tools that the provider runs, and functions that the program runs itself."""
    response = RESPONSES["anthropic"](("a", "add", {"a": 1}), ("b", "bash", {"command": "ls"}))
    server_tool = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    response["content"].insert(0, server_tool)
    async with Client(calculator()) as client:
        answer = await client.answer(response, others={"bash"})
        assert [block["tool_use_id"] for block in answer[0]["content"]] == ["a"]
        assert answer.others == [server_tool, response["content"][-1]]
        response["content"] = [server_tool]
        nothing = await client.answer(response)
    assert not nothing
    assert nothing.others == [server_tool]


@anywhere
async def test_objects_are_read_like_dicts() -> None:
    """Of a provider's package; here any objects with such attributes."""

    def as_object(value: Any) -> Any:
        if isinstance(value, list):
            return [as_object(each) for each in value]
        if isinstance(value, dict) and "a" not in value:
            return SimpleNamespace(**{key: as_object(each) for key, each in value.items()})
        return value

    async with Client(calculator()) as client:
        for api, make in RESPONSES.items():
            response = make(("c", "add", {"a": 1}))
            assert list(await client.answer(as_object(response))) == list(await client.answer(response)), api


@anywhere
async def test_the_message_or_event_inside_a_response_does_as_well() -> None:
    """The message of a choice, the content of a candidate, chunks of a stream, its last event, the output items."""
    chat, gemini, openai = (RESPONSES[api](("c", "add", {"a": 1})) for api in ("openai-chat", "gemini", "openai"))
    async with Client(calculator()) as client:
        for response in (
            chat["choices"][0]["message"],
            gemini["candidates"][0]["content"],
            [gemini, {"candidates": [{"content": {"parts": []}}]}],
            {"type": "response.completed", "response": openai},
            openai["output"],
        ):
            assert len(await client.answer(response)) == 1
        for nothing in ({"role": "assistant", "content": "Hello"}, {"candidates": []}, []):
            assert await client.answer(nothing) == []
        for wrong in ({"error": "overloaded"}, "text", None, 3):
            with pytest.raises(TypeError, match="is no response of"):
                await client.answer(wrong)


@anywhere
async def test_strict_arguments_come_back_as_the_tool_has_them() -> None:
    """Null for what the model leaves out; the tool's default counts."""
    async with Client(calculator()) as client:
        tools = await client.tools_for("openai", strict=True)
        assert [tool["strict"] for tool in tools] == [True, True]
        calls = [("a", "add", {"a": 1, "b": None}), ("b", "delete", {"path": "/x", "recursive": None})]
        answer = await client.answer(RESPONSES["openai"](*calls))
    assert [item["output"] for item in answer] == ["3", "/x None"]


@anywhere
async def test_above_the_budget_definitions_are_deferred() -> None:
    """By the API's own search where it has one, with the tools that are needed always left in place."""
    async with ClientGroup({"calc": calculator(), "more": calculator()}) as group:
        whole = await group.tools_for("anthropic")
        assert await group.tools_for("anthropic", budget=tokens_of(whole)) == whole
        tools = await group.tools_for("anthropic", budget=10, always=["calc_add"])
        assert tools[0] == {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
        assert [tool["name"] for tool in tools[1:] if not tool.get("defer_loading")] == ["calc_add"]
        tools = await group.tools_for("openai", budget=10, always=["calc_add"])
        assert [tool.get("name") for tool in tools] == ["calc_add", "calc", "more", None]
        assert tools[-1] == {"type": "tool_search"}
        assert all(tool["defer_loading"] for each in tools[1:-1] for tool in each["tools"])
        assert await group.tools_for("openai", budget=10, defer="never") == await group.tools_for("openai")
        called = RESPONSES["openai"](("c", "calc_add", {"a": 1}))
        called["output"][-1]["namespace"] = "calc"
        assert (await group.answer(called))[0]["output"] == "3"


@anywhere
@pytest.mark.parametrize(("api", "whole"), [("openai-chat", False), ("gemini", False), ("openai", True)])
async def test_more_functions_than_the_api_takes_are_searched(api: Any, whole: bool) -> None:
    """Chat Completions and Gemini refuse a request with more than 128."""
    app = MCPServer("s")
    for number in range(129):
        app.add_tool(lambda: "x", name=f"t{number}", input_schema={"type": "object"})
    async with Client(app) as client:
        names = names_in(await client.tools_for(api))
        assert len(names) == (129 if whole else 3)
        assert len(names_in(await client.tools_for(api, defer="never"))) == 129


class Counting:
    """A source that counts its lists."""

    def __init__(self) -> None:
        self.lists = 0

    async def list_tools(self) -> list[Tool]:
        """No tools; the second time it fails."""
        self.lists += 1
        if self.lists > 1:
            raise LocalError("gone")
        return []

    async def call_tool(self, name: str, arguments: Any = None, /, **options: Any) -> Any:
        """Never called."""
        raise AssertionError(name)


@anywhere
async def test_names_that_a_model_makes_up_cost_one_list() -> None:
    """And a list that fails is told."""
    source = Counting()
    bridge = ToolBridge(source, "openai")
    response = RESPONSES["openai"](*[(f"c{n}", f"t{n}", {}) for n in range(5)])
    answer = await bridge.answer(response)
    assert [outcome.status for outcome in answer.outcomes] == ["unknown tool"] * 5
    assert source.lists == 1
    answer = await bridge.answer(response)
    assert [outcome.status for outcome in answer.outcomes] == ["failed", *["unknown tool"] * 4]
    assert "gone" in answer[0]["output"]


@anywhere
@PROVIDERS
async def test_our_search_finds_describes_and_calls(api: Any) -> None:
    """For APIs without one, or where the program wants it; approval sees the tool itself."""
    seen: list[str] = []

    async def approve(use: ToolUse) -> bool:
        seen.append(use.name)
        return True

    recorded = "gemini" if api == "gemini-openapi" else api
    async with ClientGroup({"calc": calculator(), "more": calculator()}) as group:
        tools = await group.tools_for(api, budget=10, defer="search", always=["calc_add"])
        assert names_in(tools) == ["search_tools", "describe_tool", "call_tool", "calc_add"]
        calls = [
            ("a", "search_tools", {"query": "delete a file", "limit": 1}),
            ("b", "describe_tool", {"name": "more_delete"}),
            ("c", "call_tool", {"name": "more_delete", "arguments": {"path": "/"}}),
            ("d", "call_tool", {"name": "more_delete", "arguments": "x"}),
            ("e", "describe_tool", {"name": "nope"}),
            ("f", "search_tools", {}),
            ("g", "more_add", {"a": 5}),
            ("h", "call_tool", {"name": "nope"}),
        ]
        answer = await group.answer(RESPONSES[recorded](*calls), approve=approve)
    texts = [outcome.parts[0] for outcome in answer.outcomes]
    found = json.loads(getattr(texts[0], "text", ""))
    assert [tool["name"] for tool in found["tools"]] == ["calc_delete"]
    assert json.loads(getattr(texts[1], "text", ""))["inputSchema"]["required"] == ["path"]
    assert [outcome.status for outcome in answer.outcomes] == [
        "done",
        "done",
        "done",
        "malformed",
        "failed",
        "failed",
        "done",
        "unknown tool",
    ]
    assert seen == ["more_delete", "more_add"]


@anywhere
async def test_tools_that_came_later_are_found() -> None:
    """A conversation may be older than the list, or of another process."""
    app = calculator()
    async with Client(app) as client:
        await client.tools_for("openai")
        app.add_tool(lambda: "new", name="fresh.one", input_schema={"type": "object"})
        (name,) = [name for name in names_in(await client.tools_for("json-schema")) if name.startswith("fresh")]
        assert (await client.answer(RESPONSES["openai"](("a", name, {}))))[0]["output"] == "new"


@anywhere
async def test_a_tool_only_for_pages_is_not_for_models() -> None:
    """``_meta.ui.visibility`` without ``model``."""
    app = calculator()
    app.add_tool(lambda: "x", name="refresh", input_schema={"type": "object"}, meta={"ui": {"visibility": ["app"]}})
    async with Client(app) as client:
        assert "refresh" not in names_in(await client.tools_for("openai"))
        answer = await client.answer(RESPONSES["openai"](("a", "refresh", {})))
    assert answer.outcomes[0].status == "unknown tool"


class Broken:
    """A source whose calls fail in every way."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def list_tools(self) -> list[Tool]:
        """One tool."""
        return [Tool("t", {"type": "object"})]

    async def call_tool(self, name: str, arguments: Any = None, /, **options: Any) -> Any:
        """Fail."""
        raise self.error


@anywhere
async def test_the_model_gets_a_failing_connection_and_no_bug(caplog: pytest.LogCaptureFixture) -> None:
    """The model never sees the inside of the program; the log does."""
    for error, said in ((LocalError("The server is gone"), "The server is gone"), (KeyError("secret"), "the log")):
        bridge = ToolBridge(Broken(error), "openai")
        with caplog.at_level(logging.ERROR):
            answer = await bridge.answer(RESPONSES["openai"](("a", "t", {})))
        assert said in answer[0]["output"]
        assert "secret" not in answer[0]["output"]
    assert "secret" in caplog.text


@anywhere
async def test_wrong_options_are_errors_of_the_program() -> None:
    """With the words that would be right."""
    async with Client(calculator()) as client:
        wrong: Any = client
        with pytest.raises(ValueError, match="no model API 'claude'"):
            await wrong.tools_for("claude")
        with pytest.raises(ValueError, match="no search of its own"):
            await client.tools_for("gemini", defer="api")
        with pytest.raises(TypeError, match="budget"):
            await wrong.tools_for("gemini", budgets=3)
        with pytest.raises(ValueError, match="max_calls"):
            await client.answer(RESPONSES["gemini"](("a", "add", {})), max_calls=0)


def test_without_await() -> None:
    """Scripts and notebooks."""
    with SyncClient(calculator()) as client:
        assert names_in(client.tools_for("openai")) == ["add", "delete"]
        answer = client.answer(RESPONSES["openai"](("a", "add", {"a": 40})), approve=lambda use: use.name == "add")
    assert answer[0]["output"] == "42"


def test_a_client_is_not_kept_by_its_bridges() -> None:
    """They live as long as it does."""
    import gc
    import weakref

    async def use() -> weakref.ref[Any]:
        async with Client(calculator()) as client:
            await client.tools_for("openai")
            return weakref.ref(client)

    kept = anyio.run(use)
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"path": ' + "[" * 505 + "]" * 505 + "}", "Invalid arguments"),
        ([1] * 9000, "must be a JSON object"),
        (1, "must be a JSON object"),
        ('"text"', "must be a JSON object"),
    ],
    ids=["deep", "array", "number", "text"],
)
async def test_arguments_of_any_form_are_answered(arguments: Any, said: str) -> None:
    """JSON that the codec takes is not too deep, and what is no object is malformed; nothing is raised."""
    async with Client(calculator()) as client:
        (answer,) = await ToolBridge(client, "json-schema").answer([{"name": "delete", "arguments": arguments}])
    assert answer["is_error"]
    assert said in answer["content"][0]["text"]


async def test_an_object_that_is_too_deep_to_be_copied_is_malformed() -> None:
    """A provider's package gives the arguments as an object, of any depth."""
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    async with Client(calculator()) as client:
        (answer,) = await ToolBridge(client, "json-schema").answer([{"name": "delete", "arguments": deep}])
    assert "nested too deeply" in answer["content"][0]["text"]


@pytest.mark.parametrize("separator", ["_", ".", "__"])
async def test_the_server_of_a_tool_has_its_name_in_the_group(separator: str) -> None:
    """Without the separator, whatever it is, and with what the name itself ends with."""
    async with ClientGroup({"docs": calculator(), "docs_": calculator()}, separator=separator) as group:
        bridge = ToolBridge(group, "json-schema")
        found = {each.server for each in await bridge.entries()}
    assert found == {"docs", "docs_"}
