"""Two peers in one process."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
import trio
import trio.testing

from ferrule.kernel.changes.bus import Event
from ferrule.kernel.connection import Connection
from ferrule.kernel.direct import DirectDispatcher
from ferrule.kernel.dispatch import CallOptions, DispatchContext, TransportContext
from ferrule.kernel.runner import serve_connection
from ferrule.protocol.errors import (
    ConnectionClosed,
    InvalidParams,
    LocalError,
    MCPError,
    RemoteError,
    RequestTimeout,
)
from ferrule.types import ToolContentBlock, ToolResult
from ferrule.wire.codec import Encoded
from tests.kernel.harness import initialize, settled
from tests.seed.test_kernel import make_server

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


def pair(handler: Any = None, hear: Any = None, **options: Any) -> tuple[DirectDispatcher, DirectDispatcher]:
    """Two ends; the other answers with ``handler(dctx, params)``."""
    ours, theirs = DirectDispatcher.pair(**options)

    async def on_request(dctx: DispatchContext, method: str, params: Any) -> Any:
        return await handler(dctx, params)

    async def on_notify(dctx: DispatchContext, method: str, params: Any) -> None:
        if hear is not None:
            await hear(dctx, method, params)

    theirs.serve(on_request, on_notify)
    return ours, theirs


async def test_a_call_is_a_call() -> None:
    """No task: the handler runs in the caller's own."""
    tasks: list[Any] = []

    async def handler(dctx: DispatchContext, params: Any) -> Any:
        tasks.append(anyio.get_current_task().id)
        assert dctx.transport.kind == "direct"
        return {"params": params, "id": dctx.request_id}

    ours, _ = pair(handler)
    assert await ours.send_raw_request("m", {"a": 1}) == {"params": {"a": 1}, "id": 1}
    assert await ours.send_raw_request("m", None) == {"params": None, "id": 2}
    assert tasks == [anyio.get_current_task().id] * 2


async def test_neither_side_can_touch_the_others_objects() -> None:
    """What one sends the other gets as builtins of its own, as over a wire."""
    sent: dict[str, Any] = {"list": [1], "block": ToolContentBlock("text", "a")}
    kept: dict[str, Any] = {"list": [1], "block": ToolContentBlock("text", "b")}

    async def handler(dctx: DispatchContext, params: Any) -> Any:
        params["list"].append(2)
        assert params["block"] == {"type": "text", "text": "a"}
        return kept

    ours, _ = pair(handler)
    found = await ours.send_raw_request("m", sent)
    found["list"].append(3)
    assert found["block"] == {"type": "text", "text": "b"}
    assert sent["list"] == kept["list"] == [1]


@pytest.mark.parametrize("value", [ToolResult(content=[]), Encoded(b'{"content":[]}'), {"content": []}])
async def test_every_kind_of_result_arrives_as_a_dict(value: Any) -> None:
    """Structs, ready-made bytes, mappings; nothing is an empty result."""

    async def handler(dctx: DispatchContext, params: Any) -> Any:
        return value

    ours, _ = pair(handler)
    assert await ours.send_raw_request("m", None) == {"content": []}


async def test_errors_cross_as_they_would_on_a_wire(caplog: pytest.LogCaptureFixture) -> None:
    """Protocol errors become remote errors; others are internal and logged, unless ``raise_exceptions`` is set."""
    errors: list[Exception] = [
        InvalidParams("No", data={"b": ToolContentBlock("text", "a")}),
        MCPError("No", code=7),
        ValueError("secret"),
        LocalError("secret"),
    ]

    async def handler(dctx: DispatchContext, params: Any) -> Any:
        raise errors[params["n"]]

    ours, _ = pair(handler)
    told: list[Any] = []
    for n in range(4):
        with pytest.raises(RemoteError) as caught:
            await ours.send_raw_request("m", {"n": n})
        told.append((caught.value.code, caught.value.message))
    assert told == [(-32602, "No"), (7, "No"), (-32603, "Internal error"), (-32603, "Internal error")]
    assert caplog.text.count("secret") >= 2
    ours, _ = pair(handler, raise_exceptions=True)
    for n in (2, 3):
        with pytest.raises(type(errors[n])):
            await ours.send_raw_request("m", {"n": n})
    with pytest.raises(RemoteError) as caught:
        await ours.send_raw_request("m", {"n": 0})
    assert caught.value.data == {"b": {"type": "text", "text": "a"}}


async def test_a_result_without_a_json_form_is_an_internal_error() -> None:
    """As over a wire."""

    async def handler(dctx: DispatchContext, params: Any) -> Any:
        return {"a": object()}

    ours, _ = pair(handler)
    with pytest.raises(RemoteError) as caught:
        await ours.send_raw_request("m", None)
    assert caught.value.code == -32603


async def test_both_sides_send_requests_and_notifications() -> None:
    """Within a call and outside of one."""
    told: list[Any] = []

    async def handler(dctx: DispatchContext, params: Any) -> Any:
        await dctx.notify("n", {"k": 1})
        return await dctx.send_raw_request("back", {"q": 1})

    async def back(dctx: DispatchContext, method: str, params: Any) -> Any:
        return {"method": method, "params": params}

    async def hear(dctx: DispatchContext, method: str, params: Any) -> None:
        told.append((method, params, dctx.request_id))
        raise ValueError("a crash is nobody's trouble")

    ours, theirs = pair(handler, hear)
    ours.serve(back, hear)
    assert await ours.send_raw_request("m", None) == {"method": "back", "params": {"q": 1}}
    await ours.notify("x")
    await theirs.notify("y", {})
    assert told == [("n", {"k": 1}, None), ("x", None, None), ("y", {}, None)]


async def test_progress_goes_to_the_caller_while_it_waits() -> None:
    """Strictly rising, never after the answer; a token of the caller's own goes out as a notification."""
    contexts: list[DispatchContext] = []
    told: list[Any] = []
    seen: list[Any] = []

    async def handler(dctx: DispatchContext, params: Any) -> Any:
        contexts.append(dctx)
        for value in (1, 1, 2):
            await dctx.progress(value, 2, "m")
        return {}

    async def hear(dctx: DispatchContext, method: str, params: Any) -> None:
        told.append((method, params["progressToken"]))

    async def refuse(dctx: DispatchContext, method: str, params: Any) -> Any:
        raise AssertionError

    async def waits(*progress: Any) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(progress)

    ours, _ = pair(handler)
    ours.serve(refuse, hear)
    await ours.send_raw_request("m", None, {"on_progress": lambda *progress: seen.append(progress)})
    await ours.send_raw_request("m", {"_meta": {"k": 1}}, {"on_progress": waits})
    assert seen == [(1, 2, "m"), (2, 2, "m")] * 2
    await ours.send_raw_request("m", None)
    await ours.send_raw_request("m", {"_meta": {"progressToken": 4}})
    assert told == [("notifications/progress", 4)] * 2
    for dctx in contexts:
        await dctx.progress(99)
    assert len(seen) + len(told) == 6


async def test_a_caller_that_gives_up_is_seen_by_what_still_runs() -> None:
    """A synchronous tool continues in its thread, and can read ``cancel_requested``."""
    seen: list[DispatchContext] = []

    async def handler(dctx: DispatchContext, params: Any) -> Any:
        seen.append(dctx)
        assert not dctx.cancel_requested
        scope.cancel()
        await anyio.sleep_forever()

    ours, _ = pair(handler)
    with anyio.CancelScope() as scope:
        await ours.send_raw_request("m", None)
    assert seen[0].cancel_requested


async def test_a_call_waits_until_the_other_end_serves() -> None:
    """Either end may be started first."""
    ours, theirs = DirectDispatcher.pair(TransportContext("mine"))
    found: list[Any] = []

    async def handler(dctx: DispatchContext, method: str, params: Any) -> Any:
        return {"kind": dctx.transport.kind}

    async def hear(dctx: DispatchContext, method: str, params: Any) -> None:
        return

    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            found.append(await ours.send_raw_request("m", None))

        tasks.start_soon(ask)
        await settled()
        assert found == []
        theirs.serve(handler, hear)
    assert found == [{"kind": "mine"}]


async def test_closing_either_end_closes_both() -> None:
    """Later calls fail at once, also those that wait for the other end to serve; `run` returns."""
    for close_ours in (True, False):
        ours, theirs = DirectDispatcher.pair()

        async def nothing(*args: Any) -> Any:
            return {}

        caught: list[Exception] = []
        async with anyio.create_task_group() as tasks:

            async def ask(ours: Any = ours, caught: Any = caught) -> None:
                try:
                    await ours.send_raw_request("m", None)
                except ConnectionClosed as error:
                    caught.append(error)

            tasks.start_soon(ask)
            tasks.start_soon(ours.run, nothing, nothing)
            await settled()
            (ours if close_ours else theirs).close()
        await ask()
        assert len(caught) == 2
        with pytest.raises(ConnectionClosed):
            await ours.notify("x")


async def test_an_end_alone_is_closed() -> None:
    """Made without `pair`, it has no peer."""
    with pytest.raises(ConnectionClosed):
        await DirectDispatcher().send_raw_request("m", None)


async def test_a_legacy_client_in_this_process_is_notified_of_changes() -> None:
    """While `serve_connection` runs."""
    server = make_server(list_changed=["tools"])
    ours, theirs = DirectDispatcher.pair()
    told: list[str] = []

    async def hear(dctx: DispatchContext, method: str, params: Any) -> None:
        told.append(method)

    async def nothing(*args: Any) -> Any:
        return {}

    ours.serve(nothing, hear)
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            await serve_connection(server, theirs, connection=Connection.for_loop(theirs), lifespan_state=None)

        tasks.start_soon(serve)
        await ours.send_raw_request("initialize", initialize()["params"])
        await ours.notify("notifications/initialized")
        server.bus.publish(Event.list_changed("tools"))
        await settled()
        assert told == ["notifications/tools/list_changed"]
        ours.close()
    assert len(server.bus) == 0


def test_a_timeout_cancels_the_handler(anyio_backend: str) -> None:
    """Its clean-up runs; progress may start the time again, and a cap holds. In virtual time."""

    async def test() -> None:
        cleaned: list[float] = []

        async def handler(dctx: DispatchContext, params: Any) -> Any:
            try:
                for value in range(params["steps"]):
                    await trio.sleep(8)
                    await dctx.progress(value)
                if not params["steps"]:
                    await trio.sleep_forever()
            finally:
                cleaned.append(trio.current_time() - started)
            return {}

        ours, _ = pair(handler)
        resets: CallOptions = {"timeout_s": 10, "reset_on_progress": True}
        started = trio.current_time()
        with pytest.raises(RequestTimeout) as caught:
            await ours.send_raw_request("m", {"steps": 0}, {"timeout_s": 10})
        assert (caught.value.timeout_s, cleaned) == (10, [10])
        with pytest.raises(RequestTimeout):
            await ours.send_raw_request("m", {"steps": 4}, {"timeout_s": 10})
        assert await ours.send_raw_request("m", {"steps": 4}, resets) == {}
        with pytest.raises(RequestTimeout) as caught:
            await ours.send_raw_request("m", {"steps": 100}, {**resets, "max_total_s": 25})
        assert caught.value.timeout_s == 25
        assert cleaned == [10, 20, 52, 77]

    trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    ("options", "is_cap", "limit_s"),
    [
        ({"timeout_s": 10}, False, 10),
        ({"timeout_s": 10, "max_total_s": 25}, False, 10),
        ({"max_total_s": 25}, True, 25),
        ({"timeout_s": 30, "max_total_s": 25}, True, 25),
    ],
)
def test_a_late_request_says_which_limit_it_passed(options: CallOptions, is_cap: bool, limit_s: float) -> None:
    """Only the limit in all is not extended by progress, so that the caller has to raise another option."""

    async def test() -> None:
        async def handler(dctx: DispatchContext, params: Any) -> dict[str, Any]:
            await anyio.sleep(1000)
            return {}

        ours, _ = pair(handler)
        with pytest.raises(RequestTimeout) as caught:
            await ours.send_raw_request("m", {}, options)
        assert (caught.value.timeout_s, caught.value.is_cap) == (limit_s, is_cap)

    trio.run(test, clock=trio.testing.MockClock(autojump_threshold=0))
