"""What a policy denies is in no list, no search, no suggestion and no answer, and cannot be used."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ferrule import Client, Context, MCPError, MCPServer
from ferrule.client.gateway.gateway import Gateway
from ferrule.kernel.server import Server
from ferrule.kernel.serving.members import MAX_LISTENED_TASKS
from ferrule.kernel.standard_methods import MAX_SUBSCRIBED, MAX_SUBSCRIBED_CHARS
from ferrule.middleware import AccessRequest, Audit, Deny, NotAllowed, Policy, Quota, RateLimit
from ferrule.protocol.errors import InvalidParams, ResourceNotFound
from tests.app.support import LATEST, V1125, From, ask, call, text_of

pytestmark = pytest.mark.anyio

ERAS = [LATEST, V1125]


def no_secrets(request: AccessRequest) -> Any:
    return Deny("it is secret") if "secret" in request.name else None


def app_with(*policies: Policy, **options: Any) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("x", middleware=policies, **options)

    @app.tool(annotations={"readOnlyHint": True}, tags={"plain"})
    def look(city: str = "Oslo") -> str:
        """Looks at a city."""
        return city

    @app.tool
    def secret_look(city: str = "Oslo") -> str:
        """Looks at a city in secret."""
        return city

    @app.resource("data://open")
    def opened() -> str:
        return "open"

    @app.resource("data://secret")
    def closed() -> str:
        return "secret"

    @app.resource("data://{name}/secret-part")
    def part(name: str) -> str:
        return name

    @app.prompt
    def greet(style: str) -> str:
        return style

    @app.prompt
    def secret_greet(style: str) -> str:
        return style

    @app.complete("greet", "style")
    def styles(typed: str) -> list[str]:
        return ["warm"]

    @app.complete("secret_greet", "style")
    def secret_styles(typed: str) -> list[str]:
        return ["cold"]

    @app.complete("data://{name}/secret-part", "name")
    def names(typed: str) -> list[str]:
        return ["a"]

    return app


@pytest.mark.parametrize("version", ERAS)
async def test_lists_have_only_what_is_allowed(version: str) -> None:
    app = app_with(Policy(no_secrets))
    tools = await ask(app, "tools/list", version=version)
    assert [tool["name"] for tool in tools["tools"]] == ["look"]
    assert tools.get("cacheScope", "private") == "private"
    prompts = await ask(app, "prompts/list", version=version)
    assert [prompt["name"] for prompt in prompts["prompts"]] == ["greet"]
    resources = await ask(app, "resources/list", version=version)
    assert [each["uri"] for each in resources["resources"]] == ["data://open"]
    assert (await ask(app, "resources/templates/list", version=version))["resourceTemplates"] == []


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize(
    ("method", "hidden", "missing"),
    [
        ("tools/call", {"name": "secret_look"}, {"name": "secret_loot"}),
        ("prompts/get", {"name": "secret_greet", "arguments": {"style": "x"}}, {"name": "secret_greek"}),
        ("resources/read", {"uri": "data://secret"}, {"uri": "data://secrot"}),
        ("resources/read", {"uri": "data://ada/secret-part"}, {"uri": "data://ada/secret-parts"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "secret_greet"}, "argument": {"name": "style", "value": ""}},
            {"ref": {"type": "ref/prompt", "name": "secret_greek"}, "argument": {"name": "style", "value": ""}},
        ),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/resource", "uri": "data://{name}/secret-part"},
                "argument": {"name": "name", "value": ""},
            },
            {
                "ref": {"type": "ref/resource", "uri": "data://{name}/secret-parts"},
                "argument": {"name": "name", "value": ""},
            },
        ),
    ],
)
async def test_what_may_not_be_seen_is_answered_like_what_is_not_there(
    version: str, method: str, hidden: Any, missing: Any
) -> None:
    """The same code, words and data but for the name, also where a similar name is allowed."""
    app = app_with(Policy(no_secrets))
    found = []
    for params in (hidden, missing):
        with pytest.raises((InvalidParams, ResourceNotFound)) as refused:
            await ask(app, method, params, version=version)
        name = params.get("name") or params.get("uri") or params["ref"].get("name") or params["ref"]["uri"]
        said = refused.value
        found.append((said.code, said.message.replace(name, "NAME"), str(said.data).replace(name, "NAME")))
    assert found[0] == found[1]


async def test_a_use_that_is_denied_of_a_member_that_is_listed() -> None:
    """By its arguments: it is no secret that the tool exists; the reason is not sent."""

    def no_rome(request: AccessRequest) -> Any:
        if request.action == "use" and request.arguments and request.arguments.get("city") == "Rome":
            return Deny("the contract of Rome has ended", message="Rome is not available")
        return True

    app = app_with(Policy(no_rome, default="deny"))
    assert text_of(await call(app, "look", {"city": "Oslo"})) == "Oslo"
    with pytest.raises(NotAllowed) as refused:
        await call(app, "look", {"city": "Rome"})
    assert (refused.value.code, refused.value.message) == (403, "Rome is not available")


async def test_facts_of_a_request() -> None:
    seen: list[AccessRequest] = []

    def record(request: AccessRequest) -> None:
        seen.append(request)

    app = app_with(Policy(record))
    principal = {"sub": "ada", "client_id": "desk"}
    await call(app, "look", {"city": "Rome"}, dispatch=From(principal))
    see, use = seen
    assert (see.action, see.arguments) == ("see", None)
    assert (use.action, use.arguments, use.kind, use.name, use.method) == (
        *("use", {"city": "Rome"}, "tool", "look"),
        "tools/call",
    )
    assert (use.subject, use.client, use.principal, use.is_network) == ("ada", "desk", principal, True)
    assert (dict(use.annotations), use.tags) == ({"readOnlyHint": True}, {"plain"})
    seen.clear()
    await ask(app, "resources/read", {"uri": "data://ada/secret-part"})
    assert [(each.kind, each.name) for each in seen] == [
        ("resource", "data://ada/secret-part"),
        ("resource_template", "data://{name}/secret-part"),
    ] * 2


async def test_all_policies_must_allow_and_one_denial_of_a_function_is_enough() -> None:
    def yes(request: AccessRequest) -> bool:
        return True

    async def not_look(request: AccessRequest) -> bool | None:
        return False if request.name == "look" else None

    for policies in ((Policy(yes, not_look),), (Policy(yes), Policy(not_look)), (Policy(not_look), Policy(yes))):
        app = app_with(*policies)
        assert [tool["name"] for tool in (await ask(app, "tools/list"))["tools"]] == ["secret_look"]
        with pytest.raises(InvalidParams):
            await call(app, "look")
    assert (await ask(app_with(Policy(not_look, default="deny")), "tools/list"))["tools"] == []


@pytest.mark.parametrize("answer", ["yes", 1, object])
async def test_a_policy_that_fails_or_answers_something_else_denies(answer: Any) -> None:
    def wrong(request: AccessRequest) -> Any:
        if answer is object:
            raise RuntimeError("the directory of users is away")
        return answer

    app = app_with(Policy(wrong))
    assert (await ask(app, "tools/list"))["tools"] == []
    with pytest.raises(InvalidParams) as refused:
        await call(app, "look")
    assert "directory" not in str(refused.value)


def test_a_policy_without_a_function_is_refused() -> None:
    with pytest.raises(TypeError):
        Policy()


async def test_a_dry_run_allows_and_records(caplog: pytest.LogCaptureFixture) -> None:
    app = app_with(Policy(no_secrets, dry_run=True))
    with caplog.at_level("INFO", logger="ferrule.policy"):
        assert len((await ask(app, "tools/list"))["tools"]) == 2
        assert text_of(await call(app, "secret_look")) == "Oslo"
        assert await ask(app, "resources/read", {"uri": "data://secret"})
    assert any("Would be denied (use): tool 'secret_look': it is secret" in line for line in caplog.messages)
    with pytest.raises(InvalidParams) as refused:  # as without the policy
        await call(app, "lok")
    assert "did you mean 'look'" in refused.value.message


@pytest.mark.parametrize("version", ERAS)
async def test_a_search_finds_describes_and_calls_only_what_is_allowed(version: str) -> None:
    app = app_with(Policy(no_secrets), tool_search=True)
    listed = [tool["name"] for tool in (await ask(app, "tools/list", version=version))["tools"]]
    assert listed == ["search_tools", "describe_tool", "call_tool"]
    for query in ("", "city"):
        found = text_of(await call(app, "search_tools", {"query": query}, version=version))
        assert "secret" not in found
        assert '"total":1' in found.replace(" ", "")
    for name in ("secret_look", "secret_loot"):
        described = await call(app, "describe_tool", {"name": name}, version=version)
        assert (described["isError"], text_of(described)) == (True, f"Unknown tool: {name}")
        called = await call(app, "call_tool", {"name": name}, version=version)
        assert (called["isError"], text_of(called)) == (True, f"Unknown tool: {name}")
        assert called.get("resultType") == described.get("resultType")
        with pytest.raises(InvalidParams):
            await call(app, name, version=version)
    assert text_of(await call(app, "call_tool", {"name": "look"}, version=version)) == "Oslo"


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("search", [False, True])
async def test_a_gateway_hides_by_the_names_that_its_clients_see(mode: str, search: bool) -> None:
    gateway = Gateway(
        {"one": app_with()}, server_middleware=[Policy(no_secrets)], tool_search=search, moment_s=60, open_s=60
    )
    async with Client(gateway.server, mode=mode) as client:
        if search:
            found = await client.call_tool("search_tools", {"query": ""})
            assert "secret" not in found.text
            assert "one_look" in found.text
            for name in ("one_secret_look", "one_secret_loot"):
                for tool in ("describe_tool", "call_tool"):
                    answer = await client.call_tool(tool, {"name": name}, raise_on_error=False)
                    assert (answer.is_error, answer.text) == (True, f"Unknown tool: {name}")
        else:
            assert [tool.name for tool in await client.list_tools()] == ["one_look"]
            assert [each.uri for each in await client.list_resources()] == ["data://open"]
            assert [each.name for each in await client.list_prompts()] == ["one_greet"]
        for name in ("one_secret_look", "one_secret_loot"):
            with pytest.raises(MCPError) as refused:
                await client.call_tool(name)
            assert (refused.value.code, refused.value.message) == (-32602, f"Unknown tool: {name}")
        for uri in ("data://secret", "data://ada/secret-part"):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(uri)
            assert refused.value.message == "Resource not found"
        assert (await client.call_tool("one_look")).text == "Oslo"
        assert (await client.read_resource("data://open")).contents[0].text == "open"


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("is_async", [False, True])
async def test_updates_come_of_allowed_resources_only(mode: str, is_async: bool) -> None:
    """Also where a subscription of a URI covers those below it."""

    def rule(request: AccessRequest) -> bool | None:
        return False if request.name == "data://all/secret" else None

    async def slow_rule(request: AccessRequest) -> bool | None:
        await anyio.lowlevel.checkpoint()
        return rule(request)

    app: MCPServer[Any] = MCPServer("x", middleware=[Policy(slow_rule if is_async else rule)])

    @app.resource("data://all/{name}")
    def one(name: str) -> str:
        return name

    @app.resource("data://all")
    def everything() -> str:
        return "all"

    came: list[str] = []
    async with Client(app, mode=mode) as client, client.listen(uris=["data://all"]) as changes:
        for uri in ("data://all/secret", "data://all/open", "data://all"):
            app.notify_resource_updated(uri)
        with anyio.fail_after(30):
            async for event in changes:
                came.append(event.uri or "")
                if event.uri == "data://all":
                    break
    assert came == (["data://all"] if is_async else ["data://all/open", "data://all"])


async def test_a_subscription_to_what_is_denied_is_refused_like_an_unknown_one() -> None:
    app = app_with(Policy(no_secrets))
    app.lowlevel.resource_updates = True
    async with Client(app, mode=V1125) as client:
        for uri in ("data://secret", "data://nowhere"):
            with pytest.raises(MCPError) as refused:
                await client.request("resources/subscribe", {"uri": uri})
            assert (refused.value.code, refused.value.message) == (-32002, "Resource not found")


@pytest.mark.parametrize("mode", ERAS)
async def test_a_task_of_a_tool_that_is_denied_now_does_not_exist(mode: str) -> None:
    denied: set[str] = set()
    app: MCPServer[Any] = MCPServer("x", middleware=[Policy(lambda request: request.name not in denied)])

    @app.tool(task="optional", task_after_s=0)
    async def work(ctx: Context) -> str:
        return "done"

    async with Client(app, mode=mode) as client:
        task = await client.start_tool("work")
        assert (await task.status()).task_id == task.task_id
        denied.add("work")
        answers = []
        for task_id in (str(task.task_id), "no-such-task"):
            with pytest.raises(MCPError) as refused:
                await client.task(task_id).status()
            answers.append((refused.value.code, refused.value.message))
        assert answers[0] == answers[1]


SPELLINGS = [
    ("docs://private", "docs://%70rivat%65"),
    ("docs://a!b", "docs://%61%21b"),
    ("docs://a%2Fb", "docs://a%2fb"),
    ("docs://a!b%2F", "docs://a%21b%2f"),
    ("files://in/key", "files://in%2Fkey"),
    ("files://in/%25", "files://in%2F%25"),
    ("find://x?a=1&b=2", "find://x?b=%32&a=1"),
    ("report://total", "report://t%6Ftal"),
]


def app_with_templates(*policies: Policy) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("x", middleware=policies)

    @app.resource("docs://{name}", guard_paths=False)
    def doc(name: str) -> str:
        return name

    @app.resource("files://{+path}", guard_paths=False)
    def file(path: str) -> str:
        return path

    @app.resource("find://x{?a,b}")
    def search(a: str, b: str) -> str:
        return a + b

    @app.resource("report://total")
    def total() -> str:
        return "7"

    return app


@pytest.mark.parametrize(("name", "spelling"), SPELLINGS)
@pytest.mark.parametrize("version", ERAS)
async def test_every_spelling_of_a_uri_is_the_same_resource(version: str, name: str, spelling: str) -> None:
    """A policy that names a resource holds however a client escapes its URI."""
    asked: list[str] = []

    def rule(request: AccessRequest) -> bool | None:
        asked.append(request.name)
        return False if request.name == name else None

    app = app_with_templates(Policy(rule))
    answers: list[Any] = []
    for uri in (name, spelling):
        assert (await ask(app_with_templates(), "resources/read", {"uri": uri}, version=version))["contents"]
        with pytest.raises(ResourceNotFound) as refused:
            await ask(app, "resources/read", {"uri": uri}, version=version)
        answers.append((refused.value.code, refused.value.message, refused.value.data))
    assert asked[0] == name
    assert (answers[0], answers[1][2]) == ((*answers[1][:2], {"uri": name}), {"uri": spelling})


async def test_a_subscription_under_another_spelling_is_refused() -> None:
    app = app_with_templates(Policy(lambda request: request.name not in ("docs://private", "report://total")))
    app.lowlevel.resource_updates = True
    async with Client(app, mode=V1125) as client:
        for uri in ("docs://%70rivate", "report://t%6Ftal"):
            with pytest.raises(MCPError) as refused:
                await client.request("resources/subscribe", {"uri": uri})
            assert refused.value.message == "Resource not found"
        await client.request("resources/subscribe", {"uri": "docs://open"})


async def test_a_policy_of_plain_handlers_gets_the_normal_form() -> None:
    """A server without components has no directory, and its handler may decode escapes."""
    asked: list[str] = []
    server: Server[Any] = Server("low", middleware=[Policy(lambda request: asked.append(request.name) or None)])

    async def read(ctx: Any) -> Any:
        return {"contents": []}

    server.add_request_handler("resources/read", read)
    async with Client(server) as client:
        await client.request("resources/read", {"uri": "docs://%70rivate"})
    assert set(asked) == {"docs://private"}


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize(
    "reference",
    [
        {"type": "ref/resource", "uri": "data://{name}/secret-part", "name": "greet"},
        {"type": "ref/prompt", "name": "secret_greet", "uri": "data://open"},
        {"type": "ref/other", "name": "greet", "uri": "data://{name}/secret-part"},
        {"name": "greet"},
        {"type": ["ref/prompt"], "name": "greet"},
    ],
)
async def test_a_completion_is_judged_by_the_type_of_its_reference(version: str, reference: Any) -> None:
    """The handler goes by the type; a second field of the reference must not choose what a policy is asked about."""
    params = {"ref": reference, "argument": {"name": "name", "value": ""}}
    with pytest.raises(InvalidParams):
        await ask(app_with(Policy(no_secrets)), "completion/complete", params, version=version)


async def test_a_gateway_gets_no_completion_of_an_unknown_type() -> None:
    """It passes everything but prompts to the server of the template."""
    gateway = Gateway({"one": app_with()}, server_middleware=[Policy(no_secrets)], open_s=60)
    async with Client(gateway.server) as client:
        await client.list_resource_templates()
        argument = {"name": "name", "value": ""}
        for kind in ("ref/resource", "ref/other"):
            reference = {"type": kind, "uri": "data://{name}/secret-part", "name": "one_greet"}
            with pytest.raises(MCPError) as refused:
                await client.request("completion/complete", {"ref": reference, "argument": argument})
            assert refused.value.code == -32602


@pytest.mark.parametrize("mode", ERAS)
async def test_middleware_of_other_servers_holds_for_calls_by_a_task(mode: str) -> None:
    """Only around the body of the server's own task is middleware called a second time."""
    records: list[dict[str, Any]] = []
    runs: list[str] = []
    audit = Audit(lambda record: records.append(dict(record)), on_failure="refuse")
    inner: MCPServer[Any] = MCPServer(
        "inner",
        middleware=[
            audit,
            RateLimit(3, per_s=1000),
            Quota(2, window_s=1000),
            Policy(lambda request: request.name != "wipe"),
        ],
    )

    @inner.tool
    def wipe() -> str:
        runs.append("wipe")
        return "wiped"

    @inner.tool(task="optional")
    async def count() -> str:
        runs.append("count")
        return "counted"

    app: MCPServer[Any] = MCPServer("outer", middleware=[Policy(lambda request: True)])

    @app.tool(task="optional", task_after_s=0)
    async def work() -> list[int]:
        codes: list[int] = []
        async with Client(inner, mode=mode) as client:
            for name in ("wipe", "count", "count", "count"):
                try:
                    await client.call_tool(name)
                    codes.append(0)
                except MCPError as error:
                    codes.append(error.code)
        return codes

    async with Client(app, mode=mode) as client:
        result = await (await client.start_tool("work")).result()
    assert result.data == [-32602, 0, 429, 429]
    assert runs == ["count"]
    assert audit.flush()
    facts = [(each.get("event", "request"), each.get("task_id"), each.get("decision")) for each in records]
    assert facts == [
        ("request", None, "denied"),
        ("request", None, "allowed"),
        ("request", None, "over_quota"),
        ("request", None, "over_quota"),
    ]


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_task_of_which_no_tool_is_known_is_denied(dry_run: bool) -> None:
    """Where no directory says it, as behind a gateway, the task may be of a tool that is denied."""
    server: Server[Any] = Server("low", middleware=[Policy(no_secrets, dry_run=dry_run)])
    task = {"taskId": "of-ada", "status": "completed", "ttl": 1000, "createdAt": "", "lastUpdatedAt": ""}

    async def listed(ctx: Any) -> Any:
        return {"tasks": [task]}

    async def result(ctx: Any) -> Any:
        return {"content": []}

    server.add_request_handler("tasks/list", listed)
    server.add_request_handler("tasks/result", result)
    async with Client(server, mode=V1125) as client:
        found = await client.request("tasks/list", {})
        assert len(found["tasks"]) == dry_run
        if dry_run:
            await client.request("tasks/result", {"taskId": "of-ada"})
        else:
            with pytest.raises(MCPError) as refused:
                await client.request("tasks/result", {"taskId": "of-ada"})
            assert (refused.value.code, refused.value.message) == (-32602, "There is no such task; it may have expired")


@pytest.mark.parametrize(
    "wanted",
    [
        {"resourceSubscriptions": [f"data://{number}" for number in range(MAX_SUBSCRIBED + 1)]},
        {"resourceSubscriptions": ["data://" + "x" * MAX_SUBSCRIBED_CHARS]},
        {"taskIds": [str(number) for number in range(MAX_LISTENED_TASKS + 1)]},
    ],
    ids=["number", "length", "tasks"],
)
async def test_a_stream_that_names_too_much_is_refused_before_a_policy_is_asked(wanted: Any) -> None:
    asked: list[str] = []
    app, plain = app_with(Policy(lambda request: asked.append(request.name) or None)), app_with()
    answers: list[tuple[int, str]] = []
    for each in (app, plain) if "taskIds" not in wanted else (app,):
        each.lowlevel.resource_updates = True
        with pytest.raises(InvalidParams) as refused:
            await ask(each, "subscriptions/listen", {"notifications": wanted})
        answers.append((refused.value.code, refused.value.message))
    assert asked == []
    assert len(set(answers)) == 1
