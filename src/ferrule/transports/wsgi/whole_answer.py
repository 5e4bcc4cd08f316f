"""One request to an endpoint whose answer leaves in one piece: what hosts without streams have in common.

Such a host gives each request a thread or a function of its own, and a stream would hold it for as long as the client
likes. So ``subscriptions/listen`` is refused, changes are not announced, and messages that a handler sends before its
result are left out.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ferrule.transports.asgi.endpoint import HttpEndpoint
from ferrule.transports.asgi.request import SILENT_END_KEY
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_object
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.sse import EventReader, ServerSentEvent

__all__ = ["WholeAnswer"]

_MAX_EVENT_BYTES = 256 * 1024 * 1024
"""Of one message that a handler of ours sends; larger results are bounded where they are made."""


class WholeAnswer:
    """One request to the endpoint, and its answer in one piece.

    Args:
        sent: body of the request.
        mcp_method: its header ``Mcp-Method``; empty without one.

    Attributes:
        status, body: the status and the body of the answer.
    """

    def __init__(self, sent: bytes, mcp_method: str) -> None:
        self.status = 500
        self.body = b""
        method = mcp_method.strip()
        self._listen_id = _listen_id(method, sent)
        self._asks_for_capabilities = _asks_for_capabilities(method, sent)
        self._sent: bytes | None = sent
        self._headers: list[tuple[str, str]] = []
        self._is_done = asyncio.Event()
        self._events: EventReader | None = None

    async def receive(self, endpoint: HttpEndpoint, scope: dict[str, Any]) -> None:
        """Let the endpoint answer a request.

        Args:
            endpoint: made with ``stateless=True``.
            scope: the ASGI scope of the request; it is changed.
        """
        if self._listen_id is None:  # otherwise the stream ends as if the client had disconnected
            scope[SILENT_END_KEY] = True
        try:
            await endpoint(scope, self._receive, self._send)
        finally:
            self._is_done.set()
            if self.status == 200 and self._asks_for_capabilities:
                self.body = _without_streams(self.body)

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Those of the answer, in title case, with its length."""
        # A host computes hop-by-hop headers itself (PEP 3333, "Other HTTP Features").
        replaced = {"connection", "content-length"}
        added: list[tuple[str, str]] = []
        if self._events is not None:
            replaced |= {"content-type", "cache-control", "x-accel-buffering"}
            added.append(("content-type", "application/json"))
        kept = [pair for pair in self._headers if pair[0] not in replaced] + added
        if self.status not in (204, 304):
            # To HEAD a document says the length that it would have (RFC 9110, 8.6), and has no body.
            said = next((value for name, value in self._headers if name == "content-length"), "0")
            kept.append(("content-length", str(len(self.body)) if self.body or self._events is not None else said))
            if not any(name == "content-type" for name, _ in kept):  # validators of WSGI want one
                kept.append(("content-type", "text/plain"))
        return [(name.title(), value) for name, value in kept]

    async def _receive(self) -> dict[str, Any]:
        if self._sent is not None:
            body, self._sent = self._sent, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._is_done.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._headers = [
                (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in message.get("headers", ())
            ]
            if any(name == "content-type" and value.startswith("text/event-stream") for name, value in self._headers):
                self._events = EventReader(_MAX_EVENT_BYTES)
                if self._listen_id is not None:  # the endpoint would serve it: all its checks have passed
                    self.status, self.body = 400, _listen_refusal(self._listen_id[0])
                    self._is_done.set()
        elif message["type"] == "http.response.body":
            self._take_body(message.get("body", b""))
            if not message.get("more_body", False):
                self._is_done.set()

    def _take_body(self, part: bytes) -> None:
        if self._events is None:
            self.body += part
        elif self._listen_id is None:
            for event in self._events.feed(part):
                if isinstance(event, ServerSentEvent) and event.data:
                    self.body = event.data  # the last one is the answer


def _listen_id(method: str, body: bytes) -> tuple[Any] | None:
    """Return the id of a request that needs a stream, in a tuple; ``None`` for any other.

    The endpoint refuses a request whose ``Mcp-Method`` is not its method, so the header is enough.
    """
    if method != "subscriptions/listen":
        return None
    try:
        message = decode(body)
    except DecodeError:
        return None
    return (message.get("id"),) if is_object(message) else None


def _listen_refusal(id: Any) -> bytes:
    error = {
        "code": int(JsonRpcErrorCode.METHOD_NOT_FOUND),
        "message": "subscriptions/listen needs a stream, which this server's host cannot hold; ask again instead",
    }
    return encode({"jsonrpc": "2.0", "id": id, "error": error})


def _asks_for_capabilities(method: str, body: bytes) -> bool:
    if method == "server/discover":
        return True
    if b"initialize" not in body:
        return False
    try:
        message: Any = decode(body)
    except DecodeError:
        return False
    return is_object(message) and message.get("method") == "initialize"


def _without_streams(answer: bytes) -> bytes:
    """Return the announcement of a server without what needs a stream: changes of lists, updates of resources."""
    message: Any = decode(answer)
    result = message.get("result") if is_object(message) else None
    capabilities = result.get("capabilities") if is_object(result) else None
    if not is_object(capabilities):
        return answer
    for settings in capabilities.values():
        if is_object(settings):
            settings.pop("listChanged", None)
            settings.pop("subscribe", None)
    return encode(message)
