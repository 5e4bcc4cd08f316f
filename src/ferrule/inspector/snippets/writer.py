"""Generates code for a call: a Python program, `curl` commands for a shell, a pytest test.

The code runs as it is; it has no placeholders. Secrets, secret arguments included, are not part of it: the code reads
them from environment variables, which it names. What a test expects is what the server sent, and is not changed.

Values come from servers and tools. They are written as ``repr`` of JSON values in Python and as quoted words in the
shell, so no value is executed as code.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Struct

from ferrule.inspector.snippets.variables import Variable, Variables
from ferrule.inspector.target import import_of, shown_path
from ferrule.inspector.values import decode_any_number
from ferrule.protocol.inbound import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, NAME_PARAMS, PROTOCOL_VERSION_KEY
from ferrule.protocol.secret_forms import secret_arguments
from ferrule.wire.codec import Encoded, encode_str
from ferrule.wire.headers import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    MCP_SESSION_ID_HEADER,
    encode_header_value,
)
from ferrule.wire.json_types import is_list, is_mapping

if TYPE_CHECKING:
    from ferrule.inspector.connection import InspectorConnection
    from ferrule.inspector.jobs import Job
    from ferrule.inspector.target import InspectedTarget

__all__ = ["write_snippet"]

_WIDTH: Final = 100
_LOCAL_URL: Final = "http://127.0.0.1:8000/mcp"
_SECRET_WORDS: Final = ("auth", "cookie", "key", "secret", "token")


def write_snippet(
    form: str,
    target: InspectedTarget,
    connection: InspectorConnection,
    op: str,
    params: Mapping[str, Any],
    job: Job | None,
) -> str:
    """Return code for a call.

    Args:
        form: ``"python"``, ``"curl"`` or ``"test"``.
        target: the server.
        connection: an open connection; the code uses its era.
        op, params: the call, as in `ferrule.inspector.jobs.OPERATIONS`.
        job: the job of the call if it was run; the pytest test then expects its outcome.

    Raises:
        ValueError: ``form`` is none of the three, or ``op`` is not a call.
    """
    if op not in ("call", "task", "read", "prompt", "request", "list"):
        raise ValueError("Only calls can be copied as code")
    writers = {"python": _python, "curl": _curl, "test": _test}
    if form not in writers:
        raise ValueError("form is python, curl or test")
    secrets = Variables()
    given: Any = params.get("arguments")
    if op in ("call", "task", "prompt") and is_mapping(given):
        schema = connection.client.tool_metadata.input_schema_of(str(params.get("tool")))
        secret = frozenset[str]() if schema is None else secret_arguments(schema)
        params = {**params, "arguments": secrets.in_arguments(given, secret)}
    elif op == "request":
        params = {**params, "params": secrets.in_value(params.get("params"))}
    answers = [] if job is None else [secrets.in_value(answer) for _, answer in job.answers]
    return writers[form](_Call(target, connection, op, params, job, answers, secrets))


class _Call(Struct, frozen=True):
    """What the code of a call is made of.

    Attributes:
        target, connection, op, params, job: as in `write_snippet`, with variables in the place of secrets.
        answers: what was answered to its questions, likewise.
        secrets: these variables.
    """

    target: InspectedTarget
    connection: InspectorConnection
    op: str
    params: Mapping[str, Any]
    job: Job | None
    answers: list[Any]
    secrets: Variables


# -- python -----------------------------------------------------------------------------------------------------------


def _python(given: _Call) -> str:
    target, connection, op, params, job = given.target, given.connection, given.op, given.params, given.job
    imports, where, options = _client(target, connection, job)
    call, show = _python_call(op, params)
    lines = [
        *sorted({"import asyncio", *imports, *given.secrets.imports}),
        "",
        f"from ferrule import {'Client, StdioServer' if not target.is_http else 'Client'}",
        *_answers(given.answers),
        "",
        "",
        "async def main() -> None:",
        f"    async with Client({', '.join([where, *options])}) as client:",
        *_indented(call, 8),
        f"        {show}",
        "",
        "",
        "asyncio.run(main())",
    ]
    return "\n".join(lines) + "\n"


def _python_call(op: str, params: Mapping[str, Any]) -> tuple[list[str], str]:
    """Return the statements of the call, and one that prints its result."""
    show = "print(result)"
    given = _literal(params.get("arguments") or {}, 8)
    if op in ("call", "task"):
        show = "print(result.data if result.has_structured_content else result.text)"
        tool = _on_one_line(params["tool"])
        if op == "call":
            return [f"result = await client.call_tool({tool}, {given})"], show
        return [f"task = await client.start_tool({tool}, {given})", "result = await task.result()"], show
    if op == "read":
        return [f"result = await client.read_resource({_on_one_line(params['uri'])})"], show
    if op == "prompt":
        return [f"result = await client.get_prompt({_on_one_line(params['name'])}, {given})"], show
    if op == "list":
        name = {"templates": "resource_templates"}.get(str(params["list"]), str(params["list"]))
        return [f"result = await client.list_{name}()"], show
    sent = _literal(params.get("params") or {}, 8)
    return [f"result = await client.request({_on_one_line(params['method'])}, {sent})"], show


def _client(
    target: InspectedTarget, connection: InspectorConnection, job: Job | None
) -> tuple[set[str], str, list[str]]:
    """Return the imports, the expression for the server, and the options of the client."""
    imports: set[str] = set()
    options: list[str] = []
    if connection.mode != "auto":
        options.append(f'mode="{connection.mode}"')
    if target.is_http:
        where = _on_one_line(target.url)
        secrets = _secret_headers(target)
        if target.token is not None:
            options.append('auth=os.environ["FERRULE_TOKEN"]')
        elif target.oauth:
            options.append('auth="oauth"')
        if target.headers:
            pairs = [
                f"{_on_one_line(name)}: "
                + (f'os.environ["{secrets[name]}"]' if name in secrets else _on_one_line(value))
                for name, value in target.headers.items()
            ]
            options.append(f"headers={{{', '.join(pairs)}}}")
        if target.token is not None or secrets:
            imports.add("import os")
    else:
        where, imports = _process(target)
    if job is not None and job.answers:
        for method, name in (
            ("elicitation/create", "elicitation_handler"),
            ("sampling/createMessage", "sampling_handler"),
        ):
            if any(asked == method for asked, _ in job.answers):
                options.append(f"{name}=answer")
    return imports, where, options


def _process(target: InspectedTarget) -> tuple[str, set[str]]:
    """Return the expression that starts the server from the folder of the inspector, and its imports."""
    server: Any = cast("Any", target.target).server
    imports: set[str] = set()
    if target.file is not None:
        imports.add("import sys")
        spelled = shown_path(target.file) + (f":{target.attribute}" if target.attribute else "")
        words = f'sys.executable, ["-m", "ferrule", "run", {_on_one_line(spelled)}]'
    else:
        words = f"{_on_one_line(server.command)}, {_on_one_line(list(server.args))}"
    if server.env:
        imports.add("import os")
        pairs = [f"{_on_one_line(name)}: os.environ[{_on_one_line(name)}]" for name in server.env]
        words += f", env={{{', '.join(pairs)}}}"
    if server.cwd is not None:
        words += f", cwd={str(server.cwd)!r}"
    if server.inherit_env is True:
        words += ", inherit_env=True"
    return f"StdioServer({words})", imports


def _answers(answers: list[Any]) -> list[str]:
    if not answers:
        return []
    return [
        "",
        f"ANSWERS = iter({_literal(answers, 0)})",
        "",
        "",
        "def answer(params):",
        '    """What was answered in the inspector, in order."""',
        "    return next(ANSWERS)",
    ]


def _secret_headers(target: InspectedTarget) -> dict[str, str]:
    """Return the headers whose values must not be in code, and the environment variables for these values."""
    return {
        name: "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name.upper())
        for name in target.headers
        if any(word in name.lower() for word in _SECRET_WORDS)
    }


def _literal(value: Any, indent: int) -> str:
    """Return a JSON value as Python, on several lines where one would be too long."""
    short = _on_one_line(value)
    if len(short) + indent <= _WIDTH:
        return short
    if is_mapping(value):
        brackets = "{}"
        parts = [f"{_on_one_line(key)}: {_literal(item, indent + 4)}" for key, item in value.items()]
    elif is_list(value):
        brackets = "[]"
        parts = [_literal(item, indent + 4) for item in value]
    else:
        return short
    inner = " " * (indent + 4)
    return "\n".join([brackets[0], *(f"{inner}{part}," for part in parts), f"{' ' * indent}{brackets[1]}"])


def _on_one_line(value: Any) -> str:
    if isinstance(value, Variable):
        return value.python
    if is_mapping(value):
        return "{" + ", ".join(f"{_on_one_line(key)}: {_on_one_line(item)}" for key, item in value.items()) + "}"
    if is_list(value):
        return "[" + ", ".join(_on_one_line(item) for item in value) + "]"
    if isinstance(value, Encoded):  # a number that Python writes in another way: the nearest one that it has
        value = float(bytes(value))
    if isinstance(value, float) and not isfinite(value):
        return f'float("{value}")'
    text = repr(value)  # escapes what cannot be seen, so direction marks and the like stay visible in code
    if isinstance(value, str) and text[0] == "'" and '"' not in value:
        return f'"{text[1:-1]}"'
    return text


def _indented(lines: list[str], spaces: int) -> list[str]:
    return [" " * spaces + line for line in lines]


# -- a test -----------------------------------------------------------------------------------------------------------


def _test(given: _Call) -> str:
    target, connection, op, params, job = given.target, given.connection, given.op, given.params, given.job
    found = import_of(target)
    imports, where, options = _client(target, connection, job)
    names = "Client" if target.is_http or found is not None else "Client, StdioServer"
    own: list[str] = []
    if found is not None:  # a test calls it in its own process
        module, where = found
        imports, own = set[str](), [f"from {module} import {where}"]
    imports = {*imports, *given.secrets.imports}
    call, _ = _python_call(op, params)
    name = "".join(character if character.isalnum() else "_" for character in _subject(op, params).lower()).strip("_")
    lines = [
        *sorted(imports),
        *([""] if imports else []),
        "import pytest",
        *own,
        "",
        f"from ferrule import {names}",
        *_answers(given.answers),
        "",
        "",
        "@pytest.fixture",
        "def anyio_backend():",
        '    return "asyncio"',
        "",
        "",
        "@pytest.mark.anyio",
        f"async def test_{name or op}():",
        f"    async with Client({', '.join([where, *options])}) as client:",
        *_indented(call, 8),
        *(f"    {line}" for line in _expectations(op, job)),
    ]
    return "\n".join(lines) + "\n"


def _subject(op: str, params: Mapping[str, Any]) -> str:
    return str(params.get("tool") or params.get("name") or params.get("uri") or params.get("method") or op)


def _expectations(op: str, job: Job | None) -> list[str]:
    outcome: Any = decode_any_number(job.outcome) if job is not None and job.state == "done" else None
    if outcome is None:
        return ["assert result is not None"]
    if op in ("call", "task"):
        result = outcome["result"]
        is_error = bool(result.get("isError"))
        if "structuredContent" in result:
            seen = f"assert result.structured_content == {_literal(result['structuredContent'], 4)}"
        else:
            text = "\n".join(block["text"] for block in result.get("content", []) if block.get("type") == "text")
            seen = f"assert result.text == {_on_one_line(text)}"
        return [f"assert {'' if is_error else 'not '}result.is_error", seen]
    if op == "read":
        texts = [part.get("text") for part in outcome["contents"]]
        return [f"assert [part.text for part in result.contents] == {_literal(texts, 4)}"]
    if op == "prompt":
        roles = [message["role"] for message in outcome["messages"]]
        return [f"assert [message.role for message in result.messages] == {_on_one_line(roles)}"]
    if op == "list":
        return [f"assert len(result) == {len(outcome)}"]
    return ["assert result is not None"]


# -- curl -------------------------------------------------------------------------------------------------------------


def _curl(given: _Call) -> str:
    target, connection, op, params = given.target, given.connection, given.op, given.params
    method, sent = _wire_call(op, params)
    url = target.url or _LOCAL_URL
    lines: list[str] = []
    if not target.is_http:
        lines += [f"# first, in another terminal:  ferrule run {shlex.quote(_typed(target))} --http", ""]
    session = connection.client.session
    credentials = _curl_credentials(target)
    if not session.revision.has_sessions:
        sent["_meta"] = {
            PROTOCOL_VERSION_KEY: session.version,
            CLIENT_INFO_KEY: {"name": "curl", "version": "1"},
            CLIENT_CAPABILITIES_KEY: {},
        }
        headers = {MCP_PROTOCOL_VERSION_HEADER: session.version, MCP_METHOD_HEADER: method}
        subject = sent.get(NAME_PARAMS.get(method, ""))
        if isinstance(subject, str):
            headers[MCP_NAME_HEADER] = encode_header_value(subject)
        if op == "call":
            headers |= connection.client.tool_metadata.headers(str(params["tool"]), params.get("arguments"))
        lines.append(_curl_post(url, headers, credentials, _body(method, sent, 1)))
        return given.secrets.in_shell("\n".join(lines) + "\n")
    version = session.version
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "curl", "version": "1"}}
    opened = _curl_post(url, {}, credentials, _body("initialize", hello, 1), "--output /dev/null --dump-header -")
    picked = f"awk -F': ' 'tolower($1) == \"{MCP_SESSION_ID_HEADER}\" {{print $2}}' | tr -d '\\r'"
    within = {MCP_PROTOCOL_VERSION_HEADER: version}
    session_header = f'--header "{MCP_SESSION_ID_HEADER}: $session"'
    lines += [
        f"session=$({opened} \\\n  | {picked})",
        _curl_post(url, within, [*credentials, session_header], _body("notifications/initialized", None, None)),
        _curl_post(url, within, [*credentials, session_header], _body(method, sent, 2)),
    ]
    return given.secrets.in_shell("\n".join(lines) + "\n")


def _wire_call(op: str, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if op in ("call", "task"):
        return "tools/call", {"name": params["tool"], "arguments": params.get("arguments") or {}}
    if op == "read":
        return "resources/read", {"uri": params["uri"]}
    if op == "prompt":
        given = cast("Mapping[str, Any]", params.get("arguments") or {})
        texts = {name: value if isinstance(value, str) else encode_str(value) for name, value in given.items()}
        return "prompts/get", {"name": params["name"], "arguments": texts}
    if op == "list":
        kind = str(params["list"])
        return ("resources/templates/list" if kind == "templates" else f"{kind}/list"), {}
    return str(params["method"]), dict(params.get("params") or {})


def _body(method: str, params: Mapping[str, Any] | None, id: int | None) -> str:
    message: dict[str, Any] = {"jsonrpc": "2.0"}
    if id is not None:
        message["id"] = id
    message["method"] = method
    if params is not None:
        message["params"] = params
    return encode_str(message)


def _curl_post(url: str, headers: Mapping[str, str], more: list[str], body: str, options: str = "--no-buffer") -> str:
    parts = [
        f"curl --silent --show-error {options} {shlex.quote(url)}",
        "--header 'content-type: application/json'",
        "--header 'accept: application/json, text/event-stream'",
        *(f"--header {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()),
        *more,
        f"--data-raw {shlex.quote(body)}",
    ]
    return " \\\n  ".join(parts)


def _curl_credentials(target: InspectedTarget) -> list[str]:
    found: list[str] = []
    if target.is_http and (target.token is not None or target.oauth):
        found.append('--header "authorization: Bearer $FERRULE_TOKEN"')
    secrets = _secret_headers(target)
    for name, value in target.headers.items():
        if name in secrets:
            found.append(f'--header {shlex.quote(f"{name}: ")}"${secrets[name]}"')
        else:
            found.append(f"--header {shlex.quote(f'{name}: {value}')}")
    return found


def _typed(target: InspectedTarget) -> str:
    if target.file is not None:
        return shown_path(target.file) + (f":{target.attribute}" if target.attribute else "")
    return target.text
