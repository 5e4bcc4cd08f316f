"""How many processes a legacy stdio server behind a gateway has, and when they end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client, MCPError
from ferrule.client.concurrent import gather
from ferrule.client.gateway.gateway import Gateway
from ferrule.client.gateway.upstreams.settings import UpstreamSettings

pytestmark = pytest.mark.anyio

PROGRAM = '''
import os, sys
from ferrule import Context, MCPServer

with open(sys.argv[1], "a") as starts:
    starts.write(f"{os.getpid()}\\n")
app = MCPServer("behind")

@app.tool
async def meet(ctx: Context, count: int, folder: str) -> int:
    """Return when so many calls are in progress, in any process."""
    import anyio
    open(os.path.join(folder, f"{os.getpid()}-{id(ctx)}"), "w").close()
    while len(os.listdir(folder)) < count:
        await anyio.sleep(0.01)
    return os.getpid()

@app.tool
async def meet_and_ask(ctx: Context, count: int, folder: str, who: str) -> str:
    await meet(ctx, count, folder)
    return await ask(ctx, who)

@app.tool
async def ask(ctx: Context, who: str) -> str:
    answer = await ctx.elicit(f"Are you {who}?", bool)
    return f"{who}: {answer.data}"

app.run()
'''


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    """The command of a legacy server that notes each start."""
    path = tmp_path / "behind.py"
    path.write_text(PROGRAM)
    return [sys.executable, str(path), str(tmp_path / "starts")]


def starts(tmp_path: Path) -> list[int]:
    """The processes that were started."""
    return [int(line) for line in (tmp_path / "starts").read_text().split()]


async def met(client: Client, count: int, folder: Path) -> set[int]:
    """The processes that serve so many calls of one client at the same time."""
    folder.mkdir()
    calls = [client.call_tool("behind_meet", {"count": count, "folder": str(folder)}) for _ in range(count)]
    return {result.data for result in await gather(calls)}


def yes(asked: Any) -> Any:
    """Answer every question."""
    return {"value": True}


@pytest.mark.parametrize("before", ["2026-07-28", "2025-11-25"])
async def test_calls_at_the_same_time_share_one_process(before: str, program: list[str], tmp_path: Path) -> None:
    """Also those of a client that could be asked something."""
    gateway = Gateway({"behind": program}, moment_s=60, mode="legacy")
    async with Client(gateway, mode=before, elicitation_handler=yes) as client:
        await client.list_tools()
        assert len(await met(client, 16, tmp_path / "met")) == 1
        processes = gateway.upstreams["behind"].proxy.processes  # pyright: ignore[reportOptionalMemberAccess]
        assert processes is not None
        assert processes.count == 1
    # The first one read what the server announces, without the capabilities of a client.
    assert len(starts(tmp_path)) == 2


async def test_sessions_at_the_same_time_share_one_process(program: list[str], tmp_path: Path) -> None:
    """A gateway over HTTP has many."""
    gateway = Gateway({"behind": program}, moment_s=60, mode="legacy")
    clients = [Client(gateway, mode="2025-11-25") for _ in range(8)]
    for client in clients:
        await client.connect()
    try:
        (tmp_path / "met").mkdir()
        arguments = {"count": 8, "folder": str(tmp_path / "met")}
        found = await gather([client.call_tool("behind_meet", arguments) for client in clients])
        assert len({result.data for result in found}) == 1
    finally:
        for client in clients:
            await client.aclose()
    assert len(starts(tmp_path)) == 2


def named(name: str) -> Any:
    """Return a client's answers: yes to the questions that are its own."""
    return lambda asked: {"value": name in asked.message}


async def test_a_server_that_asks_gets_a_process_for_each_client(program: list[str], tmp_path: Path) -> None:
    """The first question goes to the only call in progress; from then on no client shares a process."""
    gateway = Gateway({"behind": program}, moment_s=60, mode="legacy")
    one = Client(gateway, mode="2025-11-25", elicitation_handler=named("one"))
    two = Client(gateway, mode="2025-11-25", elicitation_handler=named("two"))
    async with one, two:
        await one.call_tool("behind_meet", {"count": 0, "folder": str(tmp_path)})
        await two.call_tool("behind_meet", {"count": 0, "folder": str(tmp_path)})
        assert (await one.call_tool("behind_ask", {"who": "one"})).text == "one: True"
        (tmp_path / "met").mkdir()
        arguments = {"count": 2, "folder": str(tmp_path / "met")}
        calls = [client.call_tool("behind_meet", arguments) for client in (one, two)]
        assert len({result.data for result in await gather(calls)}) == 2
        calls = [one.call_tool("behind_ask", {"who": "one"}), two.call_tool("behind_ask", {"who": "two"})]
        assert [result.text for result in await gather(calls)] == ["one: True", "two: True"]


async def test_no_client_is_asked_what_may_be_the_question_of_another_one(program: list[str], tmp_path: Path) -> None:
    """Two calls on one process: the question is refused, and no user answers for another."""
    settings = {"behind": UpstreamSettings(sessions="shared")}
    gateway = Gateway({"behind": program}, settings=settings, moment_s=60, mode="legacy")
    (tmp_path / "met").mkdir()
    arguments = {"count": 2, "folder": str(tmp_path / "met")}

    async def ask(client: Client, who: str) -> str:
        try:
            return (await client.call_tool("behind_meet_and_ask", {**arguments, "who": who})).text
        except MCPError:
            return "refused"

    one = Client(gateway, mode="2025-11-25", elicitation_handler=named("one"))
    two = Client(gateway, mode="2025-11-25", elicitation_handler=named("two"))
    async with one, two:
        found = await gather([ask(one, "one"), ask(two, "two")])
    assert "refused" in found
    assert set(found) <= {"refused", "one: True", "two: True"}


@pytest.mark.parametrize("before", ["2026-07-28", "2025-11-25"])
async def test_the_only_client_of_a_process_is_asked_through_it(
    before: str, program: list[str], tmp_path: Path
) -> None:
    """As a host with its own process would be."""
    gateway = Gateway({"behind": program}, moment_s=60, mode="legacy")
    async with Client(gateway, mode=before, elicitation_handler=yes) as client:
        assert (await client.call_tool("behind_ask", {"who": "me"})).text == "me: True"
        assert (await client.call_tool("behind_ask", {"who": "me"})).text == "me: True"
    assert len(starts(tmp_path)) == 2


async def test_processes_are_bounded(program: list[str], tmp_path: Path) -> None:
    """A client that needs a further one waits until another one is unused."""
    settings = {"behind": UpstreamSettings(sessions="own", max_processes=2)}
    gateway = Gateway({"behind": program}, settings=settings, moment_s=60, mode="legacy")
    clients = [Client(gateway, mode="2025-11-25") for _ in range(5)]
    seen: set[int] = set()
    for client in clients:
        await client.connect()
    try:
        for client in clients:
            found = await client.call_tool("behind_meet", {"count": 0, "folder": str(tmp_path)})
            seen.add(found.data)
            processes = gateway.upstreams["behind"].proxy.processes  # pyright: ignore[reportOptionalMemberAccess]
            assert processes is not None
            assert processes.count <= 2
    finally:
        for client in clients:
            await client.aclose()
    assert len(seen) == 5


async def test_an_unused_process_is_ended_and_started_again_for_the_next_call(
    program: list[str], tmp_path: Path
) -> None:
    """By the time since its last request."""
    gateway = Gateway({"behind": program}, moment_s=60, mode="legacy")
    arguments = {"count": 0, "folder": str(tmp_path)}
    async with Client(gateway) as client:
        first = (await client.call_tool("behind_meet", arguments)).data
        processes = gateway.upstreams["behind"].proxy.processes  # pyright: ignore[reportOptionalMemberAccess]
        assert processes is not None
        await processes.end_unused(anyio.current_time() - 1000)
        assert processes.count == 1
        await processes.end_unused(anyio.current_time())
        assert processes.count == 0
        assert (await client.call_tool("behind_meet", arguments)).data != first
        assert gateway.upstreams["behind"].is_up


async def test_a_server_that_asks_is_known_to_ask_at_the_next_start(program: list[str], tmp_path: Path) -> None:
    """No question has to be refused to find out."""
    for number in range(2):
        gateway = Gateway({"behind": program}, moment_s=60, mode="legacy", list_cache=tmp_path / "lists")
        one = Client(gateway, mode="2025-11-25", elicitation_handler=yes)
        two = Client(gateway, mode="2025-11-25", elicitation_handler=yes)
        async with one, two:
            await two.call_tool("behind_meet", {"count": 0, "folder": str(tmp_path)})
            if number == 0:
                await two.call_tool("behind_ask", {"who": "me"})
            else:
                await one.call_tool("behind_meet", {"count": 0, "folder": str(tmp_path)})
                assert (await one.call_tool("behind_ask", {"who": "me"})).text == "me: True"
                assert (await two.call_tool("behind_ask", {"who": "me"})).text == "me: True"
