"""Tasks, and methods that a gateway has no handler for."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Client, MCPError, MCPServer, Server
from ferrule.client.gateway.other_requests import task_of
from ferrule.extensions.tasks import Tasks
from ferrule.wire.codec import Encoded, encode
from tests.client.patience import patient_gateway

pytestmark = pytest.mark.anyio

ERAS = ["2026-07-28", "2025-11-25"]


def with_tasks(name: str) -> MCPServer[Any]:
    """A server with a task of its own."""
    app: MCPServer[Any] = MCPServer(name, extensions=[Tasks(poll_interval_ms=20)])

    @app.tool(task="required")
    async def work(what: str) -> str:
        return f"{name} did {what}"

    return app


@pytest.mark.parametrize("era", ERAS)
async def test_a_task_is_asked_for_at_the_server_that_made_it(era: str) -> None:
    """Two servers with tasks of the same era; the ids do not say whose they are."""
    gateway = patient_gateway(
        {"one": with_tasks("one"), "two": with_tasks("two"), "plain": MCPServer("plain")}, mode=era
    )
    async with Client(gateway, mode=era) as client:
        tasks = [await client.start_tool(f"{name}_work", {"what": "it"}) for name in ("one", "two")]
        assert [(await task.result()).text for task in reversed(tasks)] == ["two did it", "one did it"]


async def test_a_task_of_an_earlier_gateway_is_found() -> None:
    """By asking the servers, as a gateway that was restarted has to."""
    servers = {"one": with_tasks("one"), "two": with_tasks("two")}
    async with Client(patient_gateway(servers)) as client:
        task = await client.start_tool("two_work", {"what": "it"})
        await task.result()
        async with Client(patient_gateway(servers), extensions={"io.modelcontextprotocol/tasks": {}}) as later:
            found = await later.request("tasks/get", {"taskId": task.task_id})
            assert found["status"] == "completed"
            with pytest.raises(MCPError) as raised:
                await later.request("tasks/get", {"taskId": "nothing"})
            assert raised.value.code == -32602


@pytest.mark.parametrize("before", ERAS)
@pytest.mark.parametrize("behind", ERAS)
async def test_a_method_of_its_own_reaches_the_server_that_has_it(before: str, behind: str) -> None:
    """With everything in it; a method that none has is not found."""

    async def own(ctx: Any) -> Any:
        if ctx.params.get("fail"):
            raise MCPError("Own", code=-31999)
        return {"got": ctx.params, "xUnknown": [1]}

    server: Server[Any] = Server("has")
    server.add_request_handler("x/own", own, params_type=dict[str, Any], trusted=True)
    gateway = patient_gateway({"other": MCPServer("other"), "has": server}, mode=behind)
    async with Client(gateway, mode=before) as client:
        found = await client.request("x/own", {"a": 1})
        assert (found["got"]["a"], found["xUnknown"]) == (1, [1])
        with pytest.raises(MCPError, match="Own"):
            await client.request("x/own", {"fail": True})
        with pytest.raises(MCPError) as raised:
            await client.request("x/nothing", {})
        assert raised.value.code == -32601


@pytest.mark.parametrize(
    ("result", "task"),
    [
        ({"content": []}, None),
        ({"content": [], "taskId": "a"}, None),
        ({"task": {"taskId": "a"}}, "a"),
        ({"task": {"taskId": 1}}, None),
        (Encoded(encode({"resultType": "task", "taskId": "a"})), "a"),
        (Encoded(encode({"resultType": "other"})), None),
    ],
)
async def test_the_task_that_a_call_has_made(result: Any, task: str | None) -> None:
    """Both eras have it at another place."""
    assert task_of(result) == task
