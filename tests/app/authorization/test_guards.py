"""ferrule.app.authorization.guards: a component that a guard hides does not exist, and a guard that fails refuses."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import pytest

from ferrule import MCPServer
from ferrule.app.errors import RegistrationError
from ferrule.auth import ResourceServer, StaticTokens
from ferrule.auth.challenges import parse_challenges
from ferrule.auth.server.refusals import InsufficientScope
from ferrule.extensions.tasks import Tasks
from ferrule.protocol.errors import InternalError, InvalidParams, ResourceNotFound
from ferrule.transports.asgi.context import HttpRefusal
from tests.app.scenarios.test_unauthorized_notifications import ADA, BOB, From, Somebody
from tests.app.support import LATEST, V1125, ask, text_of
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
    """The next component that matches the URI is read, completed and subscribed to."""
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
    """The other components are listed, and the log has the error."""
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
    """A coroutine is true, so an async allow= would admit every client. It is refused, or hides its component."""

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
    with pytest.raises(InsufficientScope) as refused:  # the default decides, as it does for the function
        await ask(app, "tools/call", {"name": "pull"}, dispatch=From(ada))
    assert refused.value.scopes == ("repo:main",)
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


# -- arguments as the function gets them ------------------------------------------------------------------------------

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"admin": {"type": "boolean"}}}


def for_admins(principal: Any, arguments: dict[str, Any]) -> list[str]:
    return ["admin"] if arguments.get("admin") is True else []


def of_owner(principal: Any, arguments: dict[str, Any]) -> list[str]:
    assert isinstance(arguments["owner"], UUID), arguments
    return [f"of:{arguments['owner'].int}"]


def judged_by_arguments() -> MCPServer[Any]:
    """Components of each kind that need the scope ``admin`` where their function gets ``admin=True``."""
    app: MCPServer[Any] = MCPServer("x", extensions=[Tasks()])

    @app.tool(scopes=for_admins)
    async def hints(admin: bool = False) -> str:
        return repr(admin)

    @app.tool(scopes=for_admins)
    async def default(admin: bool = True) -> str:
        return repr(admin)

    @app.tool(scopes=for_admins, input_schema=SCHEMA)
    async def schema(**arguments: Any) -> str:
        return repr(arguments["admin"])

    @app.tool(scopes=for_admins, task="optional", task_after_s=0)
    async def task(admin: bool = False) -> str:
        return repr(admin)

    @app.prompt(scopes=for_admins)
    async def prompt(admin: bool, name: str = "") -> str:
        return repr(admin)

    @app.resource("data://{admin}/{name}", scopes=for_admins)
    async def resource(admin: bool, name: str) -> str:
        return repr(admin)

    for owner in (prompt, "data://{admin}/{name}"):
        app.complete(owner, "name")(lambda typed: ["secret"])
    return app


async def use(app: MCPServer[Any], use_: str, value: Any, principal: Any, version: str) -> None:
    """Use a component with ``admin=value``; ``None`` leaves the argument out."""
    arguments = {} if value is None else {"admin": value}
    method, params = "tools/call", {"name": use_, "arguments": arguments}
    if use_ == "search":
        params = {"name": "call_tool", "arguments": {"name": "hints", "arguments": arguments}}
    elif use_ == "task" and version == V1125:
        params["task"] = {}
    elif use_ == "prompt":
        method = "prompts/get"
    elif use_ == "resource":
        method, params = "resources/read", {"uri": f"data://{value}/x"}
    elif use_ in ("completion of a prompt", "completion of a template"):
        method = "completion/complete"
        ref = {"type": "ref/prompt", "name": "prompt"}
        if use_.endswith("template"):
            ref = {"type": "ref/resource", "uri": "data://{admin}/{name}"}
        params = {"ref": ref, "argument": {"name": "name", "value": ""}, "context": {"arguments": arguments}}
    await ask(app, method, params, version=version, dispatch=From(principal))


@pytest.mark.parametrize("version", [V1125, LATEST])
@pytest.mark.parametrize(
    ("use_", "value"),
    [
        ("hints", "true"),
        ("hints", " true "),
        ("default", None),
        ("schema", "true"),
        ("task", "true"),
        ("search", "true"),
        ("prompt", "true"),
        ("resource", "true"),
        ("completion of a prompt", "true"),
        ("completion of a template", "true"),
    ],
)
async def test_scopes_are_decided_by_the_arguments_that_the_function_gets(use_: str, value: Any, version: str) -> None:
    """Models send ``"true"`` for true: a function of ``scopes=`` that saw the text would ask for no scope."""
    app = judged_by_arguments()
    if use_ == "search":
        app = MCPServer("x", tool_search=True)
        app.mount(judged_by_arguments())
    with pytest.raises(InsufficientScope) as refused:
        await use(app, use_, value, BOB, version)
    assert refused.value.scopes == ("admin",)
    await use(app, use_, value, Somebody("root", frozenset({"admin"})), version)


async def test_values_of_declared_types_decide_scopes() -> None:
    """Also for updates of a resource, where there is no call; a value that does not fit gives nothing away."""
    app: MCPServer[Any] = MCPServer("x")
    app.add_resource("data://{owner}", cast("Any", _of), scopes=of_owner)
    app.add_tool(cast("Any", _of), name="of", scopes=of_owner)
    one, owner = UUID(int=1), Somebody("one", frozenset({"of:1"}))
    assert await read(app, f"data://{one}", owner) == str(one)
    assert text_of(
        await ask(app, "tools/call", {"name": "of", "arguments": {"owner": one.hex}}, dispatch=From(owner))
    ) == str(one)
    may_see = cast("Any", app.lowlevel.resource_visibility)
    assert may_see(owner)(f"data://{one}")
    assert not may_see(BOB)(f"data://{one}")
    assert not may_see(owner)("data://nobody")
    with pytest.raises(ResourceNotFound):
        await read(app, "data://nobody", owner)
    result = await ask(app, "tools/call", {"name": "of", "arguments": {"owner": "nobody"}}, dispatch=From(owner))
    assert text_of(result).startswith("Invalid arguments for tool `of`:\n- `owner`")


def _of(owner: UUID) -> str:
    return str(owner)


async def test_an_argument_that_fits_no_type_gets_no_suggestions() -> None:
    """What is typed so far may be no value yet; it does not decide then."""
    app = judged_by_arguments()
    app.complete("prompt", "admin")(lambda typed: ["true", "false"])

    async def suggestions(argument: str, typed: str, **filled: str) -> list[str]:
        ref = {"type": "ref/prompt", "name": "prompt"}
        params = {"ref": ref, "argument": {"name": argument, "value": typed}, "context": {"arguments": filled}}
        return (await ask(app, "completion/complete", params, dispatch=From(BOB)))["completion"]["values"]

    assert await suggestions("name", "", admin="tru") == []
    assert await suggestions("name", "", admin="false") == ["secret"]
    assert await suggestions("admin", "tru") == ["true", "false"]
    with pytest.raises(InsufficientScope):
        await suggestions("admin", "true")


@pytest.mark.parametrize("version", [V1125, LATEST])
async def test_middleware_of_a_mounted_server_cannot_change_what_was_judged(version: str) -> None:
    """The guard is checked before that middleware, and again where it could have changed the arguments."""
    guest = judged_by_arguments()

    async def promote(ctx: Any, call_next: Any) -> Any:
        return await call_next(replace(ctx, params={**ctx.params, "arguments": {"admin": "true"}}))

    guest.lowlevel.middleware.append(promote)
    host: MCPServer[Any] = MCPServer("host", extensions=[Tasks()])
    host.mount(guest)
    for use_ in ("hints", "schema", "prompt"):
        with pytest.raises(InsufficientScope):
            await use(host, use_, "false", BOB, version)
        await use(host, use_, "false", Somebody("root", frozenset({"admin"})), version)


async def test_a_tool_whose_arguments_decide_is_not_called_on_the_fast_path() -> None:
    """Its endpoint answers 403 with a challenge, as for scopes that are written down."""
    tokens = StaticTokens({"t": {"subject": "bob", "scopes": []}})
    app: MCPServer[Any] = MCPServer("x", auth=ResourceServer(tokens, resource=RESOURCE))
    app.add_tool(_admin, name="typed", scopes=for_admins)
    endpoint = app.asgi()
    for _ in range(2):
        params = {"name": "typed", "arguments": {"admin": "true"}}
        answer = await modern_call(endpoint, modern(1, "tools/call", params), authorization="Bearer t").run()
        assert answer.status == 403, answer.body
        (challenge,) = parse_challenges(answer.headers["www-authenticate"])
        assert (challenge.error, challenge.scopes) == ("insufficient_scope", ("admin",))
    assert app.tools.fast_calls == 0


def _admin(admin: bool = False) -> str:
    return repr(admin)


# -- a protection of one's own -----------------------------------------------------------------------------------------


class ByName:
    """The name in the header is the principal."""

    async def authenticate(self, context: Any) -> Any:
        name = context.headers.get("authorization")
        if name is None:
            raise HttpRefusal(401, "Who are you?", [("www-authenticate", "Name")])
        return Somebody(name, frozenset({"read"}))

    def insufficient_scope(self, context: Any, scopes: Any) -> Exception:
        return InsufficientScope(scopes, headers=[("www-authenticate", f'Name scope="{" ".join(scopes)}"')])

    def refused_token(self, context: Any) -> list[tuple[str, str]]:
        return [("www-authenticate", "Name")]

    def document_for(self, context: Any, path: str) -> Any:
        return None

    def document_paths(self, path: str) -> list[str]:
        return []


async def test_a_protection_of_ones_own_makes_the_challenges() -> None:
    """It closes the server as ``auth=`` of this package does: each request, each missing scope, and shared caches."""
    app: MCPServer[Any] = MCPServer("x", auth=ByName())
    app.add_tool(lambda: "read", name="read", scopes="read")
    app.add_tool(lambda: "write", name="write", scopes=["read", "write"])
    endpoint = app.asgi()

    async def answer(name: str, **headers: str) -> Any:
        params = {"name": name, "arguments": {}}
        return await modern_call(endpoint, modern(1, "tools/call", params), **headers).run()

    nobody = await answer("read")
    assert (nobody.status, nobody.headers["www-authenticate"]) == (401, "Name")
    assert (await answer("read", authorization="ada")).status == 200
    lacking = await answer("write", authorization="ada")
    assert (lacking.status, lacking.headers["www-authenticate"]) == (403, 'Name scope="read write"')
    host: MCPServer[Any] = MCPServer("host")
    with pytest.raises(RegistrationError):
        host.mount(app)


# -- mounted ----------------------------------------------------------------------------------------------------------


async def test_the_challenge_for_a_mounted_component_is_the_hosts() -> None:
    """The parent authenticates, so its challenge names the scopes; the mounted server has no protection, or an unused
    one."""
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
