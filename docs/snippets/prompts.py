"""Prompts and completion."""

# --8<-- [start:code]
from ferrule import Client, MCPServer
from ferrule.types import PromptReference

app = MCPServer("office")


@app.prompt
def quote(metal: str, pieces: str = "1") -> str:
    """Ask for a quotation."""
    return f"Write a short quotation for {pieces} ferrule(s) of {metal}."


@app.complete(quote, "metal")
def metals(typed: str) -> list[str]:
    return [name for name in ("brass", "bronze", "steel") if name.startswith(typed)]


# --8<-- [end:code]


async def check(mode: str) -> None:
    """In both eras."""
    async with Client(app, mode=mode) as client:
        prompt = await client.get_prompt("quote", {"metal": "brass"})
        assert "1 ferrule(s) of brass" in prompt.messages[0].content.text
        found = await client.complete(PromptReference("quote"), "metal", "br")
        assert found.values == ["brass", "bronze"]
