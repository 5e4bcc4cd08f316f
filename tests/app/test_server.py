"""The server object: decorators that return the function, announced capabilities, and published changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pydantic
import pytest

from ferrule import Client, Context, Depends, MCPServer
from ferrule.app.errors import SignatureError
from ferrule.kernel.changes.bus import ListenFilter
from ferrule.protocol.errors import InvalidParams
from tests.app.support import ask, call

pytestmark = pytest.mark.anyio


def test_decorators_give_the_function_back():
    """It stays callable, typed and testable, in every spelling."""
    app = MCPServer("x")

    async def function(a: int = 1) -> int:
        return a

    assert app.tool(function) is function
    assert app.tool("second", title="T")(function) is function
    assert app.prompt("p")(function) is function
    assert app.resource("data://x")(function) is function
    assert [tool.name for tool in app.list_tools()] == ["function", "second"]


def test_a_name_may_be_given_in_either_way_but_once():
    """The error for a function without a name mentions `name=`, as other libraries spell it."""
    app = MCPServer("x")
    app.tool(name="one")(lambda: 1)
    app.tool("two", description="D")(lambda: 2)
    app.prompt(name="p")(lambda: "x")
    assert [tool.name for tool in app.list_tools()] == ["one", "two"]
    assert [prompt.name for prompt in app.list_prompts()] == ["p"]
    with pytest.raises(TypeError, match="name"):
        app.tool("a", name="b")(lambda: 3)
    with pytest.raises(TypeError, match="titel"):
        app.tool(titel="T")(lambda: 4)  # type: ignore[call-overload]


def test_add_tool_equals_tool():
    """The bench and programs register functions that they did not write."""
    one, two = MCPServer("x"), MCPServer("x")

    def function(a: int) -> int:
        """Doc."""
        return a

    one.tool(function)
    two.add_tool(function)
    assert one.list_tools() == two.list_tools()


async def test_capabilities_are_what_is_served():
    """Advertised only when true."""
    app = MCPServer("x", logging=False)
    capabilities = (await ask(app, "server/discover"))["capabilities"]
    assert capabilities == {}
    app.add_tool(lambda: None, name="t")
    app.prompt("p")(lambda: "x")
    app.resource("data://x")(lambda: "x")
    assert (await ask(app, "server/discover"))["capabilities"] == {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
    }


async def test_identity_and_instructions_are_announced():
    """Unchanged, in each revision that has the field."""
    app = MCPServer("x", version="2", title="T", description="D", website_url="https://e.x", instructions="I")
    found = await ask(app, "server/discover")
    assert found["instructions"] == "I"
    info = found["_meta"]["io.modelcontextprotocol/serverInfo"]
    assert info == {"name": "x", "version": "2", "title": "T", "description": "D", "websiteUrl": "https://e.x"}
    assert (app.name, app.version) == ("x", "2")


async def test_every_change_at_run_time_is_published_and_seen():
    """The next list has the change, and listeners are notified."""
    app = MCPServer("x")
    app.add_tool(lambda: 1, name="a")
    app.add_tool(lambda: 2, name="b")
    app.prompt("p")(lambda: "x")
    app.resource("data://x")(lambda: "x")
    app.resource("data://{y}")(lambda y: y)
    assert len((await ask(app, "tools/list"))["tools"]) == 2
    with app.lowlevel.bus.listen(ListenFilter(["tools", "prompts", "resources"])) as listener:
        app.disable(tool="a")
        assert [event.topic for event in listener.drain()] == ["notifications/tools/list_changed"]
        app.disable(tool="a")
        assert listener.drain() == []
        assert [tool["name"] for tool in (await ask(app, "tools/list"))["tools"]] == ["b"]
        with pytest.raises(InvalidParams):
            await call(app, "a")
        app.enable(tool="a")
        assert [tool["name"] for tool in (await ask(app, "tools/list"))["tools"]] == ["a", "b"]
        listener.drain()
        app.disable(resource="data://{y}", prompt="p")
        app.remove_tool("b")
        app.remove_resource("data://x")
        app.remove_prompt("p")
        assert len(listener.drain()) == 3
    assert (await ask(app, "resources/list"))["resources"] == []
    assert (await ask(app, "resources/templates/list"))["resourceTemplates"] == []
    assert (await ask(app, "prompts/list"))["prompts"] == []
    for missing in ({"tool": "zz"}, {"resource": "zz"}, {"prompt": "zz"}):
        with pytest.raises(KeyError):
            app.disable(**missing)


async def test_middleware_wraps_in_process_calls():
    """A limit that holds over HTTP holds here too."""
    seen = []

    async def middleware(ctx: Any, call_next: Any) -> Any:
        seen.append(ctx.method)
        return await call_next(ctx)

    app = MCPServer("x", middleware=[middleware])
    app.add_tool(lambda: 1, name="t")
    result = await app.call_tool("t")
    assert result.structured_content == 1
    assert seen == ["tools/call"]


async def test_in_process_calls_need_no_transport():
    """For tests and for programs that are their own host."""
    app = MCPServer("x")
    app.resource("data://x")(lambda: "r")
    app.prompt("p")(lambda a: a)
    assert (await app.read_resource("data://x")).contents[0].text == "r"
    assert (await app.get_prompt("p", {"a": "v"})).messages[0].content.text == "v"
    assert [entry.uri for entry in app.list_resources()] == ["data://x"]
    assert app.list_resource_templates() == []
    assert [entry.name for entry in app.list_prompts()] == ["p"]


async def test_text_and_schema_settings_of_the_server_and_of_one_tool():
    """Per server and per tool; the tool's own wins."""
    pytest.importorskip("toons")
    app = MCPServer("x", text="toon", schema="exact", max_result_bytes=1000)
    rows = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]

    @app.tool
    def one(kind: str | None = None):
        return rows

    @app.tool("two", text="json", schema="model", max_result_bytes=5)
    def two(kind: str | None = None):
        return rows

    first, second = app.list_tools()
    assert "anyOf" in first.input_schema["properties"]["kind"]
    assert second.input_schema["properties"]["kind"] == {"type": "string"}
    answer = await call(app, "one")
    assert answer["content"][0]["text"].startswith("[2]{a,b}")
    assert answer["structuredContent"] == rows
    assert (await call(app, "two"))["isError"] is True


def test_a_signature_that_stays_pending_stops_the_start():
    """One tool that cannot be described would fail the list for everyone."""
    app = MCPServer("x")

    def later(p): ...

    later.__annotations__["p"] = "NeverDefined"
    app.tool(later)
    with pytest.raises(SignatureError, match="NeverDefined"):
        app.run("stdio")


@pytest.mark.parametrize("kind", ["parameter", "return", "resource", "prompt", "mounted"])
async def test_a_name_that_never_comes_stops_every_way_to_start(kind):
    """A list that fails whole at the first client hides all the other tools."""
    app = MCPServer("x")
    owner = MCPServer("guest") if kind == "mounted" else app
    app.tool("good")(lambda: 1)

    def later(p: str = ""): ...

    later.__annotations__["return" if kind == "return" else "p"] = "NeverDefined"
    if kind == "resource":
        app.resource("data://{p}")(later)
    elif kind == "prompt":
        app.prompt(later)
    else:
        owner.tool(later)
    if kind == "mounted":
        app.mount(owner, prefix="g")
    with pytest.raises(SignatureError, match="NeverDefined"):
        async with Client(app):
            pass
    with pytest.raises(SignatureError, match="NeverDefined"):
        async with app.lowlevel.lifespan():
            pass
    with pytest.raises(SignatureError, match="NeverDefined"):
        app.run("http")


async def test_a_tool_without_a_schema_that_comes_while_serving_does_not_take_the_list_along(caplog):
    """Nothing could refuse it at the start; the operator reads which one it is."""
    app = MCPServer("x")
    app.tool("good")(lambda: 1)
    app.prompt("fine")(lambda: "x")

    def later(p): ...

    later.__annotations__["p"] = "NeverDefined"
    async with Client(app) as client:
        app.tool(later)
        app.prompt(later)
        assert [tool.name for tool in await client.list_tools()] == ["good"]
        assert [prompt.name for prompt in await client.list_prompts()] == ["fine"]
    assert "NeverDefined" in caplog.text


class NoSchema(pydantic.BaseModel):
    call: Callable[[int], int]


class FailingSchema(pydantic.BaseModel):
    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        raise RuntimeError("out of order")


@pytest.mark.parametrize("model", [NoSchema, FailingSchema])
@pytest.mark.parametrize("place", ["p", "return"])
@pytest.mark.parametrize("wrap", [lambda hint: hint, lambda hint: list[hint], lambda hint: hint | None])
def test_a_type_without_a_schema_is_refused_at_registration(model, place, wrap):
    """The error has the reason of the class's library, at the line that registers the tool."""
    app = MCPServer("x")

    def function(p: Any = None) -> Any: ...

    function.__annotations__[place] = wrap(model)
    with pytest.raises(SignatureError, match=f"function.*{model.__name__}"):
        app.tool(function)
    assert app.list_tools() == []


async def test_a_model_that_names_a_later_class_is_served_once_that_is_there():
    """Modules define classes in any order."""
    app = MCPServer("x")
    app.tool(takes_early)
    Early.model_rebuild(_types_namespace={"Late": int})
    async with Client(app) as client:
        assert [tool.name for tool in await client.list_tools()] == ["takes_early"]
        assert (await client.call_tool("takes_early", {"early": {"late": 1}})).structured_content == {"late": 1}


class Early(pydantic.BaseModel):
    late: Late  # type: ignore[name-defined]  # noqa: F821


def takes_early(early: Early) -> Early:
    return early


def test_wrong_settings_fail_where_they_are_written():
    """Not at the first request."""
    settings: list[dict[str, Any]] = [{"text": "yaml"}, {"page_size": 0}, {"max_threads": 0}]
    for wrong in settings:
        with pytest.raises(ValueError):
            MCPServer("x", **wrong)
    with pytest.raises(ValueError, match="expected 'stdio' or 'http'"):
        MCPServer("x").run("carrier pigeon")  # type: ignore[arg-type]


def test_a_misspelt_option_is_answered_with_the_right_one():
    """`ToolSet.add() got an unexpected keyword argument` names a function that the author never called."""
    app: Any = MCPServer("x")  # type checkers find these by themselves
    with pytest.raises(TypeError, match="A tool has no option 'tsk'; did you mean 'task'"):
        app.tool(tsk="optional")(lambda: None)
    with pytest.raises(TypeError, match="A resource has no option 'mime'; did you mean"):
        app.resource("data://x", mime="text/plain")(lambda: None)
    with pytest.raises(TypeError, match="A prompt has no option 'q'; there are name, title"):
        app.prompt(q=1)(lambda: None)


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_type_checkers_see_the_decorated_functions(tmp_path, checker: str):
    """Neither Any nor an error, bare or with arguments, sync or async; a condition on an answer narrows its type."""
    program = tmp_path / "program.py"
    program.write_text(
        "from typing import Literal, assert_type\n"
        "from ferrule import Client, Context, MCPServer\n"
        "from ferrule.questions import Accepted, Refused\n"
        "app = MCPServer('x')\n"
        "@app.tool\n"
        "async def one(a: int, ctx: Context | None = None) -> str:\n"
        "    return str(a)\n"
        "@app.tool('two', title='T')\n"
        "def two(a: int = 1) -> list[int]:\n"
        "    return [a]\n"
        "@app.resource('data://{a}')\n"
        "def three(a: str) -> bytes:\n"
        "    return b''\n"
        "@app.prompt\n"
        "def four(a: str) -> str:\n"
        "    return a\n"
        "async def main() -> None:\n"
        "    assert_type(await one(1), str)\n"
        "    assert_type(two(), list[int])\n"
        "    assert_type(three('a'), bytes)\n"
        "    assert_type(four('a'), str)\n"
        "    two('wrong')  # type: ignore[arg-type]\n"
        "@app.tool\n"
        "async def five(ctx: Context) -> str:\n"
        "    answer = await ctx.elicit('Which?', int)\n"
        "    if answer.action == 'accept':\n"
        "        assert_type(answer.data, int)\n"
        "    if not answer:\n"
        "        return answer.action\n"
        "    assert_type(answer.data, int)\n"
        "    return (await ctx.sample('hi', max_tokens=1)).text\n"
        "@app.tool\n"
        "async def six(ctx: Context) -> str:\n"
        "    answer = await ctx.elicit('Which?', int)\n"
        "    match answer:\n"
        "        case Accepted(data=number):\n"
        "            assert_type(number, int)\n"
        "        case Refused(action=action):\n"
        "            assert_type(action, Literal['decline', 'cancel'])\n"
        "    if isinstance(answer, Accepted):\n"
        "        assert_type(answer.data, int)\n"
        "    if answer.accepted is True:\n"
        "        assert_type(answer.data, int)\n"
        "    if answer.data is not None:\n"
        "        assert_type(answer.data, int)\n"
        "    assert_type(await ctx.confirm('Sure?'), bool)\n"
        "    chosen = await ctx.choose('Which?', ['a', 'b'])\n"
        "    if chosen is None:\n"
        "        return 'none'\n"
        "    assert_type(chosen, str)\n"
        "    url = await ctx.elicit_url('Sign in', 'https://a.example')\n"
        "    return 'done' if url else url.action\n"
        "async def call(client: Client) -> str | None:\n"
        "    result = await client.call_tool('one', {'a': 1})\n"
        "    if result.is_error:\n"
        "        return result.text\n"
        "    for block in result.content:\n"
        "        if block.type == 'text':\n"
        "            assert_type(block.text, str | None)\n"
        "    assert_type(result.raise_on_error().text, str)\n"
        "    return None\n",
        encoding="utf-8",
    )
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    commands = {
        "mypy": ["--strict", "--warn-unused-ignores", "--cache-dir", str(tmp_path / "c"), str(program)],
        "pyright": ["--pythonpath", sys.executable, "--project", str(tmp_path)],
    }
    command = [sys.executable, "-m", checker, *commands[checker]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ("Success" if checker == "mypy" else "0 errors, 0 warnings") in done.stdout, done.stdout


async def test_logging_is_announced_where_something_may_log():
    """The capability is deprecated (2026-07-28): a server that cannot log does not announce it, in no revision."""

    def logger_of(ctx: Context) -> str:
        return ""

    def silent(app: MCPServer) -> None:
        app.add_tool(lambda: "x", name="t")

    def with_context(app: MCPServer) -> None:
        async def tool(ctx: Context) -> str:
            return "x"

        app.add_tool(tool)

    def with_dependency(app: MCPServer) -> None:
        async def tool(name: str = Depends(logger_of)) -> str:
            return name

        app.add_tool(tool)

    def mounted(app: MCPServer) -> None:
        guest = MCPServer("guest")
        with_context(guest)
        app.mount(guest, prefix="g")

    for fill, said, expected in (
        (silent, None, False),
        (silent, True, True),
        (with_context, None, True),
        (with_context, False, False),
        (with_dependency, None, True),
        (mounted, None, True),
    ):
        for mode in ("2026-07-28", "2025-11-25"):
            app = MCPServer("x", logging=said)
            fill(app)
            async with Client(app, mode=mode) as client:
                assert (client.server_capabilities.logging is not None) is expected, (fill.__name__, said, mode)
