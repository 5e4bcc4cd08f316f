"""The fast path in the states of a connection: order, cancellation, limits, the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from ferrule import Context, MCPServer, current_context
from ferrule.kernel.server import CallNext, ServerRequestContext
from tests.kernel.harness import initialize, modern, note, request
from tests.pipes import Line, line_to

ERAS = ["modern", "legacy"]


def call(id: Any, era: str, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return modern(id, "tools/call", params) if era == "modern" else request(id, "tools/call", params)


async def open_line(line: Line, era: str) -> None:
    if era == "modern":
        await line.tell(modern(-1, "server/discover"))
    else:
        await line.tell(initialize(-1), note("notifications/initialized"))


def texts(line: Line) -> dict[Any, Any]:
    """Answers by id: the text of a result, or the error."""
    found: dict[Any, Any] = {}
    for message in line.messages():
        if "result" in message and "content" in message["result"]:
            found[message["id"]] = message["result"]["content"][0]["text"]
        elif "error" in message:
            found[message["id"]] = message["error"]
    return found


def make_app(**options: Any) -> tuple[MCPServer[Any], list[Any], dict[str, asyncio.Future[str]]]:
    """A server, what its tools did, and the futures that ``waits`` waits for."""
    app: MCPServer[Any] = MCPServer("plain", version="1", **options)
    events: list[Any] = []
    gates: dict[str, asyncio.Future[str]] = {}

    @app.tool
    async def echo(text: str) -> str:
        events.append(text)
        return text

    @app.tool
    async def waits(name: str) -> str:
        gates[name] = asyncio.get_running_loop().create_future()
        try:
            return await gates[name]
        except asyncio.CancelledError:
            events.append(f"{name} cancelled")
            raise

    return app, events, gates


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.anyio
async def test_a_cancellation_reaches_a_call_that_waits(era: str) -> None:
    """It gets no answer, its id is free again, and others go on."""
    app, events, gates = make_app()
    async with line_to(app) as line:
        await open_line(line, era)
        await line.tell(call(1, era, "waits", name="a"), call(2, era, "waits", name="b"))
        await line.tell(note("notifications/cancelled", {"requestId": 1}))
        assert events == ["a cancelled"]
        await line.tell(call(1, era, "echo", text="again"))
        gates["b"].set_result("b is done")
        await line.tell()
        assert texts(line) == {1: "again", 2: "b is done"}
    assert app.tools.general_calls == 0


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.anyio
async def test_an_id_that_is_in_flight_is_refused(era: str) -> None:
    """Two calls under one id would swap their answers."""
    app, _, gates = make_app()
    async with line_to(app) as line:
        await open_line(line, era)
        await line.tell(call(1, era, "waits", name="a"))
        await line.tell(call(1, era, "echo", text="second"))
        assert "still in flight" in texts(line)[1]["message"]
        gates["a"].set_result("first")
        await line.tell()
        assert texts(line) == {1: "first"}


@pytest.mark.anyio
async def test_calls_that_wait_count_as_requests_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound on what a peer can make grow is one for both paths."""
    app, _, gates = make_app()
    from ferrule.kernel.duplex import JSONRPCDispatcher

    original: Callable[..., None] = JSONRPCDispatcher.__init__

    def init(self: Any, *args: Any, **options: Any) -> None:
        original(self, *args, **{**options, "max_in_flight": 2})

    monkeypatch.setattr(JSONRPCDispatcher, "__init__", init)
    async with line_to(app) as line:
        await open_line(line, "modern")
        await line.tell(*(call(id, "modern", "waits", name=str(id)) for id in (1, 2, 3)))
        assert texts(line)[3]["message"] == "Too many requests are in flight"
        gates["1"].set_result("one")
        await line.tell()
        await line.tell(call(4, "modern", "echo", text="four"))
        assert texts(line)[4] == "four"
        gates["2"].set_result("two")


@pytest.mark.anyio
async def test_a_shutdown_lets_calls_finish_and_cancels_those_that_do_not() -> None:
    """They are in flight for it as any other."""
    app, events, gates = make_app()
    async with line_to(app, drain_s=0.2) as line:
        await open_line(line, "modern")
        await line.tell(call(1, "modern", "waits", name="a"), call(2, "modern", "waits", name="b"))
        line.hang_up()
        await line.send(b"")
        gates["a"].set_result("in time")
    assert texts(line) == {1: "in time"}
    assert events == ["b cancelled"]


@pytest.mark.anyio
async def test_a_plain_call_does_not_overtake_an_unusual_message() -> None:
    """Of one read the rest goes the way of the unusual one, whatever that does."""
    app, events, _ = make_app()
    seen: list[Any] = []

    async def middleware(ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        seen.append(ctx.request_id)
        return await call_next(ctx)

    @app.tool
    async def watch() -> str:
        """Add middleware, which needs every call, so that the fast path has to stop in the middle of a read."""
        app.lowlevel.middleware.append(middleware)
        return "watched"

    async with line_to(app) as line:
        await open_line(line, "modern")
        unusual = modern(2, "tools/call", {"name": "echo", "arguments": {"text": "2"}}, meta={"progressToken": "1"})
        await line.tell(call(1, "modern", "echo", text="1"), unusual, call(3, "modern", "echo", text="3"))
        assert events == ["1", "2", "3"]
        assert (app.tools.fast_calls, app.tools.general_calls) == (1, 2)
        await line.tell(call(4, "modern", "watch"), call(5, "modern", "echo", text="5"))
        assert seen == [5]


@pytest.mark.anyio
async def test_a_tool_that_changes_or_goes_is_called_as_it_is_now() -> None:
    """What was compiled for a tool goes with it."""
    app, _, _ = make_app()
    async with line_to(app) as line:
        await open_line(line, "modern")
        await line.tell(call(1, "modern", "echo", text="old"))
        app.remove_tool("echo")
        await line.tell(call(2, "modern", "echo", text="gone"))

        @app.tool
        async def echo(text: str) -> str:
            return text.upper()

        await line.tell(call(3, "modern", "echo", text="new"))
        app.disable(tool="echo")
        await line.tell(call(4, "modern", "echo", text="off"))
        app.enable(tool="echo")
        await line.tell(call(5, "modern", "echo", text="on"))
        found = texts(line)
        assert (found[1], found[3], found[5]) == ("old", "NEW", "ON")
        assert all(found[id]["message"].startswith("Unknown tool") for id in (2, 4))


@pytest.mark.anyio
async def test_a_foreign_handler_of_tools_call_gets_every_call() -> None:
    """The fast path does not bypass another handler of the method."""
    app, events, _ = make_app()

    async def handler(ctx: ServerRequestContext[Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"mine: {ctx.params.name}"}]}

    async with line_to(app) as line:
        await open_line(line, "modern")
        app.lowlevel.add_request_handler("tools/call", handler)
        await line.tell(call(1, "modern", "echo", text="x"))
        assert texts(line)[1] == "mine: echo"
    assert events == []


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.anyio
async def test_the_request_is_available_in_the_whole_call(era: str) -> None:
    """In the function, in a task that it starts, and in one that outlives it; each call has its own."""
    app, _, _ = make_app()
    late: list[asyncio.Task[Any]] = []

    async def look() -> tuple[Any, ...]:
        await asyncio.sleep(0)
        ctx = current_context()
        return ctx.request_id, ctx.method, ctx.app is app

    @app.tool
    async def now(ctx: Context) -> str:
        return repr((ctx.request_id, current_context().request_id, ctx.request.params.name))

    @app.tool
    async def later() -> str:
        late.append(asyncio.get_running_loop().create_task(look()))
        return "started"

    async with line_to(app) as line:
        await open_line(line, era)
        await line.tell(*(call(id, era, "now") for id in (1, "two")))
        await line.tell(*(call(id, era, "later") for id in (3, 4)))
        found = texts(line)
        assert found[1] == "(1, 1, 'now')"
        assert found["two"] == "('two', 'two', 'now')"
        assert [await task for task in late] == [(3, "tools/call", True), (4, "tools/call", True)]
    assert app.tools.general_calls == 0


@pytest.mark.anyio
async def test_hints_for_the_method_go_into_the_answers() -> None:
    """They may be set while the server runs, after answers have been made without."""
    from ferrule.protocol.caching import CacheHint

    app, _, _ = make_app()
    async with line_to(app) as line:
        await open_line(line, "modern")
        await line.tell(call(1, "modern", "echo", text="x"))
        app.lowlevel.cache_hints["tools/call"] = CacheHint(5, "private")
        await line.tell(call(2, "modern", "echo", text="x"))
        first, second = (message["result"] for message in line.messages()[1:])
        assert "ttlMs" not in first
        assert second["ttlMs"] == 5


@pytest.mark.anyio
async def test_a_peer_that_does_not_read_makes_calls_wait() -> None:
    """Results are not piled up: what was not read stops the fast path, and the general path waits."""
    app, _, _ = make_app()

    @app.tool
    async def big() -> str:
        return "x" * 200_000

    async with line_to(app) as line:
        await open_line(line, "modern")
        line.received = b""
        read, line._read = line._read, lambda: None  # type: ignore[method-assign]
        await line.tell(*(call(id, "modern", "big") for id in range(40)))
        assert app.tools.fast_calls < 10
        line._read = read  # type: ignore[method-assign]
        answers = await line.wait_for(40)
        assert len(answers) == 40


@pytest.mark.anyio
async def test_a_level_that_does_not_exist_is_refused_as_always(caplog: pytest.LogCaptureFixture) -> None:
    """A rule of the general path about ``_meta`` holds for plain calls, whose ``_meta`` it judges."""
    caplog.set_level(logging.CRITICAL)
    app, events, _ = make_app()
    async with line_to(app) as line:
        await open_line(line, "modern")
        meta = {"io.modelcontextprotocol/logLevel": "loud"}
        await line.tell(modern(1, "tools/call", {"name": "echo", "arguments": {"text": "x"}}, meta=meta))
        assert texts(line)[1]["code"] == -32602
    assert (events, app.tools.fast_calls) == ([], 0)


@pytest.mark.anyio
async def test_the_environment_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a suite that is run both ways."""
    monkeypatch.setenv("FERRULE_FAST_PATH", "0")
    app, events, _ = make_app()
    async with line_to(app) as line:
        await open_line(line, "modern")
        await line.tell(call(1, "modern", "echo", text="x"))
    assert (events, app.tools.fast_calls, app.tools.general_calls) == (["x"], 0, 1)


@pytest.mark.anyio
async def test_a_withdrawn_call_that_returns_all_the_same_is_not_answered() -> None:
    """Its function may swallow the cancellation; the peer does not wait any more."""
    app, events, _ = make_app()

    @app.tool
    async def stubborn() -> str:
        try:
            return await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            events.append("swallowed")
            return "too late"

    async with line_to(app) as line:
        await open_line(line, "modern")
        await line.tell(call(1, "modern", "stubborn"))
        await line.tell(note("notifications/cancelled", {"requestId": 1}))
        await line.tell(call(2, "modern", "echo", text="next"))
        assert events == ["swallowed", "next"]
        assert texts(line) == {2: "next"}


@pytest.mark.anyio
async def test_calls_that_waited_for_the_same_thing_are_answered_in_one_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those that did not wait."""
    import os

    app, _, gates = make_app()
    async with line_to(app) as line:
        await open_line(line, "modern")
        await line.tell(*(call(id, "modern", "waits", name=str(id)) for id in range(8)))
        written: list[bytes] = []
        write = os.write

        def counted(fd: int, data: bytes) -> int:
            written.append(bytes(data))
            return write(fd, data)

        monkeypatch.setattr(os, "write", counted)
        for id, gate in gates.items():
            gate.set_result(f"done {id}")
        await line.tell()
        monkeypatch.undo()
        assert texts(line) == {id: f"done {id}" for id in range(8)}
        assert len(written) == 1


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.anyio
async def test_a_call_that_waits_may_ask_from_a_task_of_its_own(era: str) -> None:
    """The round belongs to the task that runs the call, whichever task first uses the request."""
    app, _, _ = make_app()

    async def ask() -> str:
        await asyncio.sleep(0)
        answer = await current_context().elicit("Which?", str)
        return str(answer.data)

    @app.tool
    async def asks() -> str:
        return await asyncio.get_running_loop().create_task(ask())

    async with line_to(app) as line:
        if era == "modern":
            await line.tell(modern(-1, "server/discover"))
            await line.tell(modern(1, "tools/call", {"name": "asks", "arguments": {}}, elicitation={}))
            assert line.messages()[-1]["result"]["resultType"] == "input_required"
        else:
            await line.tell(initialize(-1, elicitation={}), note("notifications/initialized"))
            await line.tell(call(1, era, "asks"))
            question = line.messages()[-1]
            assert question["method"] == "elicitation/create"
            content = {"action": "accept", "content": {"value": "this"}}
            await line.tell({"jsonrpc": "2.0", "id": question["id"], "result": content})
            assert texts(line)[1] == "this"
    assert app.tools.general_calls == 0


@pytest.mark.anyio
async def test_sync_tools_run_beside_the_loop_and_see_their_own_request() -> None:
    """Each in a thread, under the context of its call."""
    app, _, _ = make_app()

    @app.tool
    def seen() -> str:
        return str(current_context().request_id)

    async with line_to(app) as line:
        await open_line(line, "modern")
        await line.tell(*(call(id, "modern", "seen") for id in range(30)))
        await line.wait_for(31)
        assert texts(line) == {id: str(id) for id in range(30)}
    assert (app.tools.fast_calls, app.tools.general_calls) == (30, 0)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("id", ["a", "", 'quote " and \\ \n', "é", "1", 0, -7, 2**60])
@pytest.mark.anyio
async def test_any_id_comes_back_as_it_was(id: Any, era: str) -> None:
    """A text or a number, whether the answer comes at once or late."""
    app, _, gates = make_app()
    async with line_to(app) as line:
        await open_line(line, era)
        await line.tell(call(id, era, "echo", text="at once"))
        assert texts(line) == {id: "at once"}
        await line.tell(call(id, era, "waits", name="a"))
        gates["a"].set_result("late")
        await line.tell()
        assert texts(line) == {id: "late"}
    assert app.tools.general_calls == 0


@pytest.mark.anyio
async def test_the_stream_knows_how_many_calls_arrived_and_how_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each frame counts once; one that waits is awaited until its answer."""
    from ferrule.transports.stdio.server import StdioReadStream

    taken: list[tuple[int, int]] = []
    original = StdioReadStream.frames_taken

    def frames_taken(self: StdioReadStream, count: int, unanswered: int) -> None:
        taken.append((count, unanswered))
        original(self, count, unanswered)

    monkeypatch.setattr(StdioReadStream, "frames_taken", frames_taken)
    app, _, gates = make_app()
    async with line_to(app) as line:
        await open_line(line, "modern")
        await line.tell(
            call(1, "modern", "echo", text="one"),
            call(2, "modern", "waits", name="a"),
            call(3, "modern", "waits", name="b"),
            call(4, "modern", "echo", text="four"),
        )
        assert (sum(count for count, _ in taken), sum(waiting for _, waiting in taken)) == (4, 2)
        gates["a"].set_result("two")
        await line.tell()
        assert (sum(count for count, _ in taken), sum(waiting for _, waiting in taken)) == (4, 1)
        gates["b"].set_result("three")
        await line.tell()
    assert (sum(count for count, _ in taken), sum(waiting for _, waiting in taken)) == (4, 0)
    assert all(count >= 0 for count, _ in taken)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.anyio
async def test_a_request_that_is_withdrawn_before_it_begins_does_not_end_the_fast_path(era: str) -> None:
    """Calls wait for what came before them only as long as it may still begin."""
    app, _, _ = make_app()
    async with line_to(app) as line:
        await open_line(line, era)
        asked = modern(1, "tools/list") if era == "modern" else request(1, "tools/list")
        await line.tell(asked, note("notifications/cancelled", {"requestId": 1}))
        await line.tell(call(2, era, "echo", text="two"))
        assert [message["id"] for message in line.messages()] == [-1, 2]
    assert (app.tools.fast_calls, app.tools.general_calls) == (1, 0)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.anyio
async def test_what_a_call_opened_is_closed_with_its_connection(era: str, waits: bool) -> None:
    """A modern connection lasts for one request, a legacy one as long as its channel."""
    app, events, _ = make_app()

    @app.tool
    async def opens() -> str:
        current_context().request.session.connection.exit_stack.callback(events.append, "closed")
        if waits:
            await asyncio.sleep(0)
        return "opened"

    async with line_to(app) as line:
        await open_line(line, era)
        for id in (1, 2):
            await line.tell(call(id, era, "opens"))
            assert texts(line)[id] == "opened"
            assert events == (["closed"] * id if era == "modern" else [])
    assert events == ["closed"] * 2
