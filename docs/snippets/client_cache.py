"""The client's cache."""

# --8<-- [start:server]
from ferrule import CacheHint, Client, MCPServer

app = MCPServer(
    "stock",
    cache_hints={
        "tools/list": CacheHint(ttl_ms=60_000, scope="public"),
        "*": CacheHint(ttl_ms=5_000),  # the other cacheable methods; private by default
    },
)
READS: list[str] = []


@app.resource("stock://all", ttl_ms=30_000)
def everything() -> str:
    READS.append("stock://all")
    return "brass steel"


# --8<-- [end:server]


# --8<-- [start:client]
from ferrule.stores.cache import MemoryCacheStore

SHARED = MemoryCacheStore(max_bytes=8 << 20)


async def read_twice(target) -> None:
    async with Client(target, cache=SHARED) as client:  # the default is a store of its own; False: no cache
        await client.read_resource("stock://all")
        await client.read_resource("stock://all")  # from the cache


# --8<-- [end:client]


# --8<-- [start:shared]
from ferrule.stores.store import open_store


def shared_by_processes(target, url: str = "sqlite:///cache.db") -> Client:
    """The cache of any store; "redis://…" for several machines."""
    return Client(target, cache=open_store(url).cache)


# --8<-- [end:shared]


async def check(mode: str) -> None:
    """Hints are of the modern era; an event drops what it is about, and a clock ends it."""
    import tempfile

    from ferrule.testing import ManualClock

    READS.clear()
    if mode == "auto":
        await read_twice(app)
        assert len(READS) == 1
    READS.clear()
    clock = ManualClock()
    async with Client(app, mode=mode, clock=clock) as client:
        for _ in range(2):
            await client.read_resource("stock://all")
        assert len(READS) == (1 if mode == "auto" else 2)
        READS.clear()
        clock.advance(31)
        await client.read_resource("stock://all")
        assert len(READS) == 1
        if mode == "auto":
            async with client.listen(uris=["stock://all"]) as changes:
                app.notify_resource_updated("stock://all")
                assert (await anext(changes)).uri == "stock://all"
                await client.read_resource("stock://all")
            assert len(READS) == 2
    READS.clear()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            async with shared_by_processes(app, f"sqlite:///{folder}/cache.db") as client:
                await client.read_resource("stock://all")
                await client.read_resource("stock://all")
    assert len(READS) == 2  # a server of this process differs from any other, so only the second reading is saved
    READS.clear()
    async with Client(app, mode=mode, cache=False) as client:
        for _ in range(2):
            await client.read_resource("stock://all")
    assert len(READS) == 2
