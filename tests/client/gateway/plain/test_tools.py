"""Plain calls through a gateway: they are answered, and reach the server behind, as every other request is."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule import Gateway
from ferrule.client.gateway.upstreams.settings import UpstreamSettings
from ferrule.client.gateway.views import GatewayViews, View
from ferrule.kernel.fast_path.fast_tools import FastTools
from ferrule.wire.codec import decode, encode
from tests.client.patience import patient_gateway
from tests.pipes import line_to
from tests.profiling import PythonCalls
from tests.properties.test_fast_path import with_envelope
from tests.transports.asgi.test_fast_path import exchange

PROGRAM = str(Path(__file__).with_name("raw_server.py"))
MODERN = "2026-07-28"
MAX_CALLS = {"2025-11-25": 88, MODERN: 110}
"""The promise: Python calls of one call through a gateway over HTTP to a server on stdio, of the gateway alone."""
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
FRONTS = ["2024-11-05", "2025-06-18", "2025-11-25", MODERN]
TEXT = '{"type":"text","text":"hé"}'
RESULTS = [
    '{"content":[]}',
    f'{{"content":[{TEXT}]}}',
    f'{{"content":[{TEXT}],"resultType":"complete"}}',
    f'{{"content":[{TEXT}],"structuredContent":{{"a":[1,null,"\\u00e9"]}},"isError":false}}',
    f'{{"content":[{TEXT}],"structuredContent":"only text"}}',
    f'{{"content":[{TEXT}],"structuredContent":[1,2.5,{{}}]}}',
    '{"content":[],"structuredContent":null}',
    '{"content":[],"structuredContent":{"a":1}}',
    '{ "content" : [ { "type" : "image", "data" : "eA==", "mimeType" : "image/png" } ], "isError" : true }',
    f'{{"content":[{TEXT}],"_meta":{{"a":1}}}}',
    f'{{"content":[{TEXT}],"_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"x","version":"2"}}}}}}',
    '{"content":[{"type":"text","text":"x","annotations":{"priority":1}}]}',
    '{"content":[{"type":"text","text":"x","xOwn":1}]}',
    '{"content":[{"type":"audio","data":"eA==","mimeType":"audio/wav"}]}',
    '{"content":[{"type":"resource_link","uri":"a://b","name":"b"}]}',
    '{"content":[{"type":"hologram"}]}',
    '{"content":[],"xOwn":1}',
    '{"structuredContent":1}',
    '{"content":null}',
    '{"content":[],"isError":null}',
    '{"content":[],"resultType":"strange"}',
    "null",
    "[]",
    '{"content":[],"structuredContent":' + "[" * 400 + "]" * 400 + "}",
    '{"content":[{"type":"text","text":"\\ud800"}]}',
]
ERRORS = ['{"code":-32602,"message":"no","data":{"why":1}}', '{"code":-32603,"message":"broken"}']


@asynccontextmanager
async def running(
    record: Path, behind: str, front: str, *, stateless: bool = False, has_logs: bool = False, **options: Any
) -> AsyncGenerator[Any]:
    """A gateway with one server, and a function that sends it a message.

    It returns the status, the headers and the messages of the response, and appends its parts to a list as they come.
    """
    command = [sys.executable, PROGRAM, str(record), behind, *(["logs"] if has_logs else [])]
    target = {"command": command[0], "args": command[1:]}
    gateway = patient_gateway({"mcpServers": {"raw": target}}, **{"timeout_s": 20.0, **options})
    endpoint = gateway.asgi(allowed_hosts=["127.0.0.1:*"], stateless=stateless)
    headers: dict[str, str | None] = {"mcp_method": None, "mcp_protocol_version": None}

    async def send(
        message: dict[str, Any], parts: list[Any] | None = None
    ) -> tuple[int, dict[bytes, bytes], list[Any]]:
        if front == MODERN:
            message = decode(with_envelope(message, message.get("id", 0), MODERN))
            named = {"mcp_name": "raw_say"} if message["method"] == "tools/call" else {}
            sent = await exchange(endpoint, encode(message), parts, mcp_method=message["method"], **named)
        else:
            sent = await exchange(endpoint, encode(message), parts, **headers)
        body = b"".join(part.get("body", b"") for part in sent[1:])
        lines = [line[6:] for line in body.splitlines() if line.startswith(b"data: ") and line != b"data: "]
        found = [decode(line) for line in lines] if b"data:" in body else [decode(body)] if body else []
        return sent[0]["status"], dict(sent[0]["headers"]), found

    if front != MODERN:
        client = {"name": "c", "version": "1"}
        params = {"protocolVersion": front, "capabilities": {"elicitation": {}}, "clientInfo": client}
        _, got, _ = await send({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params})
        headers |= {"mcp_protocol_version": front}
        if not stateless:
            headers |= {"mcp_session_id": got[b"mcp-session-id"].decode()}
            await send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    await send({"jsonrpc": "2.0", "id": "l", "method": "tools/list"})
    try:
        yield gateway, send
    finally:
        await endpoint.aclose()


def call(id: Any, arguments: Any = None, **more: Any) -> dict[str, Any]:
    params = {"name": "raw_say", **({} if arguments is None else {"arguments": arguments}), **more}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def counted(gateway: Gateway) -> int:
    return gateway.server.attachments[FastTools].fast_calls if FastTools in gateway.server.attachments else 0


def asked_of(record: Path) -> list[Any]:
    """The calls that the server behind has got; the ids and tokens of the connection are counted on either path."""
    messages = [json.loads(line) for line in record.read_text().split("\n") if line]
    return [message["params"] for message in messages if message["method"] == "tools/call"]


def serve(folder: Path, behind: str, front: str, messages: list[Any], **options: Any) -> tuple[Any, Any, int]:
    """The answers to calls, what the server behind has got, and the number of calls on the fast path."""
    record = folder / f"{len(list(folder.iterdir()))}.txt"

    async def test() -> tuple[Any, int]:
        async with running(record, behind, front, **options) as (gateway, send):
            # A server's own session is opened by the first request that needs it.
            await send(call("warm"))
            answers = [(await send(message))[::2] for message in messages]
            return answers, counted(gateway)

    answers, fast = asyncio.run(test())
    got = asked_of(record)
    for params in got:
        params.get("_meta", {}).pop("progressToken", None)
    return answers, got, fast


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("behind", ["modern", "legacy"])
@pytest.mark.parametrize("sessions", ["auto", "own"])
def test_both_paths_answer_and_ask_alike(tmp_path: Path, behind: str, front: str, sessions: Any) -> None:
    """Every kind of result and error, with and without arguments and members that few calls have."""
    messages = [call(number, {"result": result}) for number, result in enumerate(RESULTS)]
    messages += [call(f"e{number}", {"error": error}) for number, error in enumerate(ERRORS)]
    messages += [
        call("none"),
        call("empty", {}),
        call("meta", {}, _meta={"own": {"a": 1}}),
        call("token", {}, _meta={"progressToken": 7}),
        call("odd", {}, _meta={"progressToken": "t", "own": 1}),
        call("level", {}, _meta={"io.modelcontextprotocol/logLevel": "debug"}),
        call("more", {}, task={"ttl": 1}),
        call("lines", {"text": "a\nb", "big": 2**70, "é": [1.5, None]}),
        call("state", {}, requestState="x"),
    ]
    set_up = {"raw": UpstreamSettings(sessions=sessions)}
    fast = serve(tmp_path, behind, front, messages, settings=set_up)
    general = serve(tmp_path, behind, front, messages, settings=set_up, fast_path=False)
    assert fast[:2] == general[:2]
    assert general[2] == 0
    is_plain = behind == "modern" or front != MODERN  # a modern client of a legacy server may be asked something
    assert fast[2] > len(messages) / 2 if is_plain else fast[2] == 0


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "content": st.lists(
                    st.fixed_dictionaries(
                        {"type": st.sampled_from(["text", "text", "image", "other"]), "text": st.text(max_size=5)},
                        optional={"data": st.just("eA=="), "mimeType": st.just("a/b"), "_meta": st.just({"a": 1})},
                    ),
                    max_size=3,
                ),
                "structuredContent": st.recursive(
                    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
                    max_leaves=5,
                ),
                "isError": st.booleans(),
                "resultType": st.sampled_from(["complete", "input_required"]),
                "_meta": st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
            },
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(FRONTS),
    st.booleans(),
)
def test_generated_results_are_the_same_on_both_paths(
    tmp_path: Path, results: list[Any], front: str, is_ascii: bool
) -> None:
    """Text in every form that JSON has for it."""
    messages = [
        call(number, {"result": json.dumps(result, ensure_ascii=is_ascii, allow_nan=True)})
        for number, result in enumerate(results)
    ]
    fast, general = (serve(tmp_path, "modern", front, messages, fast_path=is_on) for is_on in (True, False))
    assert fast[:2] == general[:2]
    assert (general[2], fast[2] > 0) == (0, True)


@pytest.mark.anyio
@pytest.mark.parametrize("sessions", ["auto", "own"])
async def test_messages_of_a_legacy_server_belong_to_its_plain_call(tmp_path: Path, sessions: Any) -> None:
    """Its log message and its question go to the client on the stream of the call, which is made at that time."""
    set_up = {"raw": UpstreamSettings(sessions=sessions)}
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "one"}}
    params = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
    question = {"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": params}
    async with running(tmp_path / "r", "legacy", "2025-11-25", settings=set_up, has_logs=True) as (gateway, send):
        await send(call("warm"))
        _, headers, messages = await send(call(1, {"before": [log], "result": f'{{"content":[{TEXT}]}}'}))
        assert headers[b"content-type"] == b"text/event-stream"
        assert [each.get("method", each.get("id")) for each in messages] == ["notifications/message", 1]
        assert messages[1]["result"]["content"] == [{"type": "text", "text": "hé"}]
        parts: list[Any] = []
        asking = asyncio.ensure_future(send(call(2, {"before": [question], "silent": True}), parts))
        while not any(b"elicitation/create" in part.get("body", b"") for part in parts):
            await asyncio.sleep(0.01)
        asked = decode(
            next(part["body"] for part in parts if b"elicitation" in part.get("body", b"")).split(b"data: ")[1]
        )
        result = {"action": "accept", "content": {"sure": True}}
        assert (await send({"jsonrpc": "2.0", "id": asked["id"], "result": result}))[0] == 202
        assert (await asking)[2][-1]["result"]["structuredContent"] == {"answer": result}
        assert counted(gateway) == 3


@pytest.mark.anyio
@pytest.mark.parametrize(("behind", "front"), [("modern", "2025-11-25"), ("modern", MODERN), ("legacy", "2025-11-25")])
async def test_progress_of_a_plain_call_comes_before_its_result(tmp_path: Path, behind: str, front: str) -> None:
    """In order, with the token of the client; and none to a client that asked for none."""
    before = [
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": step, "message": "é"}}
        for step in range(1, 21)
    ]
    said = {"before": before, "result": f'{{"content":[{TEXT}]}}'}
    found: list[Any] = []
    for is_on in (True, False):
        async with running(tmp_path / "r", behind, front, fast_path=is_on) as (gateway, send):
            await send(call("warm"))
            _, headers, messages = await send(call("p", said, _meta={"progressToken": 77}))
            assert headers[b"content-type"] == b"text/event-stream"
            assert (await send(call("q", said)))[2][0]["id"].startswith("q")
            assert counted(gateway) == (3 if is_on else 0)
            found.append(messages)
    assert found[0] == found[1]
    steps = [each["params"] for each in found[0][:-1]]
    assert steps == [{"progressToken": 77, "progress": step, "message": "é"} for step in range(1, 21)]
    assert found[0][-1]["result"]["content"] == [{"type": "text", "text": "hé"}]


@pytest.mark.anyio
@pytest.mark.parametrize("behind", ["modern", "legacy"])
async def test_a_withdrawn_plain_call_is_withdrawn_behind(tmp_path: Path, behind: str) -> None:
    """The client gets no answer for it, and the server behind is told."""
    async with running(tmp_path / "r", behind, "2025-11-25") as (gateway, send):
        await send(call("warm"))
        waiting = asyncio.ensure_future(send(call(1, {"silent": True})))
        while not gateway.upstreams["raw"].active:
            await asyncio.sleep(0.01)
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        assert (await send(note))[0] == 202
        status, _, messages = await waiting
        assert (status, messages) == (200, [])
        assert not waiting.cancelled()
        assert (await send(call(1, {"result": f'{{"content":[{TEXT}]}}'})))[2][0]["result"]["content"]  # the id is free
        methods = [json.loads(line)["method"] for line in (tmp_path / "r").read_text().split("\n") if line]
        assert methods.count("notifications/cancelled") == 1
        assert counted(gateway) == 3
        assert gateway.upstreams["raw"].active == 0


@pytest.mark.anyio
@pytest.mark.parametrize("behind", ["modern", "legacy"])
async def test_a_plain_call_of_a_lost_server_says_so(tmp_path: Path, behind: str) -> None:
    """It is not sent a second time, since it may have had an effect."""
    async with running(tmp_path / "r", behind, "2025-11-25") as (gateway, send):
        await send(call("warm"))
        found = (await send(call(1, {"end": True})))[2][0]["result"]
        assert found["isError"] is True
        assert "failed during this request" in found["content"][0]["text"]
        assert sum("end" in str(params) for params in asked_of(tmp_path / "r")) == 1
        assert (await send(call(2, {"result": f'{{"content":[{TEXT}]}}'})))[2][0]["result"]["content"]
        assert counted(gateway) >= 2


@pytest.mark.anyio
async def test_a_plain_call_has_the_time_out_of_its_client(tmp_path: Path) -> None:
    """And the same text as any other."""
    texts: list[str] = []
    for is_on in (True, False):
        async with running(tmp_path / "r", "modern", "2025-11-25", timeout_s=0.2, fast_path=is_on) as (gateway, send):
            texts.append((await send(call(1, {"silent": True})))[2][0]["result"]["content"][0]["text"])
            assert counted(gateway) == is_on
    assert texts == ["`raw` did not answer within 0.2 s"] * 2


@pytest.mark.anyio
async def test_other_calls_take_the_general_path(tmp_path: Path) -> None:
    """Those with a deadline of the server, with views, with other middleware, and of the gateway's own tool."""
    limited = {"raw": UpstreamSettings(timeout_s=5.0)}
    async with running(tmp_path / "r", "modern", "2025-11-25", settings=limited) as (gateway, send):
        assert "result" in (await send(call(1, {})))[2][0]
        assert counted(gateway) == 0
    async with running(tmp_path / "r", "modern", "2025-11-25", status_tool=True) as (gateway, send):
        views = GatewayViews(gateway)
        gateway.server.middleware.insert(0, views)
        assert "result" in (await send(call(1, {})))[2][0]
        assert counted(gateway) == 1
        own = call(2, {})
        own["params"]["name"] = next(
            tool["name"]
            for tool in (await send({"jsonrpc": "2.0", "id": 3, "method": "tools/list"}))[2][0]["result"]["tools"]
            if tool["name"] != "raw_say"
        )
        assert "raw" in (await send(own))[2][0]["result"]["content"][0]["text"]
        assert counted(gateway) == 1
        views.replace({"all": View("all", servers=frozenset())}, "all")
        assert "Unknown tool" in (await send(call(3, {})))[2][0]["error"]["message"]
        assert counted(gateway) == 1
        views.replace({}, None)
        assert "result" in (await send(call(4, {})))[2][0]
        assert counted(gateway) == 2
        seen: list[str] = []

        async def middleware(ctx: Any, call_next: Any) -> Any:
            seen.append(ctx.method)
            return await call_next(ctx)

        gateway.server.middleware.append(middleware)
        assert "result" in (await send(call(5, {})))[2][0]
        assert (counted(gateway), seen) == (2, ["tools/call"])


@pytest.mark.anyio
@pytest.mark.parametrize("front", ["2025-06-18", "2025-11-25"])
async def test_a_client_without_a_session_may_make_plain_calls(tmp_path: Path, front: str) -> None:
    """Nothing is known of it, which the modern server behind is told."""
    async with running(tmp_path / "r", "modern", front, stateless=True) as (gateway, send):
        assert "result" in (await send(call(1, {})))[2][0]
        assert counted(gateway) == 1
        assert asked_of(tmp_path / "r")[-1]["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {}


@pytest.mark.parametrize("front", ["2025-11-25", MODERN])
@pytest.mark.parametrize("behind", ["modern", "legacy"])
def test_a_gateway_on_stdio_answers_alike(tmp_path: Path, behind: str, front: str) -> None:
    """Calls that come together, one that is withdrawn, one with progress; and none is lost."""
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}
    messages: list[Any] = [
        *(call(f"r{number}", {"result": result}) for number, result in enumerate(RESULTS[:18])),
        call("token", {"before": [progress]}, _meta={"progressToken": 5}),
        call("silent", {"silent": True}),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "silent"}},
        call("last", {"error": ERRORS[0]}),
    ]
    if front == MODERN:
        messages = [
            message if "id" not in message else {**message, "params": {**message["params"], "_meta": META | meta}}
            for message in messages
            for meta in [message["params"].get("_meta", {})]
        ]

    async def test(*, fast_path: bool) -> tuple[list[Any], int]:
        command = {"command": sys.executable, "args": [PROGRAM, str(tmp_path / "r"), behind]}
        gateway = patient_gateway({"mcpServers": {"raw": command}}, fast_path=fast_path, timeout_s=20.0)
        async with line_to(gateway) as line:  # type: ignore[arg-type]
            if front == MODERN:
                await line.tell({"jsonrpc": "2.0", "id": "i", "method": "server/discover", "params": {"_meta": META}})
            else:
                client = {"protocolVersion": front, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
                await line.tell({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": client})
                await line.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
            await line.wait_for(1)
            await line.tell(
                {**call("warm", {}), "params": {"name": "raw_say", "_meta": META if front == MODERN else {}}}
            )
            before = len(await line.wait_for(2))
            await line.tell(*messages)
            answers = (await line.wait_for(before + 21))[before:]
        return sorted(answers, key=lambda message: str(message.get("id"))), counted(gateway)

    fast, general = (asyncio.run(test(fast_path=is_on)) for is_on in (True, False))
    assert fast[0] == general[0]
    assert len(fast[0]) == 21
    assert general[1] == 0
    assert fast[1] > 15 if behind == "modern" or front != MODERN else fast[1] == 0


def test_the_environment_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for servers and clients."""
    target = {"raw": {"command": sys.executable, "args": [PROGRAM]}}
    assert FastTools in Gateway({"mcpServers": target}).server.attachments
    monkeypatch.setenv("FERRULE_FAST_PATH", "0")
    assert FastTools not in Gateway({"mcpServers": target}).server.attachments


@pytest.mark.anyio
@pytest.mark.parametrize(("behind", "front"), [("modern", "2025-11-25"), ("modern", MODERN), ("legacy", "2025-11-25")])
async def test_a_plain_call_is_few_python_calls(tmp_path: Path, behind: str, front: str) -> None:
    """From the request of the client to its response, without asyncio and the test."""
    counts: list[int] = []
    for is_on in (True, False):
        async with running(tmp_path / "r", behind, front, fast_path=is_on) as (_, send):
            for id in range(3):
                await send(call(f"warm {id}", {}))
            with PythonCalls() as calls:
                _, _, messages = await send(call("counted", {}))
            assert messages[0]["result"]["content"] == []
            counts.append(calls.of("ferrule/"))
    fast, general = counts
    assert 30 < fast <= MAX_CALLS[front] < general, (fast, general)
