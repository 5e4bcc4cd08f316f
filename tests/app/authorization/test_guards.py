"""ferrule.app.authorization.guards: what a guard hides does not exist, and a guard that fails says no."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from ferrule import MCPServer
from ferrule.app.errors import RegistrationError
from ferrule.auth import ResourceServer, StaticTokens
from ferrule.auth.challenges import parse_challenges
from ferrule.auth.server.refusals import InsufficientScope
from ferrule.protocol.errors import InternalError, InvalidParams, ResourceNotFound
from tests.app.scenarios.test_unauthorized_notifications import ADA, BOB, From, Somebody
from tests.app.support import ask, text_of
from tests.transports.asgi.support import modern, modern_call

pytestmark = pytest.mark.anyio

RESOURCE = "http://127.0.0.1:8000/mcp"


# -- what is hidden ---------------------------------------------------------------------------------------------------


def overlapping() -> MCPServer[Any]:
    """Components that match one URI: a fixed one and two templates; the first two are Ada's alone."""
    app: MCPServer[Any] = MCPServer("x")
    for_ada: dict[str, Any] = {"allow": lambda principal: principal == ADA}

    @app.resource("data://a/b", **for_ada)
    async def fixed() -> str:
        return "fixed"

    @app.resource("data://{first}/b", **for_ada)
    async def hidden(first: str) -> str:
        return f"hidden {first}"

    @app.resource("data://a/{second}")
    async def visible(second: str) -> str:
        return f"visible {second}"

    return app


async def read(app: MCPServer[Any], uri: str, principal: Any) -> str:
    return str((await ask(app, "resources/read", {"uri": uri}, dispatch=From(principal)))["contents"][0]["text"])


async def test_a_hidden_component_does_not_shadow_a_visible_one() -> None:
    """It does not exist: what else matches the URI is read, completed and heard of."""
    app = overlapping()
    assert await read(app, "data://a/b", ADA) == "fixed"
    assert await read(app, "data://a/b", BOB) == "visible b"
    assert await read(app, "data://c/b", ADA) == "hidden c"
    with pytest.raises(ResourceNotFound):
        await read(app, "data://c/b", BOB)
    may_see = app.lowlevel.resource_visibility
    assert may_see is not None
    assert may_see(BOB)("data://a/b")
    assert not may_see(BOB)("data://c/b")
    assert may_see(ADA)("data://c/b")
    assert may_see(BOB)("data://nobody/serves/this")


async def test_a_hidden_template_hides_no_suggestions_of_another() -> None:
    """The reference names a URI; the one that is there for this caller answers."""
    app = overlapping()

    @app.complete("data://a/{second}", "second")
    async def second(value: str) -> list[str]:
        return ["suggestion"]

    params = {"ref": {"type": "ref/resource", "uri": "data://a/b"}, "argument": {"name": "second", "value": ""}}
    found = await ask(app, "completion/complete", params, dispatch=From(BOB))
    assert found["completion"]["values"] == ["suggestion"]


# -- guards that fail -------------------------------------------------------------------------------------------------


def broken(principal: Any) -> bool:
    raise LookupError("a secret of the inside")


async def test_an_allow_that_fails_hides_its_component_alone(caplog: pytest.LogCaptureFixture) -> None:
    """The list of the others goes on, and the log says what is wrong."""
    app: MCPServer[Any] = MCPServer("x")
    app.add_tool(lambda: "open", name="open")
    app.add_tool(lambda: "closed", name="closed", allow=broken)
    app.add_resource("data://closed", lambda: "closed", allow=broken)
    app.add_prompt(lambda: "closed", name="closed", allow=broken)
    with caplog.at_level(logging.ERROR):
        tools = await ask(app, "tools/list", {}, dispatch=From(ADA))
    assert [tool["name"] for tool in tools["tools"]] == ["open"]
    assert "a secret of the inside" in caplog.text
    assert (await ask(app, "resources/list", {}, dispatch=From(ADA)))["resources"] == []
    assert (await ask(app, "prompts/list", {}, dispatch=From(ADA)))["prompts"] == []
    with pytest.raises(InvalidParams, match="Unknown tool"):
        await ask(app, "tools/call", {"name": "closed"}, dispatch=From(ADA))
    with pytest.raises(ResourceNotFound):
        await ask(app, "resources/read", {"uri": "data://closed"}, dispatch=From(ADA))
    with pytest.raises(InvalidParams, match="Unknown prompt"):
        await ask(app, "prompts/get", {"name": "closed"}, dispatch=From(ADA))
    assert app.lowlevel.resource_visibility is not None
    assert not app.lowlevel.resource_visibility(ADA)("data://closed")


async def test_what_is_to_be_awaited_is_no_yes() -> None:
    """A coroutine is true: an async allow= would let everybody in. It is refused, or hides what it guards."""

    async def later(principal: Any) -> bool:
        return False

    app: MCPServer[Any] = MCPServer("x")
    wrong: list[dict[str, Any]] = [{"allow": later}, {"scopes": later}]
    for options in wrong:
        with pytest.raises(RegistrationError, match="plain function"):
            app.add_tool(lambda: "x", name="x", **options)

    class Later:
        def __await__(self) -> Any:
            yield

    app.add_tool(lambda: "x", name="x", allow=cast("Any", lambda principal: Later()))
    assert (await ask(app, "tools/list", {}, dispatch=From(ADA)))["tools"] == []


def by_repository() -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("x")

    def scopes(principal: Any, arguments: dict[str, Any]) -> list[str]:
        return [f"repo:{arguments['repository']}"]

    @app.tool(scopes=scopes)
    async def push(repository: str) -> str:
        return repository

    @app.prompt(scopes=scopes)
    async def review(repository: str) -> str:
        return repository

    @app.tool(scopes=scopes)
    async def pull(repository: str = "main") -> str:
        return repository

    return app


async def test_arguments_that_decide_the_scopes_may_be_missing() -> None:
    """That is the caller's mistake, with the words that it has without scopes; nothing runs."""
    app = by_repository()
    ada = Somebody("ada", frozenset({"repo:x"}))
    assert (
        text_of(await ask(app, "tools/call", {"name": "push", "arguments": {"repository": "x"}}, dispatch=From(ada)))
        == "x"
    )
    for arguments in ({}, {"repo": "x"}, None):
        params = {"name": "push"} if arguments is None else {"name": "push", "arguments": arguments}
        result = await ask(app, "tools/call", params, dispatch=From(ada))
        assert result["isError"]
        assert text_of(result).startswith("Invalid arguments for tool `push`:\n- `repository`")
    with pytest.raises(InvalidParams, match="Invalid arguments"):
        await ask(app, "prompts/get", {"name": "review"}, dispatch=From(ada))
    with pytest.raises(InvalidParams, match="Invalid arguments"):  # it has a default, which scopes= does not see
        await ask(app, "tools/call", {"name": "pull"}, dispatch=From(ada))
    with pytest.raises(InsufficientScope):
        await ask(app, "tools/call", {"name": "push", "arguments": {"repository": "y"}}, dispatch=From(ada))


async def test_a_failing_scopes_function_refuses_every_use(caplog: pytest.LogCaptureFixture) -> None:
    """The author's mistake: the caller learns nothing of it."""
    app: MCPServer[Any] = MCPServer("x")
    app.add_tool(lambda: "x", name="x", scopes=cast("Any", lambda principal, arguments: 1 // 0))
    app.add_resource("data://x", lambda: "x", scopes=cast("Any", lambda principal, arguments: 1 // 0))
    with caplog.at_level(logging.ERROR), pytest.raises(InternalError):
        await ask(app, "tools/call", {"name": "x"}, dispatch=From(ADA))
    assert "ZeroDivisionError" in caplog.text
    assert app.lowlevel.resource_visibility is not None
    assert not app.lowlevel.resource_visibility(ADA)("data://x")


async def test_a_function_of_scopes_may_give_a_text() -> None:
    """As scopes= itself does; its letters are not scopes."""
    app: MCPServer[Any] = MCPServer("x")
    app.add_tool(lambda: "x", name="x", scopes=lambda principal, arguments: "notes other")
    with pytest.raises(InsufficientScope) as refused:
        await ask(app, "tools/call", {"name": "x"}, dispatch=From(ADA))
    assert refused.value.scopes == ("notes", "other")


# -- mounted ----------------------------------------------------------------------------------------------------------


async def test_the_challenge_for_a_mounted_component_is_the_hosts() -> None:
    """A client can step up only where it is told how; the guest, mounted in a protected host, has no protection, or
    one that nobody asks there."""
    for auth in (None, ResourceServer(StaticTokens({}), resource="http://guest.example/mcp")):
        guest: MCPServer[Any] = MCPServer("guest", auth=auth)
        guest.add_tool(lambda: "x", name="x", scopes="write")
        guest.add_resource("data://x", lambda: "x", scopes="write")
        guest.add_prompt(lambda: "x", name="x", scopes="write")
        tokens = StaticTokens({"t": {"subject": "ada", "scopes": ["mcp"]}})
        host: MCPServer[Any] = MCPServer(
            "host", auth=ResourceServer(tokens, resource=RESOURCE, required_scopes=["mcp"])
        )
        middle: MCPServer[Any] = MCPServer("middle", auth=auth)
        middle.mount(guest, prefix="inner")
        host.mount(middle, prefix="outer")
        endpoint = host.asgi()
        for method, params in (
            ("tools/call", {"name": "outer_inner_x", "arguments": {}}),
            ("resources/read", {"uri": "data://outer/inner/x"}),
            ("prompts/get", {"name": "outer_inner_x"}),
        ):
            answer = await modern_call(endpoint, modern(1, method, params), authorization="Bearer t").run()
            assert answer.status == 403, (method, answer.body)
            (challenge,) = parse_challenges(answer.headers["www-authenticate"])
            assert (challenge.error, challenge.scopes) == ("insufficient_scope", ("mcp", "write"))
            assert (challenge.resource_metadata or "").startswith("http://127.0.0.1:8000/")
