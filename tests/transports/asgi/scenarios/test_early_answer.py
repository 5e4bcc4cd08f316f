"""An answer that is sent before its handler ends: for a body that does not end after its round was decided."""

from __future__ import annotations

import anyio
import pytest

from ferrule import Context, MCPServer
from ferrule.app.rounds.settings import RoundsSettings
from tests.transports.asgi.support import CAPABILITIES_KEY, modern, modern_call

pytestmark = pytest.mark.anyio


def stubborn(release: anyio.Event, *, speaks: bool) -> MCPServer:
    app = MCPServer("x")
    app.lowlevel.attachments[RoundsSettings].grace_s = 0.01

    @app.tool
    async def body(ctx: Context) -> str:
        if speaks:
            await ctx.info("before")
        try:
            await ctx.elicit("a", int)
        finally:
            with anyio.CancelScope(shield=True):
                await release.wait()
            if not ctx.suspending:
                await ctx.info("late")
        return "x"

    return app


@pytest.mark.parametrize("speaks", [False, True])
async def test_the_round_is_answered_although_its_body_does_not_end(speaks):
    """As JSON, or as the last event of a stream; what comes later is dropped and breaks nothing."""
    release = anyio.Event()
    endpoint = stubborn(release, speaks=speaks).asgi()
    message = modern(1, "tools/call", {"name": "body", "arguments": {}}, **{CAPABILITIES_KEY: {"elicitation": {}}})
    message["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = "info"
    call = modern_call(endpoint, message)
    async with anyio.create_task_group() as group:
        group.start_soon(call.run)
        answer = await call.until(lambda a: a.complete)
        assert not release.is_set()
        assert answer.status == 200
        assert answer.messages[-1]["result"]["resultType"] == "input_required"
        assert len(answer.messages) == (2 if speaks else 1)
        sends = answer.sends
        release.set()
    assert answer.sends == sends
