"""Explore a SQLite file: its tables as resources, in pages, and questions in SQL that cannot change anything.

Read-only three times over: the file is opened so, an authorizer lets nothing but reading through, and a query must be
one SELECT. It may take two seconds and values of a megabyte. Rows come in pages; the model passes the cursor back.

EXPLORER_DB=my.db python examples/explorer.py stdio     serves a file of yours (or http --port 8000)
python examples/explorer.py                             shows it in both eras, on the climate data
"""

from __future__ import annotations

import atexit
import csv
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ferrule import Client, Field, MCPServer, ToolError

QUERY_LIMIT_S = 2.0
MAX_VALUE_BYTES = 1 << 20
READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)

app = MCPServer("explorer", version="1.0", page_size=2)

Value = str | int | float | None


@dataclass
class Page:
    """Rows of an answer; ``next_cursor`` gives the page after this one, if there is one."""

    columns: list[str]
    rows: list[list[Value]]
    next_cursor: int | None


@contextmanager
def opened() -> Iterator[sqlite3.Connection]:
    """A connection that can only read."""
    end = time.monotonic() + QUERY_LIMIT_S
    with closing(sqlite3.connect(f"{DATABASE.as_uri()}?mode=ro", uri=True)) as db:
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        db.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY)
        db.set_progress_handler(lambda: time.monotonic() > end, 10_000)
        yield db


@app.tool(annotations={"readOnlyHint": True})
def query(sql: str, cursor: int = 0, limit: Annotated[int, Field(ge=1, le=100)] = 20) -> Page:
    """Answer one SELECT.

    Args:
        sql: SQLite's dialect, without a semicolon.
        cursor: the last page's next_cursor.
        limit: rows on a page.
    """
    try:
        with opened() as db:  # a synchronous tool runs in a worker thread: the event loop does not wait for the disk
            found = db.execute(f"SELECT * FROM (\n{sql}\n) LIMIT ? OFFSET ?", (limit + 1, cursor))
            rows = [[f"<{len(v)} bytes>" if isinstance(v, bytes) else v for v in row] for row in found]
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise ToolError(f"SQLite says: {error}") from error
    columns = [column[0] for column in found.description]
    return Page(columns, rows[:limit], cursor + limit if len(rows) > limit else None)


def add_tables() -> None:
    """Each table and view is a resource with the statement that created it."""
    with opened() as db:
        for name, sql in db.execute("SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view')"):
            app.add_resource(f"db:///{name}", lambda sql=sql: sql, name=name, mime_type="application/sql")


def sample(folder: str) -> Path:
    """The climate data as a database."""
    with open(Path(__file__).parent / "data" / "climate.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with closing(sqlite3.connect(path := Path(folder) / "climate.db")) as db, db:
        db.execute("CREATE TABLE city (name TEXT PRIMARY KEY, country TEXT)")
        db.execute("CREATE TABLE climate (city TEXT, month INTEGER, mean_c REAL, rain_mm REAL)")
        db.execute(
            "CREATE VIEW year AS SELECT city, avg(mean_c) mean_c, sum(rain_mm) rain_mm FROM climate GROUP BY city"
        )
        db.executemany("INSERT OR IGNORE INTO city VALUES (:city, :country)", rows)
        db.executemany("INSERT INTO climate VALUES (:city, :month, :mean_c, :rain_mm)", rows)
    return path


if "EXPLORER_DB" in os.environ:
    DATABASE = Path(os.environ["EXPLORER_DB"]).resolve(strict=True)
else:
    scratch = tempfile.TemporaryDirectory(prefix="ferrule-explorer-")
    atexit.register(scratch.cleanup)
    DATABASE = sample(scratch.name)
add_tables()


async def show(client: Client) -> None:
    """Look around, turn a page, and try what is forbidden."""
    tables = await client.list_resources()  # follows the cursors of the list by itself
    print(f"  {len(tables)} resources: {', '.join(table.uri for table in tables)}")
    wet: dict[str, Any] = {"sql": "SELECT city, rain_mm FROM year ORDER BY rain_mm DESC", "limit": 3}
    first = await client.call_tool("query", wet, result_type=Page)
    print(f"  wettest:       {first.data.rows}, next_cursor={first.data.next_cursor}")
    second = await client.call_tool("query", wet | {"cursor": first.data.next_cursor}, result_type=Page)
    print(f"  the next page: {second.data.rows}")
    print(f"  DELETE:        {(await client.call_tool('query', {'sql': 'DELETE FROM city'})).text}")


if __name__ == "__main__":
    from showing import main

    main(app, show)
