"""The client: connect, call, lists, time-outs, errors."""

# --8<-- [start:code]
from ferrule import Client, MCPError
from ferrule.errors import ConnectionClosed, RequestTimeout, ToolFailed


async def use(target) -> None:
    async with Client(target, timeout_s=60, max_total_s=600) as client:
        print(client.server_info.name, client.protocol_version, client.server_capabilities)

        for tool in await client.list_tools():  # every page
            print(tool.name, tool.description, tool.input_schema)

        result = await client.call_tool("add", {"a": 2, "b": 40})
        print(result.data, result.text, result.is_error)

        try:
            await client.call_tool("divide", {"a": 1, "b": 0}, raise_on_error=True, timeout_s=5)
        except ToolFailed as failed:  # the tool said no: `failed.result` has what it said
            print(failed)
        except RequestTimeout as late:  # no response and no progress for 5 s; the call is cancelled at the server
            print(late)
        except MCPError as refused:  # the server answered with a JSON-RPC error
            print(refused.code, refused)
        except ConnectionClosed as gone:  # the next call connects again
            print(gone)


# --8<-- [end:code]


# --8<-- [start:targets]
import sys

from ferrule import StdioServer

TARGETS = [
    "https://mcp.example.com/mcp",  # a URL
    "examples/server.py",  # a script; it must be there
    "uvx some-server --flag",  # a command line
    ["uvx", "some-server"],  # the same as a list
    StdioServer(sys.executable, ["server.py"], env={"KEY": "value"}, cwd="/srv"),
    {"url": "https://mcp.example.com/mcp", "headers": {"x-team": "a"}},  # an entry of a host's configuration
]
# --8<-- [end:targets]


# --8<-- [start:tasks]
class Host:
    """Opened in one task and closed in another: no context manager is needed."""

    async def start(self, target) -> None:
        self.client = Client(target)
        await self.client.connect()

    async def stop(self) -> None:
        await self.client.aclose()


# --8<-- [end:tasks]


# --8<-- [start:sync]
from ferrule import SyncClient


def in_a_script(target) -> int:
    with SyncClient(target) as client:
        return client.call_tool("add", {"a": 2, "b": 40}).data


# --8<-- [end:sync]


async def check(mode: str) -> None:
    """In both eras, and each error as the page shows it."""
    import anyio
    import anyio.to_thread
    import pytest

    from ferrule import MCPServer, ToolError
    from ferrule.client.config import read_target
    from ferrule.errors import HttpConnectFailed, RemoteError, ServerProcessEnded, ServerStartFailed

    app = MCPServer("calculator")

    @app.tool
    def add(a: int, b: int) -> int:
        return a + b

    @app.tool
    def divide(a: float, b: float) -> float:
        raise ToolError("b is zero; give another divisor.")

    @app.tool
    async def wait() -> None:
        await anyio.sleep(30)

    await use(app)
    assert await anyio.to_thread.run_sync(in_a_script, app) == 42
    host = Host()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.start, app)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.stop)
    kinds = [type(read_target(target)).__name__ for target in TARGETS]
    assert kinds == ["HttpTarget", "StdioTarget", "StdioTarget", "StdioTarget", "StdioTarget", "HttpTarget"]

    client = Client(app, mode=mode)
    with pytest.raises(ConnectionClosed, match=r"is not connected: use 'async with' or await connect"):
        await client.call_tool("add", {"a": 2, "b": 40})
    async with client:
        with pytest.raises(
            RequestTimeout, match=r"No answer to tools/call within 0.05 s \(server calculator, tools/call"
        ):
            await client.call_tool("wait", timeout_s=0.05)
        with pytest.raises(RemoteError, match=r"Unknown tool: sub \[-32602\]"):
            await client.call_tool("sub")
        with pytest.raises(ToolFailed, match=r"The tool 'divide' failed: b is zero; give another divisor."):
            await client.call_tool("divide", {"a": 1, "b": 0}, raise_on_error=True)
    with pytest.raises(HttpConnectFailed, match=r"Cannot connect to http://127.0.0.1:1/mcp"):
        await Client("http://127.0.0.1:1/mcp", mode=mode).connect()
    with pytest.raises(ServerStartFailed, match="Cannot start the server 'no-such-program': there is no such program"):
        await Client("no-such-program", mode=mode).connect()
    with pytest.raises(
        ServerProcessEnded, match=r"(?s)ended with exit status 1 .*the last lines of its stderr:\nno configuration"
    ):
        await Client([sys.executable, "-c", "import sys; sys.exit('no configuration')"], mode=mode).connect()
    with pytest.raises(ValueError, match="mode is 'auto', 'legacy' or one of 2024-11-05"):
        Client(app, mode="2030-01-01")
    with pytest.raises(TypeError, match="A client cannot be made of int"):
        Client(42)
