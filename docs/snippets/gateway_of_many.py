"""A gateway over several servers, one of which is missing."""

# --8<-- [start:code]
import sys

from ferrule import Gateway, MCPServer, run

notes = MCPServer("notes")


@notes.tool
def search(words: str) -> str:
    """Search the notes."""
    return f"nothing about {words}"


gateway = Gateway({"notes": notes, "github": [sys.executable, "-m", "no_such_server"]})

if __name__ == "__main__":
    run(gateway, "http", port=8000)
# --8<-- [end:code]


async def check(mode: str) -> None:
    """What there is works; what is missing says so."""
    from ferrule import Client

    async with Client(gateway, mode=mode) as client:
        assert [tool.name for tool in await client.list_tools()] == ["notes_search"]
        assert (await client.call_tool("notes_search", {"words": "brass"})).text == "nothing about brass"
        failed = await client.call_tool("github_issues", raise_on_error=False)
        assert failed.is_error
        assert failed.text.startswith("`github` is down since ")
