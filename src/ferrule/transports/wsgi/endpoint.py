"""The endpoint as a WSGI callable (PEP 3333), for hosts without an event loop: Flask, Django under gunicorn, mod_wsgi.

The requests run on an event loop in a thread of this process, which starts with the first request, so after a host has
forked its workers; those of Django that need no event loop run in the thread of the host. All answers are JSON in one
piece: a host gives each request a thread, and a stream would hold it for as long as the client likes. So GET is 405,
``subscriptions/listen`` is refused and changes are not announced, legacy requests have no sessions, and messages that a
handler sends before its result are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from ferrule.transports.asgi.endpoint import HttpEndpoint
from ferrule.transports.asgi.request import BEGINS_IN_THREAD_KEY
from ferrule.transports.asgi.runtime import AsyncioRuntime
from ferrule.transports.loop_thread import HostThread, LoopThread
from ferrule.transports.request_thread import SteppingThread
from ferrule.transports.wsgi.scope import SCRIPT_NAME_KEY, scope_of
from ferrule.transports.wsgi.whole_answer import WholeAnswer

__all__ = ["WSGIEndpoint"]

_loop = LoopThread("ferrule-wsgi")

StartResponse = Callable[..., Any]
WSGIApp = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]


class WSGIEndpoint:
    """Serves an `HttpEndpoint` inside a WSGI host.

    Args:
        endpoint: made with ``stateless=True``: without a stream there is no way to the client but the answer.

    Raises:
        ValueError: the endpoint has sessions.
    """

    def __init__(self, endpoint: HttpEndpoint) -> None:
        if endpoint.options.legacy and not endpoint.options.stateless:
            raise ValueError("a WSGI host serves without sessions: stateless=True")
        self.endpoint = endpoint

    def beside(self, app: WSGIApp) -> WSGIApp:
        """Return a WSGI application that serves the endpoint's paths and gives all other requests to ``app``.

        The paths are those of ``endpoint.paths``: the endpoint, health, and with ``auth=`` the metadata of the
        protected resource, which clients look for at the root of the site.
        """
        own = frozenset(self.endpoint.paths)

        def serve(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
            if environ.get("PATH_INFO", "") not in own:
                return app(environ, start_response)
            return self._serve(environ, start_response, {SCRIPT_NAME_KEY: environ.get("SCRIPT_NAME", "")})

        return serve

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request."""
        return self._serve(environ, start_response, {})

    def _serve(self, environ: dict[str, Any], start_response: StartResponse, facts: dict[str, Any]) -> Iterable[bytes]:
        """Serve one request; ``facts`` are added to the scope that tools see."""
        status, headers, body = self.answer(environ, facts)
        start_response(_status(status), headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def answer(
        self,
        environ: dict[str, Any],
        facts: Mapping[str, Any],
        *,
        in_host: bool = False,
        serves_in_thread: Callable[[Any], bool] | None = None,
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Return status, headers and body of the answer to one request.

        Args:
            environ: the environment of the request.
            facts: added to the scope that tools see.
            in_host: synchronous functions of the server run in this thread while it waits; otherwise in threads of the
                server.
            serves_in_thread: returns whether a decoded message may be served in this thread, without the event loop
                (`ferrule.kernel.concurrency.yielding`); ``None`` for none. With ``in_host`` only.
        """
        if "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower() and not environ.get("wsgi.input_terminated"):
            # Without a length nothing says where the body ends (PEP 3333, "Input and Error Streams").
            return 411, [("Content-Type", "text/plain"), ("Content-Length", "0")], b""
        body = _read_body(environ, self.endpoint.options.max_body_bytes)
        _loop.open.add(self.endpoint)
        answer = WholeAnswer(body, environ.get("HTTP_MCP_METHOD", ""))
        scope = {**scope_of(environ), **facts}
        if not in_host:
            _loop.run(answer.receive(self.endpoint, scope))
        elif serves_in_thread is None or (loop := self._running_loop()) is None:
            HostThread().wait_for(_loop, answer.receive(self.endpoint, scope))
        else:
            scope[BEGINS_IN_THREAD_KEY] = serves_in_thread
            SteppingThread(_loop, loop).serve(answer.receive(self.endpoint, scope))
        return answer.status, answer.headers, answer.body

    def _running_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the event loop that the server runs on; ``None`` before its start, and where it would be another."""
        runtime = self.endpoint.life.running_on
        if type(runtime) is AsyncioRuntime and runtime.is_live() and _loop.runs(runtime.loop):
            return runtime.loop
        return None


def _read_body(environ: dict[str, Any], max_bytes: int) -> bytes:
    """Return the body, and one byte more than is allowed of a larger one, which the endpoint then refuses."""
    length = environ.get("CONTENT_LENGTH") or ""
    source = environ["wsgi.input"]
    if length.isascii() and length.isdigit():
        wanted = min(int(length[:20]), max_bytes + 1)
    elif environ.get("wsgi.input_terminated"):
        wanted = max_bytes + 1
    else:
        return b""
    chunks: list[bytes] = []
    while wanted > 0:
        chunk = source.read(wanted)
        if not chunk:
            break
        chunks.append(chunk)
        wanted -= len(chunk)
    return b"".join(chunks)


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Unknown"
