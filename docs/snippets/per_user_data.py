"""Data of one user, in a database of all users."""

from __future__ import annotations

# --8<-- [start:code]
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated

from ferrule import Client, Context, Depends, MCPServer, ToolError
from ferrule.auth import ResourceServer, StaticTokens

KEYS = {"key-of-ada": {"subject": "ada"}, "key-of-bob": {"subject": "bob"}}
FILE = "notes.db"

app = MCPServer("notes", auth=ResourceServer(StaticTokens(KEYS)))


def current_user(ctx: Context) -> str:
    """The user of this call, of the verified token; never of an argument."""
    return ctx.principal.subject


User = Annotated[str, Depends(current_user)]


@contextmanager
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(FILE)) as db, db:
        db.execute("create table if not exists note (id integer primary key, owner text, title text)")
        yield db


@app.tool
def add_note(title: str, user: User) -> int:
    """Add a note of the user."""
    with database() as db:
        return db.execute("insert into note (owner, title) values (?, ?)", (user, title)).lastrowid


@app.tool(annotations={"readOnlyHint": True})
def my_notes(user: User) -> list[str]:
    """List the notes of the user."""
    with database() as db:
        return [title for (title,) in db.execute("select title from note where owner = ?", (user,))]


@app.tool
def rename_note(id: int, title: str, user: User) -> str:
    """Rename a note of the user."""
    with database() as db:
        changed = db.execute("update note set title = ? where id = ? and owner = ?", (title, id, user))
        if changed.rowcount == 0:
            raise ToolError(f"There is no note {id}.")  # the same for a note of somebody else
    return title


# --8<-- [end:code]


# --8<-- [start:test]
async def test_users_see_only_their_own(url: str) -> None:
    def connect(key: str) -> Client:
        return Client(url, headers={"Authorization": f"Bearer {key}"}, proxy=None)

    async with connect("key-of-ada") as ada, connect("key-of-bob") as bob:
        number = (await ada.call_tool("add_note", {"title": "Milk"})).data
        assert (await ada.call_tool("my_notes")).data == ["Milk"]
        assert (await bob.call_tool("my_notes")).data == []
        stolen = await bob.call_tool("rename_note", {"id": number, "title": "Mine"})
        assert stolen.text == f"There is no note {number}."


# --8<-- [end:test]


async def check(mode: str) -> None:
    """In both eras."""
    import tempfile
    from pathlib import Path

    from tests.auth.support import Relay, serving

    global FILE
    relay = Relay()
    with tempfile.TemporaryDirectory() as folder:
        FILE = str(Path(folder) / "notes.db")
        async with serving(relay) as port:
            endpoint = relay.app = app.asgi(loopback=True)
            await test_users_see_only_their_own(f"http://127.0.0.1:{port}/mcp")
            async with Client(
                f"http://127.0.0.1:{port}/mcp", headers={"Authorization": "Bearer key-of-bob"}, mode=mode, proxy=None
            ) as bob:
                (listed, *_) = await bob.list_tools()
                assert "user" not in listed.input_schema["properties"]
                assert (await bob.call_tool("my_notes")).data == []
            await endpoint.aclose()
