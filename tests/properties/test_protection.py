"""A protected server is closed through every door that leads to it: found by looking at the library, not by a list.

What may come over a network is found three ways, so that a new way to serve meets these tests by itself:

* every class that passes requests through `HttpGate` is built on a protected server, and on a proxy of one;
* every function that makes an endpoint, and every way to run one, is called;
* whatever else is an ASGI callable, or drives the kernel itself, must stand in a table here with the reason why a
  server's protection does not concern it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import json
import pkgutil
from collections.abc import Callable, Collection, Iterator
from functools import cache, wraps
from pathlib import Path
from typing import Any

import anyio
import pytest

import ferrule
from ferrule import Client, Context, Gateway, MCPServer, Server, proxy
from ferrule.app.errors import RegistrationError
from ferrule.auth import InvalidToken, Principal, ResourceServer
from ferrule.auth.challenges import parse_challenges
from ferrule.cli.gateway.endpoint import GatewayEndpoint
from ferrule.client.gateway.views import GatewayViews
from ferrule.transports.asgi.gate import HttpGate
from ferrule.transports.asgi.options import HttpOptions
from ferrule.transports.sse.server import SseEndpoint
from tests.transports.asgi.support import (
    CAPABILITIES_KEY,
    Answer,
    Call,
    legacy_headers,
    modern,
    modern_headers,
    open_session,
    request,
    running,
)

pytestmark = pytest.mark.anyio

ORIGIN = "http://127.0.0.1:8000"
RESOURCE = f"{ORIGIN}/mcp"


class NamedTokens:
    """``name@audience`` is a token of that party for that audience, if the name is a known one."""

    issuers = ("https://login.example",)

    def may_know(self, token: str) -> bool:
        return True

    async def verify(self, token: str, audience: Collection[str]) -> Principal:
        name, _, meant = token.partition("@")
        if name not in ("ada", "bob"):
            raise InvalidToken("The token is not known")
        if meant not in audience:
            raise InvalidToken("The token is meant for another resource")
        return Principal("https://login.example", name, scopes=frozenset({"mcp", name}), token=token)


def make_app(resource: str | None = RESOURCE, **options: Any) -> MCPServer[Any]:
    app = MCPServer("closed", auth=ResourceServer(NamedTokens(), resource=resource, required_scopes=["mcp"]), **options)

    @app.tool
    async def whoami(ctx: Context) -> str:
        """Say who calls."""
        return f"it is {ctx.principal and ctx.principal.subject}"

    @app.tool(allow=lambda principal: principal.subject == "ada")
    async def secret() -> str:
        """For Ada alone."""
        return "hers"

    @app.tool(scopes=["ada"])
    async def scoped() -> str:
        """Needs a scope that only Ada has."""
        return "scoped"

    @app.resource("data://log")
    async def log() -> str:
        """Something to read."""
        return "entry"

    return app


# -- the doors --------------------------------------------------------------------------------------------------------


@cache
def modules() -> tuple[Any, ...]:
    """Every module of the library that can be imported here."""
    return tuple(imported())


def imported() -> Iterator[Any]:
    for found in pkgutil.walk_packages(ferrule.__path__, "ferrule."):
        # A project's settings are needed for `ferrule.django`; its endpoints are tried in `tests/django`.
        if not found.name.endswith("__main__") and not found.name.startswith("ferrule.django"):
            try:
                yield importlib.import_module(found.name)
            except ImportError:  # an extra that is not installed
                continue


def classes() -> set[type]:
    return {
        value
        for module in modules()
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__.startswith("ferrule.")
    }


def gates() -> dict[str, type]:
    """By name and in the order of the names: all processes of a test run must find the same tests in the same order."""
    found = {kind.__name__: kind for kind in classes() if issubclass(kind, HttpGate) and kind is not HttpGate}
    return dict(sorted(found.items()))


def run_and_catch(run: Callable[[], object], patch: pytest.MonkeyPatch) -> Any:
    """What a way to run would have served, without serving it."""
    from ferrule.transports.hosting.uvicorn_server import run_http

    caught: list[Any] = []

    @wraps(run_http)
    def catch(app: Any, **options: Any) -> None:
        caught.append(app)

    patch.setattr("ferrule.transports.hosting.uvicorn_server.run_http", catch)
    run()
    (app,) = caught
    return app


def _through_command_line(app: MCPServer[Any], patch: pytest.MonkeyPatch) -> Any:
    from click.testing import CliRunner

    from ferrule.cli.program import program

    patch.setattr("ferrule.cli.loading.load_app", lambda path, attribute=None: app)
    return run_and_catch(lambda: CliRunner().invoke(program, ["run", __file__, "--http"]), patch)


def _routes(app: Any, **options: Any) -> Any:
    starlette = pytest.importorskip("starlette.applications")
    from ferrule.integrations.starlette import mcp_routes

    return starlette.Starlette(routes=mcp_routes(ferrule.asgi(app, **options)))


def _fastapi(app: Any, **options: Any) -> Any:
    fastapi = pytest.importorskip("fastapi")
    from ferrule.integrations.starlette import mcp_routes

    host = fastapi.FastAPI()
    host.router.routes.extend(mcp_routes(ferrule.asgi(app, **options)))
    return host


def _below_mount(app: Any) -> Any:
    starlette = pytest.importorskip("starlette.applications")
    routing = pytest.importorskip("starlette.routing")
    return starlette.Starlette(routes=[routing.Mount("/", app=ferrule.asgi(app))])


def _mounted(app: MCPServer[Any]) -> MCPServer[Any]:
    host: MCPServer[Any] = MCPServer(
        "host", auth=ResourceServer(NamedTokens(), resource=RESOURCE, required_scopes=["mcp"])
    )
    host.mount(app)
    return host


def _built(kind: type, of: Callable[[MCPServer[Any]], Any]) -> Callable[[MCPServer[Any], pytest.MonkeyPatch], Any]:
    if kind is GatewayEndpoint:
        # GatewayViews of a gateway without any: the paths that it adds are those of the sign-ins.
        return lambda app, _: GatewayEndpoint(of(app), HttpOptions(), GatewayViews(Gateway({})), None)
    return lambda app, _: kind(of(app))


DOORS: dict[str, Callable[[MCPServer[Any], pytest.MonkeyPatch], Any]] = {
    **{f"{name}(app.lowlevel)": _built(kind, lambda app: app.lowlevel) for name, kind in gates().items()},
    **{f"{name}(proxy(app))": _built(kind, proxy) for name, kind in gates().items()},
    "app.asgi()": lambda app, _: app.asgi(),
    "ferrule.asgi(app)": lambda app, _: ferrule.asgi(app),  # type: ignore[arg-type]
    "ferrule.asgi(app.lowlevel)": lambda app, _: ferrule.asgi(app.lowlevel),
    "ferrule.asgi(proxy(app))": lambda app, _: ferrule.asgi(proxy(app)),
    "ferrule.asgi(proxy(proxy(app)))": lambda app, _: ferrule.asgi(proxy(proxy(app))),
    "host.mount(app)": lambda app, _: _mounted(app).asgi(),
    "mcp_routes in Starlette": lambda app, _: _routes(app),
    "mcp_routes in FastAPI": lambda app, _: _fastapi(app),
    "mcp_routes of a proxy": lambda app, _: _routes(proxy(app)),
    "below a Starlette Mount": lambda app, _: _below_mount(app),
    "app.run('http')": lambda app, patch: run_and_catch(lambda: app.run("http"), patch),
    "ferrule.run(app.lowlevel)": lambda app, patch: run_and_catch(lambda: ferrule.run(app.lowlevel, "http"), patch),
    "ferrule.run(proxy(app))": lambda app, patch: run_and_catch(lambda: ferrule.run(proxy(app), "http"), patch),
    "app.serve_worker()": lambda app, patch: run_and_catch(
        lambda: app.serve_worker([], _payload(app), lambda *_: None), patch
    ),
    "ferrule run --http": _through_command_line,
    "app.wsgi()": lambda app, _: _wsgi_host(app.wsgi(path="/mcp")),
    "app.wsgi() of a mounted server": lambda app, _: _wsgi_host(_mounted(app).wsgi(path="/mcp")),
    "app.wsgi().beside(host)": lambda app, _: _wsgi_host(app.wsgi(path="/mcp").beside(_open_site)),
    "mount() in Flask": lambda app, _: _wsgi_host(_flask(app)),
}


def _open_site(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"open"]


def _flask(app: MCPServer[Any]) -> Any:
    flask = pytest.importorskip("flask")
    from ferrule.integrations.flask import mount

    host = flask.Flask("host")
    mount(host, app)
    return host


def _wsgi_host(app: Any) -> Any:
    """Serve a WSGI application to the callers of these tests, as a host does: repeated headers are joined."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"] if scope["method"] == "POST" else b""
        environ: dict[str, Any] = {
            "REQUEST_METHOD": scope["method"],
            "PATH_INFO": scope["path"],
            "QUERY_STRING": scope["query_string"].decode(),
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "8000",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": io.StringIO(),
        }
        for raw_name, raw_value in scope["headers"]:
            key = raw_name.decode().upper().replace("-", "_")
            key = key if key == "CONTENT_TYPE" else f"HTTP_{key}"
            value = raw_value.decode("latin-1")
            environ[key] = f"{environ[key]},{value}" if key in environ else value
        environ["CONTENT_LENGTH"] = str(len(body))
        started: list[Any] = []
        parts = await anyio.to_thread.run_sync(lambda: list(app(environ, lambda *given: started.append(given))))
        ((status, headers, *_),) = started
        pairs = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
        await send({"type": "http.response.start", "status": int(status[:3]), "headers": pairs})
        await send({"type": "http.response.body", "body": b"".join(parts)})

    return serve


def _payload(app: MCPServer[Any]) -> dict[str, Any]:
    from ferrule.app.serving.workers import make_payload

    return make_payload(app, "127.0.0.1", 8000, {})


def is_sse(door: str) -> bool:
    return "Sse" in door


async def knock(app: Any, door: str, authorization: str | None, query: bytes = b"") -> list[Answer]:
    """Everything that a client may begin with: both eras, every verb, every path."""
    given = {} if authorization is None else {"authorization": authorization}
    call = modern(1, "tools/call", {"name": "whoami", "arguments": {}})
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    hello = request(1, "initialize", params)
    stream = {**legacy_headers("some-session"), "accept": "text/event-stream"}
    if is_sse(door):
        calls = [
            Call(app, "GET", "/sse", headers={**stream, **given}),
            Call(app, "POST", "/messages", headers={**legacy_headers(), **given}, body=json.dumps(hello).encode()),
        ]
    else:
        calls = [
            Call(app, "POST", path, headers={**headers, **given}, body=json.dumps(message).encode())
            for path in ("/mcp", "/mcp/")
            for headers, message in (
                (modern_headers(call), call),
                (modern_headers(modern(1, "server/discover")), modern(1, "server/discover")),
                (legacy_headers(version=None), hello),
                (legacy_headers("some-session"), request(1, "tools/list")),
            )
        ]
        calls += [Call(app, verb, "/mcp", headers={**stream, **given}) for verb in ("GET", "DELETE")]
    answers: list[Answer] = []
    for made in calls:
        made.scope["query_string"] = query
        answers.append(await made.run())
    return answers


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def served(door: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    return DOORS[door](make_app(), monkeypatch)


REFUSED = {
    "no token": (None, b"", None),
    "another token": (f"Bearer eve@{RESOURCE}", b"", "invalid_token"),
    "a token for another resource": ("Bearer ada@http://other.example/mcp", b"", "invalid_token"),
    "a token in the query": (None, f"access_token=ada@{RESOURCE}".encode(), "invalid_request"),
    "a token in the query, escaped": (None, f"access%5Ftoken=ada@{RESOURCE}".encode(), "invalid_request"),
    "another scheme": (f"Basic ada@{RESOURCE}", b"", None),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_every_door_of_a_protected_server_is_closed(served: Any, door: str, case: str) -> None:
    """Every way to serve a server has its protection, with a challenge that leads to a token."""
    authorization, query, error = REFUSED[case]
    for answer in await knock(served, door, authorization, query):
        assert answer.status == 401, (answer.status, answer.body)
        (challenge,) = parse_challenges(answer.headers["www-authenticate"])
        assert challenge.error == error
        assert (challenge.resource_metadata or "").startswith(f"{ORIGIN}/.well-known/oauth-protected-resource")
        document = await Call(served, "GET", str(challenge.resource_metadata).removeprefix(ORIGIN)).run()
        assert (document.status, document.json["resource"]) == (200, RESOURCE)


async def test_every_door_refuses_two_tokens_at_once(served: Any, door: str) -> None:
    """A proxy before the server may have checked the other one."""
    path, verb = ("/sse", "GET") if is_sse(door) else ("/mcp", "POST")
    message = modern(1, "server/discover")
    pairs = [
        *modern_headers(message).items(),
        *(("authorization", f"Bearer {name}@{RESOURCE}") for name in ("ada", "eve")),
    ]
    for headers in (pairs, [*pairs[:-2], pairs[-1], pairs[-2]]):
        answer = await Call(served, verb, path, headers=headers, body=json.dumps(message).encode()).run()
        assert answer.status == 400


async def test_every_door_opens_for_the_right_token(served: Any, door: str) -> None:
    """An endpoint that refuses every client would pass the test above."""
    given = {"authorization": f"Bearer ada@{RESOURCE}"}
    if is_sse(door):
        async with running(Call(served, "GET", "/sse", headers={"accept": "text/event-stream", **given})) as stream:
            await stream.until(lambda answer: answer.events)
            assert stream.answer.status == 200
        return
    for tool, text in {"whoami": "it is ada", "secret": "hers", "scoped": "scoped"}.items():
        call = modern(1, "tools/call", {"name": tool, "arguments": {}})
        sent = {**modern_headers(call), **given}
        answer = await Call(served, headers=sent, body=json.dumps(call).encode()).run()
        assert (answer.status, text in answer.body.decode()) == (200, True), answer.body


async def test_every_endpoint_distinguishes_its_callers(served: Any, door: str) -> None:
    """Bob may come in, and has neither Ada's tools nor her scopes, a proxy in between or not."""
    if is_sse(door):
        return
    given = {"authorization": f"Bearer bob@{RESOURCE}"}

    async def post(method: str, params: dict[str, Any]) -> Answer:
        message = modern(1, method, params)
        return await Call(served, headers={**modern_headers(message), **given}, body=json.dumps(message).encode()).run()

    assert "it is bob" in (await post("tools/call", {"name": "whoami", "arguments": {}})).body.decode()
    names = [tool["name"] for tool in (await post("tools/list", {})).json["result"]["tools"]]
    assert sorted(names) == ["scoped", "whoami"]
    hidden = await post("tools/call", {"name": "secret", "arguments": {}})
    assert "hers" not in hidden.body.decode()
    lacking = await post("tools/call", {"name": "scoped", "arguments": {}})
    assert lacking.status == 403
    (challenge,) = parse_challenges(lacking.headers["www-authenticate"])
    assert (challenge.error, challenge.scopes) == ("insufficient_scope", ("mcp", "ada"))


# -- what is no door --------------------------------------------------------------------------------------------------

NO_DOORS = {
    "ferrule.auth.issuer.app.DemoIssuer": "an authorization server: serves no MCP",
    "ferrule.inspector.web.InspectorApp": "a page for the owner of the process, on loopback, behind its own secret",
    "ferrule.cli.tracing.http_tracing.HttpTrace": "passes bytes to a server elsewhere, which judges them",
}

OWNERS = {
    "ferrule.app.serving.in_process": "calls of the program to its own server",
    "ferrule.client.connection.channels": "a client in the same process; a proxy says on whose behalf",
    "ferrule.client.fast_path.direct": "plain calls of the same",
    "ferrule.testing": "test carriers in the same process",
    "ferrule.transports.stdio.server": "the peer started this process",
    "ferrule.transports.byte_streams": "a stream that the program hands over, or a socket that its user alone can open",
    "ferrule.transports.asgi": "behind HttpGate",
    "ferrule.transports.sse.server": "behind HttpGate",
    "ferrule.kernel": "the drivers themselves",
}


def test_every_asgi_application_uses_the_gate_or_gives_the_reason() -> None:
    """A new ASGI callable that serves a server without the gate fails here until it has a reason."""
    found = {
        f"{kind.__module__}.{kind.__name__}"
        for kind in classes()
        if (call := vars(kind).get("__call__")) is not None
        and list(inspect.signature(call).parameters)[1:] == ["scope", "receive", "send"]
        and not issubclass(kind, HttpGate)
    }
    assert found == set(NO_DOORS)


def test_every_driver_of_the_kernel_is_known() -> None:
    """A new transport that hands messages to the kernel is the owner's or passes the gate; nothing in between."""
    drivers = {"serve_one", "serve_connection", "serve_loop", "serve_dual_era_loop", "ServerRunner"}
    root = Path(ferrule.__file__).parent
    for path in root.rglob("*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        if names & drivers:
            module = ".".join(("ferrule", *path.relative_to(root).with_suffix("").parts))
            assert any(module == owner or module.startswith(f"{owner}.") for owner in OWNERS), module


def test_every_maker_of_endpoints_is_tried() -> None:
    """A new function that makes an endpoint of a server has to become a door above."""
    returned = (HttpGate, *gates(), *gates().values())
    makers = {
        f"{module.__name__}.{name}"
        for module in modules()
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and getattr(value, "__annotations__", {}).get("return") in returned
    }
    assert makers == {"ferrule.app.serving.http.make_endpoint", "ferrule.transports.hosting.running.asgi"}


async def test_in_process_a_client_is_the_owner() -> None:
    """Who holds the server object needs no token: it is this very program, as on stdio it is who started it."""
    async with Client(make_app()) as client:
        assert (await client.call_tool("whoami")).text == "it is None"
        assert (await client.call_tool("scoped")).text == "scoped"


def test_an_open_host_cannot_mount_a_protected_server() -> None:
    """Its tools would be available to every client of the parent."""
    with pytest.raises(RegistrationError, match="'closed' has auth= and 'open' has none"):
        MCPServer("open").mount(make_app())


def test_a_gateway_leaves_out_a_protected_server_object(caplog: pytest.LogCaptureFixture) -> None:
    """It has several servers and no protection: one of them cannot decide for all."""
    from tests.client.patience import patient_gateway

    server = patient_gateway({"a": make_app(), "b": MCPServer("open")}).server
    assert server.protection is None
    assert "'a' is left out" in caplog.text
    assert "'b' is left out" not in caplog.text


def test_the_hook_of_a_door_does_not_stand_in_for_protection() -> None:
    """Two answers to who may come in would be one too many."""
    app = make_app()

    async def anybody(context: Any) -> str:
        return "anybody"

    for make in (app.asgi, lambda **options: ferrule.asgi(app.lowlevel, **options)):
        with pytest.raises(ValueError, match="servers without auth="):
            make(authenticate=anybody)


async def test_documents_of_a_door_stand_beside_the_metadata() -> None:
    """They do not replace them: otherwise the URL in the challenge would not exist."""

    def documents(context: Any) -> Any:
        return (200, b"{}", []) if context.path == "/.well-known/other" else None

    endpoint = make_app().asgi(documents=documents)
    for path in ("/.well-known/other", "/.well-known/oauth-protected-resource/mcp"):
        assert (await Call(endpoint, "GET", path).run()).status == 200, path
    assert (await Call(endpoint, "GET", "/.well-known/none").run()).status == 404


async def test_a_low_level_server_may_have_a_protection_of_its_own() -> None:
    """Two methods are all that it takes."""
    from ferrule.transports.asgi import HttpRefusal

    class Nobody:
        async def authenticate(self, context: Any) -> Any:
            raise HttpRefusal(401, "Nobody comes in", [("www-authenticate", "Bearer")])

        def document_for(self, context: Any, path: str) -> None:
            return None

        def document_paths(self, path: str) -> list[str]:
            return []

    endpoint = ferrule.asgi(Server("low", protection=Nobody()))
    assert {answer.status for answer in await knock(endpoint, "asgi", None)} == {401}


async def test_a_session_in_this_process_serves_no_other_callers() -> None:
    """A proxy that was pinned to a legacy revision would mix the callers of one session: it does not open one."""
    endpoint = ferrule.asgi(proxy(make_app(), mode="2025-11-25"))
    call = modern(1, "tools/call", {"name": "whoami", "arguments": {}})
    sent = {**modern_headers(call), "authorization": f"Bearer ada@{RESOURCE}"}
    answer = await Call(endpoint, headers=sent, body=json.dumps(call).encode()).run()
    assert answer.status == 503


# -- what is another's ------------------------------------------------------------------------------------------------


def as_(name: str, **headers: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}@{RESOURCE}", **headers}


async def begin_session(endpoint: Any, name: str, capabilities: dict[str, Any] | None = None) -> str:
    return await open_session(endpoint, capabilities=capabilities, **as_(name))


async def test_a_session_is_its_openers_alone() -> None:
    """Whatever another party does with its id, the answer is that of an id that never was, and nothing happens."""
    endpoint = make_app().asgi()
    session_id = await begin_session(endpoint, "ada")
    bobs = legacy_headers(session_id, **as_("bob"))
    listening = {**bobs, "accept": "text/event-stream"}
    ping = json.dumps(request(1, "ping")).encode()
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    for made in (
        Call(endpoint, headers=bobs, body=ping),
        Call(endpoint, headers=bobs, body=json.dumps(cancelled).encode()),
        Call(endpoint, headers=bobs, body=json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}).encode()),
        Call(endpoint, "GET", headers=listening),
        Call(endpoint, "GET", headers={**listening, "last-event-id": "g1-0"}),
        Call(endpoint, "DELETE", headers=bobs),
    ):
        answer = await made.run()
        never = {**dict(made_headers(made)), "mcp-session-id": "never"}
        unknown = await Call(endpoint, made.scope["method"], headers=never, body=ping).run()
        assert (answer.status, unknown.status) == (404, 404)
    assert (await Call(endpoint, headers=legacy_headers(session_id, **as_("ada")), body=ping).run()).status == 200


def made_headers(call: Call) -> list[tuple[str, str]]:
    return [(name.decode(), value.decode()) for name, value in call.scope["headers"]]


async def test_a_stream_of_the_deprecated_transport_is_its_openers_alone() -> None:
    """Only its own principal may post messages to it, answers to questions included."""
    endpoint = SseEndpoint(make_app().lowlevel)
    async with running(Call(endpoint, "GET", "/sse", headers=as_("ada", accept="text/event-stream"))) as stream:
        await stream.until(lambda answer: answer.events)
        query = bytes(stream.answer.events[0].data).partition(b"?")[2]
        sent = {"content-type": "application/json"}
        for name, status in (("bob", 404), ("ada", 202)):
            for message in (request(1, "ping"), {"jsonrpc": "2.0", "id": 1, "result": {}}):
                post = Call(endpoint, path="/messages", headers=as_(name, **sent), body=json.dumps(message).encode())
                post.scope["query_string"] = query
                assert (await post.run()).status == status


async def test_a_round_is_its_callers_alone() -> None:
    """The state of a call that asked something opens for the party that was asked."""
    app = make_app()

    @app.tool
    async def ask(ctx: Context) -> str:
        """Ask."""
        answer = await ctx.elicit("name", str, key="q")
        return f"got {answer.data}" if answer else "no"

    for endpoint in (app.asgi(), ferrule.asgi(proxy(app))):
        call = modern(1, "tools/call", {"name": "ask", "arguments": {}}, **{CAPABILITIES_KEY: {"elicitation": {}}})

        async def send(name: str, message: dict[str, Any], endpoint: Any = endpoint) -> Any:
            sent = {**modern_headers(message), **as_(name)}
            return (await Call(endpoint, headers=sent, body=json.dumps(message).encode()).run()).messages[-1]

        round_ = (await send("ada", call))["result"]
        assert round_["resultType"] == "input_required"
        answers = {key: {"action": "accept", "content": {"value": "x"}} for key in round_["inputRequests"]}
        params = {**call["params"], "requestState": round_["requestState"], "inputResponses": answers}
        again = {**call, "params": params}
        assert "error" in await send("bob", again)
        assert "got x" in str(await send("ada", again))


async def test_a_parked_call_is_its_callers_alone() -> None:
    """A proxy keeps the call of a modern client to a legacy server: its state is a handle for one party."""
    behind = MCPServer("behind")

    @behind.tool
    async def ask(ctx: Context) -> str:
        """Ask."""
        answer = await ctx.elicit("name", str, key="q")
        return f"got {answer.data}" if answer else "no"

    async def authenticate(context: Any) -> str:
        return str(context.headers["authorization"])

    endpoint = ferrule.asgi(proxy(behind, mode="2025-11-25"), authenticate=authenticate)
    call = modern(1, "tools/call", {"name": "ask", "arguments": {}}, **{CAPABILITIES_KEY: {"elicitation": {}}})

    async def send(name: str, message: dict[str, Any]) -> Any:
        sent = {**modern_headers(message), **as_(name)}
        return (await Call(endpoint, headers=sent, body=json.dumps(message).encode()).run()).messages[-1]

    round_ = (await send("ada", call))["result"]
    answers = {key: {"action": "accept", "content": {"value": "x"}} for key in round_["inputRequests"]}
    again = {**call, "params": {**call["params"], "requestState": round_["requestState"], "inputResponses": answers}}
    assert "unknown or has expired" in str(await send("bob", again))
    assert "got x" in str((await send("ada", again))["result"])
    await endpoint.aclose()


async def test_a_task_is_its_owners_alone() -> None:
    """In both eras: neither seen, nor asked for its result, nor cancelled, nor answered by another party."""
    app = make_app()
    release = anyio.Event()

    @app.tool(task="required")
    async def work() -> str:
        """Work."""
        await release.wait()
        return "hers"

    endpoint = app.asgi()
    tasks = {CAPABILITIES_KEY: {"extensions": {"io.modelcontextprotocol/tasks": {}}}}

    async def send(name: str, method: str, params: dict[str, Any]) -> Any:
        message = modern(1, method, params, **tasks)
        sent = {**modern_headers(message), **as_(name)}
        if "taskId" in params:
            sent["mcp-name"] = params["taskId"]
        return (await Call(endpoint, headers=sent, body=json.dumps(message).encode()).run()).messages[-1]

    begun = (await send("ada", "tools/call", {"name": "work", "arguments": {}}))["result"]
    task_id = begun["task"]["taskId"] if "task" in begun else begun["taskId"]
    for method, more in (("tasks/get", {}), ("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {})):
        theirs = await send("bob", method, {"taskId": task_id, **more})
        assert "error" in theirs, (method, theirs)
        never = await send("bob", method, {"taskId": "never", **more})
        assert theirs["error"]["code"] == never["error"]["code"], method
    assert "error" not in await send("ada", "tasks/get", {"taskId": task_id})

    session_ids = {name: await begin_session(endpoint, name) for name in ("ada", "bob")}

    async def legacy(name: str, method: str, params: dict[str, Any]) -> Any:
        body = json.dumps(request(1, method, params)).encode()
        sent = legacy_headers(session_ids[name], **as_(name))
        return (await Call(endpoint, headers=sent, body=body).run()).messages[-1]

    made = await legacy("ada", "tools/call", {"name": "work", "arguments": {}, "task": {}})
    task_id = made["result"]["task"]["taskId"]
    assert [task["taskId"] for task in (await legacy("ada", "tasks/list", {}))["result"]["tasks"]]
    assert (await legacy("bob", "tasks/list", {}))["result"]["tasks"] == []
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        assert "error" in await legacy("bob", method, {"taskId": task_id}), method
    release.set()
    assert "hers" in str(await legacy("ada", "tasks/result", {"taskId": task_id}))
    await endpoint.aclose()
