"""Exposed APIs: Ferrule beside fastmcp's ``from_openapi`` and fastapi-mcp, in one run.

python bench/exposing.py --github api.github.com.json --fastmcp PYTHON --fastapi-mcp PYTHON [--output FILE]

PYTHON are interpreters with ``fastmcp`` and ``fastapi``, and with ``fastapi-mcp`` and ``mcp<2``; the description comes
from npm (``@octokit/openapi``). What counts, written down before it was measured:

*Requests.* `CASES` are descriptions with one operation, arguments, and what OpenAPI says that the API then receives. A
case is right if exactly that arrives; names of arguments that a library must choose may be any of the given ones. Cases
with an answer are right if the result says what the answer says, and nothing of a failure's details. fastapi-mcp takes
FastAPI applications only; its converter and its caller are given the description directly.

*GitHub's description.* Tools and operations are matched by the letters and digits of name and id. A tool is right if
its name has at most 64 letters, digits, ``_`` and ``-`` and is no other tool's; its input schema is valid JSON Schema
2020-12 whose references all lead somewhere in it; every parameter of the operation is an argument, under a name made of
its own; and path parameters are required. Time and memory are those of a process that reads the document and makes the
list as JSON, imports left out of the time.

*CPU per call.* A FastAPI application in the same process, called through the library's own client in memory, 300 calls
after 50; CPU time of the process over the number of calls.

*Search.* Questions of ``search/questions.txt`` with a right operation among the first five results; with fastmcp its
BM25 search over the same description. ``search/held_out.txt`` was not looked at while the ranking was made.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import argparse
import asyncio
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LIMIT_S = 900


# -- what is asked -----------------------------------------------------------------------------------------------------


def operation(method: str = "get", path: str = "/a", **parts: Any) -> dict[str, Any]:
    """A description with one operation."""
    made = {"operationId": "op", "summary": "Does it", "responses": {"200": {"description": "OK"}}, **parts}
    return {"openapi": "3.1.0", "info": {"title": "A", "version": "1"}, "paths": {path: {method: made}}}


def parameter(name: str, place: str, schema: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": schema, "required": place == "path", **more}


def body(schema: Any, kind: str = "application/json", *, required: bool = True) -> dict[str, Any]:
    return {"required": required, "content": {kind: {"schema": schema}}}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
NUMBERS = {"type": "array", "items": INTEGER}
ITEM = {"type": "object", "required": ["name"], "properties": {"name": STRING, "note": {"type": ["string", "null"]}}}
TREE = {
    **operation("post", requestBody=body({"$ref": "#/components/schemas/Node"})),
    "components": {
        "schemas": {
            "Node": {
                "type": "object",
                "properties": {
                    "name": STRING,
                    "children": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}},
                },
            }
        }
    },
}
ANSWER = {"200": {"description": "OK", "content": {"application/json": {"schema": {**ITEM, "title": "Item"}}}}}

# name, description, arguments (alternatives), what arrives (parts of the request that must be so)
CASES: list[tuple[str, dict[str, Any], list[dict[str, Any]], dict[str, Any]]] = [
    (
        "slash in a path value",
        operation(path="/a/{id}", parameters=[parameter("id", "path", STRING)]),
        [{"id": "x/y z"}],
        {"path": "/a/x%2Fy%20z"},
    ),
    (
        "dots as a path value",
        operation(path="/a/{id}/b", parameters=[parameter("id", "path", STRING)]),
        [{"id": ".."}],
        {"is_refused": True},
    ),
    (
        "list in the query",
        operation(parameters=[parameter("n", "query", NUMBERS)]),
        [{"n": [1, 2]}],
        {"query": ["n=1", "n=2"]},
    ),
    (
        "list as one value",
        operation(parameters=[parameter("n", "query", NUMBERS, explode=False)]),
        [{"n": [1, 2]}],
        {"query": ["n=1,2"]},
    ),
    (
        "list with bars",
        operation(parameters=[parameter("n", "query", NUMBERS, style="pipeDelimited", explode=False)]),
        [{"n": [1, 2]}],
        {"query": ["n=1|2"]},
    ),
    (
        "deep object",
        operation(parameters=[parameter("f", "query", {"type": "object"}, style="deepObject", explode=True)]),
        [{"f": {"a": "b"}}],
        {"query": ["f[a]=b"]},
    ),
    (
        "truth in the query",
        operation(parameters=[parameter("t", "query", {"type": "boolean"})]),
        [{"t": True}],
        {"query": ["t=true"]},
    ),
    (
        "brackets in a name",
        operation(parameters=[parameter("page[size]", "query", INTEGER)]),
        [{"page[size]": 5}, {"page_size": 5}, {"page_size_": 5}],
        {"query": ["page[size]=5"]},
    ),
    (
        "header",
        operation(parameters=[parameter("X-Tenant", "header", STRING)]),
        [{"X-Tenant": "t"}, {"x_tenant": "t"}],
        {"headers": {"x-tenant": "t"}},
    ),
    ("cookie", operation(parameters=[parameter("c", "cookie", STRING)]), [{"c": "v"}], {"headers": {"cookie": "c=v"}}),
    (
        "body of members",
        operation("post", requestBody=body(ITEM)),
        [{"name": "n"}, {"body": {"name": "n"}}],
        {"json": {"name": "n"}},
    ),
    (
        "null in a body",
        operation("post", requestBody=body(ITEM)),
        [{"name": "n", "note": None}],
        {"json": {"name": "n", "note": None}},
    ),
    (
        "list as body",
        operation("post", requestBody=body(NUMBERS)),
        [{"body": [1, 2]}, {"items": [1, 2]}],
        {"json": [1, 2]},
    ),
    (
        "recursive body",
        TREE,
        [{"name": "a", "children": [{"name": "b", "children": []}]}],
        {"json": {"name": "a", "children": [{"name": "b", "children": []}]}},
    ),
    (
        "form",
        operation("post", requestBody=body(ITEM, "application/x-www-form-urlencoded")),
        [{"name": "n m"}],
        {"form": ["name=n m"]},
    ),
    ("text body", operation("post", requestBody=body(STRING, "text/plain")), [{"body": "hi"}], {"body": "hi"}),
    (
        "merge patch",
        operation("patch", requestBody=body(ITEM, "application/merge-patch+json")),
        [{"name": "n"}],
        {"json": {"name": "n"}, "headers": {"content-type": "application/merge-patch+json"}},
    ),
    ("body left out", operation("post", requestBody=body(ITEM, required=False)), [{}], {"body": ""}),
    (
        "one name in path and body",
        operation(
            "put",
            "/a/{id}",
            parameters=[parameter("id", "path", INTEGER)],
            requestBody=body({"type": "object", "properties": {"id": INTEGER}}),
        ),
        [{"id": 1, "id_body": 2}, {"id__path": 1, "id": 2}, {"path_id": 1, "id": 2}],
        {"path": "/a/1", "json": {"id": 2}},
    ),
    ("unknown argument", operation(parameters=[parameter("n", "query", INTEGER)]), [{"m": 1}], {"is_refused": True}),
    ("id of 100 characters", operation(operationId="x" * 100), [{}], {"path": "/a", "short_name": True}),
    ("answer without its body", operation(responses=ANSWER), [{}], {"answer": (204, ""), "is_error": False}),
    (
        "answer that contradicts its schema",
        operation(responses=ANSWER),
        [{}],
        {"answer": (200, '{"name":null,"x":1}'), "is_error": False, "says": "x"},
    ),
    ("list as answer", operation(), [{}], {"answer": (200, '[{"a":1}]'), "is_error": False, "says": "a"}),
    (
        "messages of a refusal",
        operation(),
        [{}],
        {"answer": (422, '{"detail":[{"loc":["body","n"],"msg":"too large"}]}'), "is_error": True, "says": "too large"},
    ),
    (
        "failure without its details",
        operation(),
        [{}],
        {"answer": (500, '{"trace":"secret"}'), "is_error": True, "hides": "secret"},
    ),
]


def judge(expected: dict[str, Any], seen: dict[str, Any]) -> bool:
    """Whether what arrived, and the result, are as expected."""
    from urllib.parse import unquote, unquote_plus

    sent = seen["sent"]
    if expected.get("is_refused"):
        return sent is None and seen["is_error"]
    if sent is None:
        return False
    checks = [not expected.get("short_name") or re.fullmatch(r"[A-Za-z0-9_-]{1,64}", seen["name"]) is not None]
    if "path" in expected:
        checks.append(sent["path"] == expected["path"])
    if "query" in expected:
        checks.append([unquote(part) for part in sent["query"].split("&")] == expected["query"])
    for name, value in expected.get("headers", {}).items():
        checks.append(sent["headers"].get(name) == value)
    if "json" in expected:
        try:
            checks.append(json.loads(sent["body"]) == expected["json"])
        except ValueError:
            checks.append(False)
    if "form" in expected:
        checks.append([unquote_plus(part) for part in sent["body"].split("&")] == expected["form"])
    if "body" in expected:
        checks.append(sent["body"] == expected["body"])
    if "is_error" in expected:
        checks.append(seen["is_error"] is expected["is_error"])
    checks.append(expected.get("says", "") in seen["text"])
    checks.append("hides" not in expected or expected["hides"] not in seen["text"])
    return all(checks)


# -- candidates: each in a process of its own --------------------------------------------------------------------------


class Ferrule:
    """This library."""

    async def tools(self, document: Any, answer: Any) -> Any:
        from ferrule import Client
        from ferrule.expose import from_openapi
        from ferrule.expose.exchange import ApiResponse

        sent: list[dict[str, Any]] = []

        class Caller:
            async def call(self, request: Any, origin: Any, *, max_bytes: int) -> Any:
                sent.append(
                    {
                        "path": request.path,
                        "query": request.query,
                        "headers": dict(request.headers),
                        "body": request.body.decode(),
                    }
                )
                status, text = answer
                return ApiResponse(status=status, headers=(("content-type", "application/json"),), body=text.encode())

            async def aclose(self) -> None:
                pass

        app = from_openapi(
            document, base_url="http://api.example", caller=Caller(), include="*", server={"tool_search": False}
        )
        return Client(app), sent

    async def call(self, client: Any, name: str, arguments: Any) -> tuple[bool, str]:
        result = await client.call_tool(name, arguments)
        return bool(result.is_error), result.text

    async def names(self, client: Any) -> list[str]:
        return [tool.name for tool in await client.list_tools()]

    def listed(self, document: Any) -> list[dict[str, Any]]:
        from ferrule.expose import from_openapi

        app = from_openapi(document, base_url="http://api.example", include="*", server={"tool_search": False})
        return [{"name": tool.name, "inputSchema": tool.input_schema} for tool in app.list_tools()]

    def application(self, api: Any) -> Any:
        from ferrule import Client
        from ferrule.expose import expose

        return Client(expose(api, include="*"))

    async def search(self, document: Any, queries: list[str]) -> list[list[str]]:
        from ferrule import Client
        from ferrule.expose import from_openapi

        app = from_openapi(document, base_url="http://api.example", include="*")
        async with Client(app) as client:
            return [
                [
                    tool["name"]
                    for tool in (
                        await client.call_tool("search_tools", {"query": query, "limit": 5})
                    ).structured_content["tools"]
                ]
                for query in queries
            ]


class FastMCP:
    """fastmcp's ``from_openapi``."""

    async def tools(self, document: Any, answer: Any) -> Any:
        import httpx2
        from fastmcp import Client
        from fastmcp import FastMCP as Server

        sent, handler = recorder(httpx2, answer)
        http = httpx2.AsyncClient(base_url="http://api.example", transport=httpx2.MockTransport(handler))
        return Client(Server.from_openapi(document, client=http)), sent

    async def call(self, client: Any, name: str, arguments: Any) -> tuple[bool, str]:
        result = await client.call_tool(name, arguments, raise_on_error=False)
        return bool(result.is_error), " ".join(getattr(block, "text", "") for block in result.content)

    async def names(self, client: Any) -> list[str]:
        return [tool.name for tool in await client.list_tools()]

    def listed(self, document: Any) -> list[dict[str, Any]]:
        import httpx2
        from fastmcp import FastMCP as Server

        server = Server.from_openapi(document, client=httpx2.AsyncClient(base_url="http://api.example"))
        tools = asyncio.run(server.list_tools())
        return [tool.to_mcp_tool().model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]

    def application(self, api: Any) -> Any:
        import httpx2
        from fastmcp import Client
        from fastmcp import FastMCP as Server

        http = httpx2.AsyncClient(base_url="http://api.example", transport=httpx2.ASGITransport(app=api))
        return Client(Server.from_openapi(api.openapi(), client=http))

    async def search(self, document: Any, queries: list[str]) -> list[list[str]]:
        import httpx2
        from fastmcp import Client
        from fastmcp import FastMCP as Server
        from fastmcp.server.transforms.search import BM25SearchTransform

        server = Server.from_openapi(document, client=httpx2.AsyncClient(base_url="http://api.example"))
        server.add_transform(BM25SearchTransform(max_results=5))
        found: list[list[str]] = []
        async with Client(server) as client:
            for query in queries:
                result = await client.call_tool("search_tools", {"query": query}, raise_on_error=False)
                text = " ".join(getattr(block, "text", "") for block in result.content)
                found.append(
                    re.findall(r'"name": ?"([^"]+)", ?"(?:description|title|inputSchema|meta|_meta)', text)[:5]
                )
        return found


class FastAPIMCP:
    """fastapi-mcp, its converter and caller."""

    async def tools(self, document: Any, answer: Any) -> Any:
        import httpx
        from fastapi import FastAPI
        from fastapi_mcp import FastApiMCP
        from fastapi_mcp.openapi.convert import convert_openapi_to_mcp_tools
        from mcp.shared.memory import create_connected_server_and_client_session

        sent, handler = recorder(httpx, answer)
        http = httpx.AsyncClient(base_url="http://api.example", transport=httpx.MockTransport(handler))
        made = FastApiMCP(FastAPI(), http_client=http)
        tools, made.operation_map = convert_openapi_to_mcp_tools(document)
        made.tools[:] = tools
        made.setup_server = lambda: None
        rewire(made)
        return create_connected_server_and_client_session(made.server), sent

    async def call(self, client: Any, name: str, arguments: Any) -> tuple[bool, str]:
        result = await client.call_tool(name, arguments)
        return bool(result.isError), " ".join(getattr(block, "text", "") for block in result.content)

    async def names(self, client: Any) -> list[str]:
        return [tool.name for tool in (await client.list_tools()).tools]

    def listed(self, document: Any) -> list[dict[str, Any]]:
        from fastapi_mcp.openapi.convert import convert_openapi_to_mcp_tools

        tools, _ = convert_openapi_to_mcp_tools(document)
        return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]

    def application(self, api: Any) -> Any:
        from fastapi_mcp import FastApiMCP
        from mcp.shared.memory import create_connected_server_and_client_session

        return create_connected_server_and_client_session(FastApiMCP(api).server)

    async def search(self, document: Any, queries: list[str]) -> list[list[str]]:
        raise NotImplementedError


def rewire(made: Any) -> None:
    """The handlers of fastapi-mcp take the tools and the map of the server when it was made."""
    from mcp import types

    async def call(request: Any) -> Any:
        params = request.params
        try:
            content = await made._execute_api_tool(
                client=made._http_client,
                tool_name=params.name,
                arguments=params.arguments or {},
                operation_map=made.operation_map,
            )
        except Exception as error:
            content = [types.TextContent(type="text", text=str(error))]
            return types.ServerResult(types.CallToolResult(content=content, isError=True))
        return types.ServerResult(types.CallToolResult(content=content, isError=False))

    async def listed(request: Any) -> Any:
        return types.ServerResult(types.ListToolsResult(tools=made.tools))

    made.server.request_handlers[types.CallToolRequest] = call
    made.server.request_handlers[types.ListToolsRequest] = listed


def recorder(http: Any, answer: Any) -> tuple[list[dict[str, Any]], Any]:
    """What arrives at a transport of httpx."""
    sent: list[dict[str, Any]] = []

    def handler(request: Any) -> Any:
        sent.append(
            {
                "path": request.url.raw_path.decode().partition("?")[0],
                "query": request.url.query.decode(),
                "headers": dict(request.headers),
                "body": request.content.decode(),
            }
        )
        status, text = answer
        return http.Response(status, content=text.encode(), headers={"content-type": "application/json"})

    return sent, handler


CANDIDATES: dict[str, Any] = {"ferrule": Ferrule, "fastmcp": FastMCP, "fastapi-mcp": FastAPIMCP}


async def requests_of(candidate: Any) -> dict[str, bool]:
    """Case → whether it is right."""
    found: dict[str, bool] = {}
    for name, document, alternatives, expected in CASES:
        found[name] = False
        for arguments in alternatives:
            seen: dict[str, Any] = {"sent": None, "is_error": True, "text": "", "name": ""}
            try:
                connecting, sent = await candidate.tools(document, expected.get("answer", (200, "{}")))
                async with connecting as client:
                    (seen["name"],) = await candidate.names(client)
                    try:
                        seen["is_error"], seen["text"] = await candidate.call(client, seen["name"], arguments)
                    except Exception as error:
                        seen["text"] = str(error)
                seen["sent"] = sent[-1] if sent else None
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
                continue
            if judge(expected, seen):
                found[name] = True
                break
    return found


async def cpu_of(candidate: Any) -> float:
    """Microseconds of CPU time for one call of an application in this process."""
    from fastapi import FastAPI
    from pydantic import BaseModel

    api = FastAPI()

    class Order(BaseModel):
        item: str
        count: int

    async def create(order: Order, dry: bool = False) -> Order:
        return order

    create.__annotations__ = {"order": Order, "dry": bool, "return": Order}
    api.post("/orders", operation_id="create_order")(create)
    async with candidate.application(api) as client:
        arguments = {"item": "nut", "count": 3, "dry": True}
        for count in (50, 300):
            begun = time.process_time()
            for _ in range(count):
                is_error, text = await candidate.call(client, "create_order", arguments)
                assert not is_error, text
                assert "nut" in text
            spent = time.process_time() - begun
    return 1e6 * spent / count


def worker(name: str, what: str, github: str, output: str) -> None:
    """One measurement; the result is a JSON file."""
    import logging

    logging.disable(logging.CRITICAL)
    candidate = CANDIDATES[name]()
    result: Any
    if what == "requests":
        result = asyncio.run(requests_of(candidate))
    elif what == "cpu":
        result = asyncio.run(cpu_of(candidate))
    elif what == "search":
        queries = [query for part in ("questions", "held_out") for query, _ in questions(part)]
        result = asyncio.run(candidate.search(json.loads(Path(github).read_bytes()), queries))
    else:
        candidate.listed(operation())  # imports
        begun, cpu = time.perf_counter(), time.process_time()
        tools = candidate.listed(json.loads(Path(github).read_bytes()))
        text = json.dumps(tools, ensure_ascii=False, separators=(",", ":"))
        result = {
            "seconds": time.perf_counter() - begun,
            "cpu_seconds": time.process_time() - cpu,
            "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "bytes": len(text.encode()),
            "tools": tools,
        }
    Path(output).write_text(json.dumps(result), encoding="utf-8")


# -- judging and printing ----------------------------------------------------------------------------------------------


def questions(part: str) -> list[tuple[str, list[str]]]:
    """Question and right operations."""
    lines = (HERE / "search" / f"{part}.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("|") for line in lines if "|" in line and not line.startswith("#")]
    return [(query.strip(), [name.strip() for name in names.split(",")]) for query, names in pairs]


def right_tools(tools: list[dict[str, Any]], document: Any) -> tuple[int, int]:
    """Operations of a document that are right tools, and all operations."""
    import jsonschema_rs

    counts = Counter(tool["name"] for tool in tools)
    exact = {letters(tool["name"]): tool for tool in tools}
    right = every = 0
    for item in document["paths"].values():
        for method, raw in item.items():
            if method not in ("get", "put", "post", "delete", "patch", "head", "options"):
                continue
            every += 1
            wanted = letters(raw["operationId"])
            # A name that was cut is one that begins like the id; several may, and one of them must be right.
            found = (
                [exact[wanted]] if wanted in exact else [tool for tool in tools if begins_alike(tool["name"], wanted)]
            )
            shared = [followed(each, document) for each in [*item.get("parameters", []), *raw.get("parameters", [])]]
            right += any(counts[tool["name"]] == 1 and is_right(tool, shared, jsonschema_rs) for tool in found)
    return right, every


def letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", name.lower())


def begins_alike(name: str, wanted: str) -> bool:
    return letters(name)[:36] == wanted[:36]


def plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def followed(value: Any, document: Any) -> Any:
    while "$ref" in value:
        target = document
        for step in value["$ref"].removeprefix("#/").split("/"):
            target = target[step.replace("~1", "/").replace("~0", "~")]
        value = target
    return value


def is_right(tool: dict[str, Any], parameters: list[Any], jsonschema_rs: Any) -> bool:
    schema = tool["inputSchema"]
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool["name"]) is None:
        return False
    try:
        jsonschema_rs.Draft202012Validator({**schema, "$schema": "https://json-schema.org/draft/2020-12/schema"})
    except ValueError:
        return False
    names = {plain(name) for name in schema.get("properties", {})}
    required = {plain(name) for name in schema.get("required", ())}
    for each in parameters:
        own = plain(each["name"])
        spelled = {own, f"{own}_{each['in']}"}
        if not spelled & names or (each["in"] == "path" and not spelled & required):
            return False
    return True


def measured(python: str, name: str, what: str, github: str) -> Any:
    """What a worker found; ``None`` if it failed or took too long."""
    with tempfile.NamedTemporaryFile(suffix=".json") as output:
        command = [python, __file__, "--worker", name, what, github, output.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            print(f"{name} {what}: not done in {LIMIT_S} s", file=sys.stderr)
            return None
        if done.stderr:
            print(f"{name} {what}: {done.stderr[-1500:]}", file=sys.stderr)
        return json.loads(Path(output.name).read_bytes()) if done.returncode == 0 else None


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", nargs=4)
    parser.add_argument("--github")
    parser.add_argument("--fastmcp")
    parser.add_argument("--fastapi-mcp")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    if given.worker:
        worker(*given.worker)
        return
    pythons = {"ferrule": sys.executable, "fastmcp": given.fastmcp, "fastapi-mcp": given.fastapi_mcp}
    pythons = {name: python for name, python in pythons.items() if python}
    document = json.loads(Path(given.github).read_bytes())
    ids = {
        letters(raw["operationId"])[:50]: raw["operationId"]
        for item in document["paths"].values()
        for method, raw in item.items()
        if isinstance(raw, dict) and "operationId" in raw
    }
    rows: dict[str, list[str]] = {}
    details: dict[str, list[str]] = {case[0]: [] for case in CASES}

    def put(row: str, text: str) -> None:
        rows.setdefault(row, []).append(text)

    for name, python in pythons.items():
        cases = measured(python, name, "requests", given.github)
        put(f"requests and answers right, of {len(CASES)}", "failed" if cases is None else str(sum(cases.values())))
        for case in details:
            details[case].append("" if cases is None else "yes" if cases[case] else "–")
        found = measured(python, name, "list", given.github)
        right = None if found is None else right_tools(found["tools"], document)
        put(
            "GitHub: operations that are right tools",
            f"none in {LIMIT_S} s" if right is None else f"{right[0]} of {right[1]}",
        )
        for row, key, form in (
            ("GitHub: time to list", "seconds", "{:.2f} s"),
            ("GitHub: CPU to list", "cpu_seconds", "{:.2f} s"),
            ("GitHub: memory of the process, peak", "megabytes", "{:.0f} MB"),
        ):
            put(row, "–" if found is None else form.format(found[key]))
        put("GitHub: size of the whole list", "–" if found is None else f"{found['bytes'] / 1e6:.1f} MB")
        cpu = measured(python, name, "cpu", given.github)
        put("CPU for one call, FastAPI in process", "failed" if cpu is None else f"{cpu:.0f} µs")
        results = None if name == "fastapi-mcp" else measured(python, name, "search", given.github)
        at = 0
        for part, row in (
            ("questions", "search: right among the first five"),
            ("held_out", "the same, questions kept aside"),
        ):
            asked = questions(part)
            if results is None:
                put(row, "no search" if name == "fastapi-mcp" else "failed")
                continue
            count = 0
            for (query, wanted), names in zip(asked, results[at : at + len(asked)], strict=True):
                is_right = any(ids.get(letters(each)[:50]) in wanted for each in names)
                count += is_right
                if not is_right and name == "ferrule":
                    print(f"not found: {query}: {names}", file=sys.stderr)
            at += len(asked)
            put(row, f"{count} of {len(asked)}")
    lines = [f"| | {' | '.join(pythons)} |", f"|---|{'---:|' * len(pythons)}"]
    lines += [f"| {row} | {' | '.join(texts)} |" for row, texts in rows.items()]
    lines += ["", f"| case | {' | '.join(pythons)} |", f"|---|{'---|' * len(pythons)}"]
    lines += [f"| {row} | {' | '.join(texts)} |" for row, texts in details.items()]
    text = "\n".join(lines)
    print(text)
    if given.output is not None:
        given.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
