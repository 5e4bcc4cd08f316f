"""The fast path and the general path are one server: the same bytes, the same calls, the same log.

Frames of both eras, plain, odd and broken, in chunks that are cut anywhere, go to two servers that differ in
``fast_path`` alone.

``FERRULE_FAST_PATH_EXAMPLES`` is the number of examples of each property of the fast path (60 without it).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import Context, MCPServer, ToolError, current_context
from tests.pipes import Line, encoded, line_to

PREFIX = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
EXAMPLES = int(os.environ.get("FERRULE_FAST_PATH_EXAMPLES", "60"))
HANDSHAKES = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@dataclass
class Item:
    """What a tool may return."""

    name: str
    price: float
    tags: list[str]
    note: str | None = None


class Recorder(logging.Handler):
    """Keeps what was logged, without tracebacks: their frames are those of the path."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.lines.append(f"{record.name} {record.levelname} {record.getMessage()} {error!r}")


def make_app(calls: list[Any], **options: Any) -> MCPServer[Any]:
    app = MCPServer("same", version="1", **options)

    @app.tool
    async def echo(text: str) -> str:
        calls.append(("echo", text))
        return text

    @app.tool
    async def add(a: int, b: float = 2.5, *, on: bool = False) -> float:
        calls.append(("add", a, b, on))
        return a + b

    @app.tool
    async def item(name: str, price: float = 1.0) -> Item:
        calls.append(("item", name, price))
        return Item(name, price, [name] * 2)

    @app.tool
    async def items(count: int) -> list[Item]:
        calls.append(("items", count))
        return [Item(str(index), index, []) for index in range(count % 4)]

    @app.tool
    async def anything(value: Any = None) -> Any:
        calls.append(("anything", value))
        return value

    @app.tool
    async def table(rows: dict[str, list[int]]) -> dict[str, Any]:
        calls.append(("table", rows))
        return {"rows": rows, "at": (1, 2)}

    @app.tool
    async def lies(value: Any) -> int:
        calls.append(("lies", value))
        return value

    @app.tool
    async def waits(passes: int, text: str = "") -> str:
        calls.append(("waits", passes, text))
        for _ in range(passes % 5):
            await asyncio.sleep(0)
        return text

    @app.tool
    async def waits_for_ever(text: str) -> str:
        calls.append(("waits_for_ever", text))
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            calls.append(("ended", text))
        return text

    @app.tool
    async def tells(ctx: Context, steps: int = 1) -> str:
        calls.append(("tells", ctx.request_id, ctx.protocol_version, sorted(ctx.meta)))
        for step in range(steps % 3):
            await ctx.progress(step + 1)
            await ctx.info(f"step {step}")
        return current_context().method

    @app.tool
    async def fails(how: str) -> str:
        calls.append(("fails", how))
        if how == "tool":
            raise ToolError("on purpose")
        if how == "exit":
            raise SystemExit(3)
        if how == "cancel":
            raise asyncio.CancelledError
        raise ValueError(how)

    @app.tool(input_schema={"type": "object", "properties": {"size": {"type": "integer", "maximum": 5}}})
    async def own_schema(size: int = 1) -> str:
        calls.append(("own_schema", size))
        return str(size)

    @app.tool(input_schema={"type": "object", "additionalProperties": {"type": ["integer", "string", "object"]}})
    async def keywords(size: int = 1, **more: Any) -> str:
        calls.append(("keywords", size, sorted(more.items())))
        return str(size)

    @app.tool
    async def dated(day: date, ctx: Context, exact: Decimal = Decimal(1)) -> str:
        calls.append(("dated", day, exact))
        return f"{day} {exact} {ctx.protocol_version}"

    @app.tool
    async def surrogate() -> str:
        return "\ud800 half"

    return app


TEXT = st.text(max_size=12) | st.sampled_from(["ä€😀", "a\nb", '"\\', "", "x" * 700, "[" * 600])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = {
    "echo": st.fixed_dictionaries({"text": TEXT}),
    "add": st.fixed_dictionaries(
        {"a": st.integers(-5, 2**66)}, optional={"b": st.integers(0, 3) | st.floats(-4, 4), "on": st.booleans()}
    ),
    "item": st.fixed_dictionaries({"name": TEXT}, optional={"price": st.floats(0, 9) | st.integers(0, 9)}),
    "items": st.fixed_dictionaries({"count": st.integers(0, 5)}),
    "anything": st.fixed_dictionaries({}, optional={"value": JSON}),
    "table": st.fixed_dictionaries(
        {"rows": st.dictionaries(TEXT, st.lists(st.integers(0, 3), max_size=2), max_size=2)}
    ),
    "lies": st.fixed_dictionaries({"value": JSON}),
    "waits": st.fixed_dictionaries({"passes": st.integers(0, 4)}, optional={"text": TEXT}),
    "waits_for_ever": st.fixed_dictionaries({"text": TEXT}),
    "tells": st.fixed_dictionaries({}, optional={"steps": st.integers(0, 2)}),
    "fails": st.fixed_dictionaries({"how": st.sampled_from(["tool", "exit", "cancel", "else"])}),
    "own_schema": st.fixed_dictionaries({}, optional={"size": st.integers(0, 9), "more": JSON}),
    "keywords": st.fixed_dictionaries({}, optional={"size": st.integers(0, 9), "more": JSON, "text": TEXT}),
    "dated": st.fixed_dictionaries(
        {"day": st.sampled_from(["2026-11-28", "2026-02-30", "", 5])}, optional={"exact": st.sampled_from(["1.50", 2])}
    ),
    "surrogate": st.just({}),
}


@st.composite
def plain_call(draw: st.DrawFn) -> dict[str, Any]:
    """A call as most clients send it; its id is filled in later."""
    name = draw(st.sampled_from(sorted(ARGUMENTS)))
    return {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "tools/call",
        "params": {"name": name, "arguments": draw(ARGUMENTS[name])},
    }


@st.composite
def odd_call(draw: st.DrawFn) -> Any:
    """A call with something unusual, or something that is not a call."""
    call = draw(plain_call())
    params: Any = call["params"]
    odd = draw(st.integers(0, 15))
    if odd == 0:
        params["arguments"] = draw(JSON)
    elif odd == 1:
        params["arguments"] = {**params["arguments"], draw(TEXT): draw(JSON)}
    elif odd == 2:
        del params["arguments"]
    elif odd == 3:
        params["name"] = draw(TEXT | st.integers())
    elif odd == 4:
        params["_meta"] = {"progressToken": draw(st.integers(0, 9) | TEXT | st.none())}
    elif odd == 5:
        params["_meta"] = draw(JSON)
    elif odd == 6:
        params[draw(st.sampled_from(["task", "requestState", "inputResponses", "more"]))] = draw(JSON)
    elif odd == 7:
        call[draw(st.sampled_from(["jsonrpc", "id", "method", "params", "more", "result"]))] = draw(JSON)
    elif odd == 8:
        del call[draw(st.sampled_from(sorted(call)))]
    elif odd == 9:
        params["_meta"] = {"traceparent": draw(TEXT), PREFIX + "logLevel": draw(st.sampled_from(["info", "loud"]))}
    elif odd == 10:
        return {"jsonrpc": "2.0", "id": 0, "method": draw(st.sampled_from(["ping", "tools/list", "logging/setLevel"]))}
    elif odd == 11:
        return {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": draw(st.integers(-3, -1))},
        }
    elif odd == 12:
        return [call]
    elif odd == 13:
        return draw(st.sampled_from([b"", b"   ", b"{", b"nul", b"\xff\xfe", b'{"jsonrpc":"2.0"', b"\xef\xbb\xbf{}"]))
    elif odd == 14:
        params["arguments"] = json.loads("[" * 400 + "]" * 400)
    else:
        call["id"] = draw(st.sampled_from(["text", 1.5, None, 2**70, True]))
    return call


@st.composite
def conversation(draw: st.DrawFn) -> tuple[str, list[bytes], bool]:
    """A revision, chunks of bytes after its handshake, and whether each ends at most one line.

    If a chunk ends several, the order of their answers is not promised: the general path answers what it refuses
    before what it serves.
    """
    alone = draw(st.booleans())
    revision = draw(st.sampled_from([MODERN, *HANDSHAKES]))
    messages = draw(st.lists(plain_call() | plain_call() | plain_call() | odd_call(), min_size=1, max_size=14))
    lines: list[bytes] = []
    for number, message in enumerate(messages, 1):
        lines.append(with_envelope(message, number, revision))
    joined = b"".join(lines)
    # A cancellation and its request in one read is the one thing that the paths may answer differently.
    cuts = {0, len(joined)}
    place = 0
    for line, message in zip(lines, messages, strict=True):
        if alone or (isinstance(message, dict) and message.get("method") == "notifications/cancelled"):
            cuts |= {place}
        place += len(line)
    cuts |= draw(st.sets(st.integers(0, len(joined)), max_size=5))
    bounds = sorted(cuts)
    return revision, [joined[start:end] for start, end in itertools.pairwise(bounds)], alone


def with_envelope(message: Any, number: int, revision: str) -> bytes:
    """A message as a line, with an id of its own and what its era wants in ``_meta``."""
    if isinstance(message, bytes):
        return message + b"\n"
    if isinstance(message, list):
        return encoded([json.loads(with_envelope(part, number, revision)) for part in message])
    id = message.get("id")
    if type(id) is int:  # no id twice: a second one in the same read is refused only if the first still runs
        message = {**message, "id": number if id == 0 else id + number * 2**80}
    elif isinstance(id, str):
        message = {**message, "id": f"{id} {number}"}
    params = message.get("params")
    if message.get("method") == "notifications/cancelled":
        return encoded({**message, "params": {"requestId": number + params["requestId"]}})
    if (revision == MODERN and (params is None or isinstance(params, dict)) and "params" in message) or params is None:
        meta = (params or {}).get("_meta", {})
        if isinstance(meta, dict) and revision == MODERN:
            envelope = {PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {}}
            message = {**message, "params": {**(params or {}), "_meta": {**envelope, **meta}}}
    return encoded(message)


async def open_line(line: Line, revision: str) -> None:
    if revision == MODERN:
        await line.send(
            with_envelope({"jsonrpc": "2.0", "id": "first", "method": "server/discover", "params": {}}, 0, MODERN)
        )
        return
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    await line.tell({"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params})
    await line.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})


def serve(revision: str, chunks: list[bytes], *, fast_path: bool) -> tuple[bytes, list[Any], list[str], int]:
    """What a client receives, what was called, what was logged, and how many calls the fast path took."""
    calls: list[Any] = []
    recorder = Recorder()
    logger = logging.getLogger("ferrule")
    app = make_app(calls, fast_path=fast_path)

    async def test() -> bytes:
        async with line_to(app, drain_s=0) as line:
            await open_line(line, revision)
            for chunk in chunks:
                await line.send(chunk)
        return line.received

    logger.addHandler(recorder)
    try:
        return asyncio.run(test()), calls, recorder.lines, app.tools.fast_calls
    finally:
        logger.removeHandler(recorder)


def begun(calls: list[Any]) -> list[str]:
    """Calls by their start; the order in which a shutdown ends them is not guaranteed."""
    return [repr(call) for call in calls if call[0] != "ended"]


@settings(max_examples=EXAMPLES)
@given(conversation())
def test_both_paths_answer_call_and_log_alike(case: tuple[str, list[bytes], bool]) -> None:
    """Byte for byte; in the same order, if no two messages come in one read."""
    revision, chunks, is_ordered = case
    received, calls, logged, _ = serve(revision, chunks, fast_path=True)
    expected, expected_calls, expected_log, taken = serve(revision, chunks, fast_path=False)
    order: Any = list if is_ordered else sorted
    assert taken == 0
    assert order(begun(calls)) == order(begun(expected_calls))
    assert sorted(map(repr, calls)) == sorted(map(repr, expected_calls))
    assert order(received.splitlines()) == order(expected.splitlines())
    assert order(logged) == order(expected_log)


@pytest.mark.parametrize("fast_path", [True, False])
@pytest.mark.parametrize("token", [7, "text"])
@pytest.mark.parametrize("revision", [MODERN, "2025-06-18"])
def test_a_call_that_reports_progress_is_answered_before_the_input_ends(
    revision: str, token: int | str, fast_path: bool
) -> None:
    """The answer waits until the client has read the progress; here the client reads in each pass of the loop."""
    params = {"name": "tells", "arguments": {"steps": 2}, "_meta": {"progressToken": token}}
    call = {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params}
    chunk = with_envelope(call, 1, revision)
    received, _, logged, taken = serve(revision, [chunk], fast_path=fast_path)
    messages = [json.loads(line) for line in received.splitlines()]
    assert [message["id"] for message in messages if "result" in message][1:] == [1]  # behind that of the opening
    assert sum(message.get("method") == "notifications/progress" for message in messages) == 2
    assert not logged
    assert taken == (fast_path and token == 7)


@pytest.mark.parametrize("revision", [MODERN, "2025-06-18"])
def test_a_chunk_may_end_at_every_byte(revision: str) -> None:
    """Pipelined calls, cut once at each place."""
    call = {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "ä€"}}}
    wrong = {**call, "params": {"name": "echo", "arguments": {"text": 1}}}
    waits = {**call, "params": {"name": "waits", "arguments": {"passes": 2}}}
    data = b"".join(
        with_envelope(message, number, revision) for number, message in enumerate([call, waits, wrong, call])
    )
    whole = serve(revision, [data], fast_path=False)
    for cut in range(1, len(data), 3):
        received, calls, logged, taken = serve(revision, [data[:cut], data[cut:]], fast_path=True)
        assert sorted(received.splitlines()) == sorted(whole[0].splitlines()), cut
        assert (sorted(map(repr, calls)), logged) == (sorted(map(repr, whole[1])), whole[2])
        assert taken
