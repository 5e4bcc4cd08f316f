"""The HTTP client behind its protocol: streams, cancellation, errors, TLS, proxies, and clients of other libraries."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client
from ferrule._version import __version__
from ferrule.auth.http import AuthRequest
from ferrule.client.connection.authorization import fetch_over
from ferrule.transports.http import backend
from ferrule.transports.http.adapters import adapt_http_client
from ferrule.transports.http.aiohttp_backend import AiohttpClient, proxy_for
from ferrule.transports.http.backend import (
    HttpClient,
    HttpClientOptions,
    HttpClientRequest,
    HttpConnectFailed,
    HttpConnectionLost,
    TlsOptions,
)
from ferrule.transports.http.errors import HttpStatusError
from ferrule.wire.faults import FerruleError
from tests.peers.scripted_http import DISCOVERED, Exchange, ScriptedServer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    client = AiohttpClient(HttpClientOptions(proxy=None))
    yield client
    await client.aclose()


async def read(response: Any) -> bytes:
    found = b""
    while piece := await response.receive():
        found += piece
    return found


_LOADS = """
import sys, threading

import anyio

from ferrule.transports.http.aiohttp_backend import AiohttpClient
from ferrule.transports.http.backend import HttpClientRequest, HttpConnectFailed

threads = {}

class Finder:
    def find_spec(self, name, path=None, target=None):
        threads.setdefault(name, threading.current_thread() is threading.main_thread())

sys.meta_path.insert(0, Finder())

async def main():
    client = AiohttpClient()
    closed = AiohttpClient()

    async def refused(which):
        try:
            await which.open(HttpClientRequest("POST", "http://127.0.0.1:1/mcp", {}, b"{}"))
        except HttpConnectFailed as error:
            print(error.args[0])

    async with anyio.create_task_group() as group:
        group.start_soon(refused, client)
        group.start_soon(refused, closed)
        await anyio.lowlevel.checkpoint()
        await closed.aclose()
    print("loaded on the event loop:", threads["aiohttp"])
    print("session of the closed client:", closed._session)
    await client.aclose()

anyio.run(main)
"""


def test_the_library_is_loaded_beside_the_event_loop() -> None:
    """Its import takes 0.2 s and more, which the timers and requests of every other task would have to wait."""
    done = subprocess.run([sys.executable, "-c", _LOADS], capture_output=True, text=True, timeout=60, check=True)
    assert "loaded on the event loop: False" in done.stdout
    assert "this client is closed" in done.stdout
    assert "session of the closed client: None" in done.stdout, "a client that was closed meanwhile opens no session"


async def test_first_event_of_a_stream_comes_at_once(http: HttpClient) -> None:
    """Received bytes are returned while the stream continues."""

    async def handler(exchange: Exchange) -> None:
        await exchange.stream()
        await exchange.raw(b"data: 1\n\n")
        await exchange.gone.wait()

    async with ScriptedServer(handler) as server:
        response = await http.open(HttpClientRequest("GET", server.url))
        assert await asyncio.wait_for(response.receive(), 30) == b"data: 1\n\n"
        await response.aclose()


@pytest.mark.parametrize("when", ["head", "body"])
async def test_cancelling_closes_the_connection(http: HttpClient, when: str) -> None:
    """While the head or the body is awaited: the server must learn that the client has left."""
    gone = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        if when == "body":
            await exchange.stream()
        started.set()
        await exchange.gone.wait()
        gone.set()

    async def ask(url: str) -> None:
        response = await http.open(HttpClientRequest("POST", url, {}, b"{}"))
        try:
            await response.receive()
        finally:
            await response.aclose()

    started = asyncio.Event()
    async with ScriptedServer(handler) as server:
        task = asyncio.create_task(ask(server.url))
        await started.wait()
        await anyio.wait_all_tasks_blocked()
        task.cancel()
        await asyncio.wait_for(gone.wait(), 30)
        assert (await asyncio.gather(task, return_exceptions=True))[0].__class__ is asyncio.CancelledError


async def test_closing_a_response_from_another_task_ends_its_reader(http: HttpClient) -> None:
    """The task that closes the client closes a stream, not the task that reads it."""

    async def handler(exchange: Exchange) -> None:
        await exchange.stream()
        await exchange.gone.wait()

    async with ScriptedServer(handler) as server:
        response = await http.open(HttpClientRequest("GET", server.url))
        reader = asyncio.create_task(response.receive())
        await anyio.wait_all_tasks_blocked()
        await http.aclose()
        outcome = (await asyncio.wait_for(asyncio.gather(reader, return_exceptions=True), 30))[0]
        assert outcome == b"" or isinstance(outcome, HttpConnectionLost)


async def test_errors_have_one_family(http: HttpClient) -> None:
    """No connection, lost before the head, lost within the body: different classes, with the URL without its query."""

    async def handler(exchange: Exchange) -> None:
        if exchange.path.startswith("/body"):
            await exchange.stream()
            await exchange.raw(b"x")
        exchange.drop()

    with pytest.raises(HttpConnectFailed, match=r"^Cannot connect to http://127\.0\.0\.1:9\S*: [\w ]+$"):
        await http.open(HttpClientRequest("GET", "http://127.0.0.1:9/?key=secret"))
    async with ScriptedServer(handler) as server:
        root = server.url.removesuffix("/mcp")
        with pytest.raises(HttpConnectionLost) as lost:
            await http.open(HttpClientRequest("POST", f"{root}/head?key=secret", {}, b"{}"))
        assert "secret" not in str(lost.value)
        assert lost.value.was_silent
        response = await http.open(HttpClientRequest("GET", f"{root}/body"))
        with pytest.raises(HttpConnectionLost):
            await read(response)


async def test_an_answer_that_is_no_http_is_said_in_a_line_without_the_query(http: HttpClient) -> None:
    """The library's own text has several lines and the whole URL, in which a key may stand."""

    async def handler(exchange: Exchange) -> None:
        if "head" in exchange.path:
            exchange.writer.write(b"\x00\x01nonsense\r\n\r\n")
        else:
            exchange.writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 8\r\n\r\nnonsense")
        await exchange.writer.drain()
        exchange.drop()

    async with ScriptedServer(handler) as server:
        for path in ("head", "body"):
            with pytest.raises(HttpConnectionLost) as caught:
                await read(await http.open(HttpClientRequest("GET", f"{server.url}/{path}?key=secret")))
            assert "secret" not in str(caught.value)
            assert "\n" not in str(caught.value)
    with pytest.raises(HttpConnectFailed, match="the URL is invalid") as failed:
        await http.open(HttpClientRequest("GET", "http://h:port/?key=secret"))
    assert "secret" not in str(failed.value)


async def test_redirects_are_left_alone(http: HttpClient) -> None:
    """A credential must not follow a redirect: the owner of the credential decides."""
    seen: list[dict[str, str]] = []

    async def handler(exchange: Exchange) -> None:
        seen.append(exchange.headers)
        await exchange.respond(307, headers={"location": "/elsewhere"})

    async with ScriptedServer(handler) as server:
        for _ in range(2):
            response = await http.open(HttpClientRequest("GET", server.url, {"x-own": "1"}))
            assert (response.status, response.headers["location"]) == (307, "/elsewhere")
            await response.aclose()
    assert len(seen) == 2
    assert all(headers["x-own"] == "1" for headers in seen)


async def test_five_hundred_streams_beside_a_call(http: HttpClient) -> None:
    """Streams that stay open take nothing from calls."""

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.stream()
            await exchange.gone.wait()
        else:
            await exchange.json({})

    async with ScriptedServer(handler) as server:
        streams = await asyncio.gather(*(http.open(HttpClientRequest("GET", server.url)) for _ in range(500)))
        response = await asyncio.wait_for(http.open(HttpClientRequest("POST", server.url, {}, b"{}")), 30)
        assert await read(response) == b"{}"
        await asyncio.gather(*(stream.aclose() for stream in streams))


# -- other people's clients -----------------------------------------------------------------------------------------


class Httpxish:
    """What httpx, httpx2 and their kin look like from outside, over a recorded answer."""

    closed = False

    def build_request(self, method: str, url: str, *, headers: Any, content: Any) -> Any:
        return (method, url, headers, content)

    async def send(self, request: Any, *, stream: bool, follow_redirects: bool) -> Any:
        assert stream
        assert not follow_redirects
        import json

        id = json.loads(request[3])["id"]
        body = json.dumps({"jsonrpc": "2.0", "id": id, "result": DISCOVERED}).encode()

        class Response:
            def __init__(self) -> None:
                self.status_code = 200
                self.headers = {"Content-Type": "application/json"}

            async def aiter_bytes(self) -> AsyncIterator[bytes]:
                yield body[:10]
                yield b""
                yield body[10:]

            async def aclose(self) -> None:
                pass

        return Response()


@pytest.mark.usefixtures("any_backend")
async def test_httpx_like_client_is_taken_and_not_closed() -> None:
    """``http=``: the user's own client, with its own settings; on trio this is the way to HTTP."""
    async with Client("http://nowhere.example/mcp", http=Httpxish()) as client:
        assert client.is_modern


class InvalidURL(Exception):
    """As that of httpx, which is not derived from its other errors."""


class RefusesUrls(Httpxish):
    def build_request(self, method: str, url: str, *, headers: Any, content: Any) -> Any:
        raise InvalidURL("Invalid non-printable ASCII character in URL")


async def test_a_url_that_httpx_refuses_is_an_error_of_the_family() -> None:
    """A server may redirect to one; httpx raises when the request is made, before it is sent."""
    with pytest.raises(HttpConnectFailed, match="non-printable"):
        await adapt_http_client(RefusesUrls()).open(HttpClientRequest("POST", "http://h/\x01"))


async def test_aiohttp_session_is_taken_and_not_closed() -> None:
    """``http=`` with a session of one's own."""
    import aiohttp

    async def handler(exchange: Exchange) -> None:
        await exchange.result(DISCOVERED)

    async with ScriptedServer(handler) as server, aiohttp.ClientSession(headers={"x-mine": "1"}) as session:
        async with Client(server.url, http=session) as client:
            assert client.is_modern
        assert not session.closed
        assert server.seen[0].headers["x-mine"] == "1"


def test_unknown_client_is_refused() -> None:
    """A wrong argument raises when it is given."""
    with pytest.raises(TypeError, match="http= takes"):
        adapt_http_client(object())


# -- TLS and proxies ------------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """A self-signed certificate of ``localhost`` and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-keyout", key, "-out", cert,
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


async def test_tls_trust_is_a_choice(certificate: tuple[str, str]) -> None:
    """An unknown certificate is refused and said so; its own authority, or no check at all, lets it pass."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    async def handler(exchange: Exchange) -> None:
        await exchange.result(DISCOVERED)

    async with ScriptedServer(handler, tls=context) as server:
        url = f"https://localhost:{server.port}/mcp"
        with pytest.raises(HttpConnectFailed, match=r"(?i)certificate"):
            await Client(url).connect()
        for tls in (TlsOptions(ca_file=certificate[0]), TlsOptions(verify=False)):
            async with Client(url, tls=tls) as client:
                assert client.is_modern


async def test_http_proxy_is_used() -> None:
    """A plain URL goes through the proxy in absolute form, with the proxy's credentials."""

    async def handler(exchange: Exchange) -> None:
        assert exchange.path == "http://server.example/mcp"
        assert exchange.headers["proxy-authorization"].startswith("Basic ")
        await exchange.result(DISCOVERED)

    async with ScriptedServer(handler) as server:
        proxy = f"http://user:pass@127.0.0.1:{server.port}"
        async with Client("http://server.example/mcp", proxy=proxy) as client:
            assert client.is_modern


@pytest.mark.parametrize(
    ("variables", "is_tls", "host", "proxy"),
    [
        ({"HTTPS_PROXY": "http://p:1"}, True, "a.example", "http://p:1"),
        ({"https_proxy": "p:1"}, True, "a.example", "http://p:1"),
        ({"HTTP_PROXY": "http://p:1"}, False, "a.example", None),
        ({"http_proxy": "http://p:1"}, False, "a.example", "http://p:1"),
        ({"ALL_PROXY": "http://p:1"}, True, "a.example", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "b.example, .example"}, True, "a.example", None),
        ({"ALL_PROXY": "http://p:1", "no_proxy": "*"}, True, "a.example", None),
        ({"ALL_PROXY": "http://p:1", "no_proxy": "le"}, True, "a.example", "http://p:1"),
        ({"ALL_PROXY": "http://p:1"}, False, "127.0.0.1", None),
        ({"ALL_PROXY": "http://p:1"}, False, "127.9.9.9", None),
        ({"ALL_PROXY": "http://p:1"}, False, "::1", None),
        ({"ALL_PROXY": "http://p:1"}, False, "dev.localhost", None),
        ({"https_proxy": "", "HTTPS_PROXY": "http://p:1"}, True, "a.example", None),
        ({"https_proxy": "", "ALL_PROXY": "http://p:1"}, True, "a.example", None),
        ({"https_proxy": " ", "ALL_PROXY": "http://p:1"}, True, "a.example", None),
        ({"ALL_PROXY": "http://p:1", "no_proxy": "", "NO_PROXY": "*"}, True, "a.example", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8,fd00::1"}, True, "10.1.2.3", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8,fd00::1"}, True, "11.1.2.3", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8,fd00::1"}, True, "fd00::1", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8,fd00::1"}, True, "fd00::2", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "fd00::/8"}, True, "fd00::2", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "[fd00::1]"}, True, "fd00::1", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "[fd00::1]:8443"}, True, "fd00::1", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "10.0.0.1/nonsense"}, True, "10.0.0.1", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "192.168.1.7"}, True, "192.168.1.7", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "*.Example.com"}, True, "a.example.COM", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "example.com."}, True, "a.example.com.", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "a.example:443"}, True, "a.example", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "a.example:8443"}, True, "a.example", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "a.example  b.example"}, True, "b.example", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": ",,"}, True, "a.example", "http://p:1"),
        ({}, True, "a.example", None),
    ],
)
def test_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], is_tls: bool, host: str, proxy: str | None
) -> None:
    """The usual variables; ``HTTP_PROXY`` in capitals is not one, since a CGI request can set it."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(is_tls, host) == proxy


async def test_what_fails_at_the_proxy_names_it() -> None:
    """The error shows that a proxy is used, without its password."""

    async def handler(exchange: Exchange) -> None:
        if exchange.method == "CONNECT" or exchange.rpc_method == "server/discover":
            await exchange.respond(407, b"who are you")
        else:
            await exchange.respond(502, b"no such host")

    async with ScriptedServer(handler) as server:
        where = f"127.0.0.1:{server.port}"
        named = rf"through the proxy http://{where.replace('.', chr(92) + '.')}\)"
        for url in ("http://server.example/mcp", "https://server.example/mcp"):
            with pytest.raises((HttpConnectFailed, HttpStatusError), match=rf"407.*{named}|{named}.*407") as caught:
                await Client(url, proxy=f"http://me:word@{where}").connect()
            assert "word" not in str(caught.value)
        with pytest.raises(HttpStatusError, match=rf"502 \({named[:-2]}\): no such host"):
            await Client("http://server.example/mcp", mode="legacy", proxy=where).connect()
    for url in ("http://server.example/mcp", "https://server.example/mcp"):
        with pytest.raises(HttpConnectFailed, match=r"\(through the proxy http://127\.0\.0\.1:9\)"):
            await Client(url, proxy="http://127.0.0.1:9").connect()
        with pytest.raises(HttpConnectFailed, match=r"socks5://127\.0\.0\.1:9 is not an HTTP proxy.*http="):
            await Client(url, proxy="socks5://127.0.0.1:9").connect()


# -- who we are -----------------------------------------------------------------------------------------------------


async def test_every_request_says_who_asks() -> None:
    """Common firewalls answer 403 to requests without a ``User-Agent``: metadata and tokens included."""

    async def handler(exchange: Exchange) -> None:
        await exchange.respond(401, headers={"www-authenticate": "Bearer"})

    for headers, expected in (({}, f"ferrule/{__version__}"), ({"User-Agent": "agent/7"}, "agent/7")):
        async with ScriptedServer(handler) as server:
            for auth in (None, "oauth"):
                with pytest.raises(FerruleError):
                    await Client(server.url, auth=auth, headers=headers).connect()
            assert server.count("GET") > 1
            assert {seen.headers.get("user-agent") for seen in server.seen} == {expected}


async def test_a_client_of_another_library_signs_in_under_the_users_name() -> None:
    """Its own name holds elsewhere; what the user says holds for sign-in too."""
    seen: list[HttpClientRequest] = []

    class Refusing:
        async def open(self, request: HttpClientRequest) -> Any:
            seen.append(request)
            raise HttpConnectFailed(request.url, "no")

        async def aclose(self) -> None:
            pass

    fetch = fetch_over(lambda: Refusing(), "agent/7")
    with pytest.raises(HttpConnectFailed):
        await fetch(AuthRequest("GET", "https://issuer.example/", {"accept": "a"}))
    assert seen[0].headers == {"user-agent": "agent/7", "accept": "a"}


@pytest.mark.parametrize("name", ["HttpOptions", "HttpRequest"])
def test_the_names_of_0_1_work_and_warn(name: str) -> None:
    """They also named classes of the server's side."""
    with pytest.warns(DeprecationWarning, match=f"{name} is now {name.replace('Http', 'HttpClient')}"):
        found = getattr(backend, name)  # what is asked for is the name
    assert found.__name__ == name.replace("Http", "HttpClient")
    with pytest.raises(AttributeError, match="HttpNothing"):
        backend.HttpNothing  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue, reportUnusedExpression]
