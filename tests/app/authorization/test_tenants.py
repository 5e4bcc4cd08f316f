"""Two tenants with the same subject and client see nothing of each other, and get the errors of what is not there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client, Context, Handles, MCPError, MCPServer
from ferrule.app.authorization.tenants import tenant_reader, with_tenant
from ferrule.auth import Principal, ResourceServer, StaticTokens
from ferrule.middleware import Audit, CacheResults, Policy, RateLimit
from ferrule.transports.asgi.context import HttpContext, HttpRefusal
from tests.app.support import LATEST, V1125
from tests.cli.gateway.support import served

pytestmark = pytest.mark.anyio

ERAS = [LATEST, V1125]
FACTS = {"subject": "ada", "client_id": "desk"}
TOKENS = {
    "of-acme": {**FACTS, "org": "acme"},
    "of-beta": {**FACTS, "org": "beta"},
    "of-nobody": FACTS,
}


def auth() -> ResourceServer:
    return ResourceServer(StaticTokens(TOKENS), resource="http://127.0.0.1/mcp")


def app_with(tmp_path: Path, *middleware: Any) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer(
        "x", auth=auth(), tenant="claim:org", middleware=middleware, store=f"sqlite:///{tmp_path}/store.db"
    )
    drafts = Handles("draft", str, ttl_s=600)

    @app.tool
    async def begin(ctx: Context, text: str) -> str:
        return await drafts.create(ctx, text)

    @app.tool
    async def draft(ctx: Context, handle: str) -> str:
        return await drafts.get(ctx, handle)

    @app.tool
    def who(ctx: Context) -> str:
        return f"{ctx.principal.tenant} {ctx.principal.subject}"

    @app.tool(task="optional", task_after_s=0)
    async def slow(ctx: Context) -> str:
        return "done"

    return app


@asynccontextmanager
async def two(app: MCPServer[Any], mode: str) -> AsyncIterator[tuple[Client, Client]]:
    async with (
        served(app) as (url,),
        Client(url, mode=mode, auth="of-acme") as acme,
        Client(url, mode=mode, auth="of-beta") as beta,
    ):
        yield acme, beta


async def code_of(call: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(MCPError) as refused:
        await call()
    return refused.value.code, refused.value.message


@pytest.mark.parametrize("mode", ERAS)
async def test_the_tenant_is_that_of_the_token(tmp_path: Path, mode: str) -> None:
    async with two(app_with(tmp_path), mode) as (acme, beta):
        assert (await acme.call_tool("who")).text == "acme ada"
        assert (await beta.call_tool("who")).text == "beta ada"


@pytest.mark.parametrize("mode", ERAS)
async def test_handles_and_tasks_of_another_tenant_do_not_exist(tmp_path: Path, mode: str) -> None:
    async with two(app_with(tmp_path), mode) as (acme, beta):
        handle = (await acme.call_tool("begin", {"text": "plans"})).text
        assert (await acme.call_tool("draft", {"handle": handle})).text == "plans"
        answers = [
            (await beta.call_tool("draft", {"handle": each}, raise_on_error=False)).text
            for each in (handle, handle[:-4] + "AAAA")
        ]
        assert answers[0].replace(handle, "") == answers[1].replace(handle[:-4] + "AAAA", "")
        task = await acme.start_tool("slow")
        await task.result()
        assert (await task.status()).status == "completed"
        assert await code_of(beta.task(str(task.task_id)).status) == await code_of(beta.task("x" * 22).status)
        if mode == V1125:
            assert (await beta.request("tasks/list", {}))["tasks"] == []
            assert len((await acme.request("tasks/list", {}))["tasks"]) == 1


async def test_a_session_of_another_tenant_is_unknown(tmp_path: Path) -> None:
    """The same answer as for an unknown id."""
    import aiohttp

    async with served(app_with(tmp_path)) as (url,), Client(url, mode=V1125, auth="of-acme") as acme:
        session = acme.session_now()
        assert session is not None
        await acme.ping()
        async with aiohttp.ClientSession() as http:

            async def ask(token: str, session_id: str) -> tuple[int, str]:
                headers = {
                    "authorization": f"Bearer {token}",
                    "mcp-session-id": session_id,
                    "mcp-protocol-version": V1125,
                    "accept": "application/json, text/event-stream",
                }
                body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
                async with http.post(url, json=body, headers=headers) as answer:
                    return answer.status, await answer.text()

            async with http.post(
                url,
                json={
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "initialize",
                    "params": {
                        "protocolVersion": V1125,
                        "capabilities": {},
                        "clientInfo": {"name": "c", "version": "1"},
                    },
                },
                headers={"authorization": "Bearer of-acme", "accept": "application/json, text/event-stream"},
            ) as opened:
                session_id = opened.headers["mcp-session-id"]
            assert (await ask("of-acme", session_id))[0] == 200
            theirs, unknown = await ask("of-beta", session_id), await ask("of-beta", "f" * len(session_id))
            assert theirs == unknown
            assert theirs[0] == 404


@pytest.mark.parametrize("scope", ["private", "public"])
async def test_cached_results_and_limits_are_those_of_a_tenant(tmp_path: Path, scope: Any) -> None:
    seen: list[str | None] = []
    policy = Policy(lambda request: seen.append(request.tenant))
    async with two(
        app_with(tmp_path, policy, RateLimit(2, per_s=1000), CacheResults(60, tools=["who"], scope=scope)), LATEST
    ) as (acme, beta):
        for client, tenant in ((acme, "acme"), (beta, "beta"), (acme, "acme"), (beta, "beta")):
            assert (await client.call_tool("who")).text == f"{tenant} ada"
        assert (await code_of(lambda: acme.call_tool("who")))[0] == 429
    assert {"acme", "beta"} <= set(seen)


async def test_the_audit_names_the_tenant(tmp_path: Path) -> None:
    records: list[Any] = []
    async with two(app_with(tmp_path, Audit(records.append, on_failure="refuse")), LATEST) as (acme, _):
        await acme.call_tool("who")
    assert [(each["tenant"], each["subject"]) for each in records] == [("acme", "ada")]


async def test_a_token_without_the_claim_is_refused(tmp_path: Path) -> None:
    async with served(app_with(tmp_path)) as (url,):
        with pytest.raises(Exception, match="no tenant"):
            async with Client(url, mode=LATEST, auth="of-nobody") as client:
                await client.call_tool("who")


@pytest.mark.parametrize(
    ("tenant", "expected"),
    [
        ("host", "acme.example.com"),
        ("path", "acme"),
        ("claim:org", "7"),
        ("claim:list", None),
        (lambda principal, context: f"{principal.subject}@{context.path}", "ada@/acme/mcp"),
    ],
)
def test_where_a_tenant_is(tenant: Any, expected: str | None) -> None:
    context = HttpContext(headers={"host": "internal"}, authority="ACME.example.com:8443", scope={"path": "/acme/mcp"})
    principal = Principal("issuer", "ada", claims={"org": 7, "list": ["acme"]})
    assert tenant_reader(tenant)(principal, context) == expected


@pytest.mark.parametrize("tenant", [None, "", "x" * 201, 7])
def test_what_is_no_tenant_is_refused(tenant: Any) -> None:
    with pytest.raises(HttpRefusal) as refused:
        with_tenant(Principal("issuer", "ada"), tenant)
    assert refused.value.status == 403


def test_impossible_options() -> None:
    with pytest.raises(ValueError, match="claim:NAME"):
        MCPServer("x", auth=auth(), tenant="cookie")
    with pytest.raises(ValueError, match="needs auth="):
        MCPServer("x", tenant="host")
    with pytest.raises(TypeError, match="tenant= needs principals"):
        with_tenant("ada", "acme")


def test_ids_of_tenants_differ_and_cannot_be_made_equal() -> None:
    """Also where a subject looks like a tenant in front of another one."""
    one = Principal("i", "ada", tenant="a")
    ids = {
        Principal("i", "ada").id,
        one.id,
        Principal("i", "ada", tenant="b").id,
        Principal("tenant:a", "i", "ada").id,
        Principal("tenant:a i", "ada").id,
    }
    assert len(ids) == 5
    assert one != Principal("i", "ada", tenant="b")
