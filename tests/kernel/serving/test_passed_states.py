"""A server in front of others counts later rounds of a call by the states that it has passed out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ferrule import Client, MCPError, Server, proxy
from ferrule.app.middleware.builtin import RateLimit
from ferrule.app.middleware.quota import Quota
from ferrule.kernel.serving import passed_states
from ferrule.kernel.serving.passed_states import PassedStates
from ferrule.kernel.session import RESUMED
from ferrule.wire.codec import Encoded, encode
from ferrule.wire.revisions import REVISIONS
from tests.client.patience import patient_gateway

pytestmark = pytest.mark.anyio

LIMITS = [lambda: Quota(1, window_s=1000), lambda: RateLimit(1, per_s=1000)]


def asking(ran: list[Any]) -> Server[Any]:
    """A tool with two rounds; it takes any state for that of its first."""
    server: Server[Any] = Server("asking")

    async def listed(ctx: Any) -> Any:
        return {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}

    async def call(ctx: Any) -> Any:
        state = ctx.params.get("requestState")
        if state is None:
            return {"resultType": "input_required", "requestState": f"state of {ctx.params['arguments']['n']}"}
        ran.append((ctx.params["arguments"]["n"], state))
        return {"content": [{"type": "text", "text": "done"}]}

    server.add_request_handler("tools/list", listed, params_type=dict[str, Any], trusted=True)
    server.add_request_handler("tools/call", call, params_type=dict[str, Any], trusted=True)
    return server


def in_front(server: Server[Any], kind: str, limit: Any) -> tuple[Any, str]:
    """A gateway or a proxy of a server, with a limit, and the name of its tool."""
    if kind == "gateway":
        return patient_gateway({"one": server}, server_middleware=[limit]), "one_work"
    made = proxy(server)
    made.middleware.insert(0, limit)
    return made, "work"


async def call(client: Client, name: str, number: int, **more: Any) -> Any:
    return await client.request("tools/call", {"name": name, "arguments": {"n": number}, **more})


@pytest.mark.parametrize("kind", ["gateway", "proxy"])
@pytest.mark.parametrize("limit", LIMITS)
async def test_a_state_that_was_not_passed_out_is_a_new_call(kind: str, limit: Any) -> None:
    """It is counted before it runs, whatever the server behind makes of the state."""
    ran: list[Any] = []
    front, name = in_front(asking(ran), kind, limit())
    async with Client(front) as client:
        await call(client, name, 1, requestState="made up", inputResponses={})
        for state in ("made up, too", "state of 1"):
            with pytest.raises(MCPError) as refused:
                await call(client, name, 1, requestState=state, inputResponses={})
            assert refused.value.code == 429
    assert ran == [(1, "made up")]


@pytest.mark.parametrize("kind", ["gateway", "proxy"])
@pytest.mark.parametrize("limit", LIMITS)
async def test_the_rounds_of_a_call_are_one_call(kind: str, limit: Any) -> None:
    """The client answers by itself; the state counts once."""
    ran: list[Any] = []
    front, name = in_front(asking(ran), kind, limit())
    async with Client(front) as client:
        assert (await call(client, name, 1))["content"][0]["text"] == "done"
        with pytest.raises(MCPError) as refused:
            await call(client, name, 1, requestState="state of 1")
        assert refused.value.code == 429
    assert ran == [(1, "state of 1")]


def request(state: str | None, principal: Any = None, **params: Any) -> Any:
    """A call as middleware sees it."""
    given = {"name": "work", "arguments": {"n": 1}, **params, **({} if state is None else {"requestState": state})}
    return SimpleNamespace(
        method="tools/call",
        params=given,
        revision=REVISIONS["2026-07-28"],
        session=SimpleNamespace(notes=frozenset()),
        transport=SimpleNamespace(principal=principal),
    )


async def passed_out(states: PassedStates, state: str) -> None:
    async def answer(ctx: Any) -> Any:
        made = {"resultType": "input_required", "requestState": state}
        return Encoded(encode(made)) if state == "encoded" else made

    await states.serve(request(None, "ada"), answer)


async def test_a_state_is_for_its_sender_and_its_request() -> None:
    """A request that continues a call is noted."""
    states = PassedStates()
    for state in ("plain", "encoded"):
        await passed_out(states, state)
        assert states.has(request(state, "ada"))
        assert not states.has(request(state, "bob"))
        assert not states.has(request(state, "ada", name="other"))
        assert not states.has(request(state, "ada", arguments={"n": 2}))

    async def served(ctx: Any) -> Any:
        return {"content": []}

    for principal, notes in {"ada": {RESUMED}, "bob": set[str]()}.items():
        made = request("plain", principal)
        await states.serve(made, served)
        assert made.session.notes == notes


async def test_the_oldest_states_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their requests are new calls."""
    monkeypatch.setattr(passed_states, "MAX_PASSED", 2)
    states = PassedStates()
    for number in range(3):
        await passed_out(states, f"state {number}")
    assert [states.has(request(f"state {number}", "ada")) for number in range(3)] == [False, True, True]


async def test_a_state_that_is_passed_out_again_is_as_new_as_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed_states, "MAX_PASSED", 2)
    states = PassedStates()
    for state in ("first", "second", "first", "third"):
        await passed_out(states, state)
    assert [states.has(request(state, "ada")) for state in ("first", "second", "third")] == [True, False, True]
