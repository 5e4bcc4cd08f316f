"""Who may see and call what."""

# --8<-- [start:code]
from ferrule import MCPServer
from ferrule.middleware import AccessRequest, Deny, Policy


def by_role(request: AccessRequest) -> bool | Deny | None:
    """Tools that only read are for everybody; the others need a scope."""
    if request.kind != "tool" or request.annotations.get("readOnlyHint"):
        return True
    return True if "bank:write" in request.scopes else Deny("no scope bank:write")


async def small_amounts(request: AccessRequest) -> Deny | None:
    """Async, so that it may ask a service. `arguments` is None for the question whether the tool is seen."""
    if request.name == "transfer" and request.arguments is not None and request.arguments.get("amount", 0) > 1000:
        return Deny(f"{request.subject} wants more than 1000", message="Amounts above 1000 need an approval")
    return None


app = MCPServer("bank", middleware=[Policy(by_role, small_amounts)])


@app.tool(annotations={"readOnlyHint": True})
def balance() -> int:
    return 4000


@app.tool
def transfer(amount: int) -> str:
    return f"sent {amount}"


# --8<-- [end:code]


# --8<-- [start:dry]
def office_hours(request: AccessRequest) -> bool | None:
    return None if 8 <= hour() < 18 else False


watched = MCPServer("watched", middleware=[Policy(office_hours, dry_run=True)])
# --8<-- [end:dry]


def hour() -> int:
    return 3


@watched.tool
def ring() -> str:
    return "ringing"


async def check(mode: str) -> None:
    """In both eras: a caller in the same process has no scopes."""
    import pytest

    from ferrule import Client, MCPError
    from ferrule.auth import Principal
    from ferrule.transports.asgi.context import HttpContext

    async with Client(app, mode=mode) as client:
        assert [tool.name for tool in await client.list_tools()] == ["balance"]
        assert (await client.call_tool("balance")).data == 4000
        with pytest.raises(MCPError) as refused:
            await client.call_tool("transfer", {"amount": 1})
        assert str(refused.value) == "Unknown tool: transfer [-32602]"
    async with Client(watched, mode=mode) as client:
        assert (await client.call_tool("ring")).text == "ringing"

    from dataclasses import replace

    async def as_ada(ctx, call_next):
        principal = Principal("issuer", "ada", scopes=frozenset({"bank:write"}))
        return await call_next(replace(ctx, transport=HttpContext(principal=principal)))

    app.lowlevel.middleware.insert(0, as_ada)
    try:
        async with Client(app, mode=mode, cache=False) as client:
            assert (await client.call_tool("transfer", {"amount": 10})).text == "sent 10"
            with pytest.raises(MCPError) as refused:
                await client.call_tool("transfer", {"amount": 5000})
            assert str(refused.value) == "Amounts above 1000 need an approval [403]"
    finally:
        app.lowlevel.middleware.remove(as_ada)
