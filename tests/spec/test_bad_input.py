"""Bad input: each kind gets the right code, and the next message is answered.

Three ways in: the framing of stdio in process (in single bytes), HTTP without a socket, and the example server as a
real process behind pipes. ``tests/transports/stdio/test_server.py`` looks at the process itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.testing.carriers import Carrier, each_byte, open_carrier
from ferrule.wire.revisions import REVISIONS

PARSE, INVALID, NO_METHOD, PARAMS = -32700, -32600, -32601, -32602
LEGACY, MODERN = "2025-11-25", "2026-07-28"

META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
INIT_PARAMS = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
INIT = {"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": INIT_PARAMS}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def request(id: Any, method: str, revision: str, **params: Any) -> dict[str, Any]:
    """A good request of a revision."""
    if REVISIONS[revision].is_modern:
        params["_meta"] = META
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(id: Any, revision: str) -> dict[str, Any]:
    """A call that both servers below know."""
    return request(id, "tools/call", revision, name="echo", arguments={"text": "é 🎉"})


# name, bytes, id of the answer, code. ``META`` stands for the envelope (with a comma) in the modern era, else nothing.
BAD: list[tuple[str, bytes, Any, int]] = [
    ("not JSON", b"NOT JSON", None, PARSE),
    ("truncated", b'{"jsonrpc": "2.0", "id": 99, "method": "tools/li', None, PARSE),
    ("two values", b'{"jsonrpc": "2.0", "id": 99} {}', None, PARSE),
    ("NaN", b'{"jsonrpc": "2.0", "id": 99, "method": "x", "params": {"a": NaN}}', None, PARSE),
    ("binary", b"\x00\x01\x02\x7f", None, PARSE),
    ("invalid UTF-8", b'{"jsonrpc": "2.0", "id": 99, "method": "\xff\xfe"}', None, PARSE),
    ("10,000 levels of arrays", b"[" * 10_000 + b"]" * 10_000, None, PARSE),
    ("10,000 levels never closed", b'{"a":' * 10_000, None, PARSE),
    ("10,000 levels in params", b'{"jsonrpc": "2.0", "id": 99, "method": "x", "params": {"a": %s}}'
     % (b"[" * 10_000 + b"]" * 10_000), None, PARSE),
    ("a number beyond any double", b'{"jsonrpc": "2.0", "id": 1e999, "method": "x"}', None, PARSE),
    ("an array", b'[{"jsonrpc": "2.0", "id": 99, "method": "tools/list"}]', None, INVALID),
    ("an empty array", b"[]", None, INVALID),
    ("text", b'"text"', None, INVALID),
    ("a number", b"17", None, INVALID),
    ("null", b"null", None, INVALID),
    ("an empty object", b"{}", None, INVALID),
    ("no version", b'{"id": 99, "method": "tools/list", "params": {META}}', 99, INVALID),
    ("another version", b'{"jsonrpc": "1.0", "id": 99, "method": "tools/list", "params": {META}}', 99, INVALID),
    ("id null", b'{"jsonrpc": "2.0", "id": null, "method": "tools/list", "params": {META}}', None, INVALID),
    ("id a float", b'{"jsonrpc": "2.0", "id": 1.5, "method": "tools/list", "params": {META}}', None, INVALID),
    ("id true", b'{"jsonrpc": "2.0", "id": true, "method": "tools/list", "params": {META}}', None, INVALID),
    ("id an object", b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list", "params": {META}}', None, INVALID),
    ("id an array", b'{"jsonrpc": "2.0", "id": [1], "method": "tools/list", "params": {META}}', None, INVALID),
    ("method empty", b'{"jsonrpc": "2.0", "id": 99, "method": "", "params": {META}}', 99, INVALID),
    ("method missing", b'{"jsonrpc": "2.0", "id": 99, "params": {META}}', 99, INVALID),
    ("method a number", b'{"jsonrpc": "2.0", "id": 99, "method": 5, "params": {META}}', 99, INVALID),
    ("method null", b'{"jsonrpc": "2.0", "id": 99, "method": null, "params": {META}}', 99, INVALID),
    ("params an array", b'{"jsonrpc": "2.0", "id": 99, "method": "tools/list", "params": []}', 99, PARAMS),
    ("params text", b'{"jsonrpc": "2.0", "id": 99, "method": "tools/list", "params": "x"}', 99, PARAMS),
    ("params a number", b'{"jsonrpc": "2.0", "id": 99, "method": "tools/list", "params": 0}', 99, PARAMS),
    ("params of the wrong kind",
     b'{"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": {META, "name": 5}}', 99, PARAMS),
    ("params without what is needed",
     b'{"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": {META}}', 99, PARAMS),
    ("unknown method", b'{"jsonrpc": "2.0", "id": 99, "method": "no/such", "params": {META}}', 99, NO_METHOD),
]  # fmt: skip
IDS = [name for name, *_ in BAD]


def fit(data: bytes, revision: str) -> bytes:
    """The bytes with or without the envelope."""
    meta = b'"_meta": ' + json.dumps(META).encode() if REVISIONS[revision].is_modern else b""
    return data.replace(b"META, ", meta + b", " if meta else b"").replace(b"META", meta)


def kernel_server() -> Server[Any]:
    """One tool, one list."""
    server: Server[Any] = Server("s", version="1")

    async def call_tool(ctx: ServerRequestContext[Any]) -> Any:
        return {"content": [{"type": "text", "text": ctx.params.arguments["text"]}]}

    async def list_tools(ctx: ServerRequestContext[Any]) -> Any:
        return {"tools": []}

    server.add_request_handler("tools/call", call_tool)
    server.add_request_handler("tools/list", list_tools)
    return server


async def open_legacy(carrier: Carrier) -> None:
    """The handshake."""
    await carrier.send(INIT, {})
    assert "result" in await carrier.receive()
    await carrier.send(INITIALIZED, {})


async def assert_answered(carrier: Carrier, id: Any, revision: str) -> None:
    """A good call is served."""
    await carrier.send(call(id, revision), {"mcp-name": "echo"} if REVISIONS[revision].is_modern else {})
    answer = await carrier.receive()
    assert answer["id"] == id
    assert answer["result"]["content"][0]["text"] == "é 🎉"


@pytest.mark.anyio
@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("carrier_name", ["bytes", "asgi"])
@pytest.mark.parametrize(("name", "data", "id", "code"), BAD, ids=IDS)
async def test_bad_input_is_answered_and_the_next_message_works(
    name: str, data: bytes, id: Any, code: int, carrier_name: str, revision: str
) -> None:
    """On stdio and on HTTP, in both eras; over HTTP with a status that says whose fault it is."""
    async with open_carrier(carrier_name, kernel_server(), REVISIONS[revision]) as carrier:
        with anyio.fail_after(30):
            if not REVISIONS[revision].is_modern:
                await open_legacy(carrier)
            method = "tools/call" if b"tools/call" in data else "no/such" if b"no/such" in data else "tools/list"
            await carrier.send_raw(fit(data, revision), {"mcp-method": method, "mcp-name": "5"})
            if carrier_name == "asgi" and REVISIONS[revision].is_modern and b"tools/call" in data:
                code = -32020  # the mirrored name has nothing to equal, and that is found first
            answer = await carrier.receive()
            assert (answer["id"], answer["error"]["code"]) == (id, code), answer
            status = await carrier.status()
            if status is not None:
                assert status in (200, 400, 404)
                assert status != 200 or not REVISIONS[revision].is_modern
            await assert_answered(carrier, "next", revision)


@pytest.mark.anyio
@pytest.mark.parametrize("blank", [b"", b"\r", b"  ", b"\t\r"])
async def test_blank_lines_are_no_messages(blank: bytes) -> None:
    """People press return, and some programs end lines twice."""
    async with open_carrier("bytes", kernel_server(), REVISIONS[MODERN]) as carrier:
        await carrier.send_raw(blank, {})
        await assert_answered(carrier, 1, MODERN)


@pytest.mark.anyio
@pytest.mark.parametrize("chunks", [each_byte, lambda data: [data]], ids=["single bytes", "one chunk"])
async def test_two_frames_in_one_chunk_and_one_frame_in_single_bytes(
    chunks: Callable[[bytes], Iterable[bytes]],
) -> None:
    """Both are the same two messages."""
    two = json.dumps(call(1, MODERN)).encode() + b"\n" + json.dumps(call(2, MODERN)).encode()
    async with open_carrier("bytes", kernel_server(), REVISIONS[MODERN], chunks=chunks) as carrier:
        await carrier.send_raw(two, {})
        answers = [await carrier.receive(), await carrier.receive()]
        assert [answer["id"] for answer in answers] == [1, 2]


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["no/such", "tools/list", "ping"])
async def test_an_unknown_method_is_unknown_before_and_after_the_handshake(method: str) -> None:
    """Whatever the state of the connection; a method that exists is refused for coming too early."""
    codes = {"no/such": (NO_METHOD, NO_METHOD), "tools/list": (PARAMS, None), "ping": (None, None)}[method]
    async with open_carrier("bytes", kernel_server(), REVISIONS[LEGACY]) as carrier:
        for at, code in enumerate(codes):
            await carrier.send({"jsonrpc": "2.0", "id": at, "method": method}, {})
            answer = await carrier.receive()
            assert answer["id"] == at
            assert answer.get("error", {}).get("code") == code
            if at == 0:
                await open_legacy(carrier)


# --- a real process ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server_command(examples_dir: Path) -> list[str]:
    """The example server, as a host starts it."""
    return [sys.executable, str(examples_dir / "server.py")]


@pytest.fixture(scope="module")
def bare_env() -> dict[str, str]:
    """An environment whose locale is not UTF-8."""
    return {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "cp1252"}


def line(message: Any) -> bytes:
    """A message as its line; characters beyond ASCII as they are."""
    return json.dumps(message, ensure_ascii=False).encode() + b"\n"


def answers_to(command: list[str], env: dict[str, str], stdin: bytes) -> Iterator[dict[str, Any]]:
    """Everything that the server writes for a whole input; it must end by itself, with success."""
    done = subprocess.run(command, input=stdin, capture_output=True, env=env, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    for each in done.stdout.splitlines():
        yield json.loads(each)


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
def test_a_process_answers_all_bad_input_and_every_message_after_it(
    server_command: list[str], bare_env: dict[str, str], revision: str
) -> None:
    """A file as input, with every kind of malformed line, in a locale that is not UTF-8."""
    hello = b"" if REVISIONS[revision].is_modern else line(INIT) + line(INITIALIZED)
    pieces = [hello]
    for at, (_, data, _, _) in enumerate(BAD):
        pieces += [fit(data, revision).replace(b'"id": 99', b'"id": "bad-%d"' % at) + b"\n", line(call(at, revision))]
    pieces += [b"x" * 20_000_000, b"\n", line(call("end", revision))]
    answers = list(answers_to(server_command, bare_env, b"".join(pieces)))
    by_id = {answer["id"]: answer for answer in answers}
    for at, (name, _, id, code) in enumerate(BAD):
        assert by_id[at]["result"]["content"][0]["text"] == "é 🎉", name
        if id is not None:
            assert by_id[f"bad-{at}"]["error"]["code"] == code, name
    assert "result" in by_id["end"]
    unreadable = sorted(answer["error"]["code"] for answer in answers if answer["id"] is None)
    assert unreadable == sorted([code for _, _, id, code in BAD if id is None] + [PARSE])


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
def test_a_process_answers_what_it_accepted_before_the_end_of_input(
    server_command: list[str], bare_env: dict[str, str], revision: str
) -> None:
    """The last line has no newline, and its answer is not lost."""
    hello = b"" if REVISIONS[revision].is_modern else line(INIT) + line(INITIALIZED)
    stdin = hello + b"".join(line(call(id, revision)) for id in range(50))
    answers = [each for each in answers_to(server_command, bare_env, stdin.rstrip(b"\n")) if each["id"] != "init"]
    assert sorted(each["id"] for each in answers) == list(range(50))
    assert all("result" in each for each in answers)
