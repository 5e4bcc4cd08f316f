"""Counts queries and seconds of tools of examples/django, and of the same views over HTTP; run in its folder.

Prints JSON: by name, ``rows``, ``queries`` and ``seconds`` of the tool, and ``view_queries`` and ``view_seconds``. With
Django's test client all runs in one thread, with one connection, as under WSGI.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import django

CALLS: list[tuple[str, str, dict[str, Any], str]] = [
    ("list", "product_list", {}, "/api/products/"),
    ("words", "product_list", {"search": "brass ferrule"}, "/api/products/?search=brass+ferrule"),
    (
        "filters",
        "product_list",
        {"ordering": "-price", "price_max": 300, "in_stock": True},
        "/api/products/?ordering=-price&price_max=300&in_stock=true",
    ),
    ("retrieve", "product_retrieve", {"sku": None}, "/api/products/{sku}/"),
    ("orders", "order_list", {}, "/api/orders/"),
    ("stock", "stock_list", {"warehouse_code": "OSL"}, "/api/warehouses/OSL/stock/"),
    ("categories", "category_list", {"limit": 5}, "/api/categories/?limit=5"),
    ("movements", "movement_list", {}, "/api/movements/"),
    ("offers", "offer_list", {}, "/api/offers/"),
    ("function", "where_is", {"sku": None}, ""),
]
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def main() -> None:
    """Measure each call: the second of each kind, when all is made that is made once."""
    django.setup()
    from django.apps import apps
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext
    from rest_framework.authtoken.models import Token

    authorization = {"authorization": f"Token {Token.objects.get(user__username='sam').key}"}
    client = Client(headers=authorization)
    products: Any = apps.get_model("catalog", "Product")
    sku = products.objects.first().sku

    def measured(send: Any) -> tuple[Any, int, float]:
        send()
        with CaptureQueriesContext(connection) as queries:
            begun = time.perf_counter()
            answer = send()
            seconds = time.perf_counter() - begun
        assert answer.status_code == 200, answer.content
        return answer.json(), len(queries), seconds

    found: dict[str, Any] = {}
    for name, tool, arguments, address in CALLS:
        given = {key: sku if value is None else value for key, value in arguments.items()}
        params = {"name": tool, "arguments": given, "_meta": META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": tool,
        }

        def call(body: str = body, headers: dict[str, str] = headers) -> Any:
            return client.post("/mcp/", body, content_type="application/json", headers=headers)

        message, queries, seconds = measured(call)
        assert not message["result"].get("isError"), message
        data = message["result"]["structuredContent"]
        rows = data.get("results", data.get("result", [data])) if isinstance(data, dict) else data
        found[name] = {"rows": len(rows), "queries": queries, "seconds": seconds}
        if address:
            where = address.format(sku=sku)

            def view(where: str = where) -> Any:
                return client.get(where)

            _, found[name]["view_queries"], found[name]["view_seconds"] = measured(view)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
