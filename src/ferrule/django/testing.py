"""Helpers for the tests of a project: a client for its MCP server that works inside the transaction of a test.

With Django's test cases::

    from ferrule.django.testing import MCPTestCase


    class NoteTools(MCPTestCase):
        def test_a_note_is_made(self) -> None:
            client = self.mcp_client(self.alice)
            made = client.call("note_create", title="Milk")
            self.assertEqual(made["title"], "Milk")
            self.assertToolDenied("note_purge", self.alice)

With pytest-django, ``pytest_plugins = ["ferrule.django.pytest_plugin"]`` in ``conftest.py`` brings the fixture
``mcp_client``, and ``mcp_client.as_user(alice)`` is a client for a user.

Functions, views and the ORM inside async functions run in the thread of the test, with its database connection: they
see what the test has not committed, also in a database in memory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from asgiref.sync import sync_to_async
from django.conf import settings
from django.test import Client as DjangoClient
from django.test import TestCase
from django.urls import NoReverseMatch, reverse

from ferrule.client.calls.results import ToolCallResult, ToolFailed
from ferrule.client.client import Client
from ferrule.django.running import run_and_wait
from ferrule.protocol.errors import RemoteError
from ferrule.transports.http.backend import HttpClientRequest

if TYPE_CHECKING:
    from ferrule.django.server import DjangoServer
    from ferrule.wire.types import Tool

__all__ = ["MCPClient", "MCPTestCase", "MCPTestMixin"]

T = TypeVar("T")

_DENIED = tuple(f"The API answered {status}" for status in (401, 403, 404))


class MCPClient:
    """A client for the MCP server of the project.

    Each call connects anew. The methods that begin with ``a`` are the same for async tests.

    Args:
        user: the user that the server sees; ``None`` for a sender without one. Only in process.
        server: the server; ``None`` for that of the setting ``MCP``.
        mode: ``"auto"``, ``"legacy"`` or a revision of the protocol.
        http: send requests through Django's test client to the URL of the server, as a sender with real credentials:
            middleware, URLconf and authentication run.
        headers: headers of these requests, such as ``{"authorization": "Token …"}``.
        url: send requests to this address: of a ``LiveServerTestCase``, ``f"{self.live_server_url}/mcp/"``.

    Raises:
        TypeError: a user is given together with ``http`` or ``url``, where the headers say who sends.
    """

    def __init__(
        self,
        user: Any = None,
        *,
        server: DjangoServer | None = None,
        mode: str = "auto",
        http: bool = False,
        headers: Mapping[str, str] | None = None,
        url: str | None = None,
    ) -> None:
        self._server = server
        self._mode = mode
        self._http = http
        self._headers = dict(headers or {})
        self._url = url
        self._user: Any = None
        self._set_user(user)

    def as_user(self, user: Any) -> MCPClient:
        """Return a client for a user.

        Raises:
            TypeError: this client sends requests over HTTP.
        """
        made = copy(self)
        made._set_user(user)
        return made

    @property
    def server(self) -> DjangoServer:
        """The server."""
        from ferrule.django.server import default_server

        return default_server() if self._server is None else self._server

    # -- in synchronous tests ------------------------------------------------------------------------------------------

    def list_tools(self) -> list[Tool]:
        """Return the tools that the sender sees in the list."""
        return self.run(_list_tools)

    def tool_names(self) -> set[str]:
        """Return the names of the tools that the sender may call, also of those behind a search."""
        return self.run(_tool_names)

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Return the structured content of a tool's result; its text if it has none.

        Raises:
            ToolFailed: the result is an error.
            RemoteError: the server refuses the call, for instance of a tool that the sender may not see.
        """
        return _value(self.run(lambda client: client.call_tool(name, arguments, raise_on_error=True)))

    def call_result(self, name: str, /, **arguments: Any) -> ToolCallResult:
        """Return the result of a tool, also one that is an error.

        Raises:
            RemoteError: the server refuses the call.
        """
        return self.run(lambda client: client.call_tool(name, arguments, raise_on_error=False))

    def run(self, use: Callable[[Client], Awaitable[T]]) -> T:
        """Return what a function does with a connected `ferrule.Client`: ``run(lambda client: client.list_prompts())``.

        Raises:
            RuntimeError: called in an async function; `arun` is for these.
        """
        return run_and_wait(self._run(use))

    # -- in async tests ------------------------------------------------------------------------------------------------

    async def alist_tools(self) -> list[Tool]:
        """See `list_tools`."""
        return await self.arun(_list_tools)

    async def atool_names(self) -> set[str]:
        """See `tool_names`."""
        return await self.arun(_tool_names)

    async def acall(self, name: str, /, **arguments: Any) -> Any:
        """See `call`."""
        return _value(await self.arun(lambda client: client.call_tool(name, arguments, raise_on_error=True)))

    async def acall_result(self, name: str, /, **arguments: Any) -> ToolCallResult:
        """See `call_result`."""
        return await self.arun(lambda client: client.call_tool(name, arguments, raise_on_error=False))

    async def arun(self, use: Callable[[Client], Awaitable[T]]) -> T:
        """See `run`."""
        return await self._run(use)

    def _set_user(self, user: Any) -> None:
        if user is not None and (self._http or self._url is not None):
            raise TypeError("Over HTTP the headers say who sends: give headers={'authorization': ...} and no user")
        self._user = user

    async def _run(self, use: Callable[[Client], Awaitable[T]]) -> T:
        if self._url is not None:
            client = Client(self._url, mode=self._mode, headers=self._headers)
        elif self._http:
            address = f"{'https' if settings.SECURE_SSL_REDIRECT else 'http'}://testserver{self._path()}"
            client = Client(address, mode=self._mode, headers=self._headers, http=_TestClientHttp())
        else:
            client = Client(self.server, mode=self._mode)
        with self.server.as_user(self._user):
            async with client:
                return await use(client)

    def _path(self) -> str:
        namespace = self.server.urls[2]
        try:
            return reverse(f"{namespace}:endpoint")
        except NoReverseMatch:
            text = f"No URL leads to the server {self.server.name!r}: add path('mcp/', mcp.urls) to the URLconf"
            raise NoReverseMatch(text) from None


class MCPTestMixin:
    """Adds a client and assertions to a test case of Django, such as ``LiveServerTestCase``.

    Attributes:
        mcp_server: the server under test; ``None`` for that of the setting ``MCP``.
    """

    mcp_server: DjangoServer | None = None

    def mcp_client(self, user: Any = None, **options: Any) -> MCPClient:
        """Return a client for a user; options are those of `MCPClient`."""
        given: dict[str, Any] = {"server": self.mcp_server, **options}
        return MCPClient(user, **given)

    def assertToolListed(self, name: str, user: Any = None) -> None:  # noqa: N802 - as in unittest
        """Fail if a user cannot see a tool."""
        names = self.mcp_client(user).tool_names()
        if name not in names:
            found = ", ".join(sorted(names)) or "none"
            raise AssertionError(f"{_who(user)} does not see the tool {name!r}, but {found}")

    def assertToolDenied(self, name: str, user: Any = None, /, **arguments: Any) -> None:  # noqa: N802
        """Fail if a user may call a tool: neither is it hidden from the user, nor is the call refused.

        A call is refused if the view answers 401, 403, or 404 for an object that the user may not see.
        """
        client = self.mcp_client(user)
        if name not in client.tool_names():
            return
        try:
            result = client.call_result(name, **arguments)
        except RemoteError as error:
            if error.data is None or "problems" not in str(error.data):
                return
            raise
        if result.is_error and result.text.startswith(_DENIED):
            return
        outcome = f"failed otherwise: {result.text}" if result.is_error else "was done"
        raise AssertionError(f"The call of {name!r} by {_who(user)} was not refused; it {outcome}")


class MCPTestCase(MCPTestMixin, TestCase):
    """A test case with a client for the MCP server; each test runs in a transaction."""


class _TestClientHttp:
    """Sends the requests of a `Client` through Django's test client."""

    def __init__(self) -> None:
        self._client = DjangoClient()

    async def open(self, request: HttpClientRequest) -> _TestClientResponse:
        """See `ferrule.transports.http.backend.HttpClient.open`."""
        found: _TestClientResponse = await sync_to_async(self._send, thread_sensitive=True)(request)
        return found

    async def aclose(self) -> None:
        """Do nothing: no connection is open."""

    def _send(self, request: HttpClientRequest) -> _TestClientResponse:
        parts = urlsplit(request.url)
        headers = {name: value for name, value in request.headers.items() if name != "content-type"}
        response: Any = self._client.generic(
            request.method,
            f"{parts.path}?{parts.query}" if parts.query else parts.path,
            request.body,
            content_type=request.headers.get("content-type", "application/octet-stream"),
            secure=parts.scheme == "https",
            headers=headers,
        )
        lines = {name.lower(): value for name, value in response.headers.items()}
        return _TestClientResponse(response.status_code, lines, response.getvalue())


class _TestClientResponse:
    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self._body = body

    async def receive(self) -> bytes:
        """Return the body, and then nothing."""
        body, self._body = self._body, b""
        return body

    async def aclose(self) -> None:
        """Do nothing: the whole body is there."""


async def _list_tools(client: Client) -> list[Tool]:
    return list(await client.list_tools())


async def _tool_names(client: Client) -> set[str]:
    from ferrule.client.groups.behind_search import tools_behind_search

    listed = await client.list_tools()
    behind = await tools_behind_search(client, listed)
    return {tool.name for tool in listed} | {tool["name"] for tool in (() if behind is None else behind.tools)}


def _value(result: ToolCallResult) -> Any:
    if result.is_error:
        raise ToolFailed(result.tool, result)
    return result.data if result.has_structured_content else result.text


def _who(user: Any) -> str:
    return "A sender without a user" if user is None else f"The user {user}"
