"""`Recording`: a server that answers from a recording, for tests of clients and agents without the real one.

Equal requests are answered in the order of the recording, and the last answer again and again. What was not recorded is
an error that says so; it never reaches the real server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.protocol.errors import InvalidParams, MCPError
from ferrule.protocol.secret_forms import SecretTools
from ferrule.testing.recordings.exchanges import LISTS, RecordedExchange, exchanges_of, identity_of, key_of, whole_list
from ferrule.testing.recordings.lines import Line, read_recording
from ferrule.wire.codec import convert, encode_str, to_builtins
from ferrule.wire.json_types import is_mapping
from ferrule.wire.types import Implementation

__all__ = ["Recording"]

_OWN: Final = frozenset(
    {"initialize", "server/discover", "ping", "logging/setLevel", "subscriptions/listen", "resources/subscribe",
     "resources/unsubscribe", *LISTS}
)  # fmt: skip
"""Methods that the stand-in serves itself."""
SHOWN: Final = 3
"""Recorded calls that an error names."""


class Recording:
    """The server of a recording: ``Client(Recording("session.jsonl"))``, or `ferrule.run` with it.

    It plays progress and log messages before each answer, and in the handshake era the questions that the server
    asked. Each object begins the recording anew.

    Args:
        source: the path of a recording of ``ferrule trace``, or its lines.

    Attributes:
        name: what errors call it.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no recording.
    """

    def __init__(self, source: str | Path | Iterable[Line]) -> None:
        lines: Iterable[Line]
        if isinstance(source, str | Path):
            self.name, lines = Path(source).name, read_recording(Path(source))
        else:
            self.name, lines = "the recording", source
        self._exchanges = exchanges_of(lines)
        if not self._exchanges:
            raise ValueError(f"{self.name} has no request with an answer")
        self._secrets = SecretTools()
        for each in self._exchanges:
            self._secrets.learn_from({"result": each.result})
        self._answers: dict[bytes, deque[RecordedExchange]] = {}
        for each in self._exchanges:
            if each.method not in _OWN:
                self._answers.setdefault(self._key_of(each.method, each.params), deque()).append(each)
        self._lists = {method: deque(found) for method in LISTS if (found := whole_list(self._exchanges, method))}

    def _key_of(self, method: str, params: Mapping[str, Any]) -> bytes:
        """Return what is the same for two equal requests, whose secret arguments a recording does not have."""
        return key_of(method, self._secrets.masked_call(params) if method == "tools/call" else params)

    @cached_property
    def lowlevel(self) -> Server[Any]:
        """The kernel's server, one for each recording."""
        info, capabilities, instructions = identity_of(self._exchanges)
        server: Server[Any] = Server(
            convert({"version": "0", **info}, Implementation),
            instructions=instructions,
            logging="logging" in capabilities,
        )
        if "tools" not in capabilities and "tools/list" not in self._lists:
            self._list_called_tools()
        for method in LISTS:
            if method in self._lists or _announced(method, capabilities):
                server.add_request_handler(method, self._list)
        for method in dict.fromkeys(each.method for each in self._exchanges if each.method not in _OWN):
            server.add_request_handler(method, self._answer)
        for method in ("tools/call", "resources/read", "prompts/get"):
            if server.get_request_handler(method) is None and _announced(method, capabilities):
                server.add_request_handler(method, self._answer)
        return server

    def _list_called_tools(self) -> None:
        """Make a list of the tools that were called, where none was recorded."""
        names = {str(each.params.get("name")): None for each in self._exchanges if each.method == "tools/call"}
        if names:
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
            self._lists["tools/list"] = deque([{"tools": tools}])

    async def _list(self, ctx: ServerRequestContext[Any]) -> Any:
        recorded = self._lists.get(ctx.method)
        return {LISTS[ctx.method]: []} if recorded is None else _next(recorded)

    async def _answer(self, ctx: ServerRequestContext[Any]) -> Any:
        params: Any = ctx.params if is_mapping(ctx.params) else to_builtins(ctx.params)
        given: Mapping[str, Any] = params if is_mapping(params) else {}
        recorded = self._answers.get(self._key_of(ctx.method, given))
        if recorded is None:
            raise InvalidParams(self._unknown(ctx.method, given))
        exchange = _next(recorded)
        for message in exchange.before:
            await _play(ctx, message)
        if exchange.error is not None:
            code, text = exchange.error.get("code"), exchange.error.get("message")
            raise MCPError(str(text), code=code if isinstance(code, int) else -32603, data=exchange.error.get("data"))
        return dict(exchange.result or {})

    def _unknown(self, method: str, params: Mapping[str, Any]) -> str:
        name = params.get("name") or params.get("uri")
        of = "" if name is None else f" of {name!r}"
        same = [
            each.params.get("arguments", {})
            for each in self._exchanges
            if each.method == method and (each.params.get("name") or each.params.get("uri")) == name
        ]
        if not same:
            return f"{self.name} has no {method}{of}"
        shown = "; ".join(encode_str(arguments)[:200] for arguments in same[:SHOWN])
        return f"{self.name} has no {method}{of} with these arguments; it has {shown}"


def _announced(method: str, capabilities: Mapping[str, Any]) -> bool:
    return method.partition("/")[0] in capabilities


def _next(recorded: deque[Any]) -> Any:
    """Return the next answer; the last one stays."""
    return recorded.popleft() if len(recorded) > 1 else recorded[0]


async def _play(ctx: ServerRequestContext[Any], message: Mapping[str, Any]) -> None:
    """Send a recorded message of the server for the request of now; a question is asked, its answer is not compared."""
    raw = message.get("params")
    params: Mapping[str, Any] = raw if is_mapping(raw) else {}
    method = str(message["method"])
    if method == "notifications/progress":
        await ctx.session.progress(params.get("progress", 0), params.get("total"), params.get("message"))
    elif method == "notifications/message":
        await ctx.session.log(str(params.get("level", "info")), params.get("data"), params.get("logger"))
    elif "id" in message:
        await ctx.session.send_request(method, params)
