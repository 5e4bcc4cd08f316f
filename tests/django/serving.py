"""A server in a URLconf of its own, called through Django's test clients: under WSGI and under ASGI."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.test import AsyncClient as AsyncDjangoClient
from django.test import Client as DjangoClient
from django.test import override_settings
from django.urls import path

from ferrule import Client
from ferrule.django import DjangoServer
from ferrule.django.conf import DjangoSettings
from ferrule.django.running import run_and_wait
from ferrule.django.testing import _TestClientHttp
from ferrule.transports.http.backend import HttpClientRequest
from tests.transports.asgi.support import modern, modern_headers

__all__ = ["Site", "served"]

T = TypeVar("T")
_numbers = itertools.count()


class Site:
    """A project that is served.

    Args:
        mcp: the server.
        host: ``"wsgi"`` or ``"asgi"``.
    """

    def __init__(self, mcp: DjangoServer, host: str) -> None:
        self.mcp = mcp
        self.host = host

    def send(self, method: str, params: Mapping[str, Any], user: Any = None, **headers: str) -> Any:
        """Return the response of a request, with its JSON-RPC message as ``.message``."""
        message = modern(1, method, dict(params))
        body = json.dumps(message)
        given = {
            **modern_headers(message, host=None, content_type=None),
            **({} if user is None else {"authorization": f"Token {user.token}"}),
            **headers,
        }
        if self.host == "wsgi":
            answer: Any = DjangoClient().post("/mcp/", body, content_type="application/json", headers=given)
        else:
            post = AsyncDjangoClient().post("/mcp/", body, content_type="application/json", headers=given)
            answer = asyncio.run(_whole(post))
        answer.message = answer.json()
        return answer

    def run(
        self,
        use: Callable[[Client], Awaitable[T]],
        mode: str,
        user: Any = None,
        *,
        on_message: Any = None,
        elicitation_handler: Any = None,
        **headers: str,
    ) -> T:
        """Return what a function does with a connected client of this package.

        Args:
            use: ``(client) -> value``.
            mode: of the client: ``"legacy"``, or a revision.
            user: with a token.
            elicitation_handler: of the client.
            headers: of each request.
        """
        given = {**({} if user is None else {"authorization": f"Token {user.token}"}), **headers}
        http: Any = _WsgiHttp() if self.host == "wsgi" else _AsgiHttp()

        async def talk() -> T:
            async with Client(
                "http://testserver/mcp/", mode=mode, headers=given, http=http, elicitation_handler=elicitation_handler
            ) as client:
                return await use(client)

        return run_and_wait(talk()) if self.host == "wsgi" else asyncio.run(talk())

    def tools(self, user: Any = None) -> dict[str, Any]:
        """Return the tools that a user sees, by name."""
        message = self.send("tools/list", {}, user).message
        return {tool["name"]: tool for tool in message["result"]["tools"]}

    def call(self, name: str, arguments: Mapping[str, Any], user: Any = None, **headers: str) -> Any:
        """Return the result of a call."""
        message = self.send("tools/call", {"name": name, "arguments": dict(arguments)}, user, **headers).message
        assert "result" in message, message
        return message["result"]

    def data(self, name: str, arguments: Mapping[str, Any], user: Any = None) -> Any:
        """Return the data of a successful call."""
        result = self.call(name, arguments, user)
        assert not result.get("isError"), result["content"]
        return result["structuredContent"]

    def problem(self, name: str, arguments: Mapping[str, Any], user: Any = None) -> str:
        """Return the text of a call that is a tool error."""
        result = self.call(name, arguments, user)
        assert result.get("isError"), result
        return str(result["content"][0]["text"])


class _WsgiHttp(_TestClientHttp):
    """Sends the requests of a `Client` through Django's test client, and gets an answer where a view fails, too."""

    def __init__(self) -> None:
        super().__init__()
        self._client.raise_request_exception = False


class _AsgiHttp:
    """Sends the requests of a `Client` through Django's asynchronous test client."""

    async def open(self, request: HttpClientRequest) -> _AsgiResponse:
        headers = {name: value for name, value in request.headers.items() if name != "content-type"}
        response: Any = await AsyncDjangoClient(raise_request_exception=False).generic(
            request.method,
            urlsplit(request.url).path,
            request.body,
            content_type=request.headers.get("content-type", "application/octet-stream"),
            headers=headers,
        )
        return _AsgiResponse(response)

    async def aclose(self) -> None:
        pass


class _AsgiResponse:
    def __init__(self, response: Any) -> None:
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._parts = response.streaming_content if response.streaming else _once(response.content)

    async def receive(self) -> bytes:
        return await anext(self._parts, b"")

    async def aclose(self) -> None:
        await self._parts.aclose()


async def _once(part: bytes) -> AsyncGenerator[bytes]:
    yield part


async def _whole(post: Any) -> Any:
    answer = await post
    if answer.streaming:
        answer.content = b"".join([part async for part in answer.streaming_content])
    return answer


@contextmanager
def served(
    host: str, patterns: Callable[[], list[Any]] = list, *, server: DjangoServer | None = None, **settings: Any
) -> Generator[Site]:
    """Serve URL patterns, and a server beside them, inside the ``with`` block.

    Args:
        host: ``"wsgi"`` or ``"asgi"``.
        patterns: returns the patterns.
        server: the server; ``None`` for a new one.
        settings: of the setting ``MCP``, in small letters.
    """
    # A store in memory: the tests' database is one, whose tables SQLite locks as wholes.
    given = {"require_login": False, "store": "memory:", **settings}
    mcp = server or DjangoServer("site", settings=DjangoSettings(**given))
    name = f"tests_django_urls_{next(_numbers)}"
    module: Any = ModuleType(name)
    module.urlpatterns = [*patterns(), path("mcp/", mcp.urls)]
    sys.modules[name] = module
    try:
        with override_settings(ROOT_URLCONF=name):
            yield Site(mcp, host)
    finally:
        del sys.modules[name]
