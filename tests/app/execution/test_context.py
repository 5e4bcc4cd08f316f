"""The context: facts of this very request, words to its client, and news for everyone who listens."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ferrule import Context, MCPServer, current_context
from ferrule.app.errors import NoRequest, NoSession
from ferrule.kernel.changes.bus import ListenFilter
from ferrule.protocol.errors import NoBackChannel, ResourceNotFound
from ferrule.transports.asgi.context import HttpContext
from tests.app.support import LATEST, V1125, RecordingDispatch, ask, call, connection_of, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def app() -> MCPServer:
    return MCPServer("x")


async def test_the_facts_of_the_request(app):
    """Each request has its own."""

    @app.tool
    async def facts(ctx: Context) -> list[Any]:
        return [
            ctx.request_id,
            ctx.method,
            ctx.protocol_version,
            ctx.meta.get("k"),
            ctx.client_info.name if ctx.client_info else None,
            ctx.client_capabilities.sampling is not None,
            ctx.transport.kind,
            dict(ctx.headers),
            ctx.principal,
            ctx.session_id,
            ctx.cancelled,
            ctx.app.name,
        ]

    connection = connection_of(
        LATEST, client_info_raw={"name": "c", "version": "1"}, client_capabilities_raw={"sampling": {}}
    )
    params = {"name": "facts", "arguments": {}, "_meta": {"k": "v"}}
    result = await ask(app, "tools/call", params, connection=connection)
    assert result["structuredContent"] == [
        1, "tools/call", LATEST, "v", "c", True, "local", {}, None, None, False, "x",
    ]  # fmt: skip


async def test_headers_and_principal_are_those_of_this_request(app):
    """The second request's bearer, not the first one's."""

    @app.tool
    async def who(ctx: Context) -> str:
        await asyncio.sleep(0)
        return f"{ctx.headers['authorization']} {ctx.principal}"

    class Dispatch(RecordingDispatch):
        __slots__ = ("transport",)

    async def one(name):
        dispatch = Dispatch()
        dispatch.transport = HttpContext(headers={"authorization": name}, principal=name)
        return (await call(app, "who", dispatch=dispatch))["structuredContent"]

    assert await asyncio.gather(one("A"), one("B")) == ["A A", "B B"]


async def test_lifespan_state_reaches_the_function():
    """What the lifespan yielded, entered once around several calls."""
    entered = []

    @asynccontextmanager
    async def lifespan(app):
        entered.append(app.name)
        yield {"db": "open"}
        entered.append("closed")

    app = MCPServer("x", lifespan=lifespan)

    @app.tool
    def state(ctx: Context[dict[str, str]]) -> str:
        return ctx.lifespan["db"]

    async with app.started():
        for _ in range(2):
            assert (await app.call_tool("state")).structured_content == "open"
    assert entered == ["x", "closed"]
    await app.call_tool("state")
    assert entered == ["x", "closed", "x", "closed"]


async def test_current_context_is_the_request_being_served(app):
    """Also in a helper, in a task that the function starts, and in a thread; never outside."""

    def helper() -> Any:
        return current_context().request_id

    @app.tool
    async def ids() -> list[Any]:
        return [helper(), await asyncio.create_task(asyncio.sleep(0, helper())), await asyncio.to_thread(helper)]

    @app.tool
    def sync_id() -> Any:
        return helper()

    assert (await call(app, "ids"))["structuredContent"] == [1, 1, 1]
    assert (await call(app, "sync_id"))["structuredContent"] == 1
    with pytest.raises(NoRequest):
        current_context()


async def test_nested_calls_give_the_outer_context_back(app):
    """A tool that calls another one in process keeps its own context."""

    @app.tool
    async def inner() -> str:
        return "inner"

    @app.tool
    async def outer(ctx: Context) -> list[Any]:
        before = current_context().request_id
        result = await ctx.call_tool("inner")
        return [result.structured_content, before == current_context().request_id]

    assert (await call(app, "outer"))["structuredContent"] == ["inner", True]


async def test_progress_and_log_go_to_the_client(app):
    """Log follows the era: modern only when the request names a level."""

    @app.tool
    async def work(ctx: Context) -> str:
        await ctx.progress(1, 2, "half")
        await ctx.debug("d")
        await ctx.warning({"a": 1})
        return "x"

    async def sent(meta: dict[str, Any], version: str):
        dispatch = RecordingDispatch()
        await ask(
            app, "tools/call", {"name": "work", "arguments": {}, "_meta": meta}, dispatch=dispatch, version=version
        )
        assert dispatch.sent.pop(0) == ("progress", (1, 2, "half"))
        return [params["level"] for _, params in dispatch.sent]

    assert await sent({}, LATEST) == []
    assert await sent({"io.modelcontextprotocol/logLevel": "info"}, LATEST) == ["warning"]
    assert await sent({}, V1125) == ["debug", "warning"]


async def test_a_level_that_does_not_exist_is_an_error(app):
    """A typing error in a log call must not be silent."""

    @app.tool
    async def work(ctx: Context) -> str:
        with pytest.raises(ValueError, match="not a log level"):
            await ctx.log("loud", "x")
        return "ok"

    assert (await call(app, "work"))["structuredContent"] == "ok"


async def test_changes_are_sent_to_all_listening_clients(app):
    """The bus carries it; who listens is not the tool's affair."""

    @app.tool
    async def publish(ctx: Context) -> str:
        await ctx.notify_tools_changed()
        await ctx.notify_prompts_changed()
        await ctx.notify_resources_changed()
        await ctx.notify_resource_updated("data://a/b")
        return "ok"

    with app.lowlevel.bus.listen(ListenFilter(["tools", "prompts", "resources"], ["data://a"])) as listener:
        await call(app, "publish")
        assert [event.method.removeprefix("notifications/") for event in listener.drain()] == [
            "tools/list_changed",
            "prompts/list_changed",
            "resources/list_changed",
            "resources/updated",
        ]


async def test_a_tool_reads_the_servers_own_resources(app):
    """Without a second connection."""

    @app.resource("data://{name}")
    def data(name: str) -> str:
        return name

    @app.tool
    async def read(ctx: Context) -> str:
        with pytest.raises(ResourceNotFound):
            await ctx.read_resource("nope://x")
        return (await ctx.read_resource("data://hi")).contents[0].text or ""

    assert (await call(app, "read"))["structuredContent"] == "hi"


async def test_session_state_exists_as_long_as_its_connection(app):
    """The modern era has no sessions: it raises there, instead of losing data in silence."""

    @app.tool
    async def count(ctx: Context) -> int:
        ctx.session_state["n"] = ctx.session_state.get("n", 0) + 1
        return ctx.session_state["n"]

    @app.tool
    async def modern(ctx: Context) -> str:
        with pytest.raises(NoSession, match="handle"):
            _ = ctx.session_state
        return "refused"

    connection = connection_of(V1125)
    values = [await call(app, "count", connection=connection) for _ in range(2)]
    assert [value["structuredContent"]["result"] for value in values] == [1, 2]
    assert (await call(app, "modern"))["structuredContent"] == "refused"


class StreamDispatch(RecordingDispatch):
    """A legacy HTTP request whose stream can be closed and resumed, or not."""

    __slots__ = ("closed", "resumable")

    def __init__(self, resumable: bool) -> None:
        super().__init__()
        self.resumable = resumable
        self.closed: list[Any] = []

    async def close_stream(self, retry_ms: int | None = None) -> None:
        if not self.resumable:
            raise NoBackChannel("cannot be resumed")
        self.closed.append(retry_ms)


@pytest.mark.parametrize(
    ("version", "dispatch", "closed"),
    [
        (V1125, StreamDispatch(resumable=True), [250]),
        (V1125, StreamDispatch(resumable=False), []),
        (LATEST, RecordingDispatch(), None),
    ],
    ids=["resumable", "not resumable", "no such stream"],
)
async def test_a_stream_is_closed_where_the_client_can_resume_it(app, version, dispatch, closed):
    """SEP-1699. In other revisions the call has no effect, so that one function works in all of them."""

    @app.tool
    async def work(ctx: Context) -> bool:
        return await ctx.close_stream(250)

    result = await call(app, "work", version=version, dispatch=dispatch)
    assert text_of(result) == ("true" if closed else "false")
    assert getattr(dispatch, "closed", None) == closed
