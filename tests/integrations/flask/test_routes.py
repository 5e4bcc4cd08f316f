"""Flask without an extension: what rules, converters, hints and docstrings say, and calls through the whole stack."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pytest

from ferrule import Client
from ferrule.expose import NothingMatches, UnknownFramework, expose
from ferrule.integrations.flask import mount
from tests.integrations.flask.calls import wsgi_call

flask = pytest.importorskip("flask")
views = pytest.importorskip("flask.views")

pytestmark = pytest.mark.anyio


@dataclass
class Order:
    id: int
    note: str = ""


@dataclass
class Filter:
    limit: int
    word: str = ""


def shop() -> Any:
    """An application with the things that Flask applications have."""
    app = flask.Flask("shop")
    orders = flask.Blueprint("orders", "orders", url_prefix="/orders")

    @orders.get("/<int:order_id>")
    def show(order_id: int) -> Order:
        """Return an order.

        Longer words about it.

        Args:
            order_id: The number on the bill.
        """
        return flask.jsonify(id=order_id, note="fine")

    @orders.delete("/<int:order_id>")
    def drop(order_id: int) -> Any:
        return "", 204

    @orders.post("/")
    def create() -> Any:
        return flask.request.get_json(), 201

    @orders.get("/find")
    def find(query: Filter) -> Any:
        return dict(flask.request.args)

    @orders.put("/<int:order_id>")
    def change(order_id: int, body: Order) -> Any:
        return flask.request.json

    # What a decorator of flask-pydantic's kind gives to a view.
    for name in ("find", "change"):
        orders.record(lambda state, name=name: _fill(state.app, f"orders.{name}"))
    app.register_blueprint(orders)

    class Cart(views.MethodView):
        def get(self, name: str) -> dict[str, Any]:
            """Show a cart."""
            return {"cart": name}

        def post(self, name: str) -> dict[str, Any]:
            """Empty a cart."""
            return {"emptied": name}

    app.add_url_rule("/carts/<name>", view_func=Cart.as_view("cart"))

    @app.get("/files/<path:name>")
    def file(name: str) -> dict[str, str]:
        return {"name": name}

    @app.get("/files/secret/<int:number>")
    def secret(number: int) -> dict[str, int]:
        return {"secret": number}

    @app.get("/convert/<float:x>/<any(low, high):y>/<string(length=2):z>/<uuid:u>/<int(min=1, max=9):n>")
    def convert(**values: Any) -> dict[str, str]:
        return {name: str(value) for name, value in values.items()}

    @app.get("/kinds/<kind>")
    def kind(kind: Literal["a", "b"]) -> str:
        return f"kind {kind}"

    @app.get("/users/<name>")
    def user(name: str) -> dict[str, str]:
        return {"user": name}

    @app.get("/users/me")
    def me() -> dict[str, str]:
        return {"me": "all secrets"}

    @app.get("/users/<name>/delete")
    def delete_user(name: str) -> dict[str, str]:
        return {"deleted": name}

    return app


def _fill(app: Any, endpoint: str) -> None:
    from functools import wraps

    view = app.view_functions[endpoint]

    @wraps(view)
    def filled(**values: Any) -> Any:
        return view(**values, **{"query" if endpoint.endswith("find") else "body": None})

    app.view_functions[endpoint] = filled


async def tools_of(mcp: Any) -> dict[str, Any]:
    async with Client(mcp) as client:
        return {tool.name: tool for tool in await client.list_tools()}


async def call(mcp: Any, name: str, /, **arguments: Any) -> Any:
    async with Client(mcp) as client:
        return await client.call_tool(name, arguments)


async def refusal(mcp: Any, name: str, /, **arguments: Any) -> str:
    result = await call(mcp, name, **arguments)
    assert result.is_error
    return str(result.text)


# --- the description --------------------------------------------------------------------------------------------------


async def test_names_texts_and_arguments_come_from_the_application() -> None:
    tools = await tools_of(expose(shop(), include=["tag:orders", "/carts/**"], exclude="POST /orders/"))
    assert sorted(tools) == ["get_cart", "orders_change", "orders_drop", "orders_find", "orders_show", "post_cart"]
    show = tools["orders_show"]
    assert show.description == "Return an order.\n\nLonger words about it."
    assert show.input_schema["properties"]["order_id"] == {
        "type": "integer",
        "minimum": 0,
        "description": "The number on the bill.",
    }
    assert show.annotations.read_only_hint is True
    assert tools["orders_drop"].annotations.destructive_hint is True
    assert tools["post_cart"].description == "Empty a cart."


async def test_converters_say_what_they_match() -> None:
    app = expose(shop(), include=["convert", "kind"])
    tools = await tools_of(app)
    schemas = tools["convert"].input_schema["properties"]
    assert schemas["y"] == {"type": "string", "enum": ["high", "low"]}
    assert schemas["z"] == {"type": "string", "minLength": 2, "maxLength": 2}
    assert schemas["u"] == {"type": "string", "format": "uuid"}
    assert schemas["n"] == {"type": "integer", "minimum": 1, "maximum": 9}
    assert tools["kind"].input_schema["properties"]["kind"]["enum"] == ["a", "b"]
    u = "12345678-1234-5678-1234-567812345678"
    answer = await call(app, "convert", x="2.0", y="low", z="ab", u=u, n=3)
    assert answer.data == {"x": "2.0", "y": "low", "z": "ab", "u": u, "n": "3"}
    assert (await call(app, "kind", kind="a")).text == "kind a"


async def test_models_of_query_and_body_are_arguments() -> None:
    """As flask-pydantic fills them by the names ``query`` and ``body``."""
    app = expose(shop(), include=["orders_find", "orders_change"])
    tools = await tools_of(app)
    assert tools["orders_find"].input_schema["required"] == ["limit"]
    assert set(tools["orders_change"].input_schema["properties"]) == {"order_id", "id", "note"}
    assert (await call(app, "orders_find", limit=3, word="a b")).data == {"limit": "3", "word": "a b"}
    assert (await call(app, "orders_change", order_id=1, id=7, note="x")).data == {"id": 7, "note": "x"}


async def test_what_a_view_reads_inside_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    await tools_of(expose(shop(), include="orders_create"))
    assert "POST /orders/ reads request.get_json" in caplog.text
    assert "add_parameters=" in caplog.text


async def test_what_is_not_described_can_be_added(caplog: pytest.LogCaptureFixture) -> None:
    added = {
        "item": {"in": "body", "required": True, "schema": {"type": "string"}},
        "count": {"in": "body", "schema": {"type": "integer"}},
        "dry": {"type": "boolean"},
        "X-Reason": {"in": "header", "schema": {"type": "string"}},
    }
    app = expose(shop(), include="orders_create", add_parameters={"orders_create": added})
    schema = (await tools_of(app))["orders_create"].input_schema
    assert schema["required"] == ["item"]
    assert (await call(app, "orders_create", item="tea", count=2, dry=True)).data == {"item": "tea", "count": 2}
    assert "reads request" not in caplog.text


async def test_a_form_can_be_added() -> None:
    app = flask.Flask("shop")

    @app.post("/login")
    def login() -> dict[str, Any]:
        return dict(flask.request.form)

    mcp = expose(app, include="login", add_parameters={"login": {"name": {"in": "form", "schema": {"type": "string"}}}})
    assert (await call(mcp, "login", name="ä b")).data == {"name": "ä b"}


async def test_static_files_and_odd_rules_are_no_operations() -> None:
    app = flask.Flask("shop", static_folder=".")
    app.add_url_rule("/old", endpoint="old", redirect_to="/new")
    app.add_url_rule("/built", endpoint="built", build_only=True)
    app.add_url_rule("/nowhere", endpoint="nowhere")

    @app.get("/new")
    @app.get("/newer/")
    def new() -> str:
        return "new"

    app.add_url_rule("/part", "part", partial(lambda a: a, a="x"))
    tools = await tools_of(expose(app, include="*"))
    assert sorted(tools) == ["get_new", "get_newer", "part"]
    assert tools["part"].description == "GET /part"  # not what functools says of its class


async def test_a_route_that_comes_later_is_seen() -> None:
    app = flask.Flask("shop")
    app.add_url_rule("/a", "a", lambda: "a")
    mcp = expose(app, include="*")
    async with Client(mcp) as client:
        assert [tool.name for tool in await client.list_tools()] == ["a"]
        app.add_url_rule("/b", "b", lambda: "b")
        assert sorted(tool.name for tool in await client.list_tools()) == ["a", "b"]


async def test_what_is_misspelt_is_found_at_the_start() -> None:
    with pytest.raises(NothingMatches, match="orders_show"):
        async with Client(expose(shop(), include="order_show")):
            pass
    with pytest.raises(UnknownFramework, match="Flask"):
        expose(object(), include="*")


# --- which operation is called ----------------------------------------------------------------------------------------


async def test_an_argument_never_leads_to_another_operation() -> None:
    """An operation that is not exposed is not reached by a value that makes its path."""
    mcp = expose(shop(), include=["user", "file"])
    assert (await call(mcp, "user", name="ada")).data == {"user": "ada"}
    assert (await call(mcp, "file", name="a/b c.txt")).data == {"name": "a/b c.txt"}
    assert "another operation" in await refusal(mcp, "user", name="me")
    assert "another operation" in await refusal(mcp, "user", name="ada/delete")
    assert "slash" in await refusal(mcp, "user", name="ada/nothing")
    assert "another operation" in await refusal(mcp, "file", name="secret/1")
    for odd in ("../x", "a/../b", "/etc/passwd", "a/.", "..", "a//b"):
        assert "must not" in await refusal(mcp, "file", name=odd)


async def test_a_document_of_ones_own_is_called_by_the_same_rules() -> None:
    parameter = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "paths": {
            path: {"get": {"operationId": name, "parameters": [parameter], "responses": {}}}
            for path, name in (("/users/{name}", "user"), ("/files/{name}", "file"))
        },
    }
    mcp = expose(shop(), description=document, include="*")
    assert sorted(await tools_of(mcp)) == ["file", "user"]
    assert (await call(mcp, "file", name="a/b")).data == {"name": "a/b"}
    assert "another operation" in await refusal(mcp, "user", name="me")


async def test_asynchronous_views_are_called() -> None:
    pytest.importorskip("asgiref")
    app = flask.Flask("shop")

    @app.get("/later/<name>")
    async def later(name: str) -> dict[str, str]:
        """Answer later."""
        return {"later": name}

    mcp = expose(app, include="*")
    assert (await tools_of(mcp))["later"].description == "Answer later."
    assert (await call(mcp, "later", name="x")).data == {"later": "x"}


# --- the application's own stack --------------------------------------------------------------------------------------


def guarded() -> tuple[Any, list[str]]:
    app = flask.Flask("shop")
    app.secret_key = "secret"
    seen: list[str] = []

    @app.before_request
    def check() -> Any:
        if flask.request.headers.get("Authorization") == "Bearer good":
            return None
        return {"error": "login first"}, 401

    @app.teardown_request
    def teardown(error: BaseException | None) -> None:
        seen.append(f"request {type(error).__name__}")

    @app.teardown_appcontext
    def teardown_app(error: BaseException | None) -> None:
        seen.append("app")

    @app.get("/who")
    def who() -> dict[str, Any]:
        flask.g.count = flask.g.get("count", 0) + 1
        return {
            "count": flask.g.count,
            "session": flask.session.get("user"),
            "cookie": flask.request.cookies.get("a"),
            "host": flask.request.host,
            "url": flask.url_for("who", _external=True),
        }

    @app.get("/breaks")
    def breaks() -> Any:
        raise ZeroDivisionError("a secret")

    @app.get("/streams")
    def streams() -> Any:
        def parts() -> Any:
            while True:
                yield flask.request.path

        return app.response_class(flask.stream_with_context(parts()), mimetype="text/plain")

    return app, seen


async def test_security_runs_and_credentials_go_on_only_when_that_is_said() -> None:
    app, _ = guarded()
    headers = {"authorization": "Bearer good", "cookie": "a=1"}
    closed = expose(app, include="who").wsgi()
    assert "login first" in wsgi_call(closed, "who", headers)
    half = expose(app, include="who", forward_headers=("authorization",)).wsgi()
    assert '"cookie":null' in wsgi_call(half, "who", headers)
    whole = expose(app, include="who", forward_headers=("authorization", "cookie")).wsgi()
    answer = wsgi_call(whole, "who", headers)
    assert '"cookie":"1"' in answer
    assert '"host":"shop.example"' in answer
    assert "https://shop.example/who" in answer


async def test_requests_share_no_context_with_each_other_or_with_a_test() -> None:
    """Flask takes an application context that is there for the new request's own: `g` would live on, unended."""
    app, seen = guarded()
    mcp = expose(app, include=["who", "streams"], forward_headers=("authorization",), max_response_bytes=200)
    endpoint = mcp.wsgi()
    with app.app_context():
        flask.g.count = 10
        for _ in range(2):
            assert '"count":1' in wsgi_call(endpoint, "who", {"authorization": "Bearer good"})
        assert seen == ["request NoneType", "app"] * 2
        seen.clear()
        assert wsgi_call(endpoint, "streams", {"authorization": "Bearer good"}) == "https://shop.example/streams"
    assert seen[1] == "app"  # what came before is an exit of the generator in old versions


@pytest.mark.parametrize("mode", ["plain", "testing", "debug"])
async def test_an_error_in_a_view_is_masked_in_every_mode(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """In debug and testing mode Flask raises it, so that there is no answer."""
    app, seen = guarded()
    app.testing, app.debug = mode == "testing", mode == "debug"
    mcp = expose(app, include="breaks", forward_headers=("authorization",))
    text = wsgi_call(mcp.wsgi(), "breaks", {"authorization": "Bearer good"})
    assert "secret" not in text
    assert "failed" in text
    assert "a secret" in caplog.text
    assert seen == ["request ZeroDivisionError", "app"]


async def test_a_prefix_of_the_application_stands_in_its_links() -> None:
    app, _ = guarded()
    app.config["APPLICATION_ROOT"] = "/shop"
    mcp = expose(app, include="who", forward_headers=("authorization",))
    assert "https://shop.example/shop/who" in wsgi_call(mcp.wsgi(), "who", {"authorization": "Bearer good"})


async def test_the_prefix_of_a_mounted_application_stands_in_its_links_and_redirects() -> None:
    """As below DispatcherMiddleware, or where a server sets SCRIPT_NAME."""
    app, _ = guarded()

    @app.get("/elsewhere")
    def elsewhere() -> Any:
        return flask.redirect(flask.url_for("who"))

    mcp = expose(app, include=["who", "elsewhere"], forward_headers=("authorization",))
    mount(app, mcp)
    for name in ("who", "elsewhere"):
        text = wsgi_call(app, name, {"authorization": "Bearer good"}, "/mcp", script_name="/shop")
        assert "https://shop.example/shop/who" in text


async def test_without_an_outer_request_the_application_has_its_own_name() -> None:
    """Over stdio there is no ``Host``, so links have the configured one."""
    app, _ = guarded()
    app.config.update(SERVER_NAME="books.example", PREFERRED_URL_SCHEME="https")

    @app.errorhandler(401)
    def open_door(error: Any) -> Any:
        return {"url": flask.url_for("who", _external=True)}

    app.before_request_funcs[None].insert(0, lambda: flask.abort(401))
    assert (await call(expose(app, include="who"), "who")).data == {"url": "https://books.example/who"}


async def test_a_redirect_for_a_slash_is_followed() -> None:
    app = flask.Flask("shop")

    @app.get("/old/<name>")
    def old(name: str) -> Any:
        return flask.redirect(flask.url_for("new", name=name))

    @app.get("/new/<name>/")
    def new(name: str) -> dict[str, str]:
        return {"new": name}

    assert (await call(expose(app, include="old"), "old", name="x")).data == {"new": "x"}
