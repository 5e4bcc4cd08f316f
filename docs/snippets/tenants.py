"""One server for several tenants."""

# --8<-- [start:code]
from ferrule import Context, MCPServer
from ferrule.auth import ResourceServer, StaticTokens

tokens = StaticTokens(  # in production: the URL of an issuer, whose tokens have a claim with the tenant
    {
        "token-1": {"subject": "ada", "org_id": "acme"},
        "token-2": {"subject": "ada", "org_id": "beta"},
    }
)
app = MCPServer(
    "notes",
    auth=ResourceServer(tokens, resource="https://notes.example.com/mcp"),
    tenant="claim:org_id",
    store="memory:",
)
NOTES: dict[str, list[str]] = {"acme": ["buy anvils"], "beta": []}


@app.tool
def notes(ctx: Context) -> list[str]:
    return NOTES[ctx.principal.tenant]


# --8<-- [end:code]


# --8<-- [start:function]
MEMBERS = {("ada", "acme"), ("ada", "beta")}


def member_of(principal, context):
    """The first label of the host, for members only: a host says where a request goes, not who may go there."""
    tenant = (context.host or "").partition(".")[0]
    return tenant if (principal.subject, tenant) in MEMBERS else None


# --8<-- [end:function]


async def check(mode: str) -> None:
    """In both eras, by the principals that two tokens give."""
    from dataclasses import replace

    from ferrule import Client
    from ferrule.auth import Principal
    from ferrule.transports.asgi.context import HttpContext

    context = HttpContext(authority="acme.example.com")
    assert member_of(Principal("issuer", "ada"), context) == "acme"
    assert member_of(Principal("issuer", "eve"), context) is None

    def as_tenant(tenant: str):
        async def middleware(ctx, call_next):
            principal = Principal("issuer", "ada", tenant=tenant)
            return await call_next(replace(ctx, transport=HttpContext(principal=principal)))

        return middleware

    for tenant, expected in (("acme", ["buy anvils"]), ("beta", [])):
        app.lowlevel.middleware[:] = [as_tenant(tenant)]
        try:
            async with Client(app, mode=mode) as client:
                assert (await client.call_tool("notes")).data == expected
        finally:
            app.lowlevel.middleware.clear()
