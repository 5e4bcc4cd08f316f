"""The few lines on the path of every call."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ferrule import Context, MCPServer
from tests.app.rounds.driving import Call, always, outcome, served
from tests.app.support import RecordingDispatch, ask, call, connection_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def app() -> MCPServer:
    return served()


async def test_a_body_that_never_asks_has_no_engine(app):
    """It pays one look at the task, and neither a journal nor a supervisor (the promise of 0.3 µs)."""
    seen = []

    @app.tool
    async def body(ctx: Context) -> str:
        seen.append(ctx.request.session.body.rounds)
        assert (ctx.suspending, ctx.replaying, ctx.input_state, dict(ctx.input_responses)) == (False, False, None, {})
        return "x"

    assert await outcome(Call(app).request()) == "x"
    assert seen == [None]


async def test_a_call_from_this_program_cannot_ask_questions(app):
    """`app.call_tool` has no client: the question is refused, and it does not hang."""

    @app.tool
    async def body(ctx: Context) -> str:
        return str(await ctx.elicit("a", int))

    with pytest.raises(Exception, match="elicitation"):
        await app.call_tool("body")


async def test_answers_without_a_state_open_a_first_round(app):
    """A client may send an empty map; nothing is outstanding."""

    @app.tool
    async def body(ctx: Context) -> str:
        return str((await ctx.elicit("a", int)).data)

    call_ = await Call(app).send({})
    assert call_.texts == ["a"]


async def test_settings_exist_for_a_server_of_ones_own():
    """The engine serves a low-level `Server` too, with defaults."""
    from ferrule.app.rounds.settings import RoundsSettings, settings_of
    from ferrule.kernel.server import Server

    server = Server("x")
    assert settings_of(server) is settings_of(server)
    assert isinstance(settings_of(server), RoundsSettings)


async def test_the_options_of_the_server_reach_the_engine():
    from tests.app.rounds.driving import settings_of

    app = MCPServer("x", state_ttl_s=5, max_rounds=6, inline_state_bytes=7, store=None)
    settings = settings_of(app)
    assert (settings.state.ttl_s, settings.max_rounds, settings.state.inline_bytes) == (5, 6, 7)
    assert (settings.marks, settings.blobs, settings.uses_process_key) == (None, None, True)
    assert settings_of(MCPServer("x")).marks is not None


def test_the_engine_is_imported_by_the_first_question():
    """A server whose tools never ask starts without a cipher, random numbers and the engine."""
    program = (
        "import sys; from ferrule import MCPServer; MCPServer('x');"
        "print([m for m in ('random', 'cryptography', 'ferrule.app.rounds.replay', 'ferrule.app.rounds.base',"
        " 'sqlite3') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


async def test_a_foreign_middleware_sees_the_rounds_as_results(app):
    """One shape: an interim result is a result."""
    seen = []

    async def watch(ctx, call_next):
        result = await call_next(ctx)
        seen.append(getattr(result, "result_type", None))
        return result

    app.lowlevel.middleware.append(watch)

    @app.tool
    async def body(ctx: Context) -> str:
        return str((await ctx.elicit("a", int)).data)

    await Call(app).finish(always(1))
    assert seen == ["input_required", "complete"]


async def test_legacy_results_are_never_input_required(app):
    @app.tool
    async def body(ctx: Context) -> str:
        return "x"

    result = await call(app, "body", version="2025-06-18")
    assert "resultType" not in result
    assert (
        await ask(
            app, "ping", version="2025-06-18", dispatch=RecordingDispatch(), connection=connection_of("2025-06-18")
        )
        == {}
    )
