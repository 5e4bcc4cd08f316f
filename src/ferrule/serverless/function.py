"""A server as a function: one call for each request, in one process for many of them.

The lifespan of the server begins with the first request of an instance and ends with the process. Between two requests
a host may stop the process for any time; nothing here relies on timers that run between requests.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any, Final, Protocol, Unpack, cast, runtime_checkable

from ferrule.serverless.events import (
    LIMITS_BYTES,
    EventForm,
    FunctionRequest,
    FunctionResponse,
    form_of,
    read_event,
    write_result,
)
from ferrule.transports.asgi.endpoint import HttpEndpoint
from ferrule.transports.loop_thread import LoopThread
from ferrule.transports.wsgi.whole_answer import WholeAnswer
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_object
from ferrule.wire.jsonrpc import JsonRpcErrorCode

if TYPE_CHECKING:
    from ferrule.transports.hosting.options import AsgiOptions

__all__ = ["FunctionContext", "FunctionHandler", "handler"]

logger = logging.getLogger("ferrule.http")

_MARGIN_S: Final = 0.5
"""Seconds before the end of the function's time at which a call is given up, so that the client gets an answer."""
_WORST_ESCAPE: Final = 6
"""The most bytes of JSON for one byte of a body."""

_loop = LoopThread("ferrule-function")


@runtime_checkable
class FunctionContext(Protocol):
    """The second argument of a function on AWS Lambda."""

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until the host ends the function."""
        ...


class FunctionHandler:
    """Serves an `HttpEndpoint` as a function.

    Args:
        endpoint: made with ``stateless=True``.
        max_response_bytes: the most bytes of a result as JSON; ``None``: those of the event's form (`LIMITS_BYTES`).

    Raises:
        ValueError: the endpoint has sessions.
    """

    def __init__(self, endpoint: HttpEndpoint, *, max_response_bytes: int | None = None) -> None:
        if endpoint.options.legacy and not endpoint.options.stateless:
            raise ValueError("a function serves without sessions: stateless=True")
        self.endpoint = endpoint
        self._max_bytes = max_response_bytes

    def __call__(self, event: Mapping[str, Any], context: object = None) -> dict[str, Any]:
        """Serve an event of a function.

        Args:
            event: an event of API Gateway (REST or HTTP API), a function URL or an Application Load Balancer.
            context: the context of the function. If it says how much time is left, a call that needs longer is
                cancelled half a second before that time ends, and the client gets an error with 504.

        Returns:
            The result that the host expects; one that is too large for the host is replaced by an error.

        Raises:
            MalformedEvent: the event has another form.
        """
        form = form_of(event)
        left_s = context.get_remaining_time_in_millis() / 1000 if isinstance(context, FunctionContext) else None
        request = read_event(event, form)
        response = self.handle(request, timeout_s=None if left_s is None else max(left_s - _MARGIN_S, 0.0))
        result = write_result(response, event, form)
        limit = self._limit(form)
        size = _size(result, response, limit)
        if size <= limit:
            return result
        logger.error("An answer of %d bytes is too large for this host, which takes %d", size, limit)
        why = f"The answer has {size} bytes, and this server's host passes on {limit} at most: ask for less at once"
        return write_result(_refusal(request, 500, JsonRpcErrorCode.INTERNAL_ERROR, why), event, form)

    def _limit(self, form: EventForm) -> int:
        return LIMITS_BYTES[form] if self._max_bytes is None else self._max_bytes

    def handle(self, request: FunctionRequest, *, timeout_s: float | None = None) -> FunctionResponse:
        """Serve a request in a host that calls a synchronous function.

        The server's code runs on an event loop in a thread of this process, the same one for all requests.

        Args:
            request: the request.
            timeout_s: seconds after which the call is cancelled and answered with 504; ``None``: no bound.
        """
        _loop.open.add(self.endpoint)
        future = _loop.start(self.respond(request))
        try:
            return future.result(timeout_s)
        except FutureTimeoutError:
            if future.done():  # the server's own
                raise
            future.cancel()
            logger.error("A call was cancelled, because the host's time limit for the function is reached")
            return _refusal(
                request, 504, JsonRpcErrorCode.INTERNAL_ERROR, "This server's host allows no more time for the call"
            )
        except BaseException:
            future.cancel()
            raise

    async def respond(self, request: FunctionRequest) -> FunctionResponse:
        """Serve a request in the running event loop, for hosts that call an asynchronous function."""
        answer = WholeAnswer(request.body, request.header("mcp-method"))
        await answer.receive(self.endpoint, _scope_of(request))
        body = b"" if request.method == "HEAD" else answer.body
        return FunctionResponse(status=answer.status, headers=answer.headers, body=body)

    async def aclose(self) -> None:
        """End the lifespan of the server, on the event loop that it runs on; the next request begins it again."""
        await self.endpoint.aclose()


def handler(app: Any, *, max_response_bytes: int | None = None, **options: Unpack[AsgiOptions]) -> FunctionHandler:
    """Return a server as a function for AWS Lambda and hosts like it: ``handler = ferrule.serverless.handler(app)``.

    Both eras, JSON answers, no sessions and no streams, protected as every endpoint: name the hosts that clients use
    by ``allowed_hosts``.

    Args:
        app: an `MCPServer`, a `Server` or a `Gateway`.
        max_response_bytes: the most bytes of a result as JSON; ``None``: 6 MiB, and 1 MiB behind a load balancer.
        options: as for `MCPServer.asgi`; ``path`` is ``"/mcp"``.

    Raises:
        TypeError: there is no such option.
        ValueError: ``stateless=False``: instances of a function share no sessions.
    """
    from ferrule.transports.hosting.running import asgi

    if options.get("stateless") is False:
        raise ValueError("a function serves without sessions: leave stateless= out")
    given = cast("AsgiOptions", {**options, "stateless": True, "response_mode": "json"})
    return FunctionHandler(asgi(app, **given), max_response_bytes=max_response_bytes)


def _scope_of(request: FunctionRequest) -> dict[str, Any]:
    """Return the ASGI scope (ASGI 3, HTTP) of a request."""
    headers = [
        (name.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in request.headers
    ]
    if request.body and not any(name == b"content-length" for name, _ in headers):
        headers.append((b"content-length", str(len(request.body)).encode()))
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": request.path.encode("utf-8", "replace"),
        "root_path": request.root_path,
        "query_string": request.query.encode("latin-1", "replace"),
        "headers": headers,
        "client": None if request.client is None else (request.client, 0),
        "server": None,
    }


def _size(result: Mapping[str, Any], response: FunctionResponse, limit: int) -> int:
    """Return the bytes of a result as JSON, or an upper bound of them that is within the limit."""
    bound = len(response.body) * _WORST_ESCAPE + 4096
    return bound if bound <= limit else len(json.dumps(result))


def _refusal(request: FunctionRequest, status: int, code: JsonRpcErrorCode, message: str) -> FunctionResponse:
    """Return an error response with the id of the request, if that can be read."""
    try:
        sent: Any = decode(request.body)
    except DecodeError:
        sent = None
    id = sent.get("id") if is_object(sent) else None
    body = encode({"jsonrpc": "2.0", "id": id, "error": {"code": int(code), "message": message}})
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    return FunctionResponse(status=status, headers=headers, body=body)
