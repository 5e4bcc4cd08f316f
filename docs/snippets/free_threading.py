"""Tools on a Python without the global interpreter lock."""

# --8<-- [start:code]
import sys

from ferrule import Client, MCPServer

app = MCPServer("numbers")


@app.tool
def count_primes(below: int) -> int:
    """Count the prime numbers below a number."""
    return sum(all(number % divisor for divisor in range(2, int(number**0.5) + 1)) for number in range(2, below))


@app.tool
async def is_free_threaded() -> bool:
    """Say whether the lock is off."""
    return not getattr(sys, "_is_gil_enabled", lambda: True)()


# --8<-- [end:code]


async def check(mode: str) -> None:
    """Both tools answer; the second as the running Python is."""
    async with Client(app, mode=mode) as client:
        assert (await client.call_tool("count_primes", {"below": 100})).data == 25
        lock = getattr(sys, "_is_gil_enabled", lambda: True)()
        assert (await client.call_tool("is_free_threaded")).data is not lock
