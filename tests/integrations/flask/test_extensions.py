"""Flask with an extension that describes it: APIFlask, flask-smorest, Flask-RESTX.

Runs where the extension is installed; `test_versions` runs it with the newest and the lowest versions.
"""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Client
from ferrule.expose import NotADescription, expose
from ferrule.integrations.swagger2 import openapi_of_swagger

flask = pytest.importorskip("flask")

# The extensions warn of each other's versions.
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]


async def tools_of(mcp: Any) -> dict[str, Any]:
    async with Client(mcp) as client:
        return {tool.name: tool for tool in await client.list_tools()}


async def call(mcp: Any, name: str, /, **arguments: Any) -> Any:
    async with Client(mcp) as client:
        return await client.call_tool(name, arguments)


# --- APIFlask --------------------------------------------------------------------------------------------------------


def apiflask_app() -> Any:
    apiflask = pytest.importorskip("apiflask")
    fields = pytest.importorskip("apiflask.fields")
    validators = pytest.importorskip("apiflask.validators")

    app = apiflask.APIFlask("pets", title="Pets", version="2")
    auth = apiflask.HTTPTokenAuth(scheme="Bearer")

    @auth.verify_token
    def verify(token: str) -> Any:
        return "ada" if token == "good" else None

    class PetIn(apiflask.Schema):  # type: ignore[name-defined, misc]
        name = fields.String(required=True, validate=validators.Length(1, 5))
        children = fields.List(fields.Nested(lambda: PetIn(exclude=("children",))))

    class PetOut(PetIn):
        id = fields.Integer()

    class Search(apiflask.Schema):  # type: ignore[name-defined, misc]
        word = fields.String()

    # The decorators name a view's argument after its place only since 2.0.
    @app.get("/pets/<int:pet_id>")
    @app.output(PetOut)
    def get_pet(pet_id: int) -> Any:
        """Show a pet."""
        return {"id": pet_id, "name": "Rex", "hidden": "secret"}

    @app.post("/pets")
    @app.input(PetIn)
    @app.output(PetOut, status_code=201)
    def add_pet(json_data: Any) -> Any:
        return {"id": 1, **json_data}

    @app.get("/pets")
    @app.input(Search, location="query")
    @app.output(PetOut(many=True))
    def find_pets(query_data: Any) -> Any:
        return [{"id": 1, "name": query_data["word"]}]

    @app.get("/mine")
    @app.auth_required(auth)
    def mine() -> Any:
        return {"owner": "ada"}

    @app.get("/hidden")
    @app.doc(hide=True)
    def hidden() -> Any:
        return {}

    return app


async def test_apiflask_describes_and_validates() -> None:
    mcp = expose(apiflask_app(), include="*")
    assert mcp.name == "Pets"
    tools = await tools_of(mcp)
    assert sorted(tools) == ["add_pet", "find_pets", "get_pet", "mine"]
    assert tools["add_pet"].input_schema["required"] == ["name"]
    assert tools["get_pet"].description == "Show a pet."
    assert (await call(mcp, "get_pet", pet_id=3)).data == {"id": 3, "name": "Rex"}
    assert (await call(mcp, "find_pets", word="a b")).data == [{"id": 1, "name": "a b"}]
    assert (await call(mcp, "add_pet", name="Tom")).data == {"id": 1, "name": "Tom"}
    # The schema of the tool refuses some of it, and what it does not know the application refuses.
    refused = await call(mcp, "add_pet", name="a name that is too long")
    assert refused.is_error
    assert "name" in refused.text
    denied = await call(mcp, "mine")
    assert denied.is_error
    assert "401" in denied.text


async def test_an_apiflask_document_in_yaml_is_read() -> None:
    app = apiflask_app()
    app.config["SPEC_FORMAT"] = "yaml"
    assert "get_pet" in await tools_of(expose(app, include="*"))


# --- flask-smorest ---------------------------------------------------------------------------------------------------


def smorest_app() -> Any:
    smorest = pytest.importorskip("flask_smorest")
    ma = pytest.importorskip("marshmallow")
    views = pytest.importorskip("flask.views")

    app = flask.Flask("pets")
    app.config.update(API_TITLE="Pets", API_VERSION="1", OPENAPI_VERSION="3.1.0")
    api = smorest.Api(app)
    pets = smorest.Blueprint("pets", "pets", url_prefix="/pets", description="All about pets")

    class Pet(ma.Schema):  # type: ignore[name-defined, misc]
        id = ma.fields.Integer(dump_only=True)
        name = ma.fields.String(required=True)
        parent = ma.fields.Nested(lambda: Pet(), allow_none=True)
        password = ma.fields.String(load_only=True)

    class Search(ma.Schema):  # type: ignore[name-defined, misc]
        name = ma.fields.String()

    @pets.route("/")
    class Pets(views.MethodView):  # type: ignore[name-defined, misc]
        @pets.arguments(Search, location="query")
        @pets.response(200, Pet(many=True))
        @pets.paginate()
        def get(self, found: Any, pagination_parameters: Any) -> Any:
            """List pets."""
            pagination_parameters.item_count = 1
            return [{"id": 1, "name": found["name"], "password": "secret"}]

        @pets.arguments(Pet)
        @pets.response(201, Pet)
        def post(self, pet: Any) -> Any:
            """Add a pet."""
            return {"id": 2, **pet}

    @pets.route("/<int:pet_id>", methods=["DELETE"])
    @pets.response(204)
    def drop_pet(pet_id: int) -> None:
        """Drop a pet."""
        if pet_id == 404:
            smorest.abort(404, message="No such pet")

    api.register_blueprint(pets)

    @app.get("/plain")
    def plain() -> str:
        return "no operation of the API"

    return app


async def test_smorest_describes_and_validates() -> None:
    mcp = expose(smorest_app(), include="*")
    tools = await tools_of(mcp)
    assert sorted(tools) == ["get_pets_Pets", "pets_drop_pet", "post_pets_Pets"]
    schema = tools["post_pets_Pets"].input_schema
    assert "id" not in schema["properties"]
    assert schema["required"] == ["name"]
    listed = await call(mcp, "get_pets_Pets", name="Rex", page=1)
    assert listed.data == [{"id": 1, "name": "Rex"}]
    assert (await call(mcp, "post_pets_Pets", name="Tom", parent={"name": "Ann"})).data["parent"]["name"] == "Ann"
    assert (await call(mcp, "pets_drop_pet", pet_id=4)).text == "Done"
    assert "No such pet" in (await call(mcp, "pets_drop_pet", pet_id=404)).text


# --- Flask-RESTX -----------------------------------------------------------------------------------------------------


def restx_app(prefix: str = "", is_blueprint: bool = False) -> Any:
    restx = pytest.importorskip("flask_restx")
    datastructures = pytest.importorskip("werkzeug.datastructures")

    app = flask.Flask("pets")
    target = flask.Blueprint("api", "api", url_prefix="/api") if is_blueprint else app
    key = {"apikey": {"type": "apiKey", "in": "header", "name": "X-API"}}
    api = restx.Api(target, title="Pets", prefix=prefix, authorizations=key, security="apikey")
    if is_blueprint:
        app.register_blueprint(target)
    space = api.namespace("pets", description="All about pets")
    pet = api.model(
        "Pet", {"id": restx.fields.Integer(readonly=True), "name": restx.fields.String(required=True, max_length=5)}
    )
    search = restx.reqparse.RequestParser()
    search.add_argument("word", type=str, required=True, location="args", help="What to look for")
    search.add_argument("tags", type=str, action="append", location="args")
    search.add_argument("sizes", type=int, action="split", location="args")
    upload = restx.reqparse.RequestParser()
    upload.add_argument("file", type=datastructures.FileStorage, location="files", required=True)
    upload.add_argument("title", location="form")

    @space.route("/<int:pet_id>")
    @space.param("pet_id", "The number of the pet")
    class Pet(restx.Resource):  # type: ignore[name-defined, misc]
        @space.doc("get_pet")
        @space.marshal_with(pet)
        def get(self, pet_id: int) -> Any:
            """Show a pet"""
            return {"id": pet_id, "name": "Rex", "hidden": "secret"}

        @space.expect(pet, validate=True)
        def put(self, pet_id: int) -> Any:
            return {"id": pet_id, **api.payload}

        @space.doc(False)
        def delete(self, pet_id: int) -> Any:
            return {}

    @space.route("/find")
    class Find(restx.Resource):  # type: ignore[name-defined, misc]
        @space.doc("find_pets")
        @space.expect(search)
        def get(self) -> Any:
            return search.parse_args()

    @space.route("/pictures")
    class Pictures(restx.Resource):  # type: ignore[name-defined, misc]
        @space.doc("add_picture")
        @space.expect(upload)
        def post(self) -> Any:
            given = upload.parse_args()
            return {"title": given["title"], "bytes": len(given["file"].read())}

    return app


@pytest.mark.parametrize(("prefix", "is_blueprint"), [("", False), ("/v1", False), ("", True)])
async def test_restx_describes_and_validates(prefix: str, is_blueprint: bool) -> None:
    """It makes Swagger 2.0 alone, which is read as what it means in OpenAPI 3."""
    mcp = expose(restx_app(prefix, is_blueprint), include="*")
    tools = await tools_of(mcp)
    assert sorted(tools) == ["add_picture", "find_pets", "get_pet", "put_pet"]
    assert tools["get_pet"].input_schema["properties"]["pet_id"]["description"] == "The number of the pet"
    put = tools["put_pet"].input_schema
    assert put["required"] == ["pet_id", "name"]
    assert put["properties"]["name"]["maxLength"] == 5
    assert (await call(mcp, "get_pet", pet_id=3)).data == {"id": 3, "name": "Rex"}
    assert (await call(mcp, "put_pet", pet_id=3, name="Tom")).data == {"id": 3, "name": "Tom"}
    found = await call(mcp, "find_pets", word="x", tags=["a", "b"], sizes=[1, 2])
    assert found.data == {"word": "x", "tags": ["a", "b"], "sizes": [1, 2]}
    picture = {"base64": "AAAA", "filename": "a.png"}
    sent = await call(mcp, "add_picture", title="t", file=picture)
    assert sent.data == {"title": "t", "bytes": 3}, sent.text


async def test_a_restx_api_that_cannot_be_described_says_why() -> None:
    app = restx_app()
    module = pytest.importorskip("flask_restx")
    api = next(
        view.__self__ for view in app.view_functions.values() if isinstance(getattr(view, "__self__", None), module.Api)
    )

    @api.route("/bad")
    class Bad(module.Resource):  # type: ignore[name-defined, misc]
        @api.doc(model="NoSuchModel")
        def get(self) -> Any:
            return {}

    with pytest.raises(NotADescription, match="NoSuchModel"):
        await tools_of(expose(app, include="*"))


def test_forms_arrays_and_security_of_swagger_are_kept() -> None:
    """What Flask-RESTX writes, without it."""
    swagger = {
        "swagger": "2.0",
        "basePath": "/v1",
        "consumes": ["application/json"],
        "parameters": {"page": {"name": "page", "in": "query", "type": "integer"}},
        "securityDefinitions": {
            "login": {"type": "basic"},
            "sign": {
                "type": "oauth2",
                "flow": "accessCode",
                "tokenUrl": "https://a/t",
                "authorizationUrl": "https://a/a",
            },
        },
        "paths": {
            "/a/{b}": {
                "parameters": [{"name": "b", "in": "path", "required": True, "type": "string", "maxLength": 3}],
                "post": {
                    "operationId": "a",
                    "security": [{"login": []}],
                    "parameters": [
                        {"$ref": "#/parameters/page"},
                        {"name": "c", "in": "query", "type": "array", "items": {"type": "string"}},
                        {"name": "d", "in": "formData", "type": "string", "required": True, "description": "D"},
                    ],
                    "responses": {"200": {"description": "", "schema": {"$ref": "#/definitions/A"}}},
                },
            }
        },
        "definitions": {"A": {"type": "object", "properties": {"next": {"$ref": "#/definitions/A"}}}},
    }
    made = openapi_of_swagger(swagger)
    post = made["paths"]["/v1/a/{b}"]["post"]
    assert [(each["in"], each["name"]) for each in post["parameters"]] == [
        ("path", "b"),
        ("query", "page"),
        ("query", "c"),
    ]
    assert post["parameters"][0]["schema"] == {"type": "string", "maxLength": 3}
    assert post["parameters"][2]["explode"] is False
    form = post["requestBody"]["content"]["application/x-www-form-urlencoded"]["schema"]
    assert form == {"type": "object", "properties": {"d": {"type": "string", "description": "D"}}, "required": ["d"]}
    answer = post["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer == {"$ref": "#/components/schemas/A"}
    schemes = made["components"]["securitySchemes"]
    assert schemes["login"] == {"type": "http", "scheme": "basic"}
    assert set(schemes["sign"]["flows"]) == {"authorizationCode"}
