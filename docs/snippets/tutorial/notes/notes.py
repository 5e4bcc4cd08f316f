# --8<-- [start:store]
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from ferrule import MCPServer

app = MCPServer("notes", version="1.0", instructions="Short notes of one person.")


@contextmanager
def database() -> Iterator[sqlite3.Connection]:
    """Open the file; commit at the end, or roll back if the body raises."""
    with closing(sqlite3.connect(os.environ.get("NOTES_FILE", "notes.db"))) as db, db:
        db.execute("create table if not exists note (id integer primary key, title text, text text, picture blob)")
        yield db


@dataclass
class Note:
    id: int
    title: str
    text: str


@app.tool
def add_note(title: str, text: str = "") -> Note:
    """Keep a note, and return it with its number."""
    with database() as db:
        rows = db.execute("insert into note (title, text) values (?, ?) returning id, title, text", (title, text))
        return Note(*rows.fetchone())


@app.tool(annotations={"readOnlyHint": True})
def find_notes(word: str = "") -> list[Note]:
    """Find the notes that contain a word; without a word, all of them."""
    with database() as db:
        rows = db.execute("select id, title, text from note where title || ' ' || text like ?", (f"%{word}%",))
        return [Note(*row) for row in rows]


# --8<-- [end:store]


# --8<-- [start:pictures]
from ferrule import Image, ToolError


@app.tool
def add_picture(id: int, picture: bytes) -> str:
    """Put a PNG picture into a note.

    Args:
        id: the number of the note.
        picture: the content of the PNG file.
    """
    if not picture.startswith(b"\x89PNG"):
        raise ToolError("This is not a PNG picture.")
    with database() as db:
        changed = db.execute("update note set picture = ? where id = ?", (picture, id))
        if changed.rowcount == 0:
            raise ToolError(f"There is no note {id}; find_notes lists them.")
    return f"Note {id} has a picture of {len(picture):,} bytes."


@app.tool(annotations={"readOnlyHint": True})
def show_picture(id: int) -> Image:
    """Show the picture of a note."""
    with database() as db:
        found = db.execute("select picture from note where id = ? and picture is not null", (id,)).fetchone()
    if found is None:
        raise ToolError(f"Note {id} has no picture.")
    return Image(found[0], format="png")


# --8<-- [end:pictures]


# --8<-- [start:confirm]
from ferrule import Context


@app.tool(annotations={"destructiveHint": True})
async def delete_note(id: int, ctx: Context) -> str:
    """Delete a note, if the user agrees."""
    with database() as db:
        found = db.execute("select title from note where id = ?", (id,)).fetchone()
    if found is None:
        raise ToolError(f"There is no note {id}; find_notes lists them.")

    if not await ctx.confirm(f"Delete note {id} ({found[0]})?"):
        return "Nothing was deleted."

    with database() as db:
        db.execute("delete from note where id = ?", (id,))
    return f"Note {id} is deleted."


# --8<-- [end:confirm]


# --8<-- [start:progress]
@app.tool
async def import_notes(lines: list[str], ctx: Context) -> int:
    """Add a note for each line, and return how many.

    Args:
        lines: each with a title, a colon and a text.
    """
    for number, line in enumerate(lines, 1):
        title, _, text = line.partition(":")
        add_note(title.strip(), text.strip())
        await ctx.progress(number, len(lines), title)
    return len(lines)


# --8<-- [end:progress]
