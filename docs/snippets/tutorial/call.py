import asyncio
import sys

from ferrule import Client, StdioServer


async def main() -> None:
    async with Client(StdioServer(sys.executable, ["calculator.py"])) as client:
        print(client.server_info.name, client.protocol_version)

        for tool in await client.list_tools():
            print(tool.name, "-", tool.description)

        result = await client.call_tool("add", {"a": 2, "b": 40})
        print(result.data)

        result = await client.call_tool("divide", {"a": 1, "b": 0})
        print(result.is_error, result.text)


if __name__ == "__main__":
    asyncio.run(main())
