"""What a quota counts, for whom, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ferrule import Client, Context, MCPError, MCPServer
from ferrule.app.middleware import buckets
from ferrule.client.gateway.gateway import Gateway
from ferrule.kernel.runner import serve_dual_era_loop
from ferrule.middleware import AccessRequest, Policy, Quota, QuotaExceeded, Usage
from ferrule.protocol.errors import InvalidParams
from ferrule.stores.store import open_store
from tests.app.support import LATEST, V1125, From, ask, call
from tests.kernel.harness import modern, serving

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def served(*middleware: Any, **options: Any) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("x", middleware=middleware, **options)

    @app.tool
    async def work(size: int = 1) -> str:
        return "x" * size

    @app.tool
    async def other() -> str:
        return "ok"

    return app


def sender(subject: str, client: str = "desk") -> From:
    return From({"sub": subject, "client_id": client})


async def is_refused(app: MCPServer[Any], name: str = "work", arguments: Any = None, **options: Any) -> bool:
    try:
        await call(app, name, arguments, **options)
    except QuotaExceeded:
        return True
    return False


async def test_a_quota_for_each_subject_and_when_to_try_again() -> None:
    clock = Clock()
    app = served(Quota(2, window_s=10, clock=clock))
    for _ in range(2):
        await call(app, "work", dispatch=sender("ada"))
    with pytest.raises(QuotaExceeded) as refused:
        await call(app, "other", dispatch=sender("ada", "another client"))
    assert (refused.value.code, refused.value.data) == (429, {"retryAfterMs": 5000})
    assert str(refused.value) == "The quota is used up; try again later [429]"
    assert not await is_refused(app, dispatch=sender("bob"))
    await ask(app, "tools/list", dispatch=sender("ada"))
    clock.now = 5.1
    assert not await is_refused(app, dispatch=sender("ada"))
    assert await is_refused(app, dispatch=sender("ada"))


@pytest.mark.parametrize(
    ("per", "free"),
    [
        ("subject", {"other subject"}),
        ("client", {"other client"}),
        ("tool", {"other tool"}),
        (("subject", "tool"), {"other subject", "other tool"}),
        (("subject", "client", "tool"), {"other subject", "other client", "other tool"}),
    ],
)
async def test_what_a_quota_counts_for(per: Any, free: set[str]) -> None:
    app = served(Quota(1, window_s=1000, per=per))
    await call(app, "work", dispatch=sender("ada"))
    found = {
        "other subject": not await is_refused(app, dispatch=sender("bob")),
        "other client": not await is_refused(app, dispatch=sender("ada", "phone")),
        "other tool": not await is_refused(app, "other", dispatch=sender("ada")),
    }
    assert {name for name, is_free in found.items() if is_free} == free
    assert await is_refused(app, dispatch=sender("ada"))


async def test_an_anonymous_sender_counts_by_address() -> None:
    app = served(Quota(1, window_s=1000, per=("subject", "client")))
    await call(app, "work", dispatch=From(None))
    assert await is_refused(app, dispatch=From(None))


async def test_costs_by_number_and_by_function() -> None:
    async def price(request: AccessRequest) -> int:
        return 0 if request.name == "other" else int((request.arguments or {}).get("size", 1))

    app = served(Quota(5, window_s=1000, cost=price))
    assert not await is_refused(app, "work", {"size": 3})
    assert await is_refused(app, "work", {"size": 3})
    assert not await is_refused(app, "work", {"size": 2})  # what is refused takes nothing
    assert not await is_refused(app, "other")
    with pytest.raises(QuotaExceeded) as refused:
        await call(app, "work", {"size": 6})
    assert (refused.value.code, str(refused.value)) == (429, "This request costs more than the whole quota [429]")
    two = served(Quota(4, window_s=1000, cost=2))
    assert [await is_refused(two) for _ in range(3)] == [False, False, True]


async def test_a_cost_that_is_known_after_the_call() -> None:
    """By duration and size; the next call is delayed by one filling at most."""
    clock = Clock()
    seen: list[Usage] = []

    def price(usage: Usage) -> int:
        seen.append(usage)
        return usage.result_bytes // 100

    app = served(Quota(10, window_s=100, cost=1, cost_after=price, clock=clock))
    assert not await is_refused(app, "work", {"size": 100_000})
    assert (seen[0].failed, seen[0].request.name, seen[0].duration_s) == (False, "work", 0)
    assert seen[0].result_bytes > 100_000
    with pytest.raises(QuotaExceeded) as refused:
        await call(app, "work")
    assert refused.value.data == {"retryAfterMs": 10_000}
    clock.now = 100
    with pytest.raises(InvalidParams):
        await call(app, "no such tool")
    assert (seen[-1].failed, seen[-1].result_bytes) == (True, 0)


async def test_denied_calls_cost_by_the_order_of_the_middleware() -> None:
    """Before the policy each call costs; behind it only those that are allowed."""

    def deny(request: AccessRequest) -> bool | None:
        return False if request.name == "other" else None

    async def after_denials(*middleware: Any) -> bool:
        app = served(*middleware)
        for _ in range(2):
            with pytest.raises(InvalidParams):
                await call(app, "other")
        return await is_refused(app)

    assert await after_denials(Quota(2, window_s=1000), Policy(deny))
    assert not await after_denials(Policy(deny), Quota(2, window_s=1000))


@pytest.mark.parametrize("mode", [LATEST, V1125])
async def test_a_call_with_questions_and_a_task_count_once(mode: str) -> None:
    app = MCPServer[Any]("x", middleware=[Quota(2, window_s=1000)])

    @app.tool
    async def ask_twice(ctx: Context) -> str:
        await ctx.elicit("One?", bool)
        await ctx.elicit("Two?", bool)
        return "done"

    @app.tool(task="optional", task_after_s=0)
    async def slow(ctx: Context) -> str:
        return "done"

    async with Client(app, mode=mode, elicitation_handler=lambda asked: {"value": True}) as client:
        assert (await client.call_tool("ask_twice")).text == "done"
        assert (await (await client.start_tool("slow")).result()).text == "done"
        with pytest.raises(MCPError) as refused:
            await client.call_tool("ask_twice")
        assert refused.value.code == 429


async def test_workers_with_one_store_share_a_quota(tmp_path: Path) -> None:
    """Two servers with stores of their own on one file stand for two processes."""
    url = f"sqlite:///{tmp_path}/shared.db"
    quota: dict[str, Any] = {"window_s": 1000, "cost": 2}
    one, two = served(Quota(6, **quota), store=url), served(Quota(6, **quota), store=url)
    async with one.started(), two.started():
        found = [await is_refused(app, dispatch=sender("ada")) for app in (one, two, one, two)]
    assert found == [False, False, False, True]


async def test_a_gateway_counts_in_a_store_of_the_quota(tmp_path: Path) -> None:
    """Its server has no store, and other gateways count with it."""
    store = open_store(f"sqlite:///{tmp_path}/shared.db")
    try:
        for is_used_up in (False, True):
            gateway = Gateway({"one": served()}, server_middleware=[Quota(1, window_s=1000, store=store)], open_s=60)
            async with Client(gateway.server) as client:
                if is_used_up:
                    with pytest.raises(MCPError) as refused:
                        await client.call_tool("one_work")
                    assert refused.value.code == 429
                else:
                    await client.call_tool("one_work")
    finally:
        await store.aclose()


async def test_invented_names_and_spellings_of_a_uri_share_a_bucket() -> None:
    """Otherwise a sender would multiply its quota by what it can make up."""
    app = served(Quota(1, window_s=1000, per=("subject", "tool")))

    @app.resource("docs://{name}")
    def doc(name: str) -> str:
        return name

    @app.resource("report://total")
    def total() -> str:
        return "7"

    async def codes(method: str, key: str, *names: str) -> list[int]:
        found: list[int] = []
        for name in names:
            try:
                await ask(app, method, {key: name})
                found.append(0)
            except MCPError as error:
                found.append(error.code)
        return found

    assert await codes("tools/call", "name", "work", "other") == [0, 0]
    assert await codes("tools/call", "name", "invented", "made up", "work") == [-32602, 429, 429]
    assert await codes("resources/read", "uri", "docs://a", "docs://%61", "docs://b") == [0, 429, 429]
    assert await codes("resources/read", "uri", "report://total", "report://t%6Ftal") == [0, 429]


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"window_s": 0}, {"cost": -1}, {"per": ()}, {"per": "user"}, {"per": ("subject", "user")}]
)
def test_impossible_quotas_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Quota(**{"limit": 1, "window_s": 1, **wrong})


async def test_no_other_state_makes_a_used_one_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither states that are made up nor valid ones displace it; when there is no room, a later round is a call."""
    monkeypatch.setattr(buckets, "MAX_STATES", 3)
    now, charged = [0.0], [0]

    def cost(request: AccessRequest) -> int:
        charged[0] += 1
        return 1

    quota = Quota(1000, window_s=1e9, cost=cost, clock=lambda: now[0])
    app: MCPServer[Any] = MCPServer("asks", middleware=[quota])

    @app.tool
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("Name?", str)).data)

    async with serving(app.lowlevel, serve_dual_era_loop) as peer:

        async def charged_for(**more: Any) -> int:
            before = charged[0]
            await peer.ask(modern(1, "tools/call", {"name": "ask", "arguments": {}, **more}, elicitation={}))
            return charged[0] - before

        async def later_round() -> dict[str, Any]:
            """Begin a call, and return what continues it."""
            message = modern(1, "tools/call", {"name": "ask", "arguments": {}}, elicitation={})
            asked = (await peer.ask(message))["result"]
            answers = {key: {"action": "accept", "content": {"value": "x"}} for key in asked["inputRequests"]}
            return {"requestState": asked["requestState"], "inputResponses": answers}

        first, *others = [await later_round() for _ in range(4)]
        assert await charged_for(**first) == 0
        for number in range(10):
            assert await charged_for(requestState=f"made up {number}") == 1
        assert [await charged_for(**each) for each in others] == [0, 0, 1]
        assert await charged_for(**first) == 1
        now[0] = buckets.STATE_KEPT_S
        assert await charged_for(**others[2]) == 0  # there is room again
