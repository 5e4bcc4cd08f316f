"""The HTTP client behind its protocol: streams, cancellation, errors, TLS, proxies, and clients of other libraries."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client
from ferrule.transports.aiohttp_client import AiohttpClient, proxy_for
from ferrule.transports.http_adapters import adapt_http_client
from ferrule.transports.http_client import (
    HttpClient,
    HttpConnectFailed,
    HttpConnectionLost,
    HttpOptions,
    HttpRequest,
    TlsOptions,
)
from tests.peers.scripted_http import DISCOVERED, Exchange, ScriptedServer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    client = AiohttpClient(HttpOptions(proxy=None))
    yield client
    await client.aclose()


async def read(response: Any) -> bytes:
    found = b""
    while piece := await response.receive():
        found += piece
    return found


async def test_first_event_of_a_stream_comes_at_once(http: HttpClient) -> None:
    """What is there is handed out, though the stream goes on."""

    async def handler(exchange: Exchange) -> None:
        await exchange.stream()
        await exchange.raw(b"data: 1\n\n")
        await exchange.gone.wait()

    async with ScriptedServer(handler) as server:
        response = await http.open(HttpRequest("GET", server.url))
        assert await asyncio.wait_for(response.receive(), 5) == b"data: 1\n\n"
        await response.aclose()


@pytest.mark.parametrize("when", ["head", "body"])
async def test_cancelling_closes_the_connection(http: HttpClient, when: str) -> None:
    """Whether the head or the body is awaited: the server must see that nobody waits."""
    gone = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        if when == "body":
            await exchange.stream()
        started.set()
        await exchange.gone.wait()
        gone.set()

    async def ask(url: str) -> None:
        response = await http.open(HttpRequest("POST", url, {}, b"{}"))
        try:
            await response.receive()
        finally:
            await response.aclose()

    started = asyncio.Event()
    async with ScriptedServer(handler) as server:
        task = asyncio.create_task(ask(server.url))
        await started.wait()
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.wait_for(gone.wait(), 5)
        assert (await asyncio.gather(task, return_exceptions=True))[0].__class__ is asyncio.CancelledError


async def test_closing_a_response_from_another_task_ends_its_reader(http: HttpClient) -> None:
    """A stream is closed by whoever closes the client, not by whoever reads it."""

    async def handler(exchange: Exchange) -> None:
        await exchange.stream()
        await exchange.gone.wait()

    async with ScriptedServer(handler) as server:
        response = await http.open(HttpRequest("GET", server.url))
        reader = asyncio.create_task(response.receive())
        await asyncio.sleep(0.02)
        await http.aclose()
        outcome = (await asyncio.wait_for(asyncio.gather(reader, return_exceptions=True), 5))[0]
        assert outcome == b"" or isinstance(outcome, HttpConnectionLost)


async def test_errors_have_one_family(http: HttpClient) -> None:
    """No connection; lost before the head; lost within the body: told apart, with the URL and without its query."""

    async def handler(exchange: Exchange) -> None:
        if exchange.path.startswith("/body"):
            await exchange.stream()
            await exchange.raw(b"x")
        exchange.drop()

    with pytest.raises(HttpConnectFailed, match=r"^Cannot connect to http://127\.0\.0\.1:9\S*: [\w ]+$"):
        await http.open(HttpRequest("GET", "http://127.0.0.1:9/?key=secret"))
    async with ScriptedServer(handler) as server:
        root = server.url.removesuffix("/mcp")
        with pytest.raises(HttpConnectionLost) as lost:
            await http.open(HttpRequest("POST", f"{root}/head?key=secret", {}, b"{}"))
        assert "secret" not in str(lost.value)
        assert lost.value.was_silent
        response = await http.open(HttpRequest("GET", f"{root}/body"))
        with pytest.raises(HttpConnectionLost):
            await read(response)


async def test_redirects_and_cookies_are_left_alone(http: HttpClient) -> None:
    """A credential must not follow a redirect, and one call's cookie must not reach another."""
    seen: list[dict[str, str]] = []

    async def handler(exchange: Exchange) -> None:
        seen.append(exchange.headers)
        await exchange.respond(307, headers={"location": "/elsewhere", "set-cookie": "a=b"})

    async with ScriptedServer(handler) as server:
        for _ in range(2):
            response = await http.open(HttpRequest("GET", server.url, {"x-own": "1"}))
            assert (response.status, response.headers["location"]) == (307, "/elsewhere")
            await response.aclose()
    assert len(seen) == 2
    assert not any("cookie" in headers for headers in seen)
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
        streams = await asyncio.gather(*(http.open(HttpRequest("GET", server.url)) for _ in range(500)))
        response = await asyncio.wait_for(http.open(HttpRequest("POST", server.url, {}, b"{}")), 5)
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
    """A wrong argument is told when it is given."""
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
