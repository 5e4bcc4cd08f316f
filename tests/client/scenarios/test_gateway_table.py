"""A gateway over several servers, for each pair of eras: what passes a `Gateway` is what passes without one.

The servers, clients and filled messages are those of `tests.client.scenarios.test_gateway_promise`, which compares
`proxy`. A second server behind the gateway must change nothing for the first.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from ferrule import Client, Gateway, MCPError, MCPServer, Server
from ferrule.client.gateway.pages import LISTS
from ferrule.client.gateway.upstreams.settings import UpstreamSettings
from ferrule.protocol.errors import ResourceNotFound
from ferrule.wire.revisions import REVISIONS, Revision
from tests.client.scenarios import test_gateway_promise as promise
from tests.client.scenarios.test_gateway_promise import LEGACY, PAIRS, Before, Behind, without_envelope
from tests.client.scenarios.test_gateway_sessions import http

pytestmark = pytest.mark.anyio

CARRIERS = ["memory", "http"]
OWN: frozenset[str] = frozenset({"logging/setLevel", "completion/complete", "tasks/list"})
"""Requests that a gateway answers itself, or completes by what the servers have listed."""


def through(server: Any, behind: str) -> Any:
    """Return a gateway with the server, whose names stay as they are, and with another one."""
    settings = {"first": UpstreamSettings(prefix="")}
    return Gateway({"first": server, "second": MCPServer("second")}, settings=settings, mode=behind, moment_s=30)


@asynccontextmanager
async def direct(carrier: str, server: Server[Any]) -> AsyncGenerator[Any]:
    """A target that is the server, in this process or over HTTP."""
    if carrier == "memory":
        yield server
    else:
        async with http(server) as url:
            yield url


@asynccontextmanager
async def passing(carrier: str, server: Server[Any], behind: str) -> AsyncGenerator[Any]:
    """A target that is a gateway before the server, both in this process or both over HTTP."""
    async with direct(carrier, server) as target, direct(carrier, through(target, behind).server) as front:
        yield front


def requests(front: Revision, back: Revision) -> dict[str, Any]:
    """The filled requests that are compared whole."""
    made = promise.all_requests(front, back)
    return {method: params for method, params in made.items() if method not in OWN and method not in LISTS}


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize(("before", "behind"), PAIRS)
async def test_every_request_and_result_passes(before: str, behind: str, carrier: str) -> None:
    """With every member, and in both directions."""
    front, back = REVISIONS[before], REVISIONS[behind]
    straight, passed = Behind(None if front is back else back), Behind()
    async with direct(carrier, straight.server) as target:
        expected = await promise.outcome(target, straight, before, requests=requests(front, back))
    async with passing(carrier, passed.server, behind) as target:
        found = await promise.outcome(target, passed, before, requests=requests(front, back))
    for key, value in expected.items():
        if key != "introduction":  # the gateway has a name of its own
            assert without_envelope(found[key]) == without_envelope(value), key


@pytest.mark.parametrize(("before", "behind"), PAIRS)
async def test_every_item_of_a_list_passes(before: str, behind: str) -> None:
    """Items with every member; the lists of all servers are one."""
    front, back = REVISIONS[before], REVISIONS[behind]
    straight, passed = Behind(None if front is back else back), Behind()
    for method, (key, _) in LISTS.items():
        if method in front.requests and method in back.requests and method != "skills/list":
            async with Before(straight.server, mode=before, cache=False) as client:
                expected = (await client.request(method, {}))[key]
            async with Before(through(passed.server, behind), mode=before, cache=False) as client:
                found = (await client.request(method, {}))[key]
            assert without_envelope(found) == without_envelope(expected), method


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize(("before", "behind"), PAIRS)
async def test_every_notification_of_a_call_passes_before_its_answer(before: str, behind: str, carrier: str) -> None:
    """On the stream of the call."""
    front, back = REVISIONS[before], REVISIONS[behind]
    heard: list[Any] = []
    for is_direct in (True, False):
        end = Behind()
        end.say = promise.notices(front, back)
        calls = {"tools/call": {"name": "x", "arguments": {}}}
        made = direct(carrier, end.server) if is_direct else passing(carrier, end.server, behind)
        async with made as target:
            heard.append((await promise.outcome(target, end, before, requests=calls))["tools/call heard"])
    assert len(heard[0]) == len(promise.notices(front, back))
    assert heard[1] == heard[0]


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_every_question_of_a_legacy_server_passes(carrier: str) -> None:
    """With every member of params and answers."""
    asked = [
        (method, {**promise.filled(params), "_meta": {"any": 1}})
        for method, (params, _) in REVISIONS[LEGACY].server_requests.items()
        if method != "ping"
    ]
    seen: list[Any] = []
    for is_direct in (True, False):
        end = Behind()
        end.ask = asked
        made = direct(carrier, end.server) if is_direct else passing(carrier, end.server, LEGACY)
        async with made as target:
            found = await promise.outcome(target, end, LEGACY, requests={"tools/call": {"name": "x"}})
        seen.append((found["tools/call heard"], found["answers"]))
    assert len(seen[0][0]) == len(asked)
    assert seen[1] == seen[0]


async def test_every_notification_of_a_legacy_client_passes() -> None:
    """On the session of that client, in their order."""
    end = Behind()
    said = {
        method: {**promise.filled(type_), "_meta": {"any": 1}}
        for method, type_ in REVISIONS[LEGACY].notifications.items()
        if method not in (*promise.HANDSHAKE, *promise.HOP_NOTICES)
    }
    said["notifications/x"] = {"a": 1, **promise.UNKNOWN}
    async with Before(through(end.server, LEGACY), mode=LEGACY) as client:
        await client.request("tools/list")
        end.seen.clear()
        for method, params in said.items():
            await client.parts.sessions.required().channel.notify(method, params)
        with anyio.fail_after(30):
            while len(end.seen) < len(said):
                await anyio.sleep(0.01)
    assert end.seen == list(said.items())


@pytest.mark.parametrize(("before", "behind"), PAIRS)
async def test_every_error_passes(before: str, behind: str) -> None:
    """Code, message and data; a resource that does not exist has the code of the revision in front."""
    end = Behind()

    async def call(ctx: Any) -> Any:
        raise MCPError("Own", code=-31999, data={"why": [1], **promise.UNKNOWN})

    async def read(ctx: Any) -> Any:
        raise ResourceNotFound("u://x", code=ctx.revision.missing_resource_code)

    end.server.add_request_handler("tools/call", call)
    end.server.add_request_handler("resources/read", read)
    async with Client(through(end.server, behind), mode=before) as client:
        with pytest.raises(MCPError) as raised:
            await client.request("tools/call", {"name": "x"})
        found = raised.value
        assert (found.message, found.code, found.data) == ("Own", -31999, {"why": [1], **promise.UNKNOWN})
        with pytest.raises(MCPError) as raised:
            await client.request("resources/read", {"uri": "u://x"})
        assert raised.value.code == REVISIONS[before].missing_resource_code


@pytest.mark.parametrize(("before", "behind"), PAIRS)
async def test_progress_and_the_end_of_a_call_pass(before: str, behind: str) -> None:
    """A client that gives up ends the call behind."""
    end, ended, begun = Behind(), anyio.Event(), anyio.Event()

    async def call(ctx: Any) -> Any:
        if ctx.params["name"] == "wait":
            begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.set()
        for number in (1, 2):
            await ctx.session.progress(number, 2, f"step {number}")
        return {"content": []}

    end.server.add_request_handler("tools/call", call, params_type=dict[str, Any], trusted=True)
    seen: list[Any] = []
    async with Client(through(end.server, behind), mode=before) as client:
        await client.request("tools/call", {"name": "x"}, on_progress=lambda *said: seen.append(said))
        assert seen == [(1, 2, "step 1"), (2, 2, "step 2")]
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(client.request, "tools/call", {"name": "wait"})
                await begun.wait()
                group.cancel_scope.cancel()
            await ended.wait()
