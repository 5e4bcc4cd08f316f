"""The client over memory and stdio, both eras, asyncio and trio: every call, and how it ends when things go wrong.

A server that dies, a stderr that is not read, a caller that gives up, and opening and closing in different tasks.
"""

from __future__ import annotations

import datetime as dt
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pydantic
import pytest

from ferrule import Client, MCPError, MCPServer, StdioServer
from ferrule.client.calls.results import ToolFailed
from ferrule.client.connection import connector
from ferrule.client.errors import BadServerResponse
from ferrule.protocol.errors import ConnectionClosed, LocalError, RequestTimeout
from ferrule.transports.stdio.client import ServerProcessEnded, ServerStartFailed
from tests.client.server_program import make_app

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

PROGRAM = str(Path(__file__).with_name("server_program.py"))
ERAS = ["2026-07-28", "2025-11-25", "2024-11-05"]


def program() -> StdioServer:
    return StdioServer(sys.executable, [PROGRAM], env={"PYTHONPATH": str(Path(__file__).parents[2])})


TARGETS: dict[str, Callable[[], Any]] = {"memory": make_app, "stdio": program}


@pytest.fixture(params=sorted(TARGETS))
def target(request: pytest.FixtureRequest) -> Any:
    return TARGETS[request.param]()


@dataclass
class Sum:
    sum: int


@pytest.mark.parametrize("mode", ["auto", *ERAS])
async def test_every_call(target: Any, mode: str) -> None:
    """List, call, read, get, complete, ping: the same answers in every revision and on every link."""
    async with Client(target, mode=mode) as client:
        assert client.protocol_version == (ERAS[0] if mode == "auto" else mode)
        assert client.server_info is not None
        assert (client.server_info.name, client.instructions) == ("probe", "Be nice.")
        assert "add" in [tool.name for tool in await client.list_tools()]
        assert (await client.call_tool("echo", {"text": "häßlich 世界"})).text == "häßlich 世界"
        if mode != "2024-11-05":
            result = await client.call_tool("add", {"a": 1}, result_type=Sum)
            assert result.data == Sum(3)
        assert [resource.uri for resource in await client.list_resources()] == ["memo://today"]
        assert len(await client.list_resource_templates()) == 1
        assert len((await client.list_resource_templates_page()).resource_templates) == 1
        assert (await client.read_resource("memo://mon/tea")).contents[0].text == "tea on mon"
        assert [prompt.name for prompt in await client.list_prompts()] == ["greet"]
        assert [prompt.name for prompt in (await client.list_prompts_page()).prompts] == ["greet"]
        prompt = await client.get_prompt("greet", {"name": "Ada"})
        assert prompt.messages[0].content.text == "Greet Ada."
        await client.ping()
        with pytest.raises(MCPError):
            await client.read_resource("memo://nothing")


async def test_failed_tool_is_a_result_or_an_exception(target: Any) -> None:
    """``is_error`` by default; ``raise_on_error`` per call, per client, or on the result."""
    async with Client(target) as client:
        result = await client.call_tool("fail", {"why": "no paper"})
        assert result.is_error
        for raising in (
            lambda: client.call_tool("fail", {"why": "no paper"}, raise_on_error=True),
            lambda: _raise(result),
        ):
            with pytest.raises(ToolFailed, match="no paper"):
                await raising()


async def _raise(result: Any) -> None:
    result.raise_on_error()


async def test_errors_of_a_program_say_server_method_and_time() -> None:
    """As every error that passes through a client; what was started is there, too."""
    missing = StdioServer("no-such-program-anywhere")
    with pytest.raises(ServerStartFailed) as failed:
        await Client(missing).connect()
    assert (failed.value.server, failed.value.program) == (missing.label, missing)
    assert facts(failed.value) == (missing.label, "connect", True)
    assert "after" not in str(failed.value)  # it names the server already

    ending = StdioServer(sys.executable, ["-c", "raise SystemExit(3)"])
    with pytest.raises(ServerProcessEnded) as ended:
        await Client(ending).connect()
    assert facts(ended.value) == (ending.label, "connect", True)
    assert ended.value.program == ending


def test_an_error_outside_a_call_has_no_facts() -> None:
    """A program may read them of whatever it catches."""
    error = BadServerResponse("nothing was asked")
    assert (error.server, error.method, error.after_s, error.has_call_facts) == (None, None, None, False)


def facts(error: Any) -> tuple[str, str, bool]:
    return error.server, error.method, error.after_s >= 0


@pytest.mark.parametrize("mode", ERAS[:2])
async def test_data_has_a_class_once_the_program_has_listed_the_tools(mode: str) -> None:
    """In the legacy era a client looks up by itself whether a list was wrapped; that must not show in the types."""
    from ferrule import MCPServer

    app = MCPServer("sums")

    @app.tool
    def many() -> list[Sum]:
        return [Sum(1)]

    @app.tool
    def one() -> Sum:
        return Sum(2)

    async with Client(app, mode=mode) as client:
        assert (await client.call_tool("many")).data == [{"sum": 1}]
        assert (await client.call_tool("one")).data == {"sum": 2}
        assert (await client.call_tool("many", result_type=list[Sum])).data == [Sum(1)]
        await client.list_tools()
        assert (await client.call_tool("many")).data[0].sum == 1
        assert (await client.call_tool("one")).data.sum == 2


async def test_result_that_does_not_fit_the_wanted_class() -> None:
    """The error names tool, class and path."""
    async with Client(make_app()) as client:
        result = await client.call_tool("echo", {"text": "x"}, result_type=Sum)
        with pytest.raises(BadServerResponse, match="'echo'"):
            _ = result.data


@pytest.mark.parametrize("mode", ERAS[:2])
async def test_progress_reaches_the_caller(target: Any, mode: str) -> None:
    """In order, sync or async callback, and the call's own only."""
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with Client(target, mode=mode) as client:
        assert (await client.call_tool("steps", {"count": 3}, on_progress=note)).data == 3
    assert seen == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


@pytest.mark.parametrize("mode", ERAS[:2])
async def test_log_messages_by_level(target: Any, mode: str) -> None:
    """A handler gets messages in either era; the level filters them; those of a call come before it returns."""
    heard: list[Any] = []
    async with Client(target, mode=mode, log_handler=lambda p: heard.append((p.level, p.data))) as client:
        await client.call_tool("chatter")
        await client.set_log_level("debug")
        await client.call_tool("chatter")
        heard_in_time = list(heard)
    assert heard_in_time == [("warning", {"disk": "full"}), ("debug", "fine detail"), ("warning", {"disk": "full"})]


@pytest.mark.parametrize("mode", ERAS[:2])
async def test_giving_up_stops_the_handler(target: Any, mode: str, tmp_path: Path) -> None:
    """After a time-out, and after cancellation, the handler's ``finally`` runs and the next call works."""
    async with Client(target, mode=mode) as client:
        timed_out = tmp_path / "timed out"
        with pytest.raises(RequestTimeout) as caught:
            await client.call_tool("sleep", {"seconds": 30, "record": str(timed_out)}, timeout_s=0.2)
        assert client.label in str(caught.value)
        cancelled = tmp_path / "cancelled"
        with anyio.move_on_after(0.2):
            await client.call_tool("sleep", {"seconds": 30, "record": str(cancelled)})
        assert (await client.call_tool("echo", {"text": "next"})).text == "next"
        with anyio.fail_after(30):
            while not (timed_out.exists() and cancelled.exists()):
                await anyio.sleep(0.01)


async def test_progress_keeps_a_slow_tool_alive(target: Any) -> None:
    """The time-out counts from the last progress, the cap from the start."""
    async with Client(target, timeout_s=0.5) as client:
        assert (await client.call_tool("steps", {"count": 8, "pause_s": 0.1})).data == 8
        with pytest.raises(RequestTimeout):
            await client.call_tool("steps", {"count": 50, "pause_s": 0.1}, max_total_s=0.7)


async def test_dead_server_fails_pending_calls_at_once_and_is_restarted() -> None:
    """The error holds exit status and last words; the next call has a new process."""
    async with Client(program()) as client:
        before = client.session.channel.process.pid  # type: ignore[attr-defined]
        errors: list[Exception] = []

        async def pending() -> None:
            try:
                await client.call_tool("sleep", {"seconds": 30})
            except ConnectionClosed as error:
                errors.append(error)

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(pending)
                await anyio.sleep(0.1)
                with pytest.raises(ConnectionClosed, match="exit status 3") as caught:
                    await client.call_tool("die")
        assert "these are my last words" in str(caught.value)
        assert not hasattr(caught.value, "code")
        assert len(errors) == 3
        assert (await client.call_tool("echo", {"text": "again"})).text == "again"
        assert client.session.channel.process.pid != before  # type: ignore[attr-defined]


async def test_restart_can_be_switched_off() -> None:
    """Then later calls fail at once too."""
    async with Client(program(), restart=False) as client:
        for _ in range(2):
            with anyio.fail_after(30), pytest.raises(ConnectionClosed):
                await client.call_tool("die")


async def test_noisy_stderr_never_blocks_a_call() -> None:
    """256 KiB and more on stderr before the answer."""
    async with Client(program()) as client:
        with anyio.fail_after(30):
            assert (await client.call_tool("shout", {"size": 1 << 20})).text == "heard"


async def test_missing_program_is_said_plainly() -> None:
    """The error names the program, and nothing is left open."""
    with pytest.raises(ServerStartFailed, match="no-such-program"):
        await Client(["no-such-program"]).connect()


async def test_program_that_ends_at_once_is_said_plainly() -> None:
    """Not a time-out and not a group of exceptions: status and last words."""
    with anyio.fail_after(30), pytest.raises(ConnectionClosed, match="oh dear") as caught:
        await Client([sys.executable, "-c", "import sys; sys.exit('oh dear')"]).connect()
    assert "exit status 1" in str(caught.value)


async def test_silent_program_is_given_up() -> None:
    """A server that never responds must not block its client."""
    client = Client([sys.executable, "-c", "input(); input()"], probe_timeout_s=0.1, connect_timeout_s=0.3)
    with anyio.fail_after(30), pytest.raises(LocalError):
        await client.connect()


QUIRKY = """
import json, os, sys, time
print(os.getpid(), file=open(sys.argv[1], "a"), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, answer = message.get("method"), {"jsonrpc": "2.0", "id": message.get("id")}
    if method == "initialize" and sys.argv[2] != "silent":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"logging": {}, "tools": {}}}
        result["serverInfo"] = {"name": "quirky", "version": "1"}
        print(json.dumps({**answer, "result": result}), flush=True)
    elif method == "logging/setLevel" and sys.argv[2] == "dies":
        sys.exit(3)
    elif method == "logging/setLevel" and sys.argv[2] == "wordless":
        pass
    elif method == "tools/call" and sys.argv[2] == "batches":
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "heard"}}
        result = {"content": [{"type": "text", "text": "done"}]}
        ping = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
        print(json.dumps([note, ping, {**answer, "result": result}]), flush=True)
        print("pong" if '"id":0' in sys.stdin.readline() else "?", file=open(sys.argv[1] + ".pong", "w"), flush=True)
    elif method == "tools/call":
        print(json.dumps({**answer, "result": {"content": [{"type": "text", "text": "done"}]}}), flush=True)
        if sys.argv[2] == "deaf":
            os.close(0)
            open(sys.argv[1] + ".deaf", "w").close()
            time.sleep(60)
    elif "id" in message and sys.argv[2] != "silent":
        print(json.dumps({**answer, "error": {"code": -32601, "message": "no"}}), flush=True)
"""


def quirky(pids: Path, kind: str) -> StdioServer:
    """A server with a fault of its own that notes each of its processes."""
    return StdioServer(sys.executable, ["-c", QUIRKY, str(pids), kind], close_s=0.2)


def living(pids: Path) -> list[int]:
    """Those of the noted processes that still run."""
    return [int(pid) for pid in pids.read_text().split() if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("kind", ["refuses", "wordless"])
async def test_a_log_level_that_is_not_taken_does_not_fail_connecting(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers declare ``logging`` and do not know ``logging/setLevel``, or never answer it."""
    monkeypatch.setattr("ferrule.client.parts.PREPARE_TIMEOUT_S", 0.1)
    async with Client(quirky(tmp_path / "pids", kind), mode="legacy", log_level="info") as client:
        assert (await client.call_tool("t")).text == "done"
    assert "did not take logging/setLevel" in caplog.text
    assert living(tmp_path / "pids") == []


async def test_a_server_that_ends_at_the_first_message_leaves_nothing(tmp_path: Path) -> None:
    """What comes after the handshake belongs to connecting: its failure closes what was opened."""
    client = Client(quirky(tmp_path / "pids", "dies"), mode="legacy", log_level="info")
    with pytest.raises(ServerProcessEnded, match="exit status 3"):
        await client.connect()
    assert not client.is_connected
    assert living(tmp_path / "pids") == []


@pytest.mark.parametrize("kind", ["silent", "wordless"])
async def test_a_cancelled_connect_leaves_nothing(kind: str, tmp_path: Path) -> None:
    """In the handshake, and in what comes after it."""
    client = Client(quirky(tmp_path / "pids", kind), mode="legacy", log_level="info")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.connect)
        while not (tmp_path / "pids").exists() or not living(tmp_path / "pids"):
            await anyio.sleep(0.01)
        await anyio.sleep(0.2)
        tasks.cancel_scope.cancel()
    assert living(tmp_path / "pids") == []


async def test_closing_gives_up_a_connect_of_another_task(tmp_path: Path) -> None:
    """Close does not wait for a server that does not answer."""
    client = Client(quirky(tmp_path / "pids", "silent"), mode="legacy")
    caught: list[BaseException] = []

    async def connect() -> None:
        try:
            await client.connect()
        except ConnectionClosed as error:
            caught.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connect)
        while not (tmp_path / "pids").exists() or not living(tmp_path / "pids"):
            await anyio.sleep(0.01)
        with anyio.fail_after(30):
            await client.aclose()
    assert "was closed while it connected" in str(caught[0])
    assert living(tmp_path / "pids") == []


async def test_arrays_of_messages_are_taken(tmp_path: Path) -> None:
    """Revision 2025-03-26: a notice, a question and the answer in one line."""
    heard: list[Any] = []
    async with Client(
        quirky(tmp_path / "pids", "batches"),
        mode="legacy",
        message_handler=lambda method, params: heard.append(params.get("data")),
    ) as client:
        assert (await client.call_tool("t")).text == "done"
        pong = tmp_path / "pids.pong"
        with anyio.fail_after(30):
            while not pong.exists() or not pong.read_text():
                await anyio.sleep(0.01)
    assert (heard, pong.read_text()) == (["heard"], "pong\n")


async def test_a_server_that_stops_reading_is_replaced(tmp_path: Path) -> None:
    """It lives on and answers nothing: the call that meets it fails, and the next one gets a new process."""
    async with Client(quirky(tmp_path / "pids", "deaf"), mode="legacy", timeout_s=60) as client:
        assert (await client.call_tool("t")).text == "done"
        with anyio.fail_after(30):
            while not (tmp_path / "pids.deaf").exists():
                await anyio.sleep(0.01)
        if client.is_connected:  # trio learns of it by writing
            with pytest.raises(ConnectionClosed, match="closed its input"):
                await client.call_tool("t")
        assert not client.is_connected
        assert (await client.call_tool("t")).text == "done"
        assert len((tmp_path / "pids").read_text().split()) == 2


async def test_the_bound_of_connecting_holds_for_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """One bound applies to every step of connecting, also to the first one."""
    for kind in connector.PROBE_TIMEOUT_S:
        monkeypatch.setitem(connector.PROBE_TIMEOUT_S, kind, 1000.0)
    client = Client([sys.executable, "-c", "input(); input(); input()"], connect_timeout_s=0.3)
    with anyio.fail_after(30), pytest.raises(LocalError):
        await client.connect()


async def test_use_before_and_after_is_an_error() -> None:
    """A client that is not open raises and does not hang; a closed one too, and it can be opened again."""
    client = Client(make_app())
    with pytest.raises(ConnectionClosed, match="not connected"):
        await client.list_tools()
    await client.connect()
    await client.connect()
    await client.aclose()
    await client.aclose()
    with pytest.raises(ConnectionClosed):
        await client.list_tools()
    async with client:
        assert await client.list_tools()


@pytest.mark.parametrize("mode", ERAS[:2])
async def test_changes_are_received(mode: str) -> None:
    """One iterator in both eras; the changed list is requested again."""
    app = make_app()
    app.lowlevel.list_changed.update({"tools", "resources"})
    app.lowlevel.resource_updates = True
    async with Client(app, mode=mode) as client:
        await client.list_tools()
        async with client.listen(tools=True, uris=["memo://today"]) as changes:

            @app.tool
            def late() -> str:
                """Came late."""
                return "x"

            with anyio.fail_after(30):
                assert (await anext(changes)).kind == "tools"
            assert "late" in [tool.name for tool in await client.list_tools()]
            app.notify_resource_updated("memo://today")
            with anyio.fail_after(30):
                event = await anext(changes)
            assert (event.kind, event.uri) == ("resource", "memo://today")


async def test_lifespan_of_a_server_in_this_process() -> None:
    """Entered once per connection, left at close, an error in it is the connect's error."""
    from contextlib import asynccontextmanager

    from ferrule import MCPServer

    events: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[Any]:
        events.append("in")
        yield {"n": 1}
        events.append("out")

    client = await Client(MCPServer("s", lifespan=lifespan)).connect()
    assert events == ["in"]
    await client.aclose()
    assert events == ["in", "out"]

    @asynccontextmanager
    async def broken(app: Any) -> AsyncIterator[Any]:
        raise RuntimeError("no database")
        yield

    with pytest.raises(RuntimeError, match="no database"):
        await Client(MCPServer("s", lifespan=broken)).connect()


class StrictAnswer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    day: dt.date
    key: uuid.UUID
    pair: tuple[int, str]


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-06-18"])
async def test_a_strict_model_is_read_from_json_alone_and_inside(mode: Any):
    """JSON has no dates; a strict model refuses text for a number, but accepts text for a date."""
    answer = StrictAnswer(day=dt.date(2026, 1, 2), key=uuid.UUID(int=5), pair=(1, "a"))
    app = MCPServer("x")

    @app.tool
    def one() -> StrictAnswer:
        return answer

    @app.tool
    def more() -> list[StrictAnswer]:
        return [answer]

    @app.tool
    def wrong() -> dict[str, Any]:
        return {"day": 5, "key": "x", "pair": [1]}

    async with Client(app, mode=mode) as client:
        assert (await client.call_tool("one", result_type=StrictAnswer)).data == answer
        assert (await client.call_tool("more", result_type=list[StrictAnswer])).data == [answer]
        with pytest.raises(BadServerResponse, match="StrictAnswer"):
            _ = (await client.call_tool("wrong", result_type=StrictAnswer)).data
