"""Prompts: text arguments by declared type, any content as messages."""

from __future__ import annotations

from typing import Annotated

import pydantic
import pytest

from ferrule import Context, Field, Image, MCPServer, ToolError
from ferrule.app.errors import RegistrationError, SignatureError
from ferrule.protocol.errors import InternalError, InvalidParams, MCPError
from ferrule.types import GetPromptResult, PromptMessage, ToolContentBlock
from tests.app.support import EVERY_REVISION, ask

pytestmark = pytest.mark.anyio


@pytest.fixture
def app() -> MCPServer:
    app = MCPServer("x")

    @app.prompt
    def quote(metal: Annotated[str, Field("which")], pieces: int = 1, rush: bool = False):
        """Ask for a quotation.

        Args:
            pieces: how many.
        """
        assert isinstance(pieces, int)
        return f"{pieces} of {metal}, rush={rush}"

    return app


async def get(app, name, arguments=None, **more):
    params = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
    return await ask(app, "prompts/get", params, **more)


@pytest.mark.parametrize("version", EVERY_REVISION)
async def test_every_revision_lists_and_gets(app, version):
    """Arguments are described, values are text on the wire."""
    (listed,) = (await ask(app, "prompts/list", version=version))["prompts"]
    assert listed == {
        "name": "quote",
        "description": "Ask for a quotation.",
        "arguments": [
            {"name": "metal", "description": "which", "required": True},
            {"name": "pieces", "description": "how many."},
            {"name": "rush"},
        ],
    }
    result = await get(app, "quote", {"metal": "12", "pieces": "3", "rush": "true"}, version=version)
    assert result["messages"] == [{"role": "user", "content": {"type": "text", "text": "3 of 12, rush=True"}}]
    assert result["description"] == "Ask for a quotation."


@pytest.mark.parametrize("arguments", [None, {}, {"metal": "x", "extra": "y"}, {"metal": "x", "pieces": "many"}])
async def test_wrong_arguments_are_invalid_params(app, arguments):
    """A prompt is chosen by a person, whose client shows the error."""
    with pytest.raises(InvalidParams, match="Invalid arguments for prompt `quote`"):
        await get(app, "quote", arguments)


async def test_an_unknown_prompt_is_invalid_params(app):
    """The client gets -32602 (2026-07-28, "Prompts", error handling)."""
    with pytest.raises(InvalidParams, match="Unknown prompt"):
        await get(app, "nope")


async def test_each_kind_of_message(app):
    """Any content, either role."""

    @app.prompt
    def kinds(kind: str):
        return {
            "message": PromptMessage.text("assistant", "a"),
            "pair": ("assistant", "b"),
            "list": ["c", ("assistant", Image(b"p")), {"role": "user", "content": {"type": "text", "text": "d"}}],
            "block": ToolContentBlock("text", "e"),
            "data": {"n": 1},
            "result": GetPromptResult([], description="own"),
        }[kind]

    async def shown(kind):
        messages = (await get(app, "kinds", {"kind": kind}))["messages"]
        return [(m["role"], m["content"].get("text", m["content"]["type"])) for m in messages]

    assert await shown("message") == [("assistant", "a")]
    assert await shown("pair") == [("assistant", "b")]
    assert await shown("list") == [("user", "c"), ("assistant", "image"), ("user", "d")]
    assert await shown("block") == [("user", "e")]
    assert await shown("data") == [("user", '{"n":1}')]
    assert (await get(app, "kinds", {"kind": "result"}))["description"] == "own"


async def test_failures_become_protocol_errors(app):
    """Prompts have no error results."""

    @app.prompt
    async def fails(kind: str, ctx: Context):
        if kind == "told":
            raise ToolError("not today")
        return {"role": "nobody", "content": "x"} if kind == "role" else object()

    with pytest.raises(MCPError, match="not today"):
        await get(app, "fails", {"kind": "told"})
    for kind in ("role", "object"):
        with pytest.raises(InternalError):
            await get(app, "fails", {"kind": kind})


def test_what_cannot_be_served_is_refused_at_registration(app):
    """Names and shapes are checked where they are written."""

    def generator():
        yield "x"

    with pytest.raises(SignatureError):
        app.prompt(generator)
    with pytest.raises(RegistrationError, match="already a prompt"):
        app.prompt("quote")(lambda: "x")
    with pytest.raises(RegistrationError, match="needs a name"):
        app.prompt(lambda: "x")


def test_an_argument_is_described_where_its_type_is_written(app):
    """By pydantic's `Field`, ours or a plain text; the annotation wins over the docstring."""

    @app.prompt
    def described(
        a: Annotated[str, pydantic.Field(description="by pydantic", title="A")],
        b: Annotated[str, Field("by ours", title="B")],
        c: Annotated[int, "by text"],
        d: str = "",
    ) -> str:
        """Do it.

        Args:
            a: docstring.
            b: docstring.
            c: docstring.
            d: by docstring.
        """
        return a

    (prompt,) = [prompt for prompt in app.list_prompts() if prompt.name == "described"]
    assert [argument.description for argument in prompt.arguments or []] == [
        "by pydantic",
        "by ours",
        "by text",
        "by docstring.",
    ]
    assert [argument.title for argument in prompt.arguments or []] == ["A", "B", None, None]
