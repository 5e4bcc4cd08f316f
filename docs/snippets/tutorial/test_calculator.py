import pytest
from calculator import add, app

from ferrule import Client


def test_the_function():
    assert add(2, 40) == 42


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_tool(mode: str):
    async with Client(app, mode=mode) as client:
        result = await client.call_tool("add", {"a": 2, "b": 40})
        assert result.data == 42


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_failure_says_what_to_do(mode: str):
    async with Client(app, mode=mode) as client:
        result = await client.call_tool("divide", {"a": 1, "b": 0})
        assert result.is_error
        assert result.text == "b is zero; give another divisor."


@pytest.mark.anyio
async def test_wrong_arguments_are_explained():
    async with Client(app) as client:
        result = await client.call_tool("add", {"a": "two", "b": 40})
        assert result.is_error
        assert "a" in result.text
