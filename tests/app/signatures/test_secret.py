"""A secret argument is text for the function, and asterisks for everything that writes."""

from __future__ import annotations

import copy
import logging
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from ferrule import Client, Context, Field, MCPServer, Secret
from ferrule.app.errors import RegistrationError, SignatureError
from ferrule.app.signatures.function import compile_function
from ferrule.extensions.tasks import Tasks
from tests.app.support import LATEST, V1125, call, text_of

VALUE = "hunter2-of-this-test"
PRESET = Secret(VALUE)


@dataclass
class Login:
    user: str
    password: Secret[str]


def test_a_value_is_shown_by_one_method_only() -> None:
    secret = Secret(VALUE)
    assert secret.get_secret_value() == VALUE
    for text in (repr(secret), str(secret), f"{secret}", f"{[secret]}", repr(Login("ada", secret))):
        assert VALUE not in text
        assert "**********" in text
    assert (str(Secret("")), repr(Secret("")), bool(Secret("")), bool(secret)) == ("", "Secret('')", False, True)


def test_equal_values_are_equal() -> None:
    assert Secret(VALUE) == Secret(VALUE)
    assert Secret(VALUE) != Secret("other")
    assert Secret(VALUE) != VALUE
    assert len({Secret(VALUE), Secret(VALUE)}) == 1
    assert Secret("\ud800") == Secret("\ud800") != Secret("\ud801")
    with pytest.raises(TypeError, match="is not written"):
        Secret(VALUE).__getstate__()


def test_a_secret_is_copied_and_not_pickled() -> None:
    secret = Secret(VALUE)
    assert copy.deepcopy(Login("ada", secret)).password == secret
    with pytest.raises(TypeError, match="is not written"):
        pickle.dumps(secret)


@pytest.mark.parametrize("schema", ["model", "exact"])
def test_the_schema_says_that_it_is_secret(schema: Any) -> None:
    """Formats beyond the few that all APIs of models take stand in the description, as everywhere."""
    app: MCPServer[Any] = MCPServer("x", schema=schema)

    @app.tool
    def sign_in(pin: Secret[str], maybe: Secret[str] | None = None, preset: Secret[str] = PRESET) -> str:
        return ""

    shown = app.list_tools()[0].input_schema
    assert VALUE not in str(shown)
    pin = shown["properties"]["pin"]
    assert (pin["type"], pin["writeOnly"]) == ("string", True)
    assert pin.get("format", pin.get("description")) == ("password" if schema == "exact" else "Format password")


@pytest.mark.anyio
async def test_secrets_anywhere_in_the_arguments(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    app: MCPServer[Any] = MCPServer("x")
    seen: list[str] = []

    @app.tool
    def sign_in(login: Login, more: list[Secret[str]], maybe: Secret[str] | None = None) -> str:
        seen.extend([login.password.get_secret_value(), more[0].get_secret_value(), str(maybe)])
        return f"{login} {more}"

    @app.tool
    def fails(pin: Secret[Annotated[str, Field(min_length=4)]]) -> str:
        raise ValueError(f"{pin!r} is wrong")

    arguments = {"login": {"user": "ada", "password": VALUE}, "more": [VALUE]}
    result = await call(app, "sign_in", arguments)
    assert seen == [VALUE, VALUE, "None"]
    answers = [
        text_of(result),
        text_of(await call(app, "fails", {"pin": VALUE})),
        text_of(await call(app, "fails", {"pin": VALUE[:3]})),
        text_of(await call(app, "sign_in", {"login": VALUE, "more": VALUE, "maybe": [VALUE]})),
        text_of(await call(app, "fails", {"pin": [VALUE]})),
    ]
    assert not any(VALUE[:3] in text for text in (*answers, caplog.text))
    assert "at least 4" in answers[2] or ">= 4" in answers[2]


def test_prompts_and_resources_have_no_secrets() -> None:
    """No schema says it of their arguments, and URIs are written everywhere."""
    app: MCPServer[Any] = MCPServer("x")
    with pytest.raises(SignatureError, match=r"pin.*cannot have a secret"):

        @app.prompt
        def ask(pin: Secret[str]) -> str:
            return ""

    with pytest.raises(SignatureError, match="cannot have a secret"):

        @app.resource("account://{pin}")
        def account(pin: Secret[str] | None) -> str:
            return ""

    def later(pin: str) -> str:
        return ""

    later.__annotations__["pin"] = "Later"
    app.prompt(later)
    globals()["Later"] = Secret[str]
    try:
        with pytest.raises(SignatureError, match="cannot have a secret"):
            app.check()
    finally:
        del globals()["Later"]


@pytest.mark.anyio
async def test_a_secret_is_no_result() -> None:
    app: MCPServer[Any] = MCPServer("x")

    @app.tool
    def leaks() -> Any:
        return {"pin": Secret(VALUE)}

    assert VALUE not in str(await call(app, "leaks"))


def test_only_text_can_be_secret() -> None:
    def function(pin: Secret[int]) -> None:  # type: ignore[type-var]  # pyright: ignore[reportInvalidTypeArguments]
        pass

    with pytest.raises(SignatureError, match="a secret is text"):
        compile_function(function)


@pytest.mark.anyio
@pytest.mark.parametrize("mode", [LATEST, V1125])
@pytest.mark.parametrize(
    "wanted", [Login, Secret[str], {"type": "object", "properties": {"p": {"type": "string", "format": "password"}}}]
)
async def test_a_form_must_not_ask_for_a_secret(mode: str, wanted: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The specification forbids it; the log says what to do instead, and the client is not asked."""
    app: MCPServer[Any] = MCPServer("x")
    asked: list[Any] = []

    @app.tool
    async def ask(ctx: Context) -> str:
        return str(await ctx.elicit("Your password?", wanted))

    async with Client(app, mode=mode, elicitation_handler=asked.append) as client:
        result = await client.call_tool("ask", raise_on_error=False)
    assert (result.is_error, asked) == (True, [])
    assert "A form must not ask for a secret" in caplog.text
    assert "ctx.elicit_url" in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize("mode", [LATEST, V1125])
async def test_a_task_runs_with_its_secret_and_no_store_has_it(mode: str, tmp_path: Path) -> None:
    app: MCPServer[Any] = MCPServer("x", store=f"sqlite:///{tmp_path}/store.db")

    @app.tool(task="optional", task_after_s=0)
    async def sign_in(pin: Secret[str]) -> bool:
        return pin.get_secret_value() == VALUE

    async with Client(app, mode=mode) as client:
        task = await client.start_tool("sign_in", {"pin": VALUE})
        assert (await task.result()).text == "true"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not any(VALUE.encode() in path.read_bytes() for path in files)


def test_a_resumable_tool_has_no_secrets() -> None:
    """Another process could run it again only with what a store has."""
    app: MCPServer[Any] = MCPServer("x", extensions=[Tasks()])
    with pytest.raises(RegistrationError, match="which no store may hold"):

        @app.tool(task="optional", resumable=True)
        async def sign_in(pin: Secret[str]) -> str:
            return ""


def test_a_setting_may_be_secret() -> None:
    @dataclass
    class Settings:
        token: Secret[str]
        name: str = "x"

    declared = MCPServer[Any]("x").declare_settings(Settings, environ={"TOKEN": VALUE})
    assert declared.value.token.get_secret_value() == VALUE
    assert VALUE not in repr(declared.value)
    assert [(field.name, field.is_secret) for field in declared.fields] == [("token", True), ("name", False)]
