"""FastAPI applications as servers: what a model sees and what its calls do, through the application's own stack."""

import json
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import anyio
import pytest

from ferrule import Client, MCPServer
from ferrule.expose import NothingMatches, expose
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS
from tests.integrations.serving import over_http, under_uvicorn

pytest.importorskip("fastapi")

from fastapi import (
    APIRouter,
    BackgroundTasks,
    Body,
    Depends,
    FastAPI,
    File,
    Form,
    Header,
    HTTPException,
    Request,
    Response,
    Security,
    UploadFile,
    WebSocket,
)
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from fastapi.security import APIKeyHeader, HTTPBearer, OAuth2PasswordBearer
from pydantic import BaseModel

pytestmark = pytest.mark.anyio

MODES = ["auto", HANDSHAKE_PROTOCOL_VERSIONS[-1]]
both_eras = pytest.mark.parametrize("mode", MODES)


class Node(BaseModel):
    """A tree, which refers to itself."""

    name: str
    children: list["Node"] = []


class Item(BaseModel):
    id: int
    name: str
    price: float = 1.0


async def called(
    app: Any, name: str, arguments: dict[str, Any] | None = None, mode: str = "auto", **options: Any
) -> Any:
    """The result of one call of an exposed application."""
    async with Client(expose(app, include="*", **options), mode=mode) as client:
        return await client.call_tool(name, arguments or {})


async def tools_of(app: Any, mode: str = "auto", **options: Any) -> dict[str, Any]:
    """The tools of an exposed application, by name."""
    async with Client(expose(app, include=options.pop("include", "*"), **options), mode=mode) as client:
        return {tool.name: tool for tool in await client.list_tools()}


def structured(result: Any) -> Any:
    """The data of a result in either era: structured, below ``result`` for revisions with objects only, or as text."""
    assert not result.is_error, result.text
    found = result.structured_content
    if found is None:
        try:
            return json.loads(result.text)
        except ValueError:
            return result.text
    return found["result"] if isinstance(found, dict) and set(found) == {"result"} else found


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


@pytest.mark.filterwarnings("ignore:The `root_path` parameter")
async def test_servers_prefixes_and_websockets() -> None:
    """``servers`` decides nothing, ``root_path`` is in links once, and a websocket is no operation."""
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
    """The change is noticed when somebody lists, and told to all."""
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
    """A misspelt tag exposes nothing, and nobody would notice."""
    app = FastAPI()
    app.get("/users", tags=["users"])(list)
    with pytest.raises(NothingMatches, match="did you mean 'users'"):
        async with Client(expose(app, include="tag:usres")):
            pass


# -- the application's own stack -------------------------------------------------------------------------------------


def guarded() -> FastAPI:
    """Three kinds of security, and a dependency that denies."""
    app = FastAPI()
    bearer, key, oauth = HTTPBearer(), APIKeyHeader(name="X-Key"), OAuth2PasswordBearer(tokenUrl="token")

    @app.get("/bearer")
    async def by_bearer(credentials: Annotated[Any, Security(bearer)]) -> str:
        return str(credentials.credentials)

    @app.get("/key")
    async def by_key(given: Annotated[str, Security(key)]) -> str:
        return given

    @app.get("/oauth")
    async def by_oauth(token: Annotated[str, Depends(oauth)]) -> str:
        return token

    def staff(role: Annotated[str, Header()] = "guest") -> None:
        if role != "staff":
            raise HTTPException(403, "Staff only")

    @app.get("/staff", dependencies=[Depends(staff)])
    async def by_role() -> str:
        return "in"

    return app


@both_eras
async def test_security_denies_and_the_model_sees_why(mode: str) -> None:
    """Credentials are no arguments, and a refusal is a tool error with the status and the text."""
    server = expose(guarded(), include="*")
    async with Client(server, mode=mode) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert all(tools[name].input_schema["properties"] == {} for name in ("by_bearer", "by_key", "by_oauth"))
        for name in ("by_bearer", "by_key", "by_oauth"):
            result = await client.call_tool(name, {})
            assert result.is_error
            assert "Not authenticated" in result.text
            assert "401" in result.text or "403" in result.text  # newer versions of FastAPI answer 401
        denied = await client.call_tool("by_role", {})
        assert denied.is_error
        assert denied.text == "The API answered 403 Forbidden\nStaff only"
        assert (await client.call_tool("by_role", {"role": "staff"})).text == "in"


@both_eras
async def test_the_callers_credentials_are_passed_on_only_where_it_is_said(mode: str) -> None:
    """Over HTTP, header by header; what is not named stays behind."""

    async def seen(forward: tuple[str, ...]) -> list[str]:
        server = expose(guarded(), include="*", forward_headers=forward)
        async with over_http(server.asgi(), mode, {"authorization": "Bearer t0", "x-key": "k0"}) as client:
            return [(await client.call_tool(name, {})).text for name in ("by_bearer", "by_key", "by_oauth")]

    assert await seen(("authorization", "x-key")) == ["t0", "k0", "t0"]
    assert [("Not authenticated" in text) for text in await seen(("x-key",))] == [True, False, True]
    assert not any("0" in text.replace("40", "") for text in await seen(()))


async def test_dependencies_with_yield_are_closed() -> None:
    """After an answer, after a refusal, after an exception, and after a call that was cancelled."""
    app = FastAPI()
    events: list[str] = []
    reached = anyio.Event()

    async def session() -> AsyncGenerator[str]:
        events.append("open")
        try:
            yield "session"
        finally:
            events.append("closed")

    @app.get("/{how}")
    async def use(how: str, given: Annotated[str, Depends(session)]) -> str:
        if how == "refuse":
            raise HTTPException(409, "no")
        if how == "fail":
            raise RuntimeError("secret detail")
        if how == "wait":
            reached.set()
            await anyio.sleep_forever()
        return given

    async with Client(expose(app, include="*")) as client:
        assert (await client.call_tool("use", {"how": "ok"})).text == "session"
        assert (await client.call_tool("use", {"how": "refuse"})).is_error
        failed = await client.call_tool("use", {"how": "fail"})
        assert failed.is_error
        assert "secret" not in failed.text
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "use", {"how": "wait"})
            await reached.wait()
            tasks.cancel_scope.cancel()
    assert events == ["open", "closed"] * 4


async def test_what_a_response_model_hides_stays_hidden() -> None:
    """In the answer, and in the schema that is published."""
    app = FastAPI()

    class Stored(BaseModel):
        name: str
        password: str

    class Shown(BaseModel):
        name: str

    @app.get("/user", response_model=Shown)
    async def user() -> Any:
        return Stored(name="ada", password="hunter2")

    tools = await tools_of(app)
    assert set(tools["user"].output_schema["properties"]) == {"name"}
    result = await called(app, "user")
    assert structured(result) == {"name": "ada"}
    assert "hunter2" not in result.text


async def test_middleware_reads_the_body_and_handlers_make_the_errors() -> None:
    """The whole stack runs: a middleware that reads bodies, an exception handler, one for validation errors."""
    from fastapi.exceptions import RequestValidationError

    app = FastAPI()
    bodies: list[bytes] = []

    class Trouble(Exception):
        pass

    @app.middleware("http")
    async def reading(request: Request, call_next: Any) -> Response:
        bodies.append(await request.body())
        answer: Response = await call_next(request)
        answer.headers["x-seen"] = "yes"
        return answer

    @app.exception_handler(Trouble)
    async def teapot(request: Request, error: Trouble) -> JSONResponse:
        return JSONResponse({"problem": {"message": "short and stout"}}, status_code=418)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"fields": {"name": ["too short"]}}, status_code=422)

    @app.post("/items")
    async def make(item: Item) -> str:
        if item.name == "":
            raise RequestValidationError([])
        if item.price < 0:
            raise Trouble
        return item.name

    async with Client(expose(app, include="*")) as client:
        assert (await client.call_tool("make", {"id": 1, "name": "x"})).text == "x"
        assert json.loads(bodies[0]) == {"id": 1, "name": "x"}
        assert "short and stout" in (await client.call_tool("make", {"id": 1, "name": "x", "price": -1})).text
        assert "name: too short" in (await client.call_tool("make", {"id": 1, "name": ""})).text


async def test_validation_problems_name_each_field() -> None:
    """What the schema cannot say, FastAPI's validators do."""
    from pydantic import field_validator

    class Order(BaseModel):
        code: str
        note: str = ""

        @field_validator("code", "note")
        @classmethod
        def check(cls, value: str) -> str:
            if value == "bad":
                raise ValueError("is bad")
            return value

    app = FastAPI()

    @app.post("/orders")
    async def order(order: Order) -> str:
        return order.code

    result = await called(app, "order", {"code": "bad", "note": "bad"})
    assert result.is_error
    assert "body.code: Value error, is bad" in result.text
    assert "body.note: Value error, is bad" in result.text


async def test_an_answer_does_not_wait_for_background_tasks() -> None:
    """They go on after it, and the end of the server waits for them."""
    app = FastAPI()
    answered, done = anyio.Event(), anyio.Event()

    async def later() -> None:
        await answered.wait()
        done.set()

    @app.post("/mail")
    async def mail(tasks: BackgroundTasks) -> str:
        tasks.add_task(later)
        return "queued"

    async with Client(expose(app, include="*")) as client:
        with anyio.fail_after(30):
            assert (await client.call_tool("mail", {})).text == "queued"
        assert not done.is_set()
        answered.set()
    assert done.is_set()


async def test_streams_and_files() -> None:
    """A stream of lines, a text file, a picture, a large file as a link, and an endless stream that is cut."""
    app = FastAPI()
    produced = 0

    @app.get("/lines")
    async def lines() -> StreamingResponse:
        async def parts() -> AsyncGenerator[str]:
            yield "one\n"
            yield "two\n"

        return StreamingResponse(parts(), media_type="text/plain")

    @app.get("/file")
    async def file() -> FileResponse:
        return FileResponse(__file__, media_type="text/x-python")

    @app.get("/picture")
    async def picture() -> Response:
        return Response(b"\x89PNG", media_type="image/png")

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def parts() -> AsyncGenerator[bytes]:
            nonlocal produced
            while True:
                produced += 1
                yield b"x" * 1000
                await anyio.sleep(0)

        return StreamingResponse(parts(), media_type="application/octet-stream")

    async with Client(expose(app, include="*", max_response_bytes=200_000)) as client:
        assert (await client.call_tool("lines", {})).text == "one\ntwo\n"
        assert "def test_streams_and_files" in (await client.call_tool("file", {})).text
        shown = (await client.call_tool("picture", {})).content[0]
        assert (shown.type, shown.mime_type) == ("image", "image/png")
        link = (await client.call_tool("endless", {})).content[0]
        assert (link.type, link.uri) == ("resource_link", "http://localhost/endless")
    assert produced == 201  # 200,000 bytes, and what is above


async def test_calls_do_not_block_each_other() -> None:
    """Asynchronous endpoints run in one loop, synchronous ones in threads of the application."""
    app = FastAPI()
    together = threading.Barrier(3, timeout=30)
    arrived: list[int] = []
    all_here = anyio.Event()

    @app.get("/sync")
    def sync() -> int:
        return together.wait() * 0 + threading.get_ident() * 0 + 1

    @app.get("/async")
    async def asynchronous() -> int:
        arrived.append(1)
        if len(arrived) == 3:
            all_here.set()
        await all_here.wait()
        return 2

    found: list[Any] = []
    async with Client(expose(app, include="*")) as client:

        async def call(name: str) -> None:
            found.append(structured(await client.call_tool(name, {})))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(call, "sync")
                    tasks.start_soon(call, "asynchronous")
    assert sorted(found) == [1, 1, 1, 2, 2, 2]


# -- what is published -----------------------------------------------------------------------------------------------


@both_eras
async def test_output_schemas_are_those_that_response_models_prove(mode: str) -> None:
    """Reads with a response model have one; writes, members that are left out and further answers have none."""
    app = FastAPI()

    @app.get("/list")
    async def listed() -> list[Item]:
        return [Item(id=1, name="a")]

    @app.get("/sparse", response_model=Item, response_model_exclude_unset=True)
    async def sparse() -> Any:
        return {"id": 1, "name": "a"}

    @app.get("/more", responses={206: {"description": "Part", "content": {"application/json": {}}}})
    async def more() -> Item:
        return Item(id=1, name="a")

    @app.get("/unknown")
    async def unknown() -> Any:
        return {"x": 1}

    @app.post("/write")
    async def write() -> Item:
        return Item(id=1, name="a")

    async with Client(expose(app, include="*"), mode=mode) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert [name for name, tool in tools.items() if tool.output_schema is not None] == ["listed"]
        result = await client.call_tool("listed", {})
        expected = [{"id": 1, "name": "a", "price": 1.0}]
        assert result.structured_content == (expected if mode == "auto" else {"result": expected})
        assert tools["listed"].output_schema["type"] == ("array" if mode == "auto" else "object")
        assert structured(await client.call_tool("sparse", {})) == {"id": 1, "name": "a"}


async def test_an_answer_that_evades_its_response_model_is_told_in_the_error() -> None:
    """An endpoint may return a response of its own. A client would refuse the result, so the error holds the answer."""
    app = FastAPI()

    @app.get("/item")
    async def item(fits: bool) -> Item:
        return JSONResponse({"id": 1, "name": "a", "price": 2} if fits else {"code": 7})  # type: ignore[return-value]

    async with Client(expose(app, include="*")) as client:
        assert structured(await client.call_tool("item", {"fits": True}))["id"] == 1
        result = await client.call_tool("item", {"fits": False})
        assert result.is_error
        assert '{"code":7}' in result.text
    async with Client(expose(app, include="*", validate_output="off")) as client:
        assert structured(await client.call_tool("item", {"fits": False})) == {"code": 7}


async def test_answers_with_fields_left_out_have_no_schema() -> None:
    """A projection is not what the schema says."""
    app = FastAPI()

    @app.get("/item")
    async def item() -> Item:
        return Item(id=1, name="a")

    assert (await tools_of(app, fields={"item": ["id"]}))["item"].output_schema is None
    assert (await tools_of(app, mask=["na*"]))["item"].output_schema is None
    assert structured(await called(app, "item", mask=("na*",))) == {"id": 1, "name": "***", "price": 1.0}


# -- lifespans and mounting ------------------------------------------------------------------------------------------


def living(events: list[str]) -> FastAPI:
    """An application whose state comes from its lifespan."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[dict[str, Any]]:
        events.append("start")
        async with anyio.create_task_group():  # must be left by the task that entered it
            yield {"pool": f"pool {events.count('start')}"}
        events.append("end")

    app = FastAPI(title="living", version="1.2", lifespan=lifespan)

    @app.get("/pool")
    async def pool(request: Request) -> str:
        return str(request.state.pool)

    return app


@both_eras
async def test_the_lifespan_runs_with_the_exposed_server_alone(mode: str) -> None:
    """Once for all its clients, and again after all have gone."""
    events: list[str] = []
    server = expose(living(events), include="*")
    async with Client(server, mode=mode) as one, Client(server, mode=mode) as two:
        assert (await one.call_tool("pool", {})).text == "pool 1"
        assert (await two.call_tool("pool", {})).text == "pool 1"
        assert events == ["start"]
    assert events == ["start", "end"]
    assert (await server.call_tool("pool")).content[0].text == "pool 2"
    assert events == ["start", "end"] * 2


async def test_two_servers_of_one_application_start_it_once() -> None:
    """The last one ends it, whichever started it."""
    events: list[str] = []
    app = living(events)
    first, second = Client(expose(app, include="*")), Client(expose(app, include="GET"))
    await first.__aenter__()
    await second.__aenter__()
    await first.__aexit__(None, None, None)
    assert (await second.call_tool("pool", {})).text == "pool 1"
    await second.__aexit__(None, None, None)
    assert events == ["start", "end"]


@both_eras
async def test_mounted_in_the_application_itself(mode: str) -> None:
    """The host starts the application once, and its state reaches the handlers; the endpoint ends with it."""
    from ferrule.integrations.fastapi import mount

    events: list[str] = []
    app = living(events)
    server = expose(app, include="*")
    mount(app, server)
    async with over_http(app, mode) as client:
        assert [tool.name for tool in await client.list_tools()] == ["pool"]
        assert (await client.call_tool("pool", {})).text == "pool 1"
        assert events == ["start"]
    assert events == ["start", "end"]
    assert server.name == "living"


async def test_mounted_by_routes_and_by_starlettes_own_mount() -> None:
    """The other two ways; the endpoint starts with its first request, after the application."""
    from ferrule.integrations.starlette import mcp_routes

    events: list[str] = []
    app = living(events)
    server = expose(app, include="*")
    app.router.routes.extend(mcp_routes(server.asgi(path="/tools/mcp", health_path=None, ready_path=None)))
    app.mount("/sub", server.asgi(path="/mcp"))
    async with over_http(app, path="/tools/mcp") as client:
        assert (await client.call_tool("pool", {})).text == "pool 1"
    async with over_http(app, path="/sub/mcp") as client:
        assert (await client.call_tool("pool", {})).text == "pool 2"
    assert events == ["start", "end"] * 2


async def test_a_lifespan_that_uses_the_exposed_server_does_not_start_itself() -> None:
    """A start within the start would never end."""
    said: list[str] = []

    @asynccontextmanager
    async def lifespan(host: FastAPI) -> AsyncGenerator[None]:
        async with Client(expose(host, include="*")) as client:
            said.append((await client.call_tool("hello", {})).text)
        yield

    app = FastAPI(lifespan=lifespan)
    expose(app, include="*")
    app.get("/hello", name="hello")(lambda: "hello")
    with anyio.fail_after(60):
        async with under_uvicorn(app):
            pass
    assert said == ["hello"]


async def test_an_application_that_cannot_start_stops_the_server() -> None:
    """With its own words in the log, and nothing half started."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        raise RuntimeError("no database")
        yield

    app = FastAPI(lifespan=lifespan)
    app.get("/a", name="a")(lambda: "a")
    for _ in range(2):
        with pytest.raises(Exception, match="no database"):
            async with Client(expose(app, include="*")):
                pass


async def test_a_misspelt_pattern_stops_the_start_of_the_application_that_it_is_mounted_in() -> None:
    """Not the first request, hours later."""
    from ferrule.integrations.fastapi import mount

    app = FastAPI()
    app.get("/a", name="a")(lambda: "a")
    mount(app, expose(app, include="tag:none"))
    with pytest.raises(NothingMatches):
        async with app.router.lifespan_context(app):
            pass


async def test_the_endpoint_comes_before_routes_that_match_every_path() -> None:
    """A front end of one page is served so."""
    from ferrule.integrations.fastapi import mount

    app = FastAPI()
    app.get("/{path:path}", name="page")(lambda path: f"page {path}")
    mount(app, expose(app, include="*"), path="/tools/mcp")
    async with over_http(app, path="/tools/mcp") as client:
        assert structured(await client.call_tool("page", {"path": "x"})) == "page x"


async def test_an_evil_origin_is_refused() -> None:
    """A web page may not use the endpoint through its visitor's browser, whatever the application allows."""
    import aiohttp

    from ferrule.integrations.fastapi import mount
    from tests.transports.asgi.support import modern, modern_headers

    app = FastAPI()
    calls: list[str] = []
    app.post("/a", name="a")(lambda: calls.append("a"))
    mount(app, expose(app, include="*"))
    message = modern(1, "tools/call", {"name": "a", "arguments": {}})
    async with under_uvicorn(app) as origin, aiohttp.ClientSession() as session:
        for headers, status in (({"origin": "https://evil.example"}, 403), ({}, 200)):
            async with session.post(
                f"{origin}/mcp", json=message, headers={**modern_headers(message), **headers}
            ) as answer:
                assert answer.status == status
    assert calls == ["a"]


@both_eras
async def test_what_the_application_sees_of_the_outer_request(mode: str) -> None:
    """Its host, prefix and client address, and nothing that only a header claims."""
    from ferrule.integrations.fastapi import mount

    app = FastAPI()

    @app.get("/seen")
    async def seen(request: Request) -> dict[str, Any]:
        assert request.client is not None
        return {
            "url": str(request.url),
            "link": str(request.url_for("seen")),
            "client": request.client.host,
            "forged": request.headers.get("x-forwarded-proto"),
        }

    mount(app, expose(app, include="*"))
    headers = {"x-forwarded-proto": "https"}
    async with under_uvicorn(app, root_path="/proxied", proxy_headers=False) as origin:
        async with Client(f"{origin}/mcp", mode=mode, headers=headers) as client:
            found = structured(await client.call_tool("seen", {}))
    assert found == {
        "url": f"{origin}/proxied/seen",
        "link": f"{origin}/proxied/seen",
        "client": "127.0.0.1",
        "forged": None,
    }
    async with over_http(app, mode, headers) as client:  # uvicorn believes a proxy on its own machine
        assert structured(await client.call_tool("seen", {}))["link"].startswith("https://")


async def test_headers_go_to_the_same_origin_only() -> None:
    """A redirect to another host ends the call; one in the application is followed."""
    from fastapi.responses import RedirectResponse

    app = FastAPI()
    seen: list[str | None] = []

    @app.get("/here")
    async def here(request: Request) -> RedirectResponse:
        return RedirectResponse("/there")

    @app.get("/there")
    async def there(request: Request) -> str:
        seen.append(request.headers.get("authorization"))
        return "there"

    @app.get("/away")
    async def away() -> RedirectResponse:
        return RedirectResponse("http://other.example/there")

    server = expose(app, include="*", forward_headers=("authorization",), validate_output="off")
    async with over_http(server.asgi(), headers={"authorization": "Bearer t"}) as client:
        assert structured(await client.call_tool("here", {})) == "there"
        assert "other.example" in (await client.call_tool("away", {})).text
    assert seen == ["Bearer t"]
