"""An interceptor: a server of its own that judges the calls of others."""

# --8<-- [start:code]
import logging
from collections.abc import Mapping
from typing import Any, Literal

from ferrule import Client, MCPError, MCPServer
from ferrule.middleware import CallNext, ServerRequestContext
from ferrule.wire.faults import FerruleError

log = logging.getLogger("foundry.interceptor")


class Intercept:
    """Asks another MCP server about each call of a tool before it runs.

    `mode="audit"` only logs what would be refused; `fail_open` says what happens while the interceptor is away.
    """

    def __init__(self, client: Client, *, mode: Literal["enforce", "audit"] = "enforce", fail_open: bool = False):
        self.client, self.mode, self.fail_open = client, mode, fail_open

    async def __call__(self, ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        if ctx.method != "tools/call" or not isinstance(ctx.params, Mapping):
            return await call_next(ctx)
        asked = {"phase": "request", "tool": ctx.params.get("name"), "arguments": ctx.params.get("arguments") or {}}
        try:
            verdict = (await self.client.call_tool("intercept", asked, timeout_s=5)).data
        except FerruleError:
            log.exception("the interceptor did not answer")
            verdict = {"allow": self.fail_open, "reason": "the interceptor is not available"}
        if not verdict["allow"]:
            log.warning("%s: %s", asked["tool"], verdict["reason"])
            if self.mode == "enforce":
                raise MCPError(f"Refused: {verdict['reason']}", code=-32010)
        return await call_next(ctx)


# --8<-- [end:code]


interceptor = MCPServer("interceptor")


@interceptor.tool
async def intercept(phase: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Refuse what melts below the furnace."""
    is_allowed = arguments.get("metal") != "gallium"
    return {"allow": is_allowed, "reason": "" if is_allowed else "gallium melts in the hand"}


async def check(mode: str) -> None:
    """In both eras."""
    ran: list[str] = []

    def foundry(middleware: Intercept) -> MCPServer:
        app = MCPServer("foundry", middleware=[middleware])

        @app.tool
        async def melt(metal: str) -> str:
            ran.append(metal)
            return f"{metal} is liquid"

        return app

    async def outcome(middleware: Intercept, metal: str) -> str:
        async with Client(foundry(middleware), mode=mode) as client:
            try:
                return (await client.call_tool("melt", {"metal": metal})).text
            except MCPError as error:
                return str(error)

    async with Client(interceptor) as judge:
        assert await outcome(Intercept(judge), "brass") == "brass is liquid"
        assert "gallium melts in the hand" in await outcome(Intercept(judge), "gallium")
        assert ran == ["brass"], "what is refused does not run"
        assert await outcome(Intercept(judge, mode="audit"), "gallium") == "gallium is liquid"
    away = Client(interceptor)
    assert "not available" in await outcome(Intercept(away), "tin")
    assert await outcome(Intercept(away, fail_open=True), "tin") == "tin is liquid"
