"""Calls of exposed FastAPI applications run the application's own stack, and what is published of their answers."""

import json
import threading
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import anyio
import pytest

from ferrule import Client
from ferrule.expose import expose
from ferrule.integrations.fastapi import mount
from tests.integrations.fastapi.support import IS_NEW, Item, both_eras, called, structured, tools_of
from tests.integrations.serving import over_http

pytest.importorskip("fastapi")

from fastapi import (
    BackgroundTasks,
    Depends,
    FastAPI,
    Header,
    HTTPException,
    Request,
    Response,
    Security,
)
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from fastapi.security import APIKeyHeader, HTTPBearer, OAuth2PasswordBearer
from pydantic import BaseModel

pytestmark = pytest.mark.anyio


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
    """Credentials are not arguments, and a refusal is a tool error with the status and the text."""
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


@pytest.mark.skipif(not IS_NEW, reason="Starlette 0.27 waits forever in such a middleware")
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
    """A stream of lines, a text file, a picture, and an endless stream that is cut: a link where one can be opened."""
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

    server = expose(app, include="*", max_response_bytes=200_000)
    async with Client(server) as client:
        assert (await client.call_tool("lines", {})).text == "one\ntwo\n"
        assert "def test_streams_and_files" in (await client.call_tool("file", {})).text
        shown = (await client.call_tool("picture", {})).content[0]
        assert (shown.type, shown.mime_type) == ("image", "image/png")
        assert "larger than 200,000 bytes" in (await client.call_tool("endless", {})).text
    assert produced == 201  # 200,000 bytes, and what is above
    mount(app, server)
    async with over_http(app) as client:
        link = (await client.call_tool("endless", {})).content[0]
    assert link.type == "resource_link"
    assert link.uri.startswith("http://127.0.0.1:")
    assert link.uri.endswith("/endless")


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


async def test_an_answer_that_violates_its_response_model_is_in_the_error() -> None:
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
