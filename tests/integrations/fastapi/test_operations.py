"""Operations of FastAPI applications as tools: which, under which names, with which arguments, and their changes."""

from typing import Annotated, Any

import anyio
import pytest

from ferrule import Client, MCPServer
from ferrule.expose import NothingMatches, expose
from tests.integrations.fastapi.support import Item, Node, both_eras, called, structured, tools_of

pytest.importorskip("fastapi")

from fastapi import (
    APIRouter,
    Body,
    FastAPI,
    File,
    Form,
    Request,
    UploadFile,
    WebSocket,
)

pytestmark = pytest.mark.anyio


# -- what is exposed, and under which name ---------------------------------------------------------------------------


@both_eras
async def test_nothing_of_an_excluded_route_is_converted(mode: str) -> None:
    """Neither its tool nor its recursive model is there, and it costs no other route anything."""
    app = FastAPI()

    @app.post("/trees", include_in_schema=False)
    async def plant(tree: Node) -> Node:
        return tree

    @app.post("/forests")
    async def forest(trees: list[Node]) -> int:
        return len(trees)

    @app.get("/plain")
    async def plain() -> str:
        return "x"

    tools = await tools_of(app, mode, include="GET")
    assert set(tools) == {"plain"}
    tools = await tools_of(app, mode)
    assert set(tools) == {"forest", "plain"}
    assert tools["forest"].input_schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    tree = {"name": "a", "children": [{"name": "b"}]}
    assert structured(await called(app, "forest", {"body": [tree, tree]}, mode)) == 2


@both_eras
async def test_one_name_in_path_query_and_body(mode: str) -> None:
    """Each has an argument of its own, and reaches its own place."""
    app = FastAPI()

    @app.put("/items/{id}")
    async def put_item(id: int, item: Item, name: str = "") -> dict[str, Any]:
        return {"path": id, "query": name, "body": item.model_dump()}

    tool = (await tools_of(app, mode))["put_item"]
    assert set(tool.input_schema["properties"]) == {"id", "name", "id_body", "name_body", "price"}
    arguments = {"id": 1, "name": "q", "id_body": 2, "name_body": "b"}
    found = structured(await called(app, "put_item", arguments, mode))
    assert found == {"path": 1, "query": "q", "body": {"id": 2, "name": "b", "price": 1.0}}


@both_eras
async def test_bodies_of_every_kind(mode: str, tmp_path: Any) -> None:
    """A list, a scalar, several models, a form, files."""
    app = FastAPI()

    @app.post("/list")
    async def take_list(items: list[Item]) -> list[int]:
        return [item.id for item in items]

    @app.post("/scalar")
    async def take_scalar(count: Annotated[int, Body()]) -> int:
        return count + 1

    @app.post("/two")
    async def take_two(first: Item, second: Item, note: Annotated[str, Body()]) -> str:
        return f"{first.id}{second.id}{note}"

    @app.post("/form")
    async def take_form(user: Annotated[str, Form()], tag: Annotated[list[str], Form()]) -> dict[str, Any]:
        return {"user": user, "tag": tag}

    @app.post("/upload")
    async def take_file(file: UploadFile, note: Annotated[str, Form()] = "") -> dict[str, Any]:
        data = await file.read()
        return {"name": file.filename, "size": len(data), "type": file.content_type, "note": note}

    @app.post("/uploads")
    async def take_files(files: Annotated[list[bytes], File()]) -> list[int]:
        return [len(data) for data in files]

    async with Client(expose(app, include="*"), mode=mode) as client:

        async def said(name: str, **arguments: Any) -> Any:
            return structured(await client.call_tool(name, arguments))

        assert await said("take_list", body=[{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]) == [1, 2]
        assert await said("take_scalar", body=41) == 42
        item = {"id": 1, "name": "a"}
        assert await said("take_two", first=item, second={**item, "id": 2}, note="!") == "12!"
        assert await said("take_form", user="ä&b", tag=["x", "y"]) == {"user": "ä&b", "tag": ["x", "y"]}
        sent = {"base64": "AAEC", "filename": "a.bin", "content_type": "image/x"}
        assert await said("take_file", file=sent, note="n") == {
            "name": "a.bin",
            "size": 3,
            "type": "image/x",
            "note": "n",
        }
        assert await said("take_files", files=[{"text": "abc"}, {"text": "ü"}]) == [3, 2]


async def test_names_are_those_of_functions_where_the_author_gave_no_ids() -> None:
    """An id of the author's own, and those of a function of theirs, are the names."""
    app = FastAPI()

    @app.get("/a", operation_id="chosenByAuthor")
    async def a() -> str:
        return "a"

    @app.get("/b")
    async def read_b() -> str:
        return "b"

    assert set(await tools_of(app)) == {"chosenByAuthor", "read_b"}
    custom = FastAPI(generate_unique_id_function=lambda route: f"my-{route.name}")
    custom.get("/b")(read_b)
    assert set(await tools_of(custom)) == {"my-read_b"}


@pytest.mark.filterwarnings("ignore:Duplicate Operation ID")
async def test_names_that_are_the_same_or_too_long() -> None:
    """Two routes with one id are named after their paths; a long name is cut, and stays unique."""
    app = FastAPI()
    long = "n" * 120

    @app.get("/one", operation_id="same")
    async def one() -> str:
        return "one"

    @app.get("/two", operation_id="same")
    async def two() -> str:
        return "two"

    @app.get("/long", operation_id=long)
    async def many() -> str:
        return "long"

    @app.get("/longer", operation_id=f"{long}x")
    async def more() -> str:
        return "longer"

    names = set(await tools_of(app))
    assert {"get_one", "get_two"} < names
    assert len(names) == 4
    assert max(map(len, names)) == 64
    assert (await called(app, "get_two")).text == "two"


async def test_a_route_that_is_not_in_the_schema_takes_no_name() -> None:
    """The name of a tool depends on what a client may see only."""
    app = FastAPI()

    @app.get("/b")
    async def read() -> str:
        return "b"

    app.get("/internal", include_in_schema=False)(read)
    assert set(await tools_of(app)) == {"read"}


async def test_routers_with_prefixes_and_what_is_added_to_them_later() -> None:
    """Newer versions keep an included router as it is, older ones copy its routes."""
    app, inner, outer = FastAPI(), APIRouter(prefix="/inner", tags=["in"]), APIRouter()

    @inner.get("/{n}")
    async def read(n: int) -> int:
        return n

    outer.include_router(inner, prefix="/outer")
    app.include_router(outer, prefix="/v1")
    async with Client(expose(app, include="tag:in")) as client:
        assert [tool.name for tool in await client.list_tools()] == ["read"]
        assert structured(await client.call_tool("read", {"n": 4})) == 4


async def test_applications_that_are_mounted() -> None:
    """The description of each is merged under its path; one below a plain mount too; the endpoint is none."""
    from starlette.routing import Mount

    app, sub, deep = FastAPI(title="outer"), FastAPI(), FastAPI()

    @app.get("/info")
    async def info() -> str:
        return "outer"

    @sub.get("/info")
    async def info_of_sub() -> str:
        return "sub"

    @deep.get("/info")
    async def deeper(request: Request) -> str:
        return str(request.url_for("deeper"))

    app.mount("/sub", sub)
    app.router.routes.append(Mount("/a", routes=[Mount("/b", app=deep)]))
    server = expose(app, include="*")
    app.mount("/mcp", server.asgi())
    async with Client(server) as client:
        assert {tool.name for tool in await client.list_tools()} == {"info", "info_of_sub", "deeper"}
        assert (await client.call_tool("info_of_sub", {})).text == "sub"
        assert (await client.call_tool("deeper", {})).text == "http://localhost/a/b/info"


async def test_the_authors_own_openapi_function_is_used_and_nothing_of_the_application_is_changed() -> None:
    """A description that the author keeps, and the one that the application shows, stay as they are."""
    app = FastAPI()

    @app.get("/a")
    async def a() -> str:
        return "a"

    made = app.openapi

    def own() -> dict[str, Any]:
        document = made()
        document["paths"]["/a"]["get"]["summary"] = "Mine"
        return document

    app.openapi = own  # type: ignore[method-assign]
    tools = await tools_of(app)
    assert tools["a"].title == "Mine"
    kept = {"openapi": "3.1.0", "info": {"title": "kept", "version": "1"}, "paths": {}}
    app.openapi_schema = kept
    assert set(await tools_of(app)) == {"a"}
    assert app.openapi_schema is kept


@pytest.mark.parametrize("is_read_early", [False, True])
async def test_the_applications_own_document_has_the_routes_that_it_had_without_tools(is_read_early: bool) -> None:
    """FastAPI keeps a document: older ones for ever, newer ones until a route is added. Tools change nothing in it."""

    async def paths(*, is_exposed: bool) -> set[str]:
        app = FastAPI()
        app.get("/early")(lambda: "")
        if is_read_early:
            app.openapi()
        if is_exposed:
            await tools_of(app)
        app.get("/late")(lambda: "")
        if is_exposed:
            await tools_of(app)
        return set(app.openapi()["paths"])

    assert await paths(is_exposed=True) == await paths(is_exposed=False)


@pytest.mark.filterwarnings("ignore:The `root_path` parameter")
async def test_servers_prefixes_and_websockets() -> None:
    """``servers`` decides nothing, ``root_path`` is in links once, and a websocket is not an operation."""
    app = FastAPI(servers=[{"url": "https://elsewhere.example/api"}], root_path="/proxied")

    @app.websocket("/ws")
    async def ws(socket: WebSocket) -> None:
        await socket.accept()

    @app.get("/link/{part}")
    async def link(part: str, request: Request) -> dict[str, str]:
        return {"part": part, "url": str(request.url_for("link", part="x")), "own": str(request.url)}

    assert set(await tools_of(app)) == {"link"}
    found = structured(await called(app, "link", {"part": "a b"}))
    assert found["part"] == "a b"
    assert found["url"] == "http://localhost/proxied/link/x"
    assert found["own"].startswith("http://localhost/proxied/link/a")


# -- routes that change ----------------------------------------------------------------------------------------------


@both_eras
async def test_a_route_that_is_added_later_is_listed_and_called(mode: str) -> None:
    """On the next list, or on the first call of its name; a name that was known keeps its place and its state."""
    app = FastAPI()

    @app.get("/a")
    async def a() -> str:
        return "a"

    @app.get("/b")
    async def b() -> str:
        return "b"

    server = expose(app, include="*")
    async with Client(server, mode=mode) as client:
        assert [tool.name for tool in await client.list_tools()] == ["a", "b"]
        server.disable(tool="b")
        app.get("/c")(lambda: "c")
        app.get("/d", name="d")(lambda: "d")
        assert (await client.call_tool("d", {})).text == "d"
        assert "b" not in [tool.name for tool in await client.list_tools()]


@both_eras
async def test_the_lists_of_parents_are_fresh_too(mode: str) -> None:
    """Two levels of mounting; a name that is not known yet is looked for below."""
    app, middle, top = FastAPI(), MCPServer("middle"), MCPServer("top")

    @app.get("/a")
    async def a() -> str:
        return "a"

    middle.mount(expose(app, include="*", resources=lambda operation: operation.path == "/r"), prefix="api")
    top.mount(middle, prefix="m")
    async with Client(top, mode=mode) as client:
        assert [tool.name for tool in await client.list_tools()] == ["m_api_a"]
        app.get("/b", name="b")(lambda: "b")
        assert (await client.call_tool("m_api_b", {})).text == "b"
        app.get("/c", name="c")(lambda: "c")
        app.get("/r", name="r")(lambda: "r")
        assert [tool.name for tool in await client.list_tools()] == ["m_api_a", "m_api_b", "m_api_c"]
        assert [resource.name for resource in await client.list_resources()] == ["r"]
    assert "m_api_c" in [tool.name for tool in top.list_tools()]


@both_eras
async def test_clients_that_listen_hear_of_a_change_that_another_one_found(mode: str) -> None:
    """The change is detected at a list of one client, and all subscribers are notified."""
    app = FastAPI()

    @app.get("/a")
    async def a() -> str:
        return "a"

    server = expose(app, include="*")
    heard = anyio.Event()

    async with Client(server, mode=mode) as listener, Client(server) as other:
        async with listener.listen(tools=True) as changes:

            async def hear() -> None:
                async for _ in changes:
                    heard.set()
                    return

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hear)
                app.get("/b", name="b")(lambda: "b")
                await other.list_tools()
                with anyio.fail_after(30):
                    await heard.wait()


async def test_a_pattern_that_matches_nothing_stops_the_start() -> None:
    """A misspelt tag would expose nothing, without any error."""
    app = FastAPI()
    app.get("/users", tags=["users"])(list)
    with pytest.raises(NothingMatches, match="did you mean 'users'"):
        async with Client(expose(app, include="tag:usres")):
            pass


async def test_a_value_leads_to_its_own_route_as_the_router_has_them() -> None:
    """By their order, converters, methods and included routers; what is hidden is a route, and a websocket is none."""
    app, router = FastAPI(), APIRouter(prefix="/users")

    @router.get("/first/{name}")
    def first(name: str) -> str:
        return f"first {name}"

    @router.get("/first/never")
    def never() -> str:
        return "never reached"

    @router.get("/count/{number:int}", include_in_schema=False)
    def count(number: int) -> str:
        return "hidden"

    @router.get("/count/{name}")
    def named(name: str) -> str:
        return name

    @router.post("/count/all")
    def all_of_them() -> str:
        return "all"

    @router.websocket("/count/live")
    async def live(socket: WebSocket) -> None:
        raise AssertionError

    app.include_router(router)
    app.mount("/users/count/files", FastAPI())
    for name in ("never", "x", "NEVER"):
        assert structured(await called(app, "first", {"name": name})) == f"first {name}"
    for name in ("all", "live", "five", "5x"):
        assert structured(await called(app, "named", {"name": name})) == name
    for name in ("5", "files/x", ".."):
        refused = await called(app, "named", {"name": name})
        assert refused.is_error
        assert "path" in refused.text
