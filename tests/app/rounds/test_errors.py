"""The exceptions of rounds: their classes, and which text a client or the log gets."""

from __future__ import annotations

import pytest

from ferrule import Client, Context, MCPServer
from ferrule.app.rounds import errors
from ferrule.protocol.errors import CapabilityNotDeclared, MCPError, MissingRequiredClientCapability


def test_each_refusal_of_a_state_has_its_own_reason():
    """A log must distinguish an attack from a deployment."""
    refusals = [getattr(errors, name) for name in errors.__all__]
    reasons = [cls.reason for cls in refusals if issubclass(cls, errors.StateRefused)]
    assert len(reasons) == len(set(reasons)) == 9


def test_a_lacking_capability_is_both_eras_error():
    """One `except CapabilityNotDeclared` serves both eras; uncaught it is -32021 in the modern one."""
    error = errors.ClientLacks({"sampling": {}})
    assert isinstance(error, CapabilityNotDeclared)
    assert isinstance(error, MissingRequiredClientCapability)
    assert (error.required, error.code, error.data) == (
        {"sampling": {}},
        -32021,
        {"requiredCapabilities": {"sampling": {}}},
    )
    assert "sampling" in str(error)


@pytest.mark.parametrize(
    "name", ["AmbiguousKey", "InvalidAnswer", "NotSupportedHere", "QuestionExpired", "StepInDoubt"]
)
def test_the_authors_errors_are_not_the_peers(name):
    assert not issubclass(getattr(errors, name), MCPError)


@pytest.mark.anyio
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
async def test_one_except_catches_missing_capabilities_and_revisions(revision: str) -> None:
    """The author has one way without the question, and it must not depend on why it cannot be put."""
    app = MCPServer("shop")

    @app.tool
    async def pay(ctx: Context) -> str:
        try:
            await ctx.elicit_url("Pay.", "https://pay.example/1")
        except CapabilityNotDeclared:
            return "by invoice"
        return "paid"

    @app.tool
    async def pay_or_fail(ctx: Context) -> str:
        await ctx.elicit_url("Pay.", "https://pay.example/1")
        return "paid"

    options = {"elicitation_handler": lambda params: None, "elicitation_modes": ("form", "url")}
    async with Client(app, mode=revision, **options) as client:
        assert (await client.call_tool("pay")).text == "by invoice"
        assert (await client.call_tool("pay_or_fail")).text.startswith(
            "Tool `pay_or_fail` cannot be used: elicitation/"
        )


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_an_answer_that_does_not_fit_is_reported_to_the_caller(mode: str) -> None:
    """It is the client's fault, so the client must be able to find it; the operator can do nothing about it."""
    app = MCPServer("shop")

    @app.tool
    async def order(ctx: Context) -> bool:
        return bool((await ctx.elicit("Order?", bool)).data)

    async with Client(app, mode=mode, elicitation_handler=lambda params: {"valeu": True}) as client:
        done = await client.call_tool("order")
    assert done.is_error
    assert done.text == (
        "Tool `order` got no answer: The client answered elicitation/create 3 times with an invalid value: "
        "the field value is missing"
    )
