"""A Flask application whose views are tools, and whose endpoint is in the application itself.

python examples/flask_expose.py             calls it in this process and over HTTP, in both eras
python examples/flask_expose.py http        serves it: the site at /, MCP at /mcp

In production: gunicorn --chdir examples flask_expose:app
"""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any, Literal
from wsgiref.simple_server import WSGIRequestHandler, make_server

from flask import Blueprint, Flask, abort, request, url_for

from ferrule import Client
from ferrule.expose import expose
from ferrule.integrations.flask import mount

app = Flask("library")
books = Blueprint("books", __name__, url_prefix="/books")

SHELF: dict[int, dict[str, Any]] = {
    1: {"title": "Emma", "kind": "novel"},
    2: {"title": "Odes", "kind": "poems"},
}


@app.before_request
def check_token() -> Any:
    """Let only those in who have the token: it runs for tools as for everybody."""
    if request.method != "GET" and request.headers.get("Authorization") != "Bearer librarian":
        return {"error": "Only librarians may change the shelf"}, 403
    return None


@books.get("/<int:number>")
def show(number: int) -> dict[str, Any]:
    """Show a book.

    Args:
        number: As printed on its back.
    """
    if number not in SHELF:
        abort(404, f"There is no book {number}")
    return {**SHELF[number], "link": url_for("books.show", number=number, _external=True)}


@books.get("/kinds/<kind>")
def of_kind(kind: Literal["novel", "poems"]) -> list[dict[str, Any]]:
    """List the books of a kind."""
    return [book for book in SHELF.values() if book["kind"] == kind]


@books.post("/")
def add() -> tuple[dict[str, Any], int]:
    """Put a book on the shelf."""
    book = request.get_json()
    SHELF[max(SHELF) + 1] = book
    return book, 201


app.register_blueprint(books)

mcp = expose(
    app,
    include="tag:books",
    rename={"books_of_kind": "list_books", "books_show": "show_book", "books_add": "add_book"},
    # Values that the view reads from the request are in no signature.
    add_parameters={
        "books_add": {
            "title": {"in": "body", "required": True, "schema": {"type": "string"}},
            "kind": {"in": "body", "required": True, "schema": {"enum": ["novel", "poems"]}},
        }
    },
    forward_headers=("authorization",),
)
mount(app, mcp, "/mcp", loopback=True)


async def show_tools(client: Client) -> None:
    """Call everything once."""
    print(f"  tools:  {', '.join(sorted(tool.name for tool in await client.list_tools()))}")
    print(f"  poems:  {(await client.call_tool('list_books', {'kind': 'poems'})).text}")
    missing = (await client.call_tool("show_book", {"number": 7})).text
    print(f"  book 7: {missing.splitlines()[-1]}")
    added = await client.call_tool("add_book", {"title": "Iliad", "kind": "poems"})
    print(f"  adding: {added.text.splitlines()[-1]}")


async def main() -> None:
    """Show the server in this process, and inside the application."""
    print("in this process")
    async with Client(mcp) as client:
        await show_tools(client)
    server = make_server("127.0.0.1", 0, app, handler_class=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/mcp"
    headers = {"Authorization": "Bearer librarian"}
    for mode in ("2025-11-25", "2026-07-28"):
        print(f"{mode} over HTTP, as a librarian")
        async with Client(url, mode=mode, headers=headers) as client:
            await show_tools(client)
    server.shutdown()
    server.server_close()


class Quiet(WSGIRequestHandler):
    """Writes no line for each request."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's own name
        """Do nothing."""


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        app.run(port=8000)
    else:
        asyncio.run(main())
