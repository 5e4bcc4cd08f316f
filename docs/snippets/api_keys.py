"""API keys of clients."""

from __future__ import annotations

# --8<-- [start:tokens]
from ferrule import Client, Context, MCPServer
from ferrule.auth import ResourceServer, StaticTokens

KEYS = {  # from your settings, one for each client
    "key-of-ada": {"subject": "ada", "scopes": ["notes:read", "notes:write"]},
    "key-of-the-report": {"subject": "report", "scopes": ["notes:read"]},
}

app = MCPServer("notes", auth=ResourceServer(StaticTokens(KEYS), required_scopes=["notes:read"]))


@app.tool
def whoami(ctx: Context) -> str:
    """Say who calls."""
    return ctx.principal.subject


@app.tool(scopes=["notes:write"])
def add_note(title: str) -> str:
    """Add a note."""
    return title


# --8<-- [end:tokens]


# --8<-- [start:client]
async def call(url: str, key: str, tool: str, **arguments: str) -> str:
    async with Client(url, headers={"Authorization": f"Bearer {key}"}) as client:
        return (await client.call_tool(tool, arguments)).text


# --8<-- [end:client]

# --8<-- [start:database]
import hashlib
import sqlite3

from ferrule.auth import InvalidToken, Principal


class StoredKeys:
    """Keys in a table, as digests, so that a copy of the table opens nothing."""

    issuers = ("https://notes.example.com",)

    def __init__(self, path: str) -> None:
        self.path = path

    def may_know(self, token: str) -> bool:
        return token.startswith("nk_")

    async def verify(self, token: str, audience) -> Principal:
        digest = hashlib.sha256(token.encode()).hexdigest()
        with sqlite3.connect(self.path) as db:
            row = db.execute("select owner, scopes from key where digest = ? and revoked = 0", (digest,)).fetchone()
        if row is None:
            raise InvalidToken("The key is not known, or it was revoked")
        return Principal(self.issuers[0], row[0], None, frozenset(row[1].split()), token=token)


# --8<-- [end:database]

# --8<-- [start:header]
import hmac

from ferrule.transports.asgi import HttpContext, HttpRefusal

open_app = MCPServer("notes")


async def authenticate(context: HttpContext) -> str:
    sent = context.headers.get("x-api-key", "")
    for key, facts in KEYS.items():
        if hmac.compare_digest(sent.encode(), key.encode()):
            return facts["subject"]
    raise HttpRefusal(401, "X-API-Key is missing or wrong")


@open_app.tool
def caller(ctx: Context) -> str:
    """Say who calls."""
    return ctx.principal


def make_endpoint():
    return open_app.asgi(authenticate=authenticate, allowed_hosts=["notes.example.com", "127.0.0.1"])


# --8<-- [end:header]


async def check(mode: str) -> None:
    """With each kind of key, over HTTP."""
    import tempfile
    from pathlib import Path

    import pytest

    from ferrule.errors import FerruleError
    from tests.auth.support import Relay, serving

    async def closed(url: str, **options: object) -> None:
        with pytest.raises(FerruleError):
            async with Client(url, mode=mode, proxy=None, **options) as client:
                await client.list_tools()

    relay = Relay()
    async with serving(relay) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        endpoint = relay.app = app.asgi(loopback=True)
        assert await call(url, "key-of-ada", "whoami") == "ada"
        assert await call(url, "key-of-ada", "add_note", title="Milk") == "Milk"
        await closed(url)
        await closed(url, headers={"Authorization": "Bearer wrong"})
        async with Client(url, headers={"Authorization": "Bearer key-of-the-report"}, mode=mode, proxy=None) as client:
            with pytest.raises(FerruleError, match="notes:write"):
                await client.call_tool("add_note", {"title": "Milk"})
        await endpoint.aclose()

        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "keys.db")
            with sqlite3.connect(path) as db:
                db.execute("create table key (digest text primary key, owner text, scopes text, revoked int)")
                for key, revoked in (("nk_good", 0), ("nk_old", 1)):
                    digest = hashlib.sha256(key.encode()).hexdigest()
                    db.execute("insert into key values (?, 'bob', 'notes:read', ?)", (digest, revoked))
            db.close()
            stored: MCPServer[None] = MCPServer("stored", auth=ResourceServer(StoredKeys(path)))
            stored.add_tool(whoami)
            endpoint = relay.app = stored.asgi(loopback=True)
            assert await call(url, "nk_good", "whoami") == "bob"
            await closed(url, headers={"Authorization": "Bearer nk_old"})
            await endpoint.aclose()

        endpoint = relay.app = make_endpoint()
        async with Client(url, headers={"X-API-Key": "key-of-ada"}, mode=mode, proxy=None) as client:
            assert (await client.call_tool("caller")).text == "ada"
        await closed(url)
        await endpoint.aclose()
