"""The fast path over a process: what it takes, and that both paths give and send the same."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client, StdioServer
from ferrule.protocol.errors import ConnectionClosed, RequestTimeout
from tests.client.fast_path.odd_server import ERRORS, RESULTS
from tests.profiling import PythonCalls

pytestmark = pytest.mark.anyio

PROGRAM = str(Path(__file__).with_name("odd_server.py"))
ERAS = ["modern", "legacy"]
PLAIN = {"plain", "complete", "structured", "null structured", "failed", "wrapped"}


def odd(record: Path, era: str) -> StdioServer:
    """The server, which records what it reads."""
    return StdioServer(sys.executable, [PROGRAM, str(record), era])


async def outcome(client: Client, name: str, **options: Any) -> Any:
    """What a call gives, in a form that can be compared."""
    try:
        called = await client.call_tool(name, {"a": [1, "é"], "b": None}, **options)
    except Exception as error:
        # The time that a call took, which errors name, differs.
        facts = {key: getattr(error, key, None) for key in ("code", "data", "server", "method", "timeout_s")}
        return type(error), re.sub(r"after [\d.]+ s", "after", str(error)), facts, repr(error.__cause__)
    return called.result, called.data, repr(called)


@pytest.mark.parametrize("era", ERAS)
async def test_both_paths_give_and_send_the_same(tmp_path: Path, era: str) -> None:
    """Results, errors, oddities, time-outs, progress that moves a time-out, and messages that come before an answer."""
    got: dict[bool, list[Any]] = {}
    lines: dict[bool, str] = {}
    logged: dict[bool, list[Any]] = {}
    taken: dict[bool, Any] = {}
    for fast_path in (False, True):
        found, logs = got.setdefault(fast_path, []), logged.setdefault(fast_path, [])
        record = tmp_path / f"{era}-{fast_path}"
        server = odd(record, era)
        async with Client(server, fast_path=fast_path, log_handler=lambda m, logs=logs: logs.append(m.data)) as client:
            client.known_as = "odd"
            for name in [*RESULTS, *ERRORS, "extra", "float id", "log"]:
                found.append((name, await outcome(client, name)))
            found.append(await outcome(client, "plain", timeout_s=None))
            found.append(await outcome(client, "plain", timeout_s=5, result_type=str))
            found.append(await outcome(client, "failed", raise_on_error=True))
            found.append(await outcome(client, "plain", meta={"any": 1}))
            found.append(await outcome(client, "silent", timeout_s=0.2))
            found.append(await outcome(client, "progress", timeout_s=0.6))
            with anyio.move_on_after(0.2):
                await client.call_tool("silent")
            found.append((await client.call_tool("plain")).text)
            counts = client.call_counts
            taken[fast_path] = counts
            found.append(await outcome(client, "end"))
        lines[fast_path] = record.read_text("utf-8")
    assert got[True] == got[False]
    assert logged[True] == logged[False] == ["before"]
    assert lines[True] == lines[False]
    assert '"method":"notifications/cancelled"' in lines[True]
    assert taken[False].fast == 0
    assert taken[True].fast >= len(PLAIN) + 6  # "log" too, if its answer comes in a read of its own
    assert taken[True].fast + taken[True].general == taken[False].general


@pytest.mark.parametrize("era", ERAS)
async def test_calls_under_way_end_with_the_client(tmp_path: Path, era: str) -> None:
    """They would wait for ever, since nothing answers them any more."""
    errors: list[Exception] = []

    async def wait(client: Client) -> None:
        try:
            await client.call_tool("silent", timeout_s=None)
        except Exception as error:
            errors.append(error)

    async with anyio.create_task_group() as group, Client(odd(tmp_path / "record", era)) as client:
        await client.call_tool("plain")
        for _ in range(3):
            group.start_soon(wait, client)
        await anyio.sleep(0.1)
        assert client.call_counts.general == 0
    assert len(errors) == 3
    assert all(isinstance(error, ConnectionClosed) for error in errors)


async def test_many_callers_time_out_each_at_its_time(tmp_path: Path) -> None:
    """One timer serves all of them: the shortest and the longest bound, whichever began first."""
    async with Client(odd(tmp_path / "record", "modern")) as client:
        order: list[float] = []

        async def wait(bound_s: float) -> None:
            with pytest.raises(RequestTimeout) as raised:
                await client.call_tool("silent", timeout_s=bound_s)
            assert raised.value.timeout_s == bound_s
            order.append(bound_s)

        async with anyio.create_task_group() as group:
            for bound_s in (0.6, 0.2, 0.4):
                group.start_soon(wait, bound_s)
        assert order == [0.2, 0.4, 0.6]
        assert (await client.call_tool("plain")).text == "hello"


class _CountedTask(asyncio.Task[Any]):
    made = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _CountedTask.made += 1
        super().__init__(*args, **kwargs)


async def test_a_plain_call_is_few_python_calls_and_no_task_and_no_timer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From `call_tool` to its result, the reading of the answer included."""
    monkeypatch.setattr(asyncio, "Task", _CountedTask)
    monkeypatch.setattr(asyncio.tasks, "Task", _CountedTask)
    loop = asyncio.get_running_loop()
    async with Client(odd(tmp_path / "record", "modern")) as client:
        for _ in range(3):
            await client.call_tool("plain", {"a": 1})
        timers: list[Any] = []
        monkeypatch.setattr(loop, "call_at", lambda *args, **kw: timers.append(args))
        monkeypatch.setattr(loop, "call_later", lambda *args, **kw: timers.append(args))
        before = _CountedTask.made
        with PythonCalls() as where:
            called = await client.call_tool("plain", {"a": 1})
        assert called.text == "hello"
        assert 10 < where.of("ferrule/") <= 48, where
        assert _CountedTask.made == before
        assert timers == []


async def test_the_fast_path_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an option, and from outside the program."""
    async with Client(odd(tmp_path / "record", "modern"), fast_path=False) as client:
        await client.call_tool("plain")
        assert (client.call_counts.fast, client.call_counts.general) == (0, 1)
    monkeypatch.setenv("FERRULE_FAST_PATH", "0")
    async with Client(odd(tmp_path / "record", "modern")) as client:
        await client.call_tool("plain")
        assert (client.call_counts.fast, client.call_counts.general) == (0, 1)


async def test_a_level_for_logs_is_in_the_calls_that_follow(tmp_path: Path) -> None:
    """Prepared calls hold what every request carries; it may change."""
    record = tmp_path / "record"
    async with Client(odd(record, "modern")) as client:
        await client.call_tool("plain")
        await client.set_log_level("debug")
        await client.call_tool("plain")
        assert client.call_counts.fast == 2
    calls = [line for line in record.read_text("utf-8").splitlines() if '"tools/call"' in line]
    assert ['"debug"' in line for line in calls] == [False, True]
