"""Middleware ready to use."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client, Context, MCPServer
from ferrule.app.middleware.builtin import LogRequests, MaskErrors, RateLimit, RateLimited, Timing, TimingOf
from ferrule.kernel.runner import serve_dual_era_loop
from ferrule.protocol.errors import InternalError, InvalidParams, MCPError, MethodNotFound
from ferrule.stores.store import open_store
from ferrule.transports.asgi.context import HttpContext
from tests.app.support import V1125, RecordingDispatch, ask, call, connection_of
from tests.kernel.harness import modern, serving

pytestmark = pytest.mark.anyio


def served(*middleware: Any) -> MCPServer:
    app = MCPServer("x", middleware=middleware)

    @app.tool
    async def work(fail: bool = False) -> str:
        if fail:
            raise ValueError("secret")
        return "ok"

    return app


class From(RecordingDispatch):
    """A request of a principal, or from an address."""

    __slots__ = ("transport",)

    def __init__(self, principal: Any = None, address: str = "10.0.0.1") -> None:
        super().__init__()
        self.transport = HttpContext(principal=principal, client=(address, 1))


async def test_a_bucket_empties_and_fills():
    now = [0.0]
    app = served(RateLimit(2, per_s=10, clock=lambda: now[0]))
    for _ in range(2):
        await call(app, "work")
    with pytest.raises(RateLimited) as refused:
        await call(app, "work")
    assert (refused.value.code, refused.value.data) == (429, {"retryAfterMs": 5000})
    assert not -32768 <= refused.value.code <= -32000  # the specification keeps those
    now[0] = 4.9
    with pytest.raises(RateLimited):
        await call(app, "work")
    now[0] = 5.1
    await call(app, "work")
    now[0] = 1000
    for _ in range(2):  # never more than the bucket holds
        await call(app, "work")
    with pytest.raises(RateLimited):
        await call(app, "work")


async def test_each_sender_has_a_bucket_and_lists_are_free():
    app = served(RateLimit(1, per_s=1000))
    await call(app, "work", dispatch=From("ada"))
    await call(app, "work", dispatch=From({"sub": "bob"}))
    await call(app, "work", dispatch=From(address="10.0.0.2"))
    for dispatch in (From("ada", "10.0.0.9"), From({"sub": "bob"}), From(address="10.0.0.2")):
        with pytest.raises(RateLimited):
            await call(app, "work", dispatch=dispatch)
    for _ in range(5):
        await ask(app, "tools/list", dispatch=From("ada"))


async def test_another_session_or_address_of_ones_own_is_no_other_bucket():
    """A client can open many sessions, and one subscriber has 2**64 addresses of IPv6."""
    app = served(RateLimit(1, per_s=1000))
    await call(app, "work", dispatch=From(address="10.0.0.1"), connection=connection_of(V1125, session_id="one"))
    with pytest.raises(RateLimited):
        await call(app, "work", dispatch=From(address="10.0.0.1"), connection=connection_of(V1125, session_id="two"))
    with pytest.raises(RateLimited):
        await call(app, "work", dispatch=From(address="::ffff:10.0.0.1"))
    await call(app, "work", dispatch=From(address="2001:db8:0:1::1"))
    with pytest.raises(RateLimited):
        await call(app, "work", dispatch=From(address="2001:db8:0:1:ffff::2"))
    await call(app, "work", dispatch=From(address="2001:db8:0:2::1"))
    await call(app, "work", connection=connection_of(V1125, session_id="no address"))  # as a test has it
    with pytest.raises(RateLimited):
        await call(app, "work", connection=connection_of(V1125, session_id="no address"))


async def test_buckets_are_bounded():
    """An attacker with many addresses must not fill the memory."""
    limit = RateLimit(1, per_s=1000, max_senders=3)
    app = served(limit)
    for number in range(10):
        await call(app, "work", dispatch=From(f"p{number}"))
    assert len(limit._here) == 3  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("options", [{"requests": 0, "per_s": 1}, {"requests": 1, "per_s": 0}])
def test_limits_that_cannot_be_are_refused(options):
    with pytest.raises(ValueError):
        RateLimit(**options)


async def test_timings_have_the_outcome_of_each_request():
    now = [0.0]
    seen: list[TimingOf] = []

    async def passes(ctx: Any, call_next: Any) -> Any:
        now[0] += 0.25
        return await call_next(ctx)

    app = served(Timing(seen.append, clock=lambda: now[0]), passes)

    @app.tool
    async def asks(ctx: Context) -> str:
        return str(await ctx.elicit("a", int))

    await call(app, "work")
    await call(app, "work", {"fail": True})
    await ask(app, "tools/list")
    with pytest.raises(InvalidParams):
        await call(app, "nothing")
    with pytest.raises(MCPError):
        await call(app, "asks")
    assert seen == [
        TimingOf("tools/call", "work", 0.25, "ok"),
        TimingOf("tools/call", "work", 0.25, "error"),
        TimingOf("tools/list", None, 0.25, "ok"),
        TimingOf("tools/call", "nothing", 0.25, "-32602"),
        TimingOf("tools/call", "asks", 0.25, "-32021"),
    ]


async def test_a_report_that_fails_changes_no_request(caplog: pytest.LogCaptureFixture) -> None:
    """Neither its result, nor its error, nor its cancellation; the log says why there is no report."""

    def report(timing: TimingOf) -> None:
        raise ValueError(timing.outcome)

    app = served(Timing(report))

    @app.tool
    async def waits() -> None:
        await anyio.sleep_forever()

    assert (await call(app, "work")) is not None
    with pytest.raises(InvalidParams):
        await call(app, "nothing")
    with anyio.move_on_after(0.05) as scope:
        await call(app, "waits")
    assert scope.cancelled_caught
    async with Client(app) as client:  # also where plain calls take the fast path
        assert not (await client.call_tool("work")).is_error
    assert caplog.text.count("could not be reported") >= 4


async def test_the_log_has_one_line_without_arguments(caplog: pytest.LogCaptureFixture):
    app = served(LogRequests())
    with caplog.at_level(logging.INFO, "ferrule.requests"):
        await call(app, "work")
        with pytest.raises(InvalidParams):
            await call(app, "no\nnewline", {"password": "hunter2"})
    lines = [record for record in caplog.records if record.name == "ferrule.requests"]
    assert [record.levelno for record in lines] == [logging.INFO, logging.WARNING]
    assert lines[0].message.startswith("tools/call 'work': ok in ")
    assert "\n" not in lines[1].message
    assert "hunter2" not in caplog.text


async def test_a_peer_writes_no_lines_of_its_own_into_the_log(caplog: pytest.LogCaptureFixture):
    """A method and a name are what the peer chooses: any text, of any length."""
    app = served(LogRequests(), MaskErrors())
    with caplog.at_level(logging.INFO, "ferrule.requests"):
        with pytest.raises(MethodNotFound):
            await ask(app, "no\nnewline" + "x" * 1000, {})
        with pytest.raises(InvalidParams):
            await call(app, "x" * 1000)
    lines = [record.message for record in caplog.records if record.name == "ferrule.requests"]
    assert len(lines) == 2
    assert all("\n" not in line and len(line) < 300 for line in lines)


async def test_masked_errors_have_a_reference_and_nothing_else(caplog: pytest.LogCaptureFixture):
    async def broken(ctx: Any, call_next: Any) -> Any:
        raise ValueError("secret")

    app = served(MaskErrors(), broken)
    with pytest.raises(InternalError) as masked:
        await call(app, "work")
    reference = masked.value.data["reference"]
    assert "secret" not in str(masked.value.to_error())
    assert reference in caplog.text
    assert "secret" in caplog.text
    with pytest.raises(InvalidParams):
        await call(served(MaskErrors()), "nothing")


def shared(tmp_path: Path, *middleware: Any) -> list[MCPServer]:
    """Two servers as two workers have them: one store, middleware of their own."""
    apps = []
    for number in range(2):
        app = MCPServer("x", middleware=[middleware[number]], store=f"sqlite:///{tmp_path}/s.db")

        @app.tool
        async def work() -> str:
            return "ok"

        apps.append(app)
    return apps


async def passed(app: MCPServer, times: int, **options: Any) -> int:
    """How many of so many calls are let through."""
    count = 0
    for _ in range(times):
        try:
            await call(app, "work", **options)
        except RateLimited:
            continue
        count += 1
    return count


async def test_a_limit_holds_over_all_who_share_the_store(tmp_path: Path):
    """Four workers must not let four times as much through; each sender still has a bucket of its own."""
    one, other = shared(tmp_path, RateLimit(5, per_s=3600), RateLimit(5, per_s=3600))
    assert await passed(one, 3, dispatch=From("ada")) == 3
    assert await passed(other, 4, dispatch=From("ada")) == 2
    assert await passed(one, 1, dispatch=From("ada")) == 0
    assert await passed(one, 1, dispatch=From("bob")) == 1


async def test_a_name_distinguishes_two_limits_of_one_server(tmp_path: Path):
    """Without it they would count together."""
    one, other = shared(tmp_path, RateLimit(1, per_s=3600, name="a"), RateLimit(1, per_s=3600, name="b"))
    assert await passed(one, 2) == 1
    assert await passed(other, 2) == 1


async def test_while_the_store_is_away_each_counts_by_itself(caplog: pytest.LogCaptureFixture):
    """Requests are neither all accepted nor all refused, and the store is not called for every request."""
    asked: list[str] = []
    is_away = [True]
    now = [0.0]

    class Rates:
        async def take(self, key: str, *, size: int, per_s: float) -> float:
            asked.append(key)
            if is_away[0]:
                raise ConnectionError("away")
            return 0

    store = replace(open_store("memory:"), rates=Rates(), is_shared=True)
    app = MCPServer("x", middleware=[RateLimit(2, per_s=3600, clock=lambda: now[0])], store=store)

    @app.tool
    async def work() -> str:
        return "ok"

    assert await passed(app, 4) == 2
    assert len(asked) == 1
    assert "the store cannot be reached" in caplog.text
    now[0], is_away[0] = 6.0, False
    assert await passed(app, 3) == 3
    assert len(asked) == 4


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_counts_once_in_any_number_of_rounds(mode: str) -> None:
    """In the modern era each answer is a request; the limit is one of calls."""
    app: MCPServer[Any] = MCPServer("asks", middleware=[RateLimit(2, per_s=3600)])

    @app.tool
    async def ask(ctx: Context) -> str:
        return " ".join([str((await ctx.elicit(f"{n}?", int)).data) for n in range(4)])

    async with Client(app, mode=mode, elicitation_handler=lambda p: {"value": int(p.message[:-1])}) as client:
        for _ in range(2):
            assert (await client.call_tool("ask")).text == "0 1 2 3"
        with pytest.raises(MCPError) as refused:
            await client.call_tool("ask")
        assert refused.value.code == 429


async def test_an_invalid_or_repeated_state_counts() -> None:
    """Otherwise a client could avoid the limit by sending invalid or repeated states."""
    app: MCPServer[Any] = MCPServer("asks", middleware=[RateLimit(3, per_s=3600)])
    ran: list[str] = []

    @app.tool
    async def ask(ctx: Context) -> str:
        ran.append("ask")
        return str((await ctx.elicit("Name?", str)).data)

    async def call(**more: Any) -> dict[str, Any]:
        message = modern(1, "tools/call", {"name": "ask", "arguments": {}, **more}, elicitation={})
        return await peer.ask(message)

    async with serving(app.lowlevel, serve_dual_era_loop) as peer:
        asked = (await call())["result"]  # the first
        answers = {key: {"action": "accept", "content": {"value": "x"}} for key in asked["inputRequests"]}
        later = {"requestState": asked["requestState"], "inputResponses": answers}
        assert (await call(**later))["result"]["content"][0]["text"] == "x"
        assert (await call(**later))["result"]["content"][0]["text"] == "x"  # the second
        assert (await call(requestState="made up"))["error"]["code"] == -32602  # the third
        assert (await call(requestState="made up too"))["error"]["code"] == 429
        assert (await call(**later))["error"]["code"] == 429
        assert len(ran) == 3
