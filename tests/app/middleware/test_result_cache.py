"""Results used again: for the same question, to the same people, for their time, and never past a guard."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client, Context, InputRequired, MCPServer, ToolError
from ferrule.app.middleware.builtin import CacheResults
from ferrule.protocol.errors import MCPError
from ferrule.questions import elicit_question
from ferrule.stores.cache import MemoryCacheStore
from ferrule.stores.store import Store, open_store
from ferrule.transports.asgi.context import HttpContext
from tests.app.support import EVERY_REVISION, RecordingDispatch, ask, call, connection_of, text_of

pytestmark = pytest.mark.anyio


class From(RecordingDispatch):
    """An HTTP request of a principal."""

    __slots__ = ("transport",)

    def __init__(self, principal: Any = None) -> None:
        super().__init__()
        self.transport = HttpContext(principal=principal, client=("10.0.0.1", 1))


class Token:
    """A principal with scopes."""

    def __init__(self, subject: str, *scopes: str) -> None:
        self.subject = subject
        self.scopes = frozenset(scopes)


class Timed:
    """A store of this process, and its clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.store: Store = replace(open_store("memory:"), cache=MemoryCacheStore(clock=lambda: self.now))


def served(*middleware: Any, store: Any = "memory:") -> tuple[MCPServer, list[Any]]:
    """A server whose tool returns the number of its runs."""
    app = MCPServer("x", middleware=middleware, store=store)
    runs: list[Any] = []

    @app.tool
    async def work(word: str = "a", fail: bool = False) -> str:
        runs.append(word)
        if fail:
            raise ToolError("no")
        return f"{word}{len(runs)}"

    return app, runs


async def said(app: MCPServer, name: str = "work", arguments: Any = None, **more: Any) -> str:
    return text_of(await call(app, name, arguments, **more))


async def test_an_equal_call_gets_the_cached_result_for_its_time():
    timed = Timed()
    app, runs = served(CacheResults(60, tools=["work"]), store=timed.store)
    assert [await said(app, arguments={"word": word}) for word in ("a", "a", "b", "a")] == ["a1", "a1", "b2", "a1"]
    timed.now = 60
    assert await said(app, arguments={"word": "a"}) == "a3"
    assert runs == ["a", "b", "a"]


@pytest.mark.parametrize("version", EVERY_REVISION)
async def test_an_answer_is_the_same_the_second_time_in_every_revision(version: str):
    """Byte for byte what its client would have got; another revision has its own."""
    app, runs = served(CacheResults(60, tools=["work"], scope="public"))

    @app.tool
    async def shaped() -> list[int]:
        runs.append("shaped")
        return [1, 2]

    cached = CacheResults(60, tools=["shaped"], scope="public")
    app.lowlevel.middleware.append(cached)
    first, second = [await call(app, "shaped", version=version) for _ in range(2)]
    assert first == second
    assert runs == ["shaped"]
    for other in EVERY_REVISION:
        await call(app, "shaped", version=other)
    assert runs == ["shaped"] * len(EVERY_REVISION)


async def test_what_is_no_answer_is_not_kept():
    """An error may be over in a moment; a question is of one call; a task's handle is of one task."""
    app, runs = served(CacheResults(60, tools=["work", "asks"], scope="public"))
    for _ in range(2):
        assert (await call(app, "work", {"fail": True}))["isError"]

    @app.tool
    async def asks(ctx: Context) -> str:
        runs.append("asks")
        return str((await ctx.elicit("name?", str, key="name")).data)

    capabilities = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    for name in ("ann", "bob"):
        params = {"name": "asks", "arguments": {}, "_meta": capabilities}
        connection = connection_of("2026-07-28", client_capabilities_raw={"elicitation": {}})
        first = await ask(app, "tools/call", params, connection=connection)
        assert first["resultType"] == "input_required"
        answer = {"name": {"action": "accept", "content": {"value": name}}}
        rest = {**params, "inputResponses": answer, "requestState": first["requestState"]}
        assert text_of(await ask(app, "tools/call", rest, connection=connection)) == name
    assert runs.count("a") == 2


async def test_other_tools_and_methods_are_not_touched():
    app, runs = served(CacheResults(60, tools=["other"], resources=["data://one", "data://all/*"]))
    reads: list[str] = []

    @app.resource("data://{+path}")
    async def read(path: str) -> str:
        reads.append(path)
        return path

    for _ in range(2):
        await said(app)
        for uri in ("data://one", "data://two", "data://all/three"):
            await ask(app, "resources/read", {"uri": uri})
        await ask(app, "tools/list")
    assert len(runs) == 2
    assert reads == ["one", "two", "all/three", "two"]


async def test_private_answers_are_kept_apart_by_principal_and_scopes():
    app, runs = served(CacheResults(60, tools=["work"]))
    for principal in (Token("ada", "read"), Token("bob", "read"), Token("ada", "read", "write")):
        for _ in range(2):
            await said(app, dispatch=From(principal))
    assert len(runs) == 3


async def test_private_results_of_anonymous_requests_are_not_cached(caplog: pytest.LogCaptureFixture):
    """A body may look at a header that we know nothing of."""
    app, runs = served(CacheResults(60, tools=["work"]))
    for _ in range(3):
        await said(app, dispatch=From())
    assert len(runs) == 3
    assert caplog.text.count("scope='public'") == 1
    for session in ("one", "two"):
        for _ in range(2):
            connection = connection_of("2025-11-25", session_id=session)
            await said(app, dispatch=From(), connection=connection)
    assert len(runs) == 5


async def test_public_results_are_for_all_clients():
    app, runs = served(CacheResults(60, tools=["work"], scope="public"))
    for principal in ("ada", "bob", None):
        await said(app, dispatch=From(principal))
    assert len(runs) == 1


async def test_the_guard_is_checked_before_a_cached_result_is_returned():
    """A public result is for all clients that may use the tool, and for no others."""
    app = MCPServer("x", middleware=[CacheResults(60, tools=["secret", "hidden"], scope="public")])
    runs: list[str] = []

    @app.tool(scopes="read")
    async def secret() -> str:
        runs.append("secret")
        return "s"

    @app.tool(allow=lambda principal: getattr(principal, "subject", None) == "ada")
    async def hidden() -> str:
        runs.append("hidden")
        return "h"

    for _ in range(2):
        assert await said(app, "secret", dispatch=From(Token("ada", "read"))) == "s"
        assert await said(app, "hidden", dispatch=From(Token("ada"))) == "h"
        for name in ("secret", "hidden"):
            with pytest.raises(MCPError):
                await said(app, name, dispatch=From(Token("bob")))
    assert runs == ["secret", "hidden"]
    app.tools.remove("secret")
    with pytest.raises(MCPError, match="Unknown tool"):
        await said(app, "secret", dispatch=From(Token("ada", "read")))


async def test_vary_adds_to_the_key_of_a_result():
    app, runs = served(
        CacheResults(60, tools=["work"], scope="public", vary=lambda ctx: str(ctx.meta.get("language", "")))
    )
    for language in ("en", "de", "en"):
        params = {"name": "work", "arguments": {}, "_meta": {"language": language}}
        await ask(app, "tools/call", params)
    assert len(runs) == 2


async def test_what_changed_can_be_forgotten():
    cached = CacheResults(60, tools=["work"], resources=["data://*"])
    app, runs = served(cached)

    @app.resource("data://one")
    async def read() -> str:
        runs.append("read")
        return "x"

    for _ in range(2):
        await said(app)
        await ask(app, "resources/read", {"uri": "data://one"})
    assert len(runs) == 2
    await cached.forget(app, "work")
    await said(app)
    await ask(app, "resources/read", {"uri": "data://one"})
    assert len(runs) == 3
    await cached.forget(app, "data://one")
    await ask(app, "resources/read", {"uri": "data://one"})
    assert len(runs) == 4


async def test_workers_share_what_a_shared_store_keeps(tmp_path: Path):
    store = f"sqlite:///{tmp_path}/s.db"
    one, runs = served(CacheResults(60, tools=["work"]), store=store)
    other, more = served(CacheResults(60, tools=["work"]), store=store)
    assert await said(one, dispatch=From("ada")) == "a1"
    assert await said(other, dispatch=From("ada")) == "a1"
    assert (len(runs), len(more)) == (1, 0)


async def test_what_is_private_to_a_process_is_not_shared_with_another(tmp_path: Path, monkeypatch: Any):
    """Two people's stdio servers on one store: who they are is in their environment, and we do not see it."""
    from ferrule.app.middleware import result_cache

    store = f"sqlite:///{tmp_path}/s.db"
    one, runs = served(CacheResults(60, tools=["work"]), store=store)
    for _ in range(2):
        await said(one)
    monkeypatch.setattr(result_cache, "_THIS_PROCESS", "another")
    await said(one)
    assert len(runs) == 2


async def test_a_store_that_is_away_is_an_empty_one(caplog: pytest.LogCaptureFixture):
    class Away:
        async def get(self, group: str, key: str) -> bytes | None:
            if len(runs) > 1:
                raise ConnectionError("away")
            return None

        async def put(self, group: str, key: str, value: bytes, *, ttl_s: float) -> None:
            raise ConnectionError("away")

    app, runs = served(CacheResults(60, tools=["work"]), store=replace(open_store("memory:"), cache=Away()))
    for number in range(3):
        assert await said(app) == f"a{number + 1}"
    assert "cannot be reached" in caplog.text
    assert "could not be kept" in caplog.text


async def test_a_large_result_is_not_kept():
    app, runs = served(CacheResults(60, tools=["work"], max_result_bytes=200))
    for _ in range(2):
        await said(app, arguments={"word": "x" * 200})
    assert len(runs) == 2


async def test_mounted_tools_of_the_same_name_have_different_results():
    """Each mounted server caches under its local names, which differ from those that clients use."""
    host = MCPServer("host")
    ran: list[str] = []
    for guest_name in ("red", "blue"):
        guest = MCPServer(guest_name, middleware=[CacheResults(60, tools=["work"], scope="public")])

        @guest.tool
        async def work(guest_name: str = guest_name) -> str:
            ran.append(guest_name)
            return guest_name

        host.mount(guest, prefix=guest_name)
    for _ in range(2):
        assert [await said(host, f"{name}_work") for name in ("red", "blue")] == ["red", "blue"]
    assert ran == ["red", "blue"]


@pytest.mark.parametrize(
    "options", [{"ttl_s": 0, "tools": ["a"]}, {"ttl_s": 1}, {"ttl_s": 1, "tools": "a", "scope": "x"}]
)
def test_what_keeps_nothing_is_refused(options: Any):
    with pytest.raises(ValueError):
        CacheResults(**options)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_result_of_a_call_with_a_question_is_never_cached(mode: str) -> None:
    """It is what one user said; the next one is asked himself, in both eras and also by hand."""
    app: MCPServer[Any] = MCPServer("asks", middleware=[CacheResults(60, tools=["ask", "by_hand"])])

    @app.tool
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("Name?", str)).data)

    @app.tool
    async def by_hand(ctx: Context) -> str | InputRequired:
        question = elicit_question("Name?", str)
        answer = ctx.answer_to("name", question)
        return InputRequired({"name": question}) if answer is None else str(answer.data)

    names = iter(["ann", "bob", "cid", "dan"])
    async with Client(app, mode=mode, elicitation_handler=lambda _: {"value": next(names)}) as client:
        assert [(await client.call_tool("ask")).text for _ in range(2)] == ["ann", "bob"]
        assert [(await client.call_tool("by_hand")).text for _ in range(2)] == ["cid", "dan"]
