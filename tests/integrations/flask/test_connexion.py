"""Connexion: version 3 (ASGI, with Flask or without) and version 2 (WSGI).

Runs where Connexion is installed; `test_versions` runs it with the versions that are supported.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client
from ferrule.expose import NotADescription, expose
from tests.integrations.flask.calls import wsgi_call

connexion = pytest.importorskip("connexion")

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]

IS_2 = not hasattr(connexion, "AsyncApp")
needs_3 = pytest.mark.skipif(IS_2, reason="of Connexion 3")

PET = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "parent": {"$ref": "#/components/schemas/Pet"}},
    "required": ["name"],
}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.0",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "https://elsewhere.example/v1"}],
    "components": {
        "schemas": {"Pet": PET},
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Key", "x-apikeyInfoFunc": f"{__name__}.check_key"}
        },
    },
    "paths": {
        "/pets/{name}": {
            "parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {
                "operationId": f"{__name__}.get_pet",
                "summary": "Show a pet",
                "responses": {"200": {"description": ""}},
            },
        },
        "/pets": {
            "post": {
                "operationId": f"{__name__}.add_pet",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                },
                "responses": {"201": {"description": ""}},
            }
        },
        "/mine": {
            "get": {
                "operationId": f"{__name__}.mine",
                "security": [{"key": []}],
                "responses": {"200": {"description": ""}},
            }
        },
    },
}


def get_pet(name: str) -> Any:
    return {"name": name}


def add_pet(body: Any) -> Any:
    return body, 201


def mine(**_: Any) -> Any:
    return {"owner": "ada"}


def check_key(key: str, required_scopes: Any = None, **_: Any) -> Any:
    return {"sub": "ada"} if key == "good" else None


FUNCTIONS = {f"{__name__}.{each.__name__}": each for each in (get_pet, add_pet, mine)}


def resolver() -> Any:
    """Finds the functions of this module, which no name leads to."""
    return connexion.Resolver(function_resolver=FUNCTIONS.__getitem__)


def application(kind: str, base_path: str | None, folder: Path, **options: Any) -> Any:
    document = json.loads(json.dumps(DOCUMENT))
    # The function that checks keys is found by its name alone.
    scheme = document["components"]["securitySchemes"]["key"]
    scheme["x-apikeyInfoFunc"] = "connexion_key_check.check_key"
    file = folder / "pets.json"
    file.write_text(json.dumps(document))
    app = getattr(connexion, kind)("pets", specification_dir=str(folder), **options)
    app.add_api("pets.json", base_path=base_path, resolver=resolver())
    return app


@pytest.fixture(autouse=True)
def key_check(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import ModuleType

    module = ModuleType("connexion_key_check")
    module.check_key = check_key  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "connexion_key_check", module)


async def call(client: Any, name: str, /, **arguments: Any) -> Any:
    return await client.call_tool(name, arguments)


@pytest.mark.parametrize("base_path", [None, "/v2"])
@pytest.mark.parametrize("kind", ["FlaskApp"] if IS_2 else ["FlaskApp", "AsyncApp"])
async def test_its_document_describes_it_and_its_stack_runs(kind: str, base_path: str | None, tmp_path: Path) -> None:
    mcp = expose(application(kind, base_path, tmp_path), include="*")
    async with Client(mcp) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert sorted(tools) == ["add_pet", "get_pet", "mine"]
        assert tools["add_pet"].input_schema["required"] == ["name"]
        assert (await call(client, "get_pet", name="Rex")).data == {"name": "Rex"}
        assert (await call(client, "add_pet", name="Tom", parent={"name": "Ann"})).data["parent"] == {"name": "Ann"}
        denied = await call(client, "mine")
        assert denied.is_error
        assert "401" in denied.text


async def test_security_runs_and_headers_go_on_where_that_is_said(tmp_path: Path) -> None:
    app = application("FlaskApp", None, tmp_path)
    endpoint = expose(app, include="mine", forward_headers=("x-key",)).wsgi()
    assert "401" in wsgi_call(endpoint, "mine", {"x_key": "bad"})
    assert '"owner":"ada"' in wsgi_call(endpoint, "mine", {"x_key": "good"})


@needs_3
async def test_a_lifespan_runs_once_around_the_server(tmp_path: Path) -> None:
    runs: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncGenerator[Any]:
        runs.append("start")
        yield {}
        runs.append("end")

    app = application("AsyncApp", None, tmp_path, lifespan=lifespan)
    async with Client(expose(app, include="*")) as client:
        assert (await call(client, "get_pet", name="Rex")).data == {"name": "Rex"}
        assert runs == ["start"]
    assert runs == ["start", "end"]


@needs_3
async def test_the_middleware_alone_is_an_application_too(tmp_path: Path) -> None:
    app = application("AsyncApp", None, tmp_path)
    async with Client(expose(app.middleware, include="get_pet")) as client:
        assert (await call(client, "get_pet", name="Rex")).data == {"name": "Rex"}


async def test_a_swagger_document_is_refused_with_the_name_of_a_converter(tmp_path: Path) -> None:
    swagger = {
        "swagger": "2.0",
        "info": {"title": "Pets", "version": "1"},
        "paths": {"/pets": {"get": {"operationId": f"{__name__}.mine", "responses": {"200": {"description": ""}}}}},
    }
    (tmp_path / "pets.json").write_text(json.dumps(swagger))
    app = connexion.FlaskApp("pets", specification_dir=str(tmp_path))
    app.add_api("pets.json", resolver=resolver())
    with pytest.raises(NotADescription, match="from_openapi" if IS_2 else "swagger2openapi"):
        async with Client(expose(app, include="*")):
            pass
