"""Dependencies: filled in by the server, hidden from the client."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Generator
from typing import Annotated, Any

import pytest

from ferrule import Context, MCPServer
from ferrule.app.errors import SignatureError
from ferrule.app.execution.dependencies import Depends
from tests.app.rounds.driving import always, both, served
from tests.app.support import ask, call, text_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def app() -> MCPServer:
    return served()


async def test_a_dependency_is_hidden_and_filled_in(app):
    def settings() -> dict[str, int]:
        return {"limit": 3}

    @app.tool
    async def show(name: str, limits: Annotated[dict[str, int], Depends(settings)]) -> str:
        return f"{name} {limits['limit']}"

    (tool,) = app.list_tools()
    assert list(tool.input_schema["properties"]) == ["name"]
    assert text_of(await call(app, "show", {"name": "a"})) == "a 3"
    refused = await call(app, "show", {"name": "a", "limits": {"limit": 99}})
    assert refused["isError"] is True


async def test_a_function_may_return_the_coroutine_of_another(app):
    """As a tool may: what it returns is awaited."""

    async def connect() -> str:
        return "db"

    @app.tool
    async def show(db: str = Depends(lambda: connect())) -> str:
        return db

    assert text_of(await call(app, "show")) == "db"


async def test_every_kind_nested_and_once_per_call(app):
    """What two dependencies share is made once per call, and again for the next call."""
    made: list[str] = []

    async def connect() -> str:
        made.append("connect")
        return "db"

    def user(ctx: Context, db: str = Depends(connect)) -> str:
        made.append("user")
        return f"{db}/{ctx.method}"

    async def audit(db: Annotated[str, Depends(connect)], user: Annotated[str, Depends(user)]) -> str:
        return f"audit {db} {user}"

    @app.tool
    def report(audit: str = Depends(audit), db: str = Depends(connect)) -> str:
        return f"{audit} {db}"

    for _ in range(2):
        assert text_of(await call(app, "report")) == "audit db db/tools/call db"
    assert made == ["connect", "user"] * 2


async def test_clean_up_runs_in_reverse_order_and_sees_the_failure(app):
    seen: list[str] = []

    def outer() -> Generator[str]:
        seen.append("outer in")
        try:
            yield "o"
        except ValueError:
            seen.append("outer saw it")
            raise
        finally:
            seen.append("outer out")

    async def inner(outer: str = Depends(outer)) -> AsyncGenerator[str]:
        yield outer + "i"
        seen.append("inner out")

    @app.tool
    async def work(fail: bool, value: str = Depends(inner)) -> str:
        if fail:
            raise ValueError("no")
        return value

    assert text_of(await call(app, "work", {"fail": False})) == "oi"
    assert seen == ["outer in", "inner out", "outer out"]
    seen.clear()
    assert (await call(app, "work", {"fail": True}))["isError"] is True
    assert seen == ["outer in", "outer saw it", "outer out"]


async def test_a_dependency_may_ask_questions(app):
    """It is part of the body: its question is asked in both eras, its clean-up runs each round."""

    async def confirmed(ctx: Context) -> bool:
        return (await ctx.elicit("sure?", bool)).data is True

    @app.tool
    async def body(ctx: Context, sure: bool = Depends(confirmed)) -> str:
        return f"{sure} {(await ctx.elicit('n', bool)).data}"

    assert await both(app, always(True)) == "True True"


async def test_a_blocking_dependency_runs_in_a_thread(app):
    def read() -> str:
        return threading.current_thread().name

    @app.tool
    async def body(name: str = Depends(read, thread=True)) -> str:
        return name

    assert text_of(await call(app, "body")) == "ferrule worker"


async def test_prompts_and_resources_have_dependencies_too(app):
    def who() -> str:
        return "Ada"

    @app.prompt
    async def greeting(style: str, who: str = Depends(who)) -> str:
        return f"{style} {who}"

    @app.resource("data://x")
    def data(who: str = Depends(who)) -> str:
        return who

    got = await ask(app, "prompts/get", {"name": "greeting", "arguments": {"style": "Dear"}})
    assert got["messages"][0]["content"]["text"] == "Dear Ada"
    assert (await ask(app, "resources/read", {"uri": "data://x"}))["contents"][0]["text"] == "Ada"
    assert [argument.name for argument in app.list_prompts()[0].arguments or []] == ["style"]


async def test_what_cannot_be_called_is_refused_at_registration(app):
    """Never at the first call."""

    def needs(text: str) -> str:
        return text

    with pytest.raises(SignatureError, match="text"):

        @app.tool
        async def one(value: str = Depends(needs)) -> str:
            return value

    async def slow() -> str:
        return ""

    with pytest.raises(SignatureError, match="thread"):

        @app.tool
        async def two(value: str = Depends(slow, thread=True)) -> str:
            return value


async def test_a_circle_is_refused_at_registration(app):
    def first(value: Any = None) -> None: ...

    first.__defaults__ = (Depends(first),)
    with pytest.raises(SignatureError, match="itself"):

        @app.tool
        async def body(value: Annotated[Any, Depends(first)]) -> str:
            return ""


async def test_a_decorated_function_stays_callable(app):
    """A test of one's own passes what it likes."""

    @app.tool
    async def body(value: str = Depends(lambda: "served")) -> str:
        return value

    assert await body("mine") == "mine"
