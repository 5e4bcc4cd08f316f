"""Tasks, and methods that a gateway has no handler for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ferrule import Client, MCPError, MCPServer, Server
from ferrule.client.gateway import other_requests
from ferrule.client.gateway.other_requests import GatewayTasks, task_of
from ferrule.client.gateway.upstreams.settings import UpstreamSettings
from ferrule.client.gateway.upstreams.upstream import Upstream
from ferrule.extensions.tasks import Tasks
from ferrule.wire.codec import Encoded, encode
from tests.cli.gateway.support import running, served, write_file
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


TOKENS = {"token-of-ada": "ada", "token-of-bob": "bob"}
WANTED: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


@pytest.mark.parametrize("era", ERAS)
async def test_a_task_is_known_to_its_caller_alone(tmp_path: Path, era: str) -> None:
    """The server behind sees one client for all of them."""
    async with served(with_tasks("one")) as (one,):
        path = write_file(tmp_path / "mcp.json", {"one": {"url": one}}, auth={"tokens": TOKENS})
        async with (
            running(path, mode=era) as gateway,
            gateway.client(auth="token-of-ada", mode=era, **WANTED) as ada,
            gateway.client(auth="token-of-bob", mode=era, **WANTED) as bob,
        ):
            task = await ada.start_tool("one_work", {"what": "it"})
            assert (await task.result()).text == "one did it"
            named = {"taskId": task.task_id}
            is_legacy = era == "2025-11-25"
            for method in ("tasks/get", "tasks/cancel", "tasks/result" if is_legacy else "tasks/update"):
                # A modern client names the task in a header, too, which is text.
                for params in (named, {"taskId": "nothing"}, *([{"taskId": [task.task_id]}] if is_legacy else [])):
                    with pytest.raises(MCPError, match="There is no such task"):
                        await bob.request(method, {"inputResponses": {}, **params})
            assert (await ada.request("tasks/get", named))["status"] == "completed"
            if is_legacy:
                assert [each["taskId"] for each in (await ada.request("tasks/list", {}))["tasks"]] == [task.task_id]
                assert (await bob.request("tasks/list", {}))["tasks"] == []


async def test_a_task_of_a_tool_that_a_view_does_not_show_is_unknown_there(tmp_path: Path) -> None:
    """Also to the caller that began it on another path."""
    async with served(with_tasks("one")) as (one,):
        views = {"less": {"excludeTools": ["one_work"]}, "more": {}}
        path = write_file(tmp_path / "mcp.json", {"one": {"url": one}}, views=views)
        async with (
            running(path) as gateway,
            gateway.client() as client,
            gateway.client("less", **WANTED) as less,
            gateway.client("more", **WANTED) as more,
        ):
            task = await client.start_tool("one_work", {"what": "it"})
            await task.result()
            assert (await more.request("tasks/get", {"taskId": task.task_id}))["status"] == "completed"
            with pytest.raises(MCPError, match="There is no such task"):
                await less.request("tasks/get", {"taskId": task.task_id})


def test_unknown_tasks_belong_to_callers_without_a_principal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or are left to a server that gets credentials of each caller. The oldest are forgotten."""
    monkeypatch.setattr(other_requests, "MAX_TASKS", 2)

    def sender(principal: Any) -> Any:
        return SimpleNamespace(transport=SimpleNamespace(principal=principal), server=SimpleNamespace(middleware=[]))

    shared, own = (Upstream(name, name, None, UpstreamSettings(is_per_user=name == "own")) for name in ("all", "own"))
    tasks = GatewayTasks()
    assert tasks.shows(sender(None), shared, "t")
    assert not tasks.shows(sender("ada"), shared, "t")
    assert tasks.shows(sender("ada"), own, "t")
    for number in range(3):
        tasks.begin(sender("ada"), shared, f"t{number}", "work")
    assert [tasks.shows(sender("ada"), shared, f"t{number}") for number in range(3)] == [False, True, True]
    assert not tasks.shows(sender(None), shared, "t2")
    assert not tasks.shows(sender("bob"), shared, "t2")


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
