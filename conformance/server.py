"""The server under test of the official conformance suite: every fixture that its server scenarios ask for.

    python conformance/server.py --port 3001        serves http://localhost:3001/mcp, both eras
    … --workers 4 --store redis://localhost:6379    the same from four processes without any affinity
    … --wsgi                                        the same inside a WSGI server, without streams
    … --django asgi                                 the same inside a Django project, or wsgi

Written as an author would: what it shows is what `MCPServer` does. The fixtures that go through rounds and those of
tasks are servers of their own, mounted here.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import anyio
import rounds
import tasks_fixtures
from fixtures import form, red_pixel, silence

from ferrule import Context, Embedded, Header, MCPServer, ToolError
from ferrule.extensions.tasks import Tasks
from ferrule.protocol.caching import CacheHint

STEP_S = 0.05
RETRY_MS = 100
STORE_ENV = "FERRULE_CONFORMANCE_STORE"
"""The store, for workers: they import this file anew and see no command line."""

parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
parser.add_argument("--port", type=int, default=3001)
parser.add_argument("--workers", type=int, default=1)
parser.add_argument("--wsgi", action="store_true", help="inside a WSGI server (waitress)")
parser.add_argument("--django", choices=["asgi", "wsgi"], help="inside a Django project (uvicorn or waitress)")
parser.add_argument("--store", help="redis://… where several workers share what they must")
options = parser.parse_args(None if __name__ == "__main__" else [])
if options.store:
    os.environ[STORE_ENV] = options.store

Kind: Any = MCPServer
if options.django:
    import django_host

    Kind = django_host.server_kind()

app: MCPServer[Any] = Kind(
    "ferrule-conformance",
    version="1.0.0",
    cache_hints={"*": CacheHint(ttl_ms=1000, scope="public")},
    store=os.environ.get(STORE_ENV, "memory:"),
    extensions=[Tasks(poll_interval_ms=100)],
)

# --- tools ------------------------------------------------------------------------------------------------------------


@app.tool
async def test_simple_text() -> str:
    """Answers with a line of text."""
    return "This is a simple text response for testing."


@app.tool
async def test_image_content() -> Any:
    """Answers with an image."""
    return red_pixel()


@app.tool
async def test_audio_content() -> Any:
    """Answers with a sound."""
    return silence()


@app.tool
async def test_embedded_resource() -> Any:
    """Answers with an embedded resource."""
    return Embedded("test://embedded-resource", "This is an embedded resource content.", mime_type="text/plain")


@app.tool
async def test_multiple_content_types() -> Any:
    """Answers with text, an image and a resource."""
    data = '{"test":"data","value":123}'
    resource = Embedded("test://mixed-content-resource", data, mime_type="application/json")
    return ["Multiple content types test:", red_pixel(), resource]


@app.tool
async def test_error_handling() -> str:
    """Fails on purpose."""
    raise ToolError("This tool intentionally returns an error for testing")


@app.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Logs three messages while it runs."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(message)
        await anyio.sleep(STEP_S)
    return "Tool with logging executed successfully"


@app.tool
async def test_logging_tool(ctx: Context) -> str:
    """Logs one message, if the request asked for logs."""
    await ctx.info("Diagnostic message")
    return "Logged where it was asked for"


@app.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Reports progress three times."""
    for value in (0, 50, 100):
        await ctx.progress(value, 100)
        await anyio.sleep(STEP_S)
    return "Tool with progress executed successfully"


@app.tool
async def test_reconnection(ctx: Context) -> str:
    """Closes its stream and finishes; the result is fetched by reconnecting."""
    if await ctx.close_stream():
        await anyio.sleep(3 * STEP_S)
    return "Reconnection test completed"


@app.tool
async def test_header_parameter(region: Annotated[str, Header("Region")]) -> str:
    """Takes a region that is mirrored into a header."""
    return f"Region: {region}"


@app.tool(
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
async def json_schema_2020_12_tool(**arguments: Any) -> str:
    """Takes a schema with many keywords of JSON Schema 2020-12."""
    return json.dumps(arguments)


@app.tool
async def test_trigger_tool_change(ctx: Context) -> str:
    """Says that the list of tools changed."""
    await ctx.notify_tools_changed()
    return "Tool list changed"


@app.tool
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Says that the list of prompts changed."""
    await ctx.notify_prompts_changed()
    return "Prompt list changed"


# --- questions --------------------------------------------------------------------------------------------------------


async def elicited(ctx: Context, message: str, schema: dict[str, Any], label: str) -> str:
    """Ask, and tell what came back."""
    answer = await ctx.elicit(message, schema)
    return f"{label}: action={answer.action}, content={json.dumps(answer.data or {})}"


@app.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Asks the client's model."""
    return f"LLM response: {(await ctx.sample(prompt, max_tokens=100)).text}"


@app.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks the user for a name and an address."""
    schema = form(
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    return await elicited(ctx, message, schema, "User response")


@app.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks with a default for each kind of field."""
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "User name", "default": "John Doe"},
            "age": {"type": "integer", "description": "User age", "default": 30},
            "score": {"type": "number", "description": "User score", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "description": "Verification status", "default": True},
        },
    }
    return await elicited(ctx, "Please review the defaults", schema, "Elicitation completed")


@app.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks with each kind of choice."""
    names = ["option1", "option2", "option3"]
    titled = [
        {"const": f"value{i}", "title": f"{word} Option"} for i, word in enumerate(("First", "Second", "Third"), 1)
    ]
    schema = {
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": names},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": names}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    }
    return await elicited(ctx, "Please select options", schema, "Elicitation completed")


# --- resources --------------------------------------------------------------------------------------------------------


@app.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A fixed text."""
    return "This is the content of the static text resource."


@app.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A fixed image."""
    return red_pixel().data


@app.resource("test://watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """Can be subscribed to."""
    return "Watched resource content"


@app.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> dict[str, Any]:
    """Data for an id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


# --- prompts ----------------------------------------------------------------------------------------------------------


@app.prompt
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@app.prompt
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments.

    Args:
        arg1: First test argument
        arg2: Second test argument
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@app.complete(test_prompt_with_arguments, "arg1")
def complete_arg1(typed: str) -> Iterator[str]:
    """Words that begin as typed."""
    return (word for word in ("test", "testing", "tested") if word.startswith(typed))


@app.prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:  # noqa: N803 - the suite names it so
    """A prompt that embeds a resource.

    Args:
        resourceUri: URI of the resource to embed
    """
    resource = Embedded(resourceUri, "Embedded resource content for testing.", mime_type="text/plain")
    return [resource, "Please process the embedded resource above."]


@app.prompt
def test_prompt_with_image() -> list[Any]:
    """A prompt with an image."""
    return [red_pixel(), "Please analyze the image above."]


# --- skills -----------------------------------------------------------------------------------------------------------

app.add_skills(Path(__file__).parent / "skills")


@app.skill("daily", prefix="reports", description="Assemble today's report from live data")
def daily_report() -> str:
    """A skill that is made at each read."""
    return "# Daily report\n\nEverything works today.\n"


app.mount(rounds.app)
app.mount(tasks_fixtures.app)


def serve_wsgi(port: int) -> None:
    """Serve inside waitress, at a free port for 0."""
    from waitress.server import create_server

    server: Any = create_server(app.wsgi(path="/mcp", loopback=True), host="127.0.0.1", port=port, threads=8)
    print(f"serving http://localhost:{server.effective_port}/mcp", flush=True)
    server.run()


if __name__ == "__main__" and options.django:
    django_host.serve(app, options.django, options.port, retry_ms=RETRY_MS)
elif __name__ == "__main__" and options.wsgi:
    serve_wsgi(options.port)
elif __name__ == "__main__":
    app.run(
        "http",
        host="localhost",
        port=options.port,
        workers=options.workers,
        retry_ms=RETRY_MS,
        on_started=lambda host, port: print(f"serving http://{host}:{port}/mcp", flush=True),
    )
