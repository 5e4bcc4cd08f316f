"""An API with an OpenAPI description as an MCP server: chosen, renamed, shortened; errors that a model can act on.

The API is in this file, so that the example needs no network: a small ASGI application, called in process. One
behind a URL is the same without ``caller=``.

python examples/openapi_expose.py                 shows it in both eras
python examples/openapi_expose.py stdio           serves over stdin and stdout (or http --port 8000)
"""

from __future__ import annotations

import json
from typing import Any

from ferrule import Client, MCPServer
from ferrule.expose import ASGICaller, from_openapi

DESCRIPTION: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Workshop", "version": "1.4"},
    "paths": {
        "/orders": {
            "get": {
                "operationId": "orders.list.v1",
                "summary": "List orders",
                "tags": ["orders"],
                "parameters": [{"name": "state", "in": "query", "schema": {"enum": ["open", "paid"]}}],
                "responses": {"200": {"description": "OK"}},
            },
            "post": {
                "operationId": "orders.create.v1",
                "summary": "Order something",
                "tags": ["orders"],
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["item", "count"],
                                "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
                            }
                        }
                    },
                },
                "responses": {"201": {"description": "OK"}},
            },
        },
        "/orders/{number}": {
            "get": {
                "operationId": "orders.get.v1",
                "summary": "One order",
                "tags": ["orders"],
                "parameters": [{"name": "number", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "OK"}},
            }
        },
        "/admin/wipe": {"post": {"operationId": "wipe", "responses": {"204": {"description": "Everything is gone"}}}},
    },
}

ORDERS = [
    {"number": 1, "item": "bolt", "count": 40, "state": "paid", "internal": {"margin": 0.4}},
    {"number": 2, "item": "nut", "count": 12, "state": "open", "internal": {"margin": 0.2}},
]


async def api(scope: Any, receive: Any, send: Any) -> None:
    """The API, as it was before anybody thought of MCP."""
    if scope["type"] != "http":
        return
    status, answer = 200, await answer_to(scope, receive)
    if isinstance(answer, tuple):
        status, answer = answer
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


async def answer_to(scope: Any, receive: Any) -> Any:
    """The answer, with its status where it is not 200."""
    if scope["method"] == "POST":
        order = json.loads((await receive())["body"])
        if order["count"] > 100:
            return 422, {"detail": [{"loc": ["body", "count"], "msg": "there are only 100 in a box"}]}
        return 201, {"number": len(ORDERS) + 1, **order, "state": "open"}
    if scope["path"] == "/orders":
        state = scope["query_string"].decode().removeprefix("state=")
        return [order for order in ORDERS if state in ("", order["state"])]
    number = int(scope["path"].rpartition("/")[2])
    found = [order for order in ORDERS if order["number"] == number]
    return found[0] if found else (404, {"detail": f"there is no order {number}"})


app: MCPServer[Any] = from_openapi(
    DESCRIPTION,
    base_url="http://workshop.example",
    caller=ASGICaller(api),
    include="tag:orders",  # /admin/wipe has no tag: it is not a tool
    rename={"orders.list.v1": "list_orders", "orders.create.v1": "create_order", "orders.get.v1": "get_order"},
    describe={"orders.create.v1": "Order parts from the stock; ask the customer for the count before."},
    fields={"orders.list.v1": ["number", "item", "state"]},
    mask=("internal",),
)


async def show(client: Client) -> None:
    """What a model sees."""
    print("  tools:     ", ", ".join(sorted(tool.name for tool in await client.list_tools())))
    print("  open:      ", (await client.call_tool("list_orders", {"state": "open"})).text)
    print("  number 1:  ", (await client.call_tool("get_order", {"number": 1})).text)
    print("  created:   ", (await client.call_tool("create_order", {"item": "nut", "count": 3})).text)
    for name, arguments in (
        ("get_order", {"number": 7}),
        ("create_order", {"item": "nut", "count": 500}),
        ("list_orders", {"sate": "open"}),
    ):
        refused = await client.call_tool(name, arguments)
        print("  refused:   ", refused.text.replace("\n", " | ")[:110])


if __name__ == "__main__":
    from showing import main

    main(app, show)
