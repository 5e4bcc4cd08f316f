"""The members behind a gateway, however a client spells their URIs and however many it names."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Client, MCPError, MCPServer, Server
from ferrule.app.middleware.policy import Policy
from tests.client.patience import patient_gateway

pytestmark = pytest.mark.anyio


def no_secrets(request: Any) -> bool | None:
    """A policy about resources that are called private."""
    return False if "private" in request.name else None


def docs(name: str = "docs") -> MCPServer[Any]:
    """A listed resource, one with letters outside ASCII, and a template."""
    app: MCPServer[Any] = MCPServer(name)

    @app.resource("docs://private")
    def private() -> str:
        return "private"

    @app.resource("docs://müll")
    def other() -> str:
        return "müll"

    @app.resource("notes://{topic}/page")
    def note(topic: str) -> str:
        return topic

    return app


async def test_a_policy_judges_a_resource_however_its_uri_is_spelled() -> None:
    """As of a server without a gateway; what is allowed is read in each spelling."""
    gateway = patient_gateway({"one": docs()}, server_middleware=[Policy(no_secrets)])
    async with Client(gateway) as client:
        for uri in ("docs://private", "docs://%70rivate", "docs://priv%61te", "notes://%70rivate/page"):
            with pytest.raises(MCPError, match="Resource not found"):
                await client.read_resource(uri)
        for uri, text in {"docs://m%c3%bcll": "müll", "docs://müll": "müll", "notes://%6Fpen/page": "open"}.items():
            assert (await client.read_resource(uri)).contents[0].text == text


async def test_a_server_gets_the_spelling_that_was_judged() -> None:
    """The one that it has listed; of what none has listed the normal form."""
    got: list[str] = []
    server: Server[Any] = Server("one")

    async def listed(ctx: Any) -> Any:
        return {"resources": [{"uri": "a://ü", "name": "u"}]}

    async def read(ctx: Any) -> Any:
        got.append(ctx.params["uri"])
        return {"contents": []}

    server.add_request_handler("resources/list", listed, params_type=dict[str, Any], trusted=True)
    server.add_request_handler("resources/read", read, params_type=dict[str, Any], trusted=True)
    async with Client(patient_gateway({"one": server})) as client:
        for uri in ("a://ü", "a://%C3%BC", "a://%78", "a://x"):
            await client.read_resource(uri)
    assert got == ["a://ü", "a://ü", "a://x", "a://x"]


async def test_one_request_reads_the_lists_once_however_many_names_it_has() -> None:
    """A request for changes may name many resources that no server has."""
    asked: list[str] = []
    server: Server[Any] = Server("one", resource_updates=True)

    def serve(method: str, result: dict[str, Any]) -> None:
        async def handler(ctx: Any) -> Any:
            asked.append(method)
            return result

        server.add_request_handler(method, handler, params_type=dict[str, Any], trusted=True)

    serve("resources/list", {"resources": []})
    serve("resources/templates/list", {"resourceTemplates": []})
    gateway = patient_gateway({"one": server}, server_middleware=[Policy(lambda request: None)])
    async with Client(gateway) as client:
        asked.clear()
        async with client.listen(uris=[f"a://{number}" for number in range(50)]):
            pass
    assert asked.count("resources/list") <= 1
    assert asked.count("resources/templates/list") <= 1
