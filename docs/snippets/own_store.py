"""A store of your own, and the tests that it must pass."""

# --8<-- [start:store]
import time

from ferrule.stores.rates import RateLimitStore


class WindowRates:
    """Counts in a dict; a bucket is the time at which it is full again."""

    def __init__(self) -> None:
        self.full_at: dict[str, float] = {}

    async def take(self, key: str, *, size: int, per_s: float) -> float:
        now = time.time()
        taken = max(self.full_at.get(key, now), now) + per_s / size
        wait = taken - now - per_s
        if wait > 1e-6:
            return wait
        self.full_at[key] = taken
        return 0.0


# --8<-- [end:store]


# --8<-- [start:test]
import pytest

from ferrule.testing import RateLimitStoreContract


@pytest.mark.anyio  # the plugin comes with anyio
class TestWindowRates(RateLimitStoreContract):
    async def make(self) -> RateLimitStore:
        return WindowRates()


# --8<-- [end:test]


# --8<-- [start:scheme]
from dataclasses import replace

from ferrule import MCPServer
from ferrule.middleware import RateLimit
from ferrule.stores.store import Store, open_store, register_scheme


def open_mine(url: str) -> Store:
    return replace(open_store("memory:"), rates=WindowRates(), is_shared=True)


register_scheme("mine", open_mine)  # or "package.module:open_mine", imported on first use

app = MCPServer("stock", store="mine:anything", middleware=[RateLimit(2, per_s=60)])
# --8<-- [end:scheme]


@app.tool
def count() -> int:
    return 3


async def check(mode: str) -> None:
    """The contract passes, as a user runs it; a store that miscounts does not; the server counts in ours."""
    import subprocess
    import sys

    from ferrule import Client, MCPError

    async with Client(app, mode=mode) as client:
        for _ in range(2):
            await client.call_tool("count")
        with pytest.raises(MCPError, match="Too many"):
            await client.call_tool("count")
    app.store.rates.full_at.clear()
    if mode == "legacy":
        return
    command = [sys.executable, "-m", "pytest", "-q", __file__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)  # noqa: ASYNC221
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout

    class Generous(WindowRates):
        async def take(self, key: str, *, size: int, per_s: float) -> float:
            return await super().take(key, size=size + 1, per_s=per_s)

    contract = TestWindowRates()
    contract.make = lambda: _made(Generous())
    with pytest.raises(AssertionError):
        await contract.test_many_at_once_get_no_more_than_there_is()


async def _made(store):
    return store
