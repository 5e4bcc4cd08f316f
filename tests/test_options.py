"""ferrule._options, and the first mistakes with public names: each error names what was meant."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import ferrule
from ferrule import Client, Context, MCPError, MCPServer, Server
from ferrule._options import explains_arguments, suggestion
from ferrule.transports.asgi.context import HttpContext

# Type checkers would refuse every call of the table.
untyped: Any = ferrule


def server() -> Any:
    return MCPServer("x")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: untyped.MCPServer("x", lifespn=1), "MCPServer has no option 'lifespn'; did you mean 'lifespan'?"),
        (lambda: server().run("http", prot=1), "run(\"http\") has no option 'prot'; did you mean 'port'?"),
        (lambda: server().run("stdio", drain=1), "run(\"stdio\") has no option 'drain'; did you mean 'drain_s'?"),
        (lambda: server().asgi(pth="/x"), "asgi() has no option 'pth'; did you mean 'path'?"),
        (lambda: untyped.run(server().lowlevel, "http", prot=1), "did you mean 'port'?"),
        (lambda: untyped.run(server().lowlevel, "stdio", drain=1), "did you mean 'drain_s'?"),
        (lambda: untyped.asgi(server().lowlevel, pth=1), "did you mean 'path'?"),
        (lambda: untyped.Client(server(), elicit_handler=1), "Client has no option 'elicit_handler'; did you mean"),
        (lambda: untyped.SyncClient(server(), elicit_handler=1), "did you mean 'elicitation_handler'?"),
        (lambda: untyped.ClientGroup({}, elicit_handler=1), "did you mean 'elicitation_handler'?"),
        (lambda: untyped.proxy(server(), elicit_handler=1), "did you mean 'elicitation_handler'?"),
        (
            lambda: untyped.Image(b"x", "image/png"),
            "Image takes data by position; name the rest: path=, format=, mime_type=",
        ),
        (
            lambda: untyped.Audio(b"x", "audio/wav"),
            "Audio takes data by position; name the rest: path=, format=, mime_type=",
        ),
        (
            lambda: untyped.File(b"x", "text/plain"),
            "File takes data by position; name the rest: path=, name=, uri=",
        ),
    ],
)
def test_a_wrong_argument_is_explained_in_the_words_of_the_public_name(call: Callable[[], Any], expected: str) -> None:
    """Python's own message names an inner __init__."""
    with pytest.raises(TypeError) as refused:
        call()
    assert expected in str(refused.value)
    assert "__init__" not in str(refused.value)


@pytest.mark.parametrize("target", ["nofile.py", "./no/file.js", "nofile.json"])
def test_a_file_that_is_not_there_is_no_program(target: str) -> None:
    """“No such program in PATH” sends who mistyped a path the wrong way."""
    with pytest.raises(FileNotFoundError, match="There is no file"):
        Client(target)


def test_a_type_error_from_inside_passes_as_it_is() -> None:
    """Only a call that does not fit the signature is explained."""

    @explains_arguments("thing")
    def thing(*, size: int) -> None:
        raise TypeError("from inside")

    with pytest.raises(TypeError, match=r"^from inside$"):
        thing(size=1)
    with pytest.raises(TypeError, match="thing has no option 'sise'; did you mean 'size'"):
        thing(sise=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="missing"):
        thing()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_a_suggestion_costs_a_bounded_amount() -> None:
    """A peer chooses the name, and a server how many there are."""
    looked: list[str] = []

    def names() -> Iterator[str]:
        for number in range(10_000):
            looked.append(f"tool_{number}")
            yield looked[-1]

    assert suggestion("tool_1x", names()) is not None
    assert len(looked) == 200
    looked.clear()
    assert suggestion("x" * 81, names()) is None
    assert not looked


async def generator(_: Any) -> AsyncIterator[int]:
    yield 1


def plain_generator(_: Any) -> Iterator[int]:
    yield 1


async def coroutine(_: Any) -> int:
    return 1


@pytest.mark.parametrize("lifespan", [generator, plain_generator, coroutine])
@pytest.mark.parametrize("kind", [MCPServer, Server])
def test_a_lifespan_without_its_decorator_is_refused_with_its_name(kind: Any, lifespan: Any) -> None:
    """Else the first start fails with words about a protocol."""
    with pytest.raises(TypeError, match=r"needs .*@contextlib\.asynccontextmanager"):
        kind("x", lifespan=lifespan)


@pytest.mark.parametrize("name", ["FastMCP", "McpError", "ClientSession"])
def test_names_of_other_libraries_are_translated(name: str) -> None:
    """The first line of a server that moves here."""
    with pytest.raises(ImportError, match="its name here is "):
        exec(f"from ferrule import {name}")
    assert not hasattr(ferrule, "NothingOfTheKind")


@pytest.mark.anyio
async def test_a_method_of_another_librarys_context_is_translated(caplog: pytest.LogCaptureFixture) -> None:
    """It reaches the author's log; the peer learns nothing."""
    app = MCPServer("x")

    @app.tool
    async def work(ctx: Context) -> int:
        await ctx.report_progress(1)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
        return 1

    with caplog.at_level(logging.ERROR):
        async with Client(app) as client:
            result = await client.call_tool("work")
    assert result.is_error
    assert "report_progress" not in result.text
    assert "Context has no 'report_progress'; here it is `progress(" in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_forgotten_await_is_named(mode: str) -> None:
    """And Python does not warn in addition: warnings are errors in these tests."""
    app = MCPServer("x")

    @app.tool
    async def ask(ctx: Context) -> Any:
        return ctx.elicit("Where to?", str)

    async with Client(app, mode=mode) as client:
        result = await client.call_tool("ask")
    assert result.is_error
    assert "was `await` forgotten?" in result.text


@pytest.mark.anyio
async def test_an_unknown_name_gets_a_suggestion_of_what_the_caller_may_see() -> None:
    """For tools and prompts; a hidden one is treated like one that does not exist."""
    app = MCPServer("x")

    @app.tool
    def search_notes(text: str) -> str:
        return text

    @app.tool(allow=lambda _: False)
    def search_secrets(text: str) -> str:
        return text

    @app.prompt
    def review() -> str:
        return "Review it"

    async with Client(app) as client:
        with pytest.raises(MCPError, match="Unknown tool: search_note; did you mean 'search_notes'"):
            await client.call_tool("search_note")
        with pytest.raises(MCPError, match="Unknown prompt: reviews; did you mean 'review'"):
            await client.get_prompt("reviews")
        with pytest.raises(MCPError, match=r"Unknown tool: qqqq \["):
            await client.call_tool("qqqq")
    over_http: Any = SimpleNamespace(transport=HttpContext())
    for name in ("search_secret", "search_secrets"):
        assert "did you mean 'search_secrets'" not in str(app.tools.index.unknown(name, over_http))


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_list_that_a_server_does_not_have_is_named(mode: str) -> None:
    """“Method not found” alone would not name the missing prompts."""
    async with Client(MCPServer("x"), mode=mode) as client:
        with pytest.raises(MCPError, match="offers no prompts") as refused:
            await client.list_prompts()
        assert refused.value.code == -32601
        with pytest.raises(MCPError, match="offers no resources templates"):
            await client.list_resource_templates()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"page_size": "5"}, "page_size is a number or None, not str"),
        ({"page_size": True}, "page_size is a number or None, not bool"),
        ({"page_size": 0}, "page_size is at least 1"),
        ({"max_rounds": 0}, "max_rounds is at least 1"),
        ({"max_result_bytes": "1"}, "max_result_bytes is a number, not str"),
        ({"state_ttl_s": -1}, "state_ttl_s is at least 0"),
        ({"state_ttl_s": "600"}, "state_ttl_s is a number of seconds, not str"),
        ({"schema": "strict"}, "schema is 'model' or 'exact', not 'strict'"),
        ({"mask_errors": "no"}, "mask_errors is True or False, not str"),
        ({"logging": "yes"}, "logging is True, False or None, not str"),
        ({"version": 1}, "version is a text or None, not int"),
        ({"store": 5}, "store is a URL such as 'sqlite:///path', a Store or None, not int"),
        ({"state_keys": "a secret of thirty-two characters"}, "state_keys is a list of secrets, not one"),
    ],
)
def test_a_value_of_another_type_is_named(options: Any, words: str) -> None:
    """When the server is made, and not by the first call; a value that may be a secret is not shown."""
    with pytest.raises((TypeError, ValueError)) as refused:
        untyped.MCPServer("x", **options)
    assert str(refused.value) == words
    with pytest.raises(TypeError, match="name is a text, not int"):
        untyped.MCPServer(5)
