"""The state on its way through the client: each way to misuse it has an error of its own."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from ferrule import Context, MCPServer
from ferrule.app.rounds.sealing import AeadSealer, StateKey
from ferrule.stores.blobs import MemoryBlobs
from ferrule.stores.marks import Mark, MemoryMarks
from ferrule.stores.store import Store, open_store
from tests.app.rounds.driving import KEY, Call, accept, outcome, served, settings_of
from tests.app.support import ask

pytestmark = pytest.mark.anyio


def asking(app: MCPServer) -> MCPServer:
    @app.tool
    async def body(ctx: Context, amount: float = 1) -> str:
        """Ask."""
        first = await ctx.elicit("first", int)
        second = await ctx.elicit("second", int)
        return f"{first.data} {second.data}"

    @app.tool
    async def other(ctx: Context, amount: float = 1) -> str:
        """Ask something else."""
        return str((await ctx.elicit("first", int)).data)

    return app


@pytest.fixture
def app() -> MCPServer:
    return asking(served())


async def test_a_changed_state_is_refused(app):
    call = await Call(app).send()
    call.state = call.state[:-2] + ("AA" if call.state[-2:] != "AA" else "BB")
    assert await outcome(call.request({})) == "-32602 tampered"


async def test_a_state_of_an_anonymous_sender_is_refused(app):
    call = Call(app)
    call.state = "made up"
    assert await outcome(call.request({})) == "-32602 tampered"


async def test_a_state_of_another_key_is_refused(app):
    call = await Call(asking(served(state_keys=["another key of thirty-two bytes.."]))).send()
    call.app = app
    assert await outcome(call.request({})) == "-32602 unknown_key"


async def test_a_late_state_is_refused(app):
    settings = settings_of(app)
    now = [1000.0]
    settings.clock = lambda: now[0]
    call = await Call(app).send()
    now[0] += settings.state.ttl_s
    assert await outcome(call.request({})) == "-32602 expired"


async def test_each_round_renews_the_expiry_under_an_absolute_cap(app):
    settings = settings_of(app)
    now = [1000.0]
    settings.clock = lambda: now[0]
    settings.state = replace(settings.state, ttl_s=100, max_s=250)
    call = await Call(app).send()
    for _ in range(2):
        now[0] += 99
        await call.send({})
    now[0] += 60
    assert await outcome(call.request({})) == "-32602 expired"


async def test_a_state_of_another_principal_is_refused(app):
    call = await Call(app, principal="ada").send()
    for other in ("bob", None, {"sub": "bob"}):
        call.principal = other
        assert await outcome(call.request({})) == "-32602 foreign_principal"
    call.principal = {"sub": "ada"}
    assert (await call.send({})).requests


@pytest.mark.parametrize("changes", [{"name": "other"}, {"arguments": {"amount": 2}}, {"arguments": {}}])
async def test_a_state_of_another_call_is_refused(app, changes):
    """Consent to one transfer is not consent to another."""
    call = await Call(app, amount=1).send()
    assert await outcome(call.request({}, **changes)) == "-32602 foreign_call"


async def test_one_and_one_point_zero_are_the_same_call(app):
    """A client may write its own number in another way when it retries."""
    call = await Call(app, amount=1).send()
    assert (await call.send({}, arguments={"amount": 1.0})).requests


async def test_a_state_of_a_prompt_opens_no_tool():
    app = asking(served())

    @app.prompt("body")
    async def prompt(ctx: Context) -> str:
        return str((await ctx.elicit("first", int)).data)

    call = await Call(app).send(method="prompts/get", arguments={})
    assert await outcome(call.request({})) == "-32602 foreign_call"


async def test_prompts_and_resources_ask_too():
    """The three methods that may answer with input requests."""
    app = served()

    @app.prompt
    async def greeting(ctx: Context) -> str:
        return f"Hello {(await ctx.elicit('who', str)).data}"

    @app.resource("data://{name}")
    async def data(name: str, ctx: Context) -> str:
        return f"{name} {(await ctx.elicit('who', str)).data}"

    call = Call(app, name="greeting")
    await (await call.send(method="prompts/get")).send(
        {key: accept("Ada") for key in call.requests}, method="prompts/get"
    )
    assert call.result["messages"][0]["content"]["text"] == "Hello Ada"
    call = Call(app)
    await call.send(method="resources/read", uri="data://x")
    answers = {key: accept("Ada") for key in call.requests}
    assert await outcome(call.request(answers, method="resources/read", uri="data://y")) == "-32602 foreign_call"
    await call.send(answers, method="resources/read", uri="data://x")
    assert call.result["contents"][0]["text"] == "x Ada"


async def test_a_large_state_needs_a_store():
    app = asking(served(inline_state_bytes=50, store=None))
    assert "StateTooLarge" in await outcome(Call(app).request())


async def test_a_state_that_is_too_large_for_the_store_is_an_error():
    """And not that it has expired, when the client comes back with it."""
    store = Store(MemoryMarks(), MemoryBlobs(max_bytes=60))
    assert "StateTooLarge" in await outcome(Call(asking(served(inline_state_bytes=50, store=store))).request())


async def test_a_large_state_goes_into_the_store():
    app = asking(served(inline_state_bytes=50))
    call = await Call(app).send()
    assert len(call.state) < 400
    for value in (1, 2):
        await call.reply(accept(value))
    assert call.result["content"][0]["text"] == "1 2"


async def test_a_state_that_the_store_forgot_has_expired():
    app = asking(served(inline_state_bytes=50))
    call = await Call(app).send()
    settings_of(app).blobs = MemoryBlobs()
    assert await outcome(call.request({})) == "-32602 expired"


async def test_a_state_may_be_good_for_one_use():
    """A round that is sent again is refused, in another process and as another text of the same token, too."""
    store = open_store("memory:")
    apps = [asking(served(single_use_states=True, store=store)) for _ in range(2)]
    call = await Call(apps[0]).send()
    again = Call(apps[0])
    again.state = call.state
    await call.reply(accept(1))
    for again.app in apps:
        assert await outcome(again.request({})) == "-32602 used"
        for text in (again.state + "=", again.state[:20] + "\n" + again.state[20:]):
            assert await outcome(again.request({}, requestState=text)) in {"-32602 used", "-32602 tampered"}
    await call.reply(accept(2))
    assert call.result["content"][0]["text"] == "1 2"


async def test_without_a_store_this_process_records_used_states():
    call = await Call(asking(served(single_use_states=True, store=None))).send()
    first = call.state
    await call.reply(accept(1))
    assert await outcome(call.request({}, requestState=first)) == "-32602 used"


async def test_a_round_may_be_sent_again_otherwise():
    """A client that lost a response continues with the same round."""
    call = await Call(asking(served())).send()
    first = call.state
    await call.reply(accept(1))
    call.state = first
    await call.send({})
    assert call.texts == ["first"]


async def test_a_rotated_key_still_opens_what_is_on_its_way():
    old, new = "old key of thirty-two bytes ......", "new key of thirty-two bytes ......"
    call = await Call(asking(served(state_keys=[old]))).send()
    call.app = asking(served(state_keys=[StateKey(new), old]))
    await call.reply(accept(1))
    call.app = asking(served(state_keys=[new]))
    await call.reply(accept(2))
    assert call.result["content"][0]["text"] == "1 2"


async def test_workers_without_keys_log_a_warning(caplog: pytest.LogCaptureFixture):
    """Two workers of a server without state_keys refuse each other's states: the log names the option, once."""
    call = await Call(asking(served(state_keys=None))).send()
    call.app = asking(served(state_keys=None))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert await outcome(call.request({})) == "-32602 unknown_key"
    assert [record.message.count("state_keys=[") for record in caplog.records] == [1]


async def test_with_keys_a_foreign_state_is_no_configuration_fault(app, caplog: pytest.LogCaptureFixture):
    call = Call(app)
    call.state = (await Call(asking(served(state_keys=["x" * 32]))).send()).state
    await outcome(call.request({}))
    assert not caplog.records


async def test_the_state_works_in_another_process_with_the_same_key():
    call = await Call(asking(served(state_keys=[KEY]))).send()
    for value in (1, 2):
        call.app = asking(served(state_keys=[KEY]))
        await call.reply(accept(value))
    assert call.result["content"][0]["text"] == "1 2"


async def test_a_state_without_a_meaning_here_is_refused_everywhere(app):
    """A method without questions ignores a state that it did not issue: it has no such field."""
    assert await ask(app, "tools/list", {"requestState": "x"})


class RecordingBlobs(MemoryBlobs):
    """Remembers for how long values are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.ttls: list[float] = []

    async def put(self, key: str, value: bytes, *, ttl_s: float) -> None:
        self.ttls.append(ttl_s)
        await super().put(key, value, ttl_s=ttl_s)


class RecordingMarks(MemoryMarks):
    """Remembers for how long marks are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.ttls: list[float] = []

    async def begin(self, key: str, *, ttl_s: float) -> Mark:
        self.ttls.append(ttl_s)
        return await super().begin(key, ttl_s=ttl_s)


@pytest.mark.parametrize(("max_s", "kept_s"), [(1000, 600), (200, 200)])
async def test_the_store_keeps_a_large_state_as_long_as_its_token_is_good(max_s: float, kept_s: float) -> None:
    """Not longer, so that calls which are never finished cost no memory for ever."""
    app = asking(served(inline_state_bytes=50))
    settings = settings_of(app)
    settings.clock, settings.blobs = lambda: 100.0, RecordingBlobs()
    settings.state = replace(settings.state, max_s=max_s)
    await Call(app).send()
    assert settings.blobs.ttls == [kept_s]


async def test_a_used_state_is_remembered_as_long_as_it_could_be_used_again() -> None:
    """From when it was used: the rest of its time."""
    app = asking(served(single_use_states=True, store=None))
    settings = settings_of(app)
    now = [1000.0]
    settings.clock, settings.used_states = lambda: now[0], RecordingMarks()
    call = await Call(app).send()
    now[0] += 100
    await call.send({})
    assert settings.used_states.ttls == [500.0]


@pytest.mark.parametrize(
    "payload", [[], [1, 2, 3], [1, 2, 3, 4, 5], {}, {"a": 1, "b": 2, "c": 3, "d": 4}, "four", None, 4]
)
async def test_a_state_of_another_form_is_refused(app: MCPServer, payload: object) -> None:
    """Sealed with the right key, but not by this program."""
    call = await Call(app).send()
    call.state = AeadSealer([StateKey(KEY)]).seal(payload)
    assert await outcome(call.request({})) == "-32602 tampered"
