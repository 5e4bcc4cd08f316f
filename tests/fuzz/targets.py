"""What takes foreign bytes, as functions of one input each: for the fuzzer (`run.py`), and for the kept inputs.

A target returns when the input was taken or refused with the error that its documentation names, and raises for
everything else. The targets that serve (``http_*``, ``stdio_*``) also send a good request afterwards: it must work.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from ferrule import Context, MCPServer
from ferrule.app.signatures.schema_profile import schema_problems
from ferrule.auth.challenges import parse_challenges
from ferrule.auth.documents import read_authorization_server, read_protected_resource
from ferrule.auth.urls import canonical_resource, split_url
from ferrule.client.skills.entries import checked_entry
from ferrule.protocol.jsonc import JsoncError, parse_jsonc
from ferrule.protocol.skills import FrontmatterError, differing_field, read_frontmatter, write_frontmatter
from ferrule.testing.carriers import open_carrier
from ferrule.transports.asgi import HttpEndpoint, HttpOptions
from ferrule.wire.codec import canonical, convert, decode, decoder, encode
from ferrule.wire.faults import DecodeError, FerruleError
from ferrule.wire.headers import (
    check_params,
    compile_param_plan,
    decode_header_value,
    encode_header_value,
    mirror_params,
)
from ferrule.wire.jsonrpc import InvalidMessage, JsonRpcRequest, decode_message, message_kind, parse_message
from ferrule.wire.ndjson import FrameTooLong, LineFramer
from ferrule.wire.revisions import REVISIONS
from ferrule.wire.sse import EventReader
from ferrule.wire.types import CallToolResult, InitializeRequestParams, ListToolsResult, ServerCapabilities
from ferrule.wire.types.skills import Skill
from ferrule.wire.uri_template import UriTemplate

__all__ = ["TARGETS", "silent"]


@contextmanager
def silent() -> Iterator[None]:
    """Bad input is logged, and here there is nothing else."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
MAX_FRAME: Final = 4096


class Broken(AssertionError):
    """A rule does not hold for an input."""


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)


def _pieces(data: bytes) -> list[bytes]:
    """The input behind its first byte, cut into pieces of a length that this byte says."""
    size = 1 + (data[0] if data else 0) % 17
    rest = data[1:]
    return [rest[at : at + size] for at in range(0, len(rest), size)]


# -- bytes and values ---------------------------------------------------------------------------------------------


def codec(data: bytes) -> None:
    """What decodes, encodes, and decodes to the same value."""
    try:
        value = decode(data)
    except DecodeError:
        return
    _must(decode(encode(value)) == value, "decoding what was encoded gives another value")
    canonical(value)
    for type_ in (CallToolResult, ListToolsResult, InitializeRequestParams, ServerCapabilities, JsonRpcRequest):
        try:
            convert(value, type_)
        except FerruleError:
            continue


def typed_codec(data: bytes) -> None:
    """Bytes straight into types."""
    for type_ in (CallToolResult, ListToolsResult, InitializeRequestParams, JsonRpcRequest):
        try:
            decoder(type_)(data)
        except FerruleError:
            continue


def jsonrpc(data: bytes) -> None:
    """What is a message is one in both readings, and is written as it was read."""
    try:
        message = decode_message(data)
    except FerruleError:
        return
    _must(parse_message(decode(encode(message))) == message, "a message changes when it is written and read")
    try:
        message_kind(decode(data))
    except InvalidMessage as error:
        raise Broken("one reading takes what the other refuses") from error


def ndjson(data: bytes) -> None:
    """Any cut gives the same frames, and what is held is bounded."""
    whole, cut = LineFramer(MAX_FRAME), LineFramer(MAX_FRAME)
    frames = [*whole.feed(data[1:]), *whole.finish()]
    pieces: list[Any] = []
    for piece in _pieces(data):
        pieces += cut.feed(piece)
        _must(cut.held_bytes <= MAX_FRAME + len(piece), "more is held than a frame may be long")
    pieces += cut.finish()
    _must(
        [each if isinstance(each, bytes) else FrameTooLong for each in frames]
        == [each if isinstance(each, bytes) else FrameTooLong for each in pieces],
        "the cut decides what the frames are",
    )


def sse(data: bytes) -> None:
    """Any cut gives the same events."""
    whole = EventReader(MAX_FRAME).feed(data[1:])
    cut = EventReader(MAX_FRAME)
    events: list[Any] = []
    for piece in _pieces(data):
        events += cut.feed(piece)
    _must([repr(each) for each in whole] == [repr(each) for each in events], "the cut decides what the events are")


def headers(data: bytes) -> None:
    """Header values, and the plan of mirrored parameters of a foreign schema."""
    text = data.decode("latin-1")
    try:
        value = decode_header_value(text)
    except DecodeError:
        pass
    else:
        _must(decode_header_value(encode_header_value(value)) == value, "a header value changes on its way")
    try:
        document = decode(data)
    except DecodeError:
        return
    try:
        plan = compile_param_plan(document)
        sent = mirror_params(plan, document if isinstance(document, dict) else None)
        check_params(plan, sent, document if isinstance(document, dict) else None)
    except FerruleError:
        return


def uri_template(data: bytes) -> None:
    """A template of others, and a URI against it: both chosen by a peer."""
    first, _, second = data.partition(b"\n")
    text, uri = first.decode("utf-8", "replace"), second.decode("utf-8", "replace")
    try:
        template = UriTemplate(text)
    except FerruleError:
        return
    template.match(uri)
    try:
        made = template.expand(dict.fromkeys(template.variables, "a b/c"))
    except FerruleError:
        return
    template.match(made)


# -- what a client reads ------------------------------------------------------------------------------------------


def challenges(data: bytes) -> None:
    """A WWW-Authenticate header of a server."""
    parse_challenges(data.decode("latin-1"))


def documents(data: bytes) -> None:
    """Metadata documents and URLs of authorization servers."""
    text = data.decode("utf-8", "replace")
    for read in (split_url, canonical_resource):
        try:
            read(text)
        except (FerruleError, ValueError):
            continue
    try:
        document = decode(data)
    except DecodeError:
        return
    if isinstance(document, dict):
        for take in (read_protected_resource, read_authorization_server):
            try:
                take(document)
            except FerruleError:
                continue


def jsonc(data: bytes) -> None:
    """A configuration file of a host."""
    try:
        parse_jsonc(data.decode("utf-8", "replace"))
    except (JsoncError, FerruleError):
        return


def skills(data: bytes) -> None:
    """A skill of a server: its frontmatter, and the entry that it came with."""
    text, _, entry = data.partition(b"\0")
    try:
        fields = read_frontmatter(text.decode("utf-8", "replace"))
    except FrontmatterError:
        pass
    else:
        _must(read_frontmatter(write_frontmatter(fields)) == fields, "a written frontmatter is read as the same")
        _must(differing_field(fields, text.decode("utf-8", "replace")) is None, "a frontmatter equals itself")
    try:
        made = checked_entry(convert(decode(entry), Skill))
    except FerruleError:
        return
    root = made.uri.removesuffix("SKILL.md")
    for file in made.resources if isinstance(made.resources, list) else []:
        _must(file.uri.startswith(root) and ".." not in file.uri.split("/"), "a file is within its skill")


def schemas(data: bytes) -> None:
    """A tool's schema of a foreign server, as the command line looks at it."""
    try:
        schema = decode(data)
    except DecodeError:
        return
    if isinstance(schema, dict):
        schema_problems(schema)


# -- whole servers ------------------------------------------------------------------------------------------------


@cache
def _make_app() -> MCPServer[Any]:
    app = MCPServer("fuzzed", version="1")

    @app.tool
    def add(a: int, b: int = 1, names: list[str] | None = None) -> int:
        return a + b + len(names or ())

    @app.tool
    async def tell(ctx: Context, text: str) -> str:
        await ctx.progress(1, 2)
        await ctx.info(text)
        return text

    @app.resource("data://{kind}/{id}")
    def read(kind: str, id: int) -> str:
        return f"{kind} {id}"

    @app.prompt
    def review(code: str) -> str:
        return code

    return app


@cache
def _loop() -> asyncio.Runner:
    return asyncio.Runner()


def _run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        before = asyncio.all_tasks()
        async with asyncio.timeout(30):
            await work()
        for _ in range(50):
            left = asyncio.all_tasks() - before
            if not left:
                return
            await asyncio.sleep(0)
        raise Broken(f"tasks are left: {left}")

    _loop().run(bounded())


_META: Final = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
_CALL: Final = {"name": "add", "arguments": {"a": 2, "b": 40}}


def _request(id: Any, method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


class _Posted:
    """One HTTP exchange with an ASGI callable, without a socket."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.is_over = asyncio.Event()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message.get("body", b"")
            if not message.get("more_body"):
                self.is_over.set()


async def _exchange(
    endpoint: Any,
    method: str,
    pairs: list[tuple[bytes, bytes]],
    body: bytes,
    query: bytes = b"",
    *,
    patience_s: float = 0.01,
) -> _Posted:
    posted = _Posted()
    parts = [body]

    async def receive() -> Any:
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": False}
        try:  # the client of a stream that waits for changes leaves after a moment
            await asyncio.wait_for(posted.is_over.wait(), patience_s)
        except TimeoutError:
            pass
        return {"type": "http.disconnect"}

    scope = {
        "type": "http", "http_version": "1.1", "method": method, "path": "/mcp", "raw_path": b"/mcp", "root_path": "",
        "scheme": "http", "query_string": query, "headers": pairs, "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 80),
    }  # fmt: skip
    await endpoint(scope, receive, posted.send)
    return posted


_ACCEPT: Final = (b"accept", b"application/json, text/event-stream")
_JSON: Final = (b"content-type", b"application/json")


async def _call_modern(endpoint: Any) -> None:
    pairs = [_ACCEPT, _JSON, (b"mcp-protocol-version", MODERN.encode()), (b"mcp-method", b"tools/call")]
    call = _request(1, "tools/call", {**_CALL, "_meta": _META})
    # This client waits for its answer however busy the machine is: leaving would cancel the call.
    answer = await _exchange(endpoint, "POST", [*pairs, (b"mcp-name", b"add")], call, patience_s=20)
    _must(answer.status == 200 and b"42" in answer.body, f"the next request fails: {answer.status} {answer.body!r}")


@cache
def _endpoint() -> HttpEndpoint:
    """One for all inputs, so that what is left behind adds up; its lifespan runs once it has served a request."""
    endpoint = HttpEndpoint(_make_app().lowlevel, HttpOptions(max_sessions=8, disconnect_grace_s=0.001))
    _loop().run(_call_modern(endpoint))
    return endpoint


def http_modern(data: bytes) -> None:
    """The first line chooses method, version and name headers; the rest is the body."""
    endpoint = _endpoint()
    head, _, body = data.partition(b"\n")
    words = [word.replace(b"\r", b"").replace(b"\x00", b"") for word in head.split(b"|")] + [b""] * 4
    method = {b"G": "GET", b"D": "DELETE", b"O": "OPTIONS", b"U": "PUT"}.get(words[0], "POST")
    pairs = [_ACCEPT, _JSON, (b"mcp-protocol-version", words[1] or MODERN.encode())]
    if words[2]:
        pairs.append((b"mcp-method", words[2]))
    if words[3]:
        pairs.append((b"mcp-name", words[3]))

    async def work() -> None:
        answer = await _exchange(endpoint, method, pairs, body, words[4] if len(words) > 4 else b"")
        _must(200 <= answer.status < 500 or answer.status in (501, 503), f"status {answer.status}: {answer.body!r}")
        await _call_modern(endpoint)

    _run(work)


def http_legacy(data: bytes) -> None:
    """Lines that are POSTed within one session; the first byte of a line may make it a GET or a DELETE instead."""
    endpoint = _endpoint()
    hello = {
        "protocolVersion": LEGACY,
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "f", "version": "1"},
    }

    async def work() -> None:
        answer = await _exchange(endpoint, "POST", [_ACCEPT, _JSON], _request(0, "initialize", hello))
        session = answer.headers.get("mcp-session-id", "").encode()
        pairs = [_ACCEPT, _JSON, (b"mcp-session-id", session), (b"mcp-protocol-version", LEGACY.encode())]
        for line in data.split(b"\n")[:8]:
            method = {b"G": "GET", b"D": "DELETE"}.get(line[:1], "POST")
            answer = await _exchange(endpoint, method, pairs, b"" if method != "POST" else line)
            _must(200 <= answer.status < 500 or answer.status in (501, 503), f"status {answer.status}")
        await _exchange(endpoint, "DELETE", pairs, b"")
        await _call_modern(endpoint)

    _run(work)


def _lines(revision: str, data: bytes) -> None:
    last = {"jsonrpc": "2.0", "id": "last", "method": "ping"}
    hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "f", "version": "1"}}

    async def until(carrier: Any, id: Any) -> Any:
        while True:
            message = await carrier.receive()
            parse_message(message)
            if message.get("id") == id:
                return message

    async def work() -> None:
        server = _make_app().lowlevel
        async with open_carrier("bytes", server, REVISIONS[revision], chunks=lambda each: [each]) as carrier:
            if revision == LEGACY:
                await carrier.send({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": hello}, {})
                await until(carrier, "i")
                await carrier.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, {})
            for line in data.split(b"\n")[:8]:
                await carrier.send_raw(line, {})
            if revision == MODERN:
                last["method"], last["params"] = "tools/call", {**_CALL, "_meta": _META}  # type: ignore[assignment]
            await carrier.send(last, {})
            await until(carrier, "last")

    _run(work)


def stdio_modern(data: bytes) -> None:
    """Lines to a server on a new connection."""
    _lines(MODERN, data)


def stdio_legacy(data: bytes) -> None:
    """Lines after the handshake."""
    _lines(LEGACY, data)


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    function.__name__: function
    for function in (
        *(codec, typed_codec, jsonrpc, ndjson, sse, headers, uri_template),
        *(challenges, documents, jsonc, schemas, skills),
        *(http_modern, http_legacy, stdio_modern, stdio_legacy),
    )
}
"""Name → what takes one input."""
