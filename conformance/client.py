"""The client under test: ``python conformance/client.py URL``, one scenario per process.

The suite names the scenario and the revision in the environment. Everything here goes through `ferrule.Client`; what a
scenario wants done is a function of its own, found by name.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from ferrule import Client, MCPError
from ferrule.client.calls.forms import fill_defaults
from ferrule.wire.types import ElicitResult

Scenario = Callable[[Client], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")


def scenario(*names: str) -> Callable[[Scenario], Scenario]:
    """Register what to do in a scenario."""

    def register(run: Scenario) -> Scenario:
        SCENARIOS.update(dict.fromkeys(names, run))
        return run

    return register


def sample(schema: Any) -> Any:
    """A value of roughly this schema."""
    if not isinstance(schema, dict):
        return "x"
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {name: sample(sub) for name, sub in schema.get("properties", {}).items()}
    return {"number": 1, "integer": 1, "boolean": True, "array": [], "null": None}.get(kind, "x")


@scenario("initialize")
async def list_only(client: Client) -> None:
    """Connect and list."""
    await client.list_tools()


@scenario("tools_call")
async def add_numbers(client: Client) -> None:
    """List, then add."""
    await client.list_tools()
    result = await client.call_tool("add_numbers", {"a": 5, "b": 3})
    result.raise_on_error()


@scenario("elicitation-sep1034-client-defaults")
async def elicitation_defaults(client: Client) -> None:
    """The form's defaults are the answer."""
    await client.list_tools()
    (await client.call_tool("test_client_elicitation_defaults")).raise_on_error()


@scenario("sse-retry")
async def sse_retry(client: Client) -> None:
    """The call's stream is closed, and resumed after the server's retry time."""
    await client.list_tools()
    await client.call_tool("test_reconnection", {})


@scenario("http-standard-headers")
async def standard_headers(client: Client) -> None:
    """Everything that is mirrored in a header."""
    for tool in await client.list_tools():
        await client.call_tool(tool.name, sample(tool.input_schema))
    for resource in await client.list_resources():
        await client.read_resource(resource.uri)
    for prompt in await client.list_prompts():
        wanted = {argument.name: "x" for argument in prompt.arguments or []}
        await client.get_prompt(prompt.name, wanted)


@scenario("http-custom-headers")
async def custom_headers(client: Client) -> None:
    """Annotated arguments are mirrored, call by call."""
    await client.list_tools()
    for call in CONTEXT.get("toolCalls", []):
        await client.call_tool(call["name"], call.get("arguments"))


@scenario("http-invalid-tool-headers")
async def invalid_tool_headers(client: Client) -> None:
    """Only the tool with valid annotations is there to call."""
    for tool in await client.list_tools():
        await client.call_tool(tool.name, sample(tool.input_schema))


@scenario("json-schema-2020-12-preservation")
async def schema_preserved(client: Client) -> None:
    """An input schema comes through untouched."""
    tools = {tool.name: tool for tool in await client.list_tools()}
    schema = tools["json_schema_2020_12_tool"].input_schema
    await client.call_tool("json_schema_echo", {"schema": schema})


@scenario("sep-2322-client-request-state")
async def request_state(client: Client) -> None:
    """States are echoed exactly, or left out."""
    await client.list_tools()
    for name in ("test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state", "test_mrtr_no_result_type"):
        await client.call_tool(name, {})


@scenario("sep-2640-client-no-prefetch")
async def skills_listed(client: Client) -> None:
    """Listing skills reads none of their files."""
    await client.list_skills()


@scenario("sep-2640-client-verify-digest", "sep-2640-client-verify-size", "sep-2640-client-verify-frontmatter")
async def skills_verified(client: Client) -> None:
    """Load a skill and read its other files; a file that is not as described ends it."""
    for skill in await client.list_skills():
        await skill.load()
        for path in skill.paths:
            await skill.read(path)


async def elicit(params: Any) -> ElicitResult:
    """Defaults where there are some; a confirmation is given."""
    properties = (params.requested_schema or {}).get("properties", {})
    if "confirmed" in properties:
        return ElicitResult("accept", content={"confirmed": True})
    return await fill_defaults(params, None)  # type: ignore[arg-type]


async def call_protected(client: Client) -> None:
    """List, then call: what every authorization scenario looks at."""
    await client.list_tools()
    await client.call_tool("test-tool", {})


def auth() -> Any:
    """Credentials where the scenario is about them."""
    name = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    if not name.startswith("auth/"):
        return None
    from client_auth import auth_for

    return auth_for(name, CONTEXT)


def mode() -> str:
    """The era that the suite's mock speaks."""
    version = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION")
    return "auto" if version is None else version


async def main() -> None:
    """Run the scenario."""
    name = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    run = SCENARIOS.get(name, call_protected if name.startswith("auth/") else list_only)
    client = Client(
        sys.argv[1],
        mode=mode(),
        elicitation_handler=elicit,
        sampling_handler=lambda params: "Paris",
        roots=["file:///tmp"],
        timeout_s=30,
        connect_timeout_s=30,
        # The mock sends a broken-off call's answer on the standing stream if there is one, and then counts a missing
        # Last-Event-ID: without that stream the call itself must be resumed.
        listen=name != "sse-retry",
        auth=auth(),
    )
    async with client:
        await run(client)


if __name__ == "__main__":
    logging.basicConfig(level=os.environ.get("LOG_LEVEL", "WARNING"), stream=sys.stderr)
    try:
        asyncio.run(main())
    except MCPError as error:
        raise SystemExit(f"{error} {error.data!r}") from error
