"""What operators read about a gateway over HTTP."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ferrule import Client, Gateway, MCPServer, Server
from ferrule.client.gateway.upstreams.monitoring import Monitoring
from ferrule.transports.asgi.public_documents import DocumentRequest, PublicDocuments
from tests.client.pauses import Pauses

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def failing(server: Server[Any]) -> AsyncGenerator[None]:
    """The start of a server that cannot start."""
    raise OSError("secret reason")
    yield


def make_gateway() -> Gateway:
    """One server that is there, and one that is not, with an awkward name."""
    app: MCPServer[Any] = MCPServer("here")
    app.tool(name="one")(lambda: "x")
    return Gateway({"here": app, 'a "b" <c>/d': Server("away", lifespan=failing)}, sleep=Pauses(), open_s=30)


def request(path: str) -> DocumentRequest:
    """A request for a document."""
    return DocumentRequest(method="GET", path=path, headers={}, endpoint_path="/mcp", origin=None, versions=[])


async def test_each_server_has_numbers_a_line_and_a_readiness() -> None:
    """Without the text of an error, and with names escaped for each format."""
    gateway = make_gateway()
    documents = gateway.server.attachments[PublicDocuments]  # type: ignore[type-abstract]
    assert isinstance(documents, Monitoring)
    async with Client(gateway) as client:
        await client.list_tools()
        await client.call_tool("here_one")
        await client.call_tool("a_b_c_d_x", raise_on_error=False)
        answers = {path: documents.answer(request(path)) for path in documents.paths("/mcp")}
    assert list(answers) == ["/status", "/metrics", "/readyz/here", "/readyz/a%20%22b%22%20%3Cc%3E%2Fd"]
    assert [status for status, _, _ in answers.values()] == [200, 200, 200, 503]
    assert all(b"secret" not in body for _, body, _ in answers.values())
    numbers = answers["/metrics"][1].decode()
    assert 'ferrule_gateway_upstream_up{server="here"} 1\n' in numbers
    assert 'ferrule_gateway_upstream_requests_total{server="here"} 1\n' in numbers
    assert 'ferrule_gateway_upstream_up{server="a \\"b\\" <c>/d"} 0\n' in numbers
    assert 'ferrule_gateway_upstream_errors_total{server="a \\"b\\" <c>/d"} 1\n' in numbers
    page = answers["/status"][1].decode()
    assert "a &quot;b&quot; &lt;c&gt;/d" in page
    assert re.search(r"is down since \d\d:\d\d: it cannot be started or reached", page)
    assert "<c>" not in page


async def test_numbers_have_the_format_of_prometheus() -> None:
    """Each line is a comment or a sample, and each sample has its type before it."""
    types: dict[str, str] = {}
    for line in Monitoring("x", make_gateway().upstreams).metrics().splitlines():
        if found := re.fullmatch(r"# TYPE (\w+) (gauge|counter)", line):
            types[found[1]] = found[2]
        elif not re.fullmatch(r"# HELP \w+ .+", line):
            sample = re.fullmatch(r'(\w+)\{server="((?:[^"\\]|\\.)*)"\} \d+', line)
            assert sample is not None, line
            assert types[sample[1]] == ("counter" if sample[1].endswith("_total") else "gauge")
    assert len(types) == 7


async def test_an_endpoint_serves_them_and_an_option_removes_them() -> None:
    """Beside the probes."""
    assert {"/status", "/metrics", "/readyz", "/readyz/here"} <= set(make_gateway().asgi(loopback=True).paths)
    quiet = Gateway({"here": MCPServer("here")}, monitoring=False)
    assert not {"/status", "/metrics", "/readyz/here"} & set(quiet.asgi(loopback=True).paths)
