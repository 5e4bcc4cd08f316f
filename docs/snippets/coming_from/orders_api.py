"""An API as both programs of the page use it: its description, and an ASGI application."""

import json

DESCRIPTION = {
    "openapi": "3.1.0",
    "info": {"title": "Orders", "version": "1"},
    "paths": {
        "/orders/{number}": {
            "get": {
                "operationId": "get_order",
                "summary": "One order",
                "tags": ["orders"],
                "parameters": [{"name": "number", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "OK"}},
            },
            "delete": {
                "operationId": "delete_order",
                "summary": "Delete an order",
                "parameters": [{"name": "number", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"204": {"description": "Gone"}},
            },
        },
    },
}


async def api(scope, receive, send):
    """Knows one order."""
    number = int(scope["path"].rpartition("/")[2])
    status, answer = (200, {"number": 1, "item": "nut"}) if number == 1 else (404, {"detail": f"no order {number}"})
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(answer).encode()})
