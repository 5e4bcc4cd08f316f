"""The server under test of the official conformance suite: every fixture that its server scenarios ask for.

    python conformance/server.py --port 3001        serves http://localhost:3001/mcp, both eras
    … --workers 4 --store redis://localhost:6379    the same from four processes without any affinity

It stands on the low-level `Server`, so that each answer is visibly the one that the suite expects. Each tool is one
function ``async (ctx, arguments) -> result`` beside its definition.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import secrets
import struct
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import tasks_fixtures

from ferrule.app.rounds.settings import settings_of
from ferrule.extensions.tasks import Tasks
from ferrule.kernel.bus import Event
from ferrule.kernel.context import ServerRequestContext
from ferrule.kernel.relay import relayed
from ferrule.kernel.server import Server
from ferrule.protocol.caching import CacheHint
from ferrule.protocol.errors import InvalidParams, MissingRequiredClientCapability, ResourceNotFound
from ferrule.stores.store import Store, open_store
from ferrule.transports.asgi import HttpEndpoint, HttpOptions
from ferrule.transports.http_server import bind, run_http
from ferrule.transports.workers import find_target, run_workers
from ferrule.wire.headers import compile_param_plan

Ctx = ServerRequestContext[Any]
Tool = Callable[[Ctx, Mapping[str, Any]], Awaitable[dict[str, Any]]]

STEP_S = 0.05
RETRY_MS = 100
STATE_KEY = secrets.token_bytes(32)

server: Server[Any] = Server(
    "ferrule-conformance",
    version="1.0.0",
    logging=True,
    list_changed=["tools", "prompts"],
    resource_updates=True,
    cache_hints={"*": CacheHint(ttl_ms=1000, scope="public")},
    lifespan=lambda lowlevel: served.life(lowlevel),
)


# --- contents ---------------------------------------------------------------------------------------------------------


def red_pixel() -> bytes:
    """A PNG of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def silence() -> bytes:
    """A WAV of eight silent samples."""
    samples = bytes([128] * 8)
    form = struct.pack("<HHIIHH", 1, 1, 8000, 8000, 1, 8)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


PNG = base64.b64encode(red_pixel()).decode()
WAV = base64.b64encode(silence()).decode()


def text(value: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": value}


def said(*blocks: dict[str, Any] | str) -> dict[str, Any]:
    """A tool result."""
    return {"content": [text(block) if isinstance(block, str) else block for block in blocks]}


IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}


def embedded(uri: str, mime_type: str, body: str) -> dict[str, Any]:
    """An embedded resource block."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": body}}


# --- tools ------------------------------------------------------------------------------------------------------------

TOOLS: dict[str, tuple[dict[str, Any], Tool]] = {}


def tool(description: str, schema: dict[str, Any] | None = None, **properties: Any) -> Callable[[Tool], Tool]:
    """Register a function as the tool of its own name."""

    def register(function: Tool) -> Tool:
        name = function.__name__
        input_schema = schema or {
            "type": "object",
            "properties": {
                key: {"type": value} if isinstance(value, str) else value for key, value in properties.items()
            },
            "required": list(properties),
        }
        TOOLS[name] = ({"name": name, "description": description, "inputSchema": input_schema}, function)
        if plan := compile_param_plan(input_schema):
            server.param_headers[name] = plan
        return function

    return register


@server.request("tools/list")
async def list_tools(ctx: Ctx) -> dict[str, Any]:
    """All tools, in the order of their definition."""
    return {"tools": [definition for definition, _ in TOOLS.values()]}


@server.request("tools/call")
async def call_tool(ctx: Ctx) -> dict[str, Any]:
    """Call one by its name."""
    found = TOOLS.get(ctx.params.name)
    if found is None:
        raise InvalidParams(f"Unknown tool: {ctx.params.name}")
    return await found[1](ctx, ctx.params.arguments or {})


@tool("Answers with a line of text.")
async def test_simple_text(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return said("This is a simple text response for testing.")


@tool("Answers with an image.")
async def test_image_content(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return said(IMAGE)


@tool("Answers with a sound.")
async def test_audio_content(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return said({"type": "audio", "data": WAV, "mimeType": "audio/wav"})


@tool("Answers with an embedded resource.")
async def test_embedded_resource(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return said(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))


@tool("Answers with text, an image and a resource.")
async def test_multiple_content_types(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    resource = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return said("Multiple content types test:", IMAGE, resource)


@tool("Fails on purpose.")
async def test_error_handling(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {**said("This tool intentionally returns an error for testing"), "isError": True}


@tool("Logs three messages while it runs.")
async def test_tool_with_logging(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.log("info", message)
        await anyio.sleep(STEP_S)
    return said("Tool with logging executed successfully")


@tool("Logs one message, if the request asked for logs.")
async def test_logging_tool(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    await ctx.session.log("info", "Diagnostic message")
    return said("Logged where it was asked for")


@tool("Reports progress three times.")
async def test_tool_with_progress(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    for value in (0, 50, 100):
        await ctx.session.progress(value, 100)
        await anyio.sleep(STEP_S)
    return said("Tool with progress executed successfully")


@tool("Closes its stream and finishes; the result is fetched by reconnecting.")
async def test_reconnection(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    close = getattr(ctx.session.dispatch, "close_stream", None)
    if close is not None:
        await close(RETRY_MS)
        await anyio.sleep(0.15)
    return said("Reconnection test completed")


@tool("Takes a region that is mirrored into a header.", region={"type": "string", "x-mcp-header": "Region"})
async def test_header_parameter(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return said(f"Region: {arguments.get('region')}")


@tool(
    "Takes a schema with many keywords of JSON Schema 2020-12.",
    {
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
    },
)
async def json_schema_2020_12_tool(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return said(json.dumps(dict(arguments)))


@tool("Changes the list of tools and says so.")
async def test_trigger_tool_change(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    server.bus.publish(Event.list_changed("tools"))
    return said("Tool list changed")


@tool("Changes the list of prompts and says so.")
async def test_trigger_prompt_change(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    server.bus.publish(Event.list_changed("prompts"))
    return said("Prompt list changed")


# --- questions to a legacy client -------------------------------------------------------------------------------------


def form(**properties: Any) -> dict[str, Any]:
    """The schema of a form whose fields are all needed."""
    return {"type": "object", "properties": properties, "required": list(properties)}


async def elicited(ctx: Ctx, message: str, schema: dict[str, Any], label: str) -> dict[str, Any]:
    answer = await ctx.session.elicit(message, schema)
    return said(f"{label}: action={answer.action}, content={json.dumps(answer.content or {})}")


@tool("Asks the client's model.", prompt="string")
async def test_sampling(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    message = {"role": "user", "content": text(str(arguments["prompt"]))}
    answer = await ctx.session.send_request("sampling/createMessage", {"messages": [message], "maxTokens": 100})
    content = answer.get("content")
    reply = content.get("text") if isinstance(content, dict) else json.dumps(content)
    return said(f"LLM response: {reply}")


@tool("Asks the user for a name and an address.", message="string")
async def test_elicitation(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    schema = form(
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    return await elicited(ctx, str(arguments["message"]), schema, "User response")


@tool("Asks with a default for each kind of field.")
async def test_elicitation_sep1034_defaults(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
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


@tool("Asks with each kind of choice.")
async def test_elicitation_sep1330_enums(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
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


# --- questions to a modern client: rounds -----------------------------------------------------------------------------

NAME_FORM = form(name={"type": "string"})


def elicit(message: str, schema: dict[str, Any]) -> dict[str, Any]:
    """One form as an input request."""
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def sample(prompt: str, max_tokens: int) -> dict[str, Any]:
    """One question to the client's model as an input request."""
    message = {"role": "user", "content": text(prompt)}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": max_tokens}}


ROOTS = {"method": "roots/list"}


def ask(state: Any = None, **requests: Any) -> dict[str, Any]:
    """The result that asks the client for input."""
    result: dict[str, Any] = {"resultType": "input_required", "inputRequests": requests}
    if state is not None:
        result["requestState"] = sealed(state)
    return result


def sealed(state: Any) -> str:
    """A state that nobody can change unnoticed."""
    body = base64.urlsafe_b64encode(json.dumps(state).encode()).decode()
    return f"{body}.{hmac.new(STATE_KEY, body.encode(), hashlib.sha256).hexdigest()}"


def opened(token: str) -> Any:
    """The state in a token of ours; anything else is refused."""
    body, _, signature = token.partition(".")
    expected = hmac.new(STATE_KEY, body.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(signature.encode(), expected.encode()):
        raise InvalidParams("The requestState is not one of this server's")
    return json.loads(base64.urlsafe_b64decode(body))


def answers(ctx: Ctx) -> Mapping[str, Any]:
    """The client's answers of this round."""
    found = ctx.params.input_responses
    return found if isinstance(found, Mapping) else {}


def state_of(ctx: Ctx) -> Any:
    """The state that the client echoed, if it did."""
    token = ctx.params.request_state
    return opened(token) if isinstance(token, str) else None


def form_value(ctx: Ctx, key: str, field: str) -> Any:
    """A field of an accepted form; ``None`` where there is none (yet), or where it is malformed."""
    answer = answers(ctx).get(key)
    if not isinstance(answer, Mapping) or answer.get("action") != "accept":
        return None
    content = answer.get("content")
    return content.get(field) if isinstance(content, Mapping) else None


@tool("Asks for a name, then greets.")
async def test_input_required_result_elicitation(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    name = form_value(ctx, "user_name", "name")
    return said(f"Hello, {name}!") if isinstance(name, str) else ask(user_name=elicit("What is your name?", NAME_FORM))


@tool("Asks the client's model for a capital.")
async def test_input_required_result_sampling(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    answer = answers(ctx).get("capital_question")
    if not isinstance(answer, Mapping):
        return ask(capital_question=sample("What is the capital of France?", 100))
    return said(f"The model said: {json.dumps(answer.get('content'))}")


@tool("Asks for the client's roots.")
async def test_input_required_result_list_roots(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    answer = answers(ctx).get("client_roots")
    if not isinstance(answer, Mapping):
        return ask(client_roots=ROOTS)
    return said(f"Roots: {json.dumps(answer.get('roots'))}")


@tool("Asks for a confirmation and keeps a state.")
async def test_input_required_result_request_state(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    state = state_of(ctx)
    confirmed = form_value(ctx, "confirm", "ok")
    if state is None or confirmed is None:
        return ask({"asked": "confirm"}, confirm=elicit("Please confirm", form(ok={"type": "boolean"})))
    return said(f"state-ok: {confirmed}")


@tool("Asks three things at once.")
async def test_input_required_result_multiple_inputs(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    state = state_of(ctx)
    found = answers(ctx)
    if state is None or not {"user_name", "greeting", "client_roots"} <= set(found):
        return ask(
            {"asked": "all"},
            user_name=elicit("What is your name?", NAME_FORM),
            greeting=sample("Write a greeting", 50),
            client_roots=ROOTS,
        )
    return said(f"Name, greeting and roots received: {form_value(ctx, 'user_name', 'name')}")


@tool("Asks two things, one after the other.")
async def test_input_required_result_multi_round(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    state = state_of(ctx) or {"step": 0}
    name, color = form_value(ctx, "step1", "name"), form_value(ctx, "step2", "color")
    if state["step"] == 2 and color is not None:
        return said(f"{state['name']} likes {color}")
    if state["step"] == 2 or (state["step"] == 1 and name is not None):
        kept = {"step": 2, "name": state.get("name", name)}
        return ask(kept, step2=elicit("What is your favourite colour?", form(color={"type": "string"})))
    return ask({"step": 1}, step1=elicit("What is your name?", NAME_FORM))


@tool("Keeps a state that must come back unchanged.")
async def test_input_required_result_tampered_state(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    state = state_of(ctx)
    if state is None or form_value(ctx, "confirm", "ok") is None:
        return ask({"secret": "kept"}, confirm=elicit("Please confirm", form(ok={"type": "boolean"})))
    return said("The state is intact")


@tool("Asks only for what the client declared.")
async def test_input_required_result_capabilities(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    declared = ctx.session.connection.client_capabilities_raw
    requests: dict[str, Any] = {}
    if declared.get("elicitation") is not None:
        requests["user_name"] = elicit("What is your name?", NAME_FORM)
    if declared.get("sampling") is not None:
        requests["greeting"] = sample("Write a greeting", 50)
    if not requests or set(requests) <= set(answers(ctx)):
        return said("Everything that could be asked was answered")
    return ask(**requests)


@tool("Needs the sampling capability.")
async def test_missing_capability(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    if ctx.session.connection.client_capabilities_raw.get("sampling") is None:
        raise MissingRequiredClientCapability({"sampling": {}})
    return said("The client can sample")


@tool("Asks the user while it streams, which must not become a request on the stream.")
async def test_streaming_elicitation(ctx: Ctx, arguments: Mapping[str, Any]) -> dict[str, Any]:
    if form_value(ctx, "user_name", "name") is not None:
        return said("Answered")
    await ctx.session.progress(1, 2)
    if not ctx.session.connection.is_modern:
        return said("This tool is about the modern era")
    return ask(user_name=elicit("What is your name?", NAME_FORM))


# --- resources --------------------------------------------------------------------------------------------------------

RESOURCES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "test://static-text": (
        {"name": "static-text", "description": "A fixed text.", "mimeType": "text/plain"},
        {"text": "This is the content of the static text resource."},
    ),
    "test://static-binary": (
        {"name": "static-binary", "description": "A fixed image.", "mimeType": "image/png"},
        {"blob": PNG},
    ),
    "test://watched-resource": (
        {"name": "watched-resource", "description": "Can be subscribed to.", "mimeType": "text/plain"},
        {"text": "Watched resource content"},
    ),
}
TEMPLATE = {
    "uriTemplate": "test://template/{id}/data",
    "name": "template",
    "description": "Data for an id.",
    "mimeType": "application/json",
}


@server.request("resources/list")
async def list_resources(ctx: Ctx) -> dict[str, Any]:
    """The fixed ones."""
    return {"resources": [{"uri": uri, **definition} for uri, (definition, _) in RESOURCES.items()]}


@server.request("resources/templates/list")
async def list_templates(ctx: Ctx) -> dict[str, Any]:
    """The one template."""
    return {"resourceTemplates": [TEMPLATE]}


@server.request("resources/read")
async def read_resource(ctx: Ctx) -> dict[str, Any]:
    """Read a fixed one, or one of the template."""
    uri = ctx.params.uri
    if uri in RESOURCES:
        definition, content = RESOURCES[uri]
        return {"contents": [{"uri": uri, "mimeType": definition["mimeType"], **content}]}
    id = uri.removeprefix("test://template/").removesuffix("/data")
    if uri == f"test://template/{id}/data" and "/" not in id:
        data = json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": data}]}
    raise ResourceNotFound(uri, code=ctx.revision.missing_resource_code)


# --- prompts and completion -------------------------------------------------------------------------------------------


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    """A prompt result of user messages."""
    return {"messages": [{"role": "user", "content": block} for block in blocks]}


PROMPTS: dict[str, dict[str, Any]] = {
    "test_simple_prompt": {"description": "A prompt without arguments."},
    "test_prompt_with_arguments": {
        "description": "A prompt with two arguments.",
        "arguments": [
            {"name": "arg1", "description": "First test argument", "required": True},
            {"name": "arg2", "description": "Second test argument", "required": True},
        ],
    },
    "test_prompt_with_embedded_resource": {
        "description": "A prompt that embeds a resource.",
        "arguments": [{"name": "resourceUri", "description": "URI of the resource to embed", "required": True}],
    },
    "test_prompt_with_image": {"description": "A prompt with an image."},
    "test_input_required_result_prompt": {"description": "A prompt that asks the client first."},
}


@server.request("prompts/list")
async def list_prompts(ctx: Ctx) -> dict[str, Any]:
    """All prompts."""
    return {"prompts": [{"name": name, **definition} for name, definition in PROMPTS.items()]}


@server.request("prompts/get")
async def get_prompt(ctx: Ctx) -> dict[str, Any]:
    """One prompt by its name."""
    name, arguments = ctx.params.name, ctx.params.arguments or {}
    if name == "test_simple_prompt":
        return user(text("This is a simple prompt for testing."))
    if name == "test_prompt_with_arguments":
        return user(text(f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'"))
    if name == "test_prompt_with_embedded_resource":
        resource = embedded(str(arguments.get("resourceUri")), "text/plain", "Embedded resource content for testing.")
        return user(resource, text("Please process the embedded resource above."))
    if name == "test_prompt_with_image":
        return user(IMAGE, text("Please analyze the image above."))
    if name == "test_input_required_result_prompt":
        context = form_value(ctx, "user_context", "context")
        if context is None:
            return ask(user_context=elicit("What is the context?", form(context={"type": "string"})))
        return user(text(f"Use this context: {context}"))
    raise InvalidParams(f"Unknown prompt: {name}")


@server.request("completion/complete")
async def complete(ctx: Ctx) -> dict[str, Any]:
    """Completions of the argument of `test_prompt_with_arguments`."""
    words = [word for word in ("test", "testing", "tested") if word.startswith(ctx.params.argument.value)]
    return {"completion": {"values": words, "total": len(words), "hasMore": False}}


class Served:
    """The server with what the command line chose; workers find it by its name."""

    def __init__(self) -> None:
        self.store: Store | None = None
        self.tasks: Tasks | None = None

    def configure(self, store_url: str | None) -> None:
        """Before serving, in each process."""
        self.store = None if store_url is None else open_store(store_url)
        self.tasks = tasks_fixtures.install(server, TOOLS, self.store)

    @asynccontextmanager
    async def life(self, lowlevel: Server[Any]) -> AsyncGenerator[dict[str, Any]]:
        """Join this process to the others while it serves."""
        async with AsyncExitStack() as stack:
            if self.store is not None and self.store.channel is not None:
                await stack.enter_async_context(relayed(lowlevel.bus, self.store.channel))
            if self.tasks is not None:
                await stack.enter_async_context(self.tasks.running(lowlevel, {}))
            yield {}

    def serve(self, port: int, on_started: Callable[[str, int], None], **more: Any) -> None:
        """Serve until a signal comes."""
        shared: dict[str, Any] = {}
        if self.store is not None and self.store.sessions is not None:
            shared = {"shared": self.store, "event_store": self.store.events}
        endpoint = HttpEndpoint(server, HttpOptions(loopback=True, retry_ms=RETRY_MS, **shared))
        run_http(endpoint, host="localhost", port=port, on_drain=endpoint.drain, on_started=on_started, **more)

    def serve_worker(self, sockets: list[Any], payload: dict[str, Any], on_started: Callable[..., None]) -> None:
        """What a worker process calls."""
        global STATE_KEY
        STATE_KEY = payload["state_key"]
        settings_of(server).share_key(STATE_KEY)
        self.configure(payload["store"])
        self.serve(payload["port"], on_started, sockets=sockets)


served = Served()


def main() -> None:
    """Serve on loopback."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, default=3001)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--store", help="redis://… where several workers share what they must")
    arguments = parser.parse_args()

    def started(host: str, port: int) -> None:
        print(f"serving http://{host}:{port}/mcp", flush=True)

    if arguments.workers == 1:
        served.configure(arguments.store)
        served.serve(arguments.port, started)
        return
    if arguments.store is None:
        parser.error("--workers needs --store redis://…")
    sockets = bind("localhost", arguments.port)
    port = sockets[0].getsockname()[1]
    payload = {"port": port, "store": arguments.store, "state_key": STATE_KEY}
    on_started = lambda: started("localhost", port)  # noqa: E731
    run_workers(find_target(served), arguments.workers, sockets, payload, drain_s=5, on_started=on_started)


if __name__ == "__main__":
    main()
