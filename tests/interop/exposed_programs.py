"""Runs in the environment of two FastAPI programs that others wrote: OPTIMADE's server, and a dashboard of queues.

Usage: exposed_programs.py convert | exposed_programs.py serve PORT
``convert`` prints what became of the operations of each; ``serve`` serves those of the first over HTTP.
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from typing import Any

from ferrule import Client
from ferrule.expose import expose, read_openapi


def programs() -> dict[str, Any]:
    """The applications, as their packages make them."""
    from optimade.server.main import app as optimade  # pyright: ignore[reportMissingImports]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of FastAPI about the program
        from rq_dashboard_fast import RedisQueueDashboard  # pyright: ignore[reportMissingImports]

        return {"optimade": optimade, "rq": RedisQueueDashboard("redis://127.0.0.1:1/0", "/rq")}


async def convert() -> dict[str, Any]:
    """Operations described, converted and offered, and the largest input schema, by program."""
    import jsonschema_rs

    found: dict[str, Any] = {}
    for name, app in programs().items():
        document = app.openapi()
        description = read_openapi(document)
        # The dashboard's lifespan needs its database; its list does not.
        server = expose(app, include="*", server={"tool_search": False})
        async with Client(server) as client:
            tools = await client.list_tools()
        for tool in tools:
            jsonschema_rs.meta.validate(tool.input_schema)
        found[name] = {
            "described": sum(len(item) for item in document["paths"].values()),
            "converted": len(description.operations),
            "skipped": [skipped.reason for skipped in description.skipped],
            "tools": len(tools),
            "notes": sorted({note for operation in description.operations for note in operation.schemas().notes}),
            "largest": max(len(json.dumps(tool.input_schema)) for tool in tools),
        }
    return found


if sys.argv[1] == "convert":
    print(json.dumps(asyncio.run(convert())))
else:
    expose(programs()["optimade"], include="*").run("http", port=int(sys.argv[2]))
