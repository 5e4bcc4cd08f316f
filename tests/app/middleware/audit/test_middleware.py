"""One record for each decision, with its facts; and what follows when it cannot be written."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Annotated, Any

import anyio
import pytest

from ferrule import Client, Context, Field, MCPServer
from ferrule.auth import ResourceServer, StaticTokens
from ferrule.middleware import Audit, AuditUnavailable, Policy, Quota
from ferrule.protocol.digests import definition_digest
from ferrule.protocol.errors import EncodeError, InvalidParams
from ferrule.wire.codec import encode
from ferrule.wire.nesting import MAX_DEPTH
from tests.app.support import LATEST, V1125, From, ask, call

pytestmark = pytest.mark.anyio

KEY = b"0123456789abcdef"
TRACE = "0af7651916cd43dd8448eb211c80319c"


class Sink:
    """Keeps records; fails while `fails` is true."""

    def __init__(self) -> None:
        self.records: list[Mapping[str, Any]] = []
        self.fails = False

    def write(self, record: Mapping[str, Any], line: bytes, /) -> None:
        if self.fails:
            raise OSError("the disk is full")
        self.records.append(record)

    @property
    def outcomes(self) -> list[tuple[str, str, str]]:
        return [(each.get("member", ""), each["decision"], each["outcome"]) for each in self.records]


def served(*middleware: Any, **options: Any) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("stock", middleware=middleware, **options)

    @app.tool
    async def work(city: str, pin: Annotated[str, Field(schema={"writeOnly": True})] = "", data: Any = None) -> str:
        return city

    @app.tool
    async def fails() -> str:
        raise ValueError("a secret of the body")

    @app.tool(timeout_s=0.01)
    async def late() -> str:
        await anyio.sleep_forever()
        return ""

    @app.tool
    async def asks(ctx: Context) -> str:
        return str(await ctx.elicit("Go on?", bool))

    @app.tool(task="optional", task_after_s=0)
    async def slow(ctx: Context) -> str:
        return "done"

    @app.resource("data://{name}")
    def data(name: str) -> str:
        return name

    return app


async def test_the_facts_of_a_record() -> None:
    sink = Sink()
    now = [100.0]
    audit = Audit(sink, on_failure="refuse", arguments=["city", "pin", "data"], key=KEY, wall_clock=lambda: now[0])
    app = served(audit)
    principal = {"sub": "ada", "client_id": "desk"}
    arguments = {"city": "Oslo", "pin": "4711", "data": {"deep": "x" * 1000}}
    meta = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    await ask(app, "tools/call", {"name": "work", "arguments": arguments, "_meta": meta}, dispatch=From(principal))
    (record,) = sink.records
    tool = next(each for each in (await ask(app, "tools/list"))["tools"] if each["name"] == "work")
    shown = {name: value for name, value in arguments.items() if name != "pin"}
    from ferrule.wire.codec import canonical

    assert record == {
        "time": "1970-01-01T00:01:40.000Z",
        "decision": "allowed",
        "outcome": "ok",
        "server": "stock",
        "method": "tools/call",
        "kind": "tool",
        "member": "work",
        "digest": definition_digest(tool),
        "subject": "ada",
        "client": "desk",
        "request_id": "1",
        "trace_id": TRACE,
        "transport": "http",
        "protocol_version": LATEST,
        "arguments": {"city": "Oslo", "data": '{"deep":"' + "x" * 246 + "…"},
        "arguments_hmac": hmac.new(KEY, b"arguments\n" + canonical(shown), "sha256").hexdigest(),
        "duration_ms": record["duration_ms"],
        "result_bytes": record["result_bytes"],
    }
    assert 10 < record["result_bytes"] < 1000
    assert record["duration_ms"] > 0


async def test_equal_arguments_have_equal_hashes_and_no_key_means_no_hash() -> None:
    sink = Sink()
    app = served(Audit(sink, on_failure="refuse", key="k" * 16))
    for arguments in ({"city": "a", "data": 1}, {"data": 1, "city": "a"}, {"city": "b"}, {"city": "b", "pin": "1"}):
        await call(app, "work", arguments)
    one, two, three, four = [each["arguments_hmac"] for each in sink.records]
    assert one == two != three == four  # a secret argument is in no hash
    assert not any("arguments" in each for each in sink.records)
    plain = Sink()
    await call(served(Audit(plain, on_failure="refuse")), "work", {"city": "a"})
    assert "arguments_hmac" not in plain.records[0]


async def test_arguments_may_be_chosen_by_a_function() -> None:
    sink = Sink()
    app = served(Audit(sink, on_failure="refuse", arguments=lambda request: {"size": len(request.arguments or {})}))
    await call(app, "work", {"city": "Oslo"})
    assert sink.records[0]["arguments"] == {"size": 1}


@pytest.mark.parametrize(
    "chosen",
    [
        lambda request: {"data": request.arguments["data"]},
        lambda request: {"city": object()},
        lambda request: None,
    ],
    ids=["raises", "no JSON", "nothing"],
)
async def test_a_function_of_arguments_that_fails_keeps_no_call_out_of_the_audit(
    chosen: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The sender decides which arguments there are. Where records may wait, the result is not lost either."""
    for on_failure in ("refuse", "continue"):
        sink = Sink()
        audit = Audit(sink, on_failure=on_failure, arguments=chosen)  # type: ignore[arg-type]
        result = await call(served(audit), "work", {"city": "ok"})
        assert result["content"][0]["text"] == "ok"
        assert audit.flush()
        assert sink.outcomes == [("work", "allowed", "ok")]
        assert "arguments" not in sink.records[0]
        assert "The function of arguments= failed for tools/call" in caplog.text
        caplog.clear()


async def test_a_call_whose_result_cannot_be_sent_is_recorded() -> None:
    """Its sender could keep it out of the audit otherwise, by arguments that are nested deep."""
    sink = Sink()
    app = served(Audit(sink, on_failure="refuse"))

    @app.tool
    async def deep() -> dict[str, Any]:
        made: dict[str, Any] = {}
        for _ in range(MAX_DEPTH - 1):
            made = {"a": made}
        return made

    with pytest.raises(EncodeError):
        encode(await call(app, "deep"))
    (record,) = sink.records
    assert record["member"] == "deep"
    assert "result_bytes" not in record


async def test_every_outcome_has_its_word() -> None:
    sink = Sink()
    app = served(
        Audit(sink, on_failure="refuse"),
        Quota(2, window_s=1000, per="tool"),
        Policy(lambda request: request.name != "data://no"),
    )
    await call(app, "work", {"city": "a"})
    await call(app, "fails")
    await call(app, "late")
    await call(app, "work", {})
    with pytest.raises(Exception, match="used up"):
        await call(app, "work", {"city": "a"})
    with pytest.raises(Exception, match="not found"):
        await ask(app, "resources/read", {"uri": "data://no"})
    with pytest.raises(InvalidParams):
        await call(app, "no such tool")
    assert sink.outcomes == [
        ("work", "allowed", "ok"),
        ("fails", "allowed", "failed"),
        ("late", "allowed", "timed_out"),
        ("work", "allowed", "failed"),
        ("work", "over_quota", "refused"),
        ("data://no", "denied", "refused"),
        ("no such tool", "allowed", "failed"),
    ]
    assert "secret" not in str(sink.records)
    assert [each.get("error_code") for each in sink.records][-3:] == [429, -32602, -32602]


@pytest.mark.parametrize("mode", [LATEST, V1125])
async def test_questions_and_tasks(mode: str) -> None:
    sink = Sink()
    app = served(Audit(sink, on_failure="refuse"))
    async with Client(app, mode=mode, elicitation_handler=lambda asked: {"value": True}) as client:
        await client.call_tool("asks")
        await (await client.start_tool("slow")).result()
        with anyio.fail_after(30):
            while sum(each.get("event") == "task" for each in sink.records) < 1:
                await anyio.sleep(0.01)
    asked = [(each["outcome"]) for each in sink.records if each["member"] == "asks"]
    assert asked == (["input_required", "ok"] if mode == LATEST else ["ok"])
    begun, ended = [each for each in sink.records if each["member"] == "slow"]
    assert (begun["outcome"], ended["event"], ended["outcome"]) == ("task", "task", "ok")
    assert begun["task_id"] == ended["task_id"]


async def test_a_missing_scope_is_a_denial() -> None:
    sink = Sink()
    auth = ResourceServer(StaticTokens({"t": {"subject": "ada", "scopes": ["read"]}}), resource="https://x.example/mcp")
    app: MCPServer[Any] = MCPServer("x", middleware=[Audit(sink, on_failure="refuse")], auth=auth)

    @app.tool(scopes="write")
    def write() -> str:
        return ""

    from ferrule.auth import Principal

    with pytest.raises(Exception, match="scope"):
        await call(app, "write", dispatch=From(Principal("issuer", "ada", scopes=frozenset({"read"}))))
    (record,) = sink.records
    assert (record["decision"], record["outcome"], record["scopes"]) == ("denied", "refused", ["read"])
    assert "write" in record["reason"]


async def test_a_dry_run_is_recorded_with_what_it_would_deny() -> None:
    sink = Sink()
    app = served(Audit(sink, on_failure="refuse"), Policy(lambda request: False, dry_run=True))
    await call(app, "work", {"city": "a"})
    assert (sink.records[0]["decision"], len(sink.records[0]["would_deny"])) == ("allowed", 1)


async def test_a_sink_that_fails_refuses_before_calls_run_until_it_works_again() -> None:
    """The first failure is noticed at the end of a call, whose answer is withheld."""
    sink = Sink()
    runs: list[str] = []
    app: MCPServer[Any] = MCPServer("x", middleware=[Audit(sink, on_failure="refuse", chain=True)])

    @app.tool
    def work(city: str) -> str:
        runs.append(city)
        return city

    sink.fails = True
    for city in ("one", "two"):
        with pytest.raises(AuditUnavailable) as refused:
            await call(app, "work", {"city": city})
        assert (refused.value.code, "disk" in str(refused.value)) == (-32603, False)
    assert runs == ["one"]
    assert await ask(app, "tools/list")
    sink.fails = False
    await call(app, "work", {"city": "three"})
    assert (runs, len(sink.records)) == (["one", "three"], 2)


async def test_a_sink_that_fails_does_not_stop_calls_where_that_is_chosen() -> None:
    sink = Sink()
    sink.fails = True
    audit = Audit(sink, on_failure="continue", max_queued=2)
    app = served(audit)
    for city in ("one", "two", "three", "four"):
        await call(app, "work", {"city": city})
    sink.fails = False
    assert audit.flush(30)
    await call(app, "work", {"city": "five"})
    assert audit.flush(30)
    assert [each.get("lost", 0) for each in sink.records] == [0, 0, 2]


async def test_a_cancelled_call_is_recorded() -> None:
    sink = Sink()
    app: MCPServer[Any] = MCPServer("x", middleware=[Audit(sink, on_failure="refuse")])
    began = anyio.Event()

    @app.tool
    async def wait() -> str:
        began.set()
        await anyio.sleep_forever()
        return ""

    async with anyio.create_task_group() as group:
        group.start_soon(call, app, "wait")
        await began.wait()
        group.cancel_scope.cancel()
    with anyio.fail_after(30):
        while not sink.records:
            await anyio.sleep(0.01)
    assert sink.outcomes == [("wait", "allowed", "cancelled")]


async def test_the_wrong_order_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    app = served(Policy(lambda request: True), Audit(Sink(), on_failure="refuse"))
    for _ in range(2):
        await call(app, "work", {"city": "a"})
    assert caplog.messages == ["Policy stands before Audit, so that what it refuses is not recorded"]


async def test_records_of_hostile_requests_are_bounded() -> None:
    sink = Sink()
    app = served(Audit(sink, on_failure="refuse", arguments=lambda request: dict(request.arguments or {})))
    long = "x" * 100_000
    for name in (long, "work"):
        try:
            await ask(
                app,
                "tools/call",
                {
                    "name": name,
                    "arguments": {f"{long}{number}": long if number % 2 else 10**4000 for number in range(100)},
                    "_meta": {"traceparent": long},
                },
                dispatch=From({"sub": long, "client_id": long}),
            )
        except InvalidParams:
            pass
    assert len(sink.records) == 2
    assert all(len(str(record)) < 32 * 1024 for record in sink.records)


@pytest.mark.parametrize("wrong", [{"key": "short"}, {"on_failure": "ignore"}])
def test_impossible_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Audit(Sink(), **{"on_failure": "refuse", **wrong})
