"""Tools as clients of every revision see and call them."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import anyio
import pytest

from ferrule import Context, Header, MCPServer, ToolError
from ferrule.app.errors import RegistrationError, SignatureError
from ferrule.protocol.errors import InvalidParams, MCPError, ResourceNotFound
from ferrule.protocol.inbound import MirroredHeaders
from ferrule.types import ToolResult
from tests.app.support import EVERY_REVISION, LATEST, V0326, V0618, V1125, V2024, ask, call, text_of

pytestmark = pytest.mark.anyio


@dataclass
class Item:
    n: int


@pytest.fixture
def app() -> MCPServer:
    app = MCPServer("x", version="1")

    @app.tool
    async def echo(text: str) -> str:
        """Echo it.

        Args:
            text: what to say.
        """
        return text

    @app.tool
    def item(n: int = 1) -> Item:
        return Item(n)

    @app.tool
    def rows() -> list[int]:
        return [1, 2]

    return app


@pytest.mark.parametrize("version", EVERY_REVISION)
async def test_every_revision_lists_and_calls(app, version):
    """What a revision does not know is not sent to it."""
    result = await ask(app, "tools/list", version=version)
    tools = {tool["name"]: tool for tool in result["tools"]}
    assert list(tools) == ["echo", "item", "rows"]
    assert tools["echo"]["description"] == "Echo it."
    assert tools["echo"]["inputSchema"]["properties"]["text"]["description"] == "what to say."
    answer = await call(app, "rows", version=version)
    assert text_of(answer) == "[1,2]"
    if version in (V2024, V0326):
        assert "outputSchema" not in tools["rows"]
        assert "structuredContent" not in answer
    elif version in (V0618, V1125):
        assert tools["rows"]["outputSchema"]["properties"]["result"] == {"type": "array", "items": {"type": "integer"}}
        assert tools["rows"]["outputSchema"]["x-fastmcp-wrap-result"] is True
        assert answer["structuredContent"] == {"result": [1, 2]}
        assert tools["item"]["outputSchema"]["type"] == "object"
        assert (await call(app, "item", version=version))["structuredContent"] == {"n": 1}
    else:
        assert tools["rows"]["outputSchema"] == {"type": "array", "items": {"type": "integer"}}
        assert answer["structuredContent"] == [1, 2]


async def test_missing_arguments_are_an_empty_object(app):
    """``arguments`` is optional on the wire."""
    assert (await ask(app, "tools/call", {"name": "item"}))["structuredContent"] == {"n": 1}


@pytest.mark.parametrize("version", EVERY_REVISION)
async def test_wrong_arguments_are_a_result_that_describes_valid_ones(app, version):
    """The model must be able to correct itself."""
    answer = await call(app, "echo", {"txt": 1}, version=version)
    assert answer["isError"] is True
    assert "structuredContent" not in answer
    for part in ("Invalid arguments for tool `echo`", "`text`: required, send string", "did you mean `text`"):
        assert part in text_of(answer)


async def test_an_unknown_tool_is_a_protocol_error(app):
    """-32602, in every era (2026-07-28, "Tools", error handling)."""
    for name in ("nope", "Echo"):
        with pytest.raises(InvalidParams) as caught:
            await call(app, name)
        assert caught.value.code == -32602


async def test_a_tool_error_is_shown_as_it_stands(app):
    """It is written for the model."""

    @app.tool
    def fails() -> Item:
        raise ToolError("ask for less")

    answer = await call(app, "fails")
    assert (answer["isError"], text_of(answer)) == (True, "ask for less")


async def test_other_exceptions_are_masked_for_the_peer_and_logged_in_full(app, caplog):
    """The client gets no details, and the log has all of them."""

    @app.tool
    async def fails() -> str:
        raise RuntimeError("password=hunter2")

    with caplog.at_level(logging.ERROR):
        answer = await call(app, "fails")
    assert (answer["isError"], text_of(answer)) == (True, "Tool `fails` failed")
    assert "hunter2" in caplog.text
    assert "Traceback" in caplog.text


async def test_masking_can_be_turned_off():
    """For development."""
    app = MCPServer("x", mask_errors=False)

    @app.tool
    def fails():
        raise RuntimeError("why")

    assert text_of(await call(app, "fails")) == "Tool `fails` failed: RuntimeError: why"


async def test_protocol_errors_stay_protocol_errors(app):
    """A function raises one on purpose."""

    @app.tool
    def fails(kind: str):
        raise {"own": MCPError("no", code=4711), "missing": ResourceNotFound("data://x")}[kind]

    for kind, error in (("own", 4711), ("missing", -32602)):
        with pytest.raises(MCPError) as caught:
            await call(app, "fails", {"kind": kind})
        assert caught.value.code == error


async def test_a_result_that_breaks_its_type_is_an_error_result_and_logged(app, caplog):
    """The log has the error for the author, and the result has the reason for the model."""

    @app.tool
    def wrong() -> Item:
        return {"wrong": "shape"}  # type: ignore[return-value]

    with caplog.at_level(logging.ERROR):
        answer = await call(app, "wrong")
    assert answer["isError"] is True
    assert "structuredContent" not in answer
    assert "missing required field" in text_of(answer)
    assert "wrong" in caplog.text


async def test_cancellation_is_not_an_error_result(app):
    """A cancelled call has no answer; catching it would break the caller's scope."""
    entered = anyio.Event()

    @app.tool
    async def slow():
        entered.set()
        await anyio.sleep_forever()

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(call, app, "slow")
            await entered.wait()
            scope.cancel()
    assert scope.cancelled_caught


async def test_a_sync_function_that_wraps_an_async_one_is_awaited(app):
    """Decorators often hide that a function is async."""

    async def inner() -> str:
        return "done"

    app.add_tool(lambda: inner(), name="wrapped")
    assert text_of(await call(app, "wrapped")) == "done"


def test_names_are_checked_when_they_are_given(app, caplog):
    """What the specification refuses is an error, what model APIs refuse is a warning."""
    for bad in ("", "a b", "a,b", "a/b", "é", "x" * 129):
        with pytest.raises(RegistrationError):
            app.add_tool(lambda: None, name=bad)
    with pytest.raises(RegistrationError, match="lambda"):
        app.tool(lambda: None)
    with caplog.at_level(logging.WARNING):
        app.add_tool(lambda: None, name="a.b")
    assert "some model APIs refuse" in caplog.text


def test_a_taken_name_is_refused(app):
    """Replacing in silence has hidden typing errors elsewhere."""
    with pytest.raises(RegistrationError, match="already a tool 'echo'"):
        app.add_tool(lambda: None, name="echo")


def test_generators_are_refused(app):
    """The type of their items would be unknown."""

    def generator():
        yield 1

    with pytest.raises(SignatureError, match="generator"):
        app.tool(generator)


def test_a_return_type_without_a_json_form_is_refused_at_registration(app):
    """The first list would fail for everyone."""

    def tool() -> complex: ...

    with pytest.raises(SignatureError, match="return type"):
        app.tool(tool)


async def test_a_schema_of_ones_own_passes_untouched_and_is_enforced(app):
    """The author may need a dialect or a client that Ferrule does not support by itself."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": ["integer", "null"]}, "b": {"$ref": "#/$defs/B"}},
        "$defs": {"B": {"type": "string", "title": "B"}},
        "required": ["a"],
    }

    @app.tool("own", input_schema=schema)
    def own(**arguments: Any) -> dict[str, Any]:
        return arguments

    listed = {tool["name"]: tool for tool in (await ask(app, "tools/list"))["tools"]}
    assert listed["own"]["inputSchema"] == schema
    assert (await call(app, "own", {"a": None, "b": "x"}))["structuredContent"] == {"a": None, "b": "x"}
    answer = await call(app, "own", {"a": "x", "b": 1})
    assert answer["isError"] is True
    assert "`a`" in text_of(answer)
    assert "`b`" in text_of(answer)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/x.json"}}},
        {"type": "object", "required": 5},
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_at_registration(app, schema):
    """Nothing is fetched, and what cannot be resolved is not taken for permissive."""
    with pytest.raises(RegistrationError):
        app.add_tool(lambda a: a, name="own", input_schema=schema)


def test_header_parameters_are_planned_at_registration(app):
    """HTTP checks them before dispatch, so the header plan must exist before the first call."""

    @app.tool
    def regional(region: Annotated[str, Header("Region")], n: int = 1): ...

    (plan,) = app.lowlevel.attachments.made(MirroredHeaders).params["regional"]
    assert plan.name == "mcp-param-region"
    app.remove_tool("regional")
    assert "regional" not in app.lowlevel.attachments.made(MirroredHeaders).params


def test_a_header_on_a_number_is_refused_at_registration(app):
    """The final rule bans ``number``: its text form is not unique."""

    def regional(ratio: Annotated[float, Header("Ratio")]): ...

    with pytest.raises(RegistrationError, match="string, integer or boolean"):
        app.tool(regional)


async def test_every_option_of_the_registration_is_published(app):
    """Title, description, hints, icons and meta are the author's."""

    @app.tool("named", title="T", description="D", annotations={"readOnlyHint": True}, meta={"k": 1}, tags={"a"})
    def function(): ...

    listed = {tool["name"]: tool for tool in (await ask(app, "tools/list"))["tools"]}
    assert listed["named"] == {
        "name": "named",
        "title": "T",
        "description": "D",
        "annotations": {"readOnlyHint": True},
        "_meta": {"k": 1},
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    }
    assert app.tools.index.live["named"].tags == {"a"}


async def test_a_signature_that_stays_pending_is_an_error_on_use(app):
    """A name under TYPE_CHECKING never comes; the operator reads why."""
    from typing import TYPE_CHECKING

    if TYPE_CHECKING:
        from nowhere import Missing  # type: ignore[import-not-found]

    def later(p: Missing): ...

    app.tool(later)
    with pytest.raises(SignatureError, match="TYPE_CHECKING"):
        app.list_tools()


async def test_the_apps_share_of_a_general_call_is_eleven_python_calls(app):
    """The budget of the general path: convert the arguments, await the function where it may ask, make the result."""

    @app.tool
    async def hot(text: str, ctx: Context) -> str:
        return text

    seen: list[str] = []

    def count(frame, event, arg):
        if event == "call" and (
            "ferrule/app/" in frame.f_code.co_filename or frame.f_code.co_name in ("hot", "__post_init__")
        ):
            seen.append(frame.f_code.co_qualname)

    runner_call = app.call_tool
    async with app.started():
        await runner_call("hot", {"text": "x"})
        sys.setprofile(count)
        try:
            await runner_call("hot", {"text": "x"})
        finally:
            sys.setprofile(None)
    inner = seen[seen.index("ToolSet.handler") :]
    inner = [name for name in inner if not name.startswith(("LocalCaller", "_Local"))]
    assert len(inner) <= 11, inner


async def test_a_tool_may_return_a_tool_result_in_every_revision(app):
    """Structured content that a revision cannot carry is left out, nothing else is touched."""

    @app.tool
    def own() -> ToolResult:
        return ToolResult([], {"a": 1}, meta={"k": 1})

    for version in EVERY_REVISION:
        answer = await call(app, "own", version=version)
        assert ("structuredContent" in answer) is (version not in (V2024, V0326))
        assert answer["content"] == []
    assert (await call(app, "own", version=LATEST))["_meta"]["k"] == 1


async def test_an_error_from_a_task_group_counts_as_itself(caplog):
    """`asyncio.TaskGroup` and anyio wrap what a branch raised; the author meant the error, not the wrapping."""
    app = MCPServer("x")

    async def fail(*errors: Exception) -> None:
        async def branch(error: Exception) -> None:
            raise error

        async with anyio.create_task_group() as outer, anyio.create_task_group() as inner:
            for error in errors:
                inner.start_soon(branch, error)
            outer.start_soon(anyio.sleep, 0)

    @app.tool
    async def told() -> str:
        await fail(ToolError("not today"))
        return ""

    @app.tool
    async def refused() -> str:
        await fail(MCPError("no", code=7))
        return ""

    @app.tool
    async def unexpected() -> str:
        await fail(ValueError("secret"))
        return ""

    @app.tool
    async def mixed() -> str:
        await fail(ToolError("not today"), MCPError("no", code=7))
        return ""

    @app.prompt
    async def prompt() -> str:
        await fail(ToolError("no prompt"))
        return ""

    @app.resource("data://x")
    async def resource() -> str:
        await fail(MCPError("no resource", code=8))
        return ""

    assert text_of(await call(app, "told")) == "not today"
    with pytest.raises(MCPError, match="no") as refusal:
        await call(app, "refused")
    assert refusal.value.code == 7
    with pytest.raises(MCPError, match="no prompt"):
        await ask(app, "prompts/get", {"name": "prompt"})
    with pytest.raises(MCPError, match="no resource"):
        await ask(app, "resources/read", {"uri": "data://x"})
    assert caplog.records == []
    assert text_of(await call(app, "unexpected")) == "Tool `unexpected` failed"
    assert text_of(await call(app, "mixed")) == "Tool `mixed` failed"
    assert "secret" in caplog.text
    assert "not today" in caplog.text


@pytest.mark.parametrize("version", EVERY_REVISION)
async def test_wrong_arguments_are_a_result_in_every_revision(app, version):
    """A model can correct an error that it reads; many hosts do not show protocol errors to the model."""

    @app.tool
    def add(a: int) -> int:
        return a

    for wrong in ({}, {"a": "x"}, {"a": 1, "b": 2}):
        answer = await call(app, "add", wrong, version=version)
        assert answer["isError"] is True
        assert "Invalid arguments for tool `add`" in answer["content"][0]["text"]


async def test_the_error_for_an_unknown_name_repeats_its_beginning_only() -> None:
    """A peer chooses how long the name is, and the log and the peer itself get the error."""
    app: MCPServer[None] = MCPServer("t")

    @app.tool
    def echo(text: str) -> str:
        return text

    @app.prompt
    def style(name: str) -> str:
        return name

    @app.complete("style", "name")
    def names(typed: str) -> list[str]:
        return [typed]

    long = "name" * 100_000
    prompt, template = {"type": "ref/prompt", "name": long}, {"type": "ref/resource", "uri": f"data://{long}"}
    for method, params in (
        ("tools/call", {"name": long, "arguments": {}}),
        ("prompts/get", {"name": long}),
        ("completion/complete", {"ref": prompt, "argument": {"name": "name", "value": ""}}),
        ("completion/complete", {"ref": template, "argument": {"name": "name", "value": ""}}),
    ):
        with pytest.raises(InvalidParams) as caught:
            await ask(app, method, params)
        assert len(str(caught.value)) < 400
