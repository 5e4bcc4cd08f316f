"""The inspector as an ASGI application: its static files, one URL per action, one stream of events.

====================  ================================================================================================
``GET /``             the page; ``GET /NAME`` its other files
``GET /api/events``   the feed, as server-sent events (read with ``fetch``, since the token travels in a header)
``POST /api/ticket``  a ticket for the token, once
``POST /api/NAME``    an action of `ferrule.inspector.controller.InspectorController`, JSON in and out
====================  ================================================================================================

The header ``x-ferrule-server`` of an API request names the server, if there are several.

Everything but the files and the ticket needs the token; see `ferrule.inspector.access`. Views of tools are served at a
second port; see `ferrule.inspector.view_origin`.
"""

from __future__ import annotations

import functools
import logging
import secrets
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any, Final
from urllib.parse import unquote

from ferrule.inspector.access import AccessCheck, AccessRefused, check_host, page_headers
from ferrule.inspector.controller import InspectorController
from ferrule.inspector.errors import BadCall
from ferrule.inspector.servers import ServerSet
from ferrule.inspector.target import InspectedTarget
from ferrule.inspector.values import decode_exactly
from ferrule.transports.asgi.body import BodyTooLarge, ClientGone, read_body, refuse_body
from ferrule.transports.asgi.replies import Receive, Send, send_body
from ferrule.wire.codec import encode
from ferrule.wire.faults import DecodeError, FerruleError
from ferrule.wire.json_types import is_mapping
from ferrule.wire.sse import COMMENT, encode_event

__all__ = ["InspectorApp", "new_token", "run_inspector"]

logger = logging.getLogger("ferrule.inspector")

SERVER_HEADER: Final = "x-ferrule-server"
"""Names the server of a configuration, percent-encoded; without it the first one is meant."""
MAX_BODY_BYTES: Final = 8 << 20
"""Bound for a request's body; the largest is the arguments of a call."""

_TYPES: Final[Mapping[str, bytes]] = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}


def new_token() -> str:
    """Return a random token of 256 bits, safe in a URL."""
    return secrets.token_urlsafe(32)


class InspectorApp:
    """The ASGI application of the inspector.

    Args:
        target: the server to inspect, or several: name → target, or the text that says why there is none.
        token: required in the header of every call of the API; at least 16 characters.
        mode: era or revision of the main connection until the page changes it.
        roots: ``file://`` URIs, offered to the server until the page changes them.
        changed: returns the source files that changed since its previous call.

    Raises:
        ValueError: no server is usable, or there are more than 100.
    """

    def __init__(
        self,
        target: InspectedTarget | Mapping[str, InspectedTarget | str],
        *,
        token: str,
        mode: str = "auto",
        roots: list[str] | None = None,
        changed: Callable[[], list[str]] | None = None,
    ) -> None:
        self._access = AccessCheck(token)
        self._headers = page_headers()
        targets = {"": target} if isinstance(target, InspectedTarget) else target
        self._servers = ServerSet(
            targets, lambda each: InspectorController(each, mode=mode, roots=roots, changed=changed)
        )

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    def set_ports(self, page: int, views: int) -> None:
        """Set the ports at which the page and the views are served; before that, no view is shown.

        Args:
            page: port of the page and its API.
            views: port of the views; a request that arrives there gets nothing else.
        """
        self._headers = page_headers(views)
        self._servers.views.page_port = page
        self._servers.views.port = views

    def make_ticket(self) -> str:
        """Return a ticket for the URL that the browser opens; see `ferrule.inspector.access`."""
        return self._access.make_ticket()

    async def drain(self) -> None:
        """End the event streams, so that the HTTP server can stop."""
        await self._servers.drain()

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self._servers.start()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self._servers.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _serve(self, scope: Any, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        method, path = scope["method"], scope["path"]
        views = self._servers.views
        # By the port of the socket, and not by the `Host`, which the sender chooses.
        if views.port and scope["server"][1] == views.port:
            await views.serve(scope, headers, receive, send)
            return
        try:
            if not path.startswith("/api/"):
                check_host(headers)
                await self._send_file(method, path, send)
                return
            if path == "/api/ticket" and method == "POST":
                self._access.check_caller(method, headers)
                ticket = await _read_json(headers, receive)
                await self._send_json(send, 200, {"token": self._access.redeem(ticket.get("ticket"))})
                return
            self._access.check_call(method, headers)
            controller = self._servers.get(unquote(headers.get(SERVER_HEADER, "")))
            if controller is None:
                raise AccessRefused(404, "There is no such server")
            if path == "/api/events" and method == "GET":
                await self._stream(controller, receive, send)
            elif method == "POST":
                await self._act(controller, path.removeprefix("/api/"), headers, receive, send)
            else:
                raise AccessRefused(405, "This address takes POST")
        except AccessRefused as refused:
            await self._send_json(send, refused.status, {"error": str(refused)})
        except BodyTooLarge as error:
            body = encode({"error": f"The body is larger than {MAX_BODY_BYTES} bytes"})
            await refuse_body(receive, send, body, self._headers, error.has_more)
        except ClientGone:
            return

    async def _act(
        self, controller: InspectorController, name: str, headers: Mapping[str, str], receive: Receive, send: Send
    ) -> None:
        action = controller.calls.get(name)
        if action is None:
            raise AccessRefused(404, f"There is no action {name[:64]!r}")
        given = await _read_json(headers, receive)
        try:
            answer = encode(await action(given))
        except BadCall as error:
            raise AccessRefused(400, str(error)) from error
        except (FerruleError, OSError, TimeoutError) as error:  # errors of the inspected server
            raise AccessRefused(502, str(error) or type(error).__name__) from error
        except Exception as error:
            logger.exception("The action %s failed", name)
            raise AccessRefused(500, f"The inspector failed: {type(error).__name__}; its log says where") from error
        await send_body(send, 200, answer, self._headers)

    async def _stream(self, controller: InspectorController, receive: Receive, send: Send) -> None:
        import anyio

        start = [(b"content-type", b"text/event-stream"), *self._headers]
        await send({"type": "http.response.start", "status": 200, "headers": start})

        async def cancel_on_disconnect(scope: anyio.CancelScope) -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(cancel_on_disconnect, group.cancel_scope)
            async for event in controller.feed.listen():
                chunk = encode_event(event) if event else COMMENT
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            group.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b""})

    async def _send_file(self, method: str, path: str, send: Send) -> None:
        found = _files().get("index.html" if path == "/" else path.removeprefix("/"))
        if found is None:
            raise AccessRefused(404, "There is no such file")
        if method not in ("GET", "HEAD"):
            raise AccessRefused(405, "This address takes GET")
        content_type, content = found
        headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(content)), *self._headers]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content if method == "GET" else b""})

    async def _send_json(self, send: Send, status: int, answer: Any) -> None:
        await send_body(send, status, encode(answer), self._headers)


async def _read_json(headers: Mapping[str, str], receive: Receive) -> Mapping[str, Any]:
    """Return the request's body, a JSON object.

    Raises:
        BodyTooLarge: it has more than `MAX_BODY_BYTES`.
        AccessRefused: 400: it is not a JSON object.
        ClientGone: the client disconnected.
    """
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > MAX_BODY_BYTES:
        raise BodyTooLarge(has_more=True)
    body = await read_body(receive, b"", MAX_BODY_BYTES)
    try:
        given: Any = decode_exactly(body) if body else {}
    except DecodeError as error:
        raise AccessRefused(400, f"The body is not JSON: {error}") from error
    if not is_mapping(given):
        raise AccessRefused(400, "The body is not an object")
    return given


@functools.cache
def _files() -> Mapping[str, tuple[bytes, bytes]]:
    """Return the static files by name. A request is looked up here, so a path cannot leave the folder."""
    found: dict[str, tuple[bytes, bytes]] = {}
    for entry in resources.files("ferrule.inspector").joinpath("static").iterdir():
        kind = _TYPES.get(entry.name.rpartition(".")[2])
        if kind is not None:
            found[entry.name] = (kind, entry.read_bytes())
    return found


def run_inspector(app: InspectorApp, *, port: int = 0, on_started: Callable[[str, int], None] | None = None) -> None:
    """Serve the application on 127.0.0.1 until SIGINT or SIGTERM, and the views of tools on a second, free port.

    Args:
        app: the application.
        port: TCP port of the page; 0 selects a free one.
        on_started: called with host and port when the server accepts connections.

    Raises:
        OSError: the port cannot be bound.
    """
    from ferrule.transports.hosting.uvicorn_server import HttpLimits, bind, run_http

    page = bind("127.0.0.1", port)
    try:
        views = bind("127.0.0.1", 0)
    except OSError:
        page[0].close()
        raise
    app.set_ports(page[0].getsockname()[1], views[0].getsockname()[1])
    run_http(
        app,
        host="127.0.0.1",
        sockets=[*page, *views],
        limits=HttpLimits(drain_s=2),
        on_drain=app.drain,
        on_started=on_started,
    )
