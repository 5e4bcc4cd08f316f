"""ferrule.integrations.starlette: everything that an endpoint answers is reached through the host's routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ferrule import MCPServer
from ferrule.auth import ResourceServer, StaticTokens
from ferrule.auth.challenges import parse_challenges
from ferrule.integrations.starlette import mcp_routes
from ferrule.transports.sse.server import SseEndpoint
from tests.transports.asgi.support import Call, modern, modern_headers

pytestmark = pytest.mark.anyio

applications = pytest.importorskip("starlette.applications")
routing = pytest.importorskip("starlette.routing")

ORIGIN = "http://127.0.0.1:8000"


def protected(resource: str | None) -> MCPServer[Any]:
    return MCPServer("s", auth=ResourceServer(StaticTokens({"t": {"subject": "ada"}}), resource=resource))


async def challenged(host: Any, path: str, root_path: str = "") -> str:
    """Where the challenge of an endpoint says that its metadata are, as a path."""
    message = modern(1, "server/discover")
    answer = await Call(host, path=path, root_path=root_path, headers=modern_headers(message), body=b"{}").run()
    assert answer.status == 401
    url = parse_challenges(answer.headers["www-authenticate"])[0].resource_metadata
    assert url is not None
    assert url.startswith(ORIGIN)
    return url.removeprefix(ORIGIN)


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("prefix", ["", "/api", "/deep/er"])
async def test_the_metadata_are_where_the_challenge_says(prefix: str, is_named: bool) -> None:
    """A client that follows the challenge finds them, at the root and below a prefix, named server or not."""
    resource = f"{ORIGIN}{prefix}/tools/mcp"
    routes = mcp_routes(protected(resource if is_named else None).asgi(path="/tools/mcp"))
    host = applications.Starlette(routes=[routing.Mount(prefix, routes=routes)] if prefix else routes)
    path = await challenged(host, f"{prefix}/tools/mcp")
    assert path == f"{prefix}/.well-known/oauth-protected-resource/tools/mcp"
    found = await Call(host, "GET", path, headers={"host": "127.0.0.1:8000"}).run()
    assert found.status == 200
    if is_named:
        assert found.json["resource"] == resource
    for beside in ("/healthz", "/readyz", "/.well-known/oauth-protected-resource"):
        headers = {"host": "127.0.0.1:8000"}
        assert (await Call(host, "GET", f"{prefix}{beside}", headers=headers).run()).status == 200, beside


async def test_two_endpoints_have_their_own_metadata() -> None:
    """The routes are exact, so that the first endpoint does not take the second one's."""
    one, two = protected(f"{ORIGIN}/one"), protected(f"{ORIGIN}/two")
    host = applications.Starlette(routes=[*mcp_routes(one.asgi(path="/one")), *mcp_routes(two.asgi(path="/two"))])
    for name in ("one", "two"):
        found = await Call(host, "GET", await challenged(host, f"/{name}")).run()
        assert (found.status, found.json["resource"]) == (200, f"{ORIGIN}/{name}")


async def test_the_deprecated_transport_has_routes_too() -> None:
    """Both of its paths, and the metadata of the resource."""
    host = applications.Starlette(routes=mcp_routes(SseEndpoint(protected(f"{ORIGIN}/sse").lowlevel)))
    answer = await Call(host, "GET", "/sse", headers={"accept": "text/event-stream"}).run()
    url = parse_challenges(answer.headers["www-authenticate"])[0].resource_metadata
    assert (answer.status, url) == (401, f"{ORIGIN}/.well-known/oauth-protected-resource/sse")
    assert (await Call(host, "GET", str(url).removeprefix(ORIGIN)).run()).json["resource"] == f"{ORIGIN}/sse"
    assert (await Call(host, "POST", "/messages", headers={}).run()).status == 401


async def test_a_host_keeps_the_health_page_that_it_has() -> None:
    """By the order of routes, or by turning ours off."""

    async def own(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 299, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    app = protected(f"{ORIGIN}/mcp")
    orders: list[Callable[[], list[Any]]] = [
        lambda: [routing.Route("/healthz", _Asgi(own)), *mcp_routes(app.asgi())],
        lambda: [*mcp_routes(app.asgi(health_path=None)), routing.Route("/healthz", _Asgi(own))],
    ]
    for routes in orders:
        host = applications.Starlette(routes=routes())
        assert (await Call(host, "GET", "/healthz").run()).status == 299
        assert (await Call(host, "GET", "/readyz").run()).status == 200


class _Asgi:
    """An ASGI callable as a class, which Starlette takes as it is."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


@pytest.mark.parametrize(
    ("path", "root_path", "is_ours"),
    [
        ("/tools/mcp", "", True),
        ("/tools/mcp/", "", True),
        ("/x/tools/mcp", "/x", True),
        ("/tools/mcp", "/x", True),
        ("/.well-known/oauth-protected-resource/tools/mcp", "", True),
        ("/.well-known/oauth-protected-resource", "", True),
        ("/healthz", "", True),
        ("/x/readyz", "/x", True),
        ("/tools/mcpanything", "", False),
        ("/tools", "", False),
        ("/.well-known/oauth-protected-resource/other", "", False),
        ("/", "", False),
    ],
)
def test_a_host_that_routes_by_itself_asks_the_endpoint(path: str, root_path: str, is_ours: bool) -> None:
    """As Django's example does."""
    endpoint = protected(f"{ORIGIN}/tools/mcp").asgi(path="/tools/mcp")
    assert endpoint.answers({"type": "http", "path": path, "root_path": root_path}) is is_ours


def test_an_endpoint_at_the_root_is_found_there() -> None:
    """Below a mount the rest of the path may be empty."""
    endpoint = MCPServer("s").asgi(path="/")
    assert endpoint.answers({"type": "http", "path": "/"})
    assert endpoint.answers({"type": "http", "path": "/x", "root_path": "/x"})
    assert not endpoint.answers({"type": "http", "path": "/x"})
    assert not endpoint.answers({"type": "lifespan"})
