"""Structured results and their text."""

# --8<-- [start:code]
from dataclasses import dataclass

from ferrule import Client, MCPServer, ToolError

app = MCPServer("stock", text="auto", max_result_bytes=1_000_000)


@dataclass
class Part:
    id: int
    name: str
    length_mm: float


STOCK = [Part(number, f"part {number}", number * 1.5) for number in range(1, 21)]


@app.tool
def parts() -> list[Part]:
    """All parts: a table, so the text is TOON."""
    return STOCK


@app.tool(text="json")
def part(id: int) -> Part:
    """One part, as JSON."""
    for found in STOCK:
        if found.id == id:
            return found
    raise ToolError(f"There is no part {id}; the ids are 1 to {len(STOCK)}.")


@app.tool(structured=False)
def summary() -> str:
    """Text only: no output schema, nothing structured."""
    return f"{len(STOCK)} parts"


# --8<-- [end:code]


# --8<-- [start:own]
def shout(value: object) -> str:
    """Any function from JSON-shaped data to text will do."""
    return str(value).upper()


@app.tool(text=shout)
def colours() -> list[str]:
    return ["brass", "steel"]


# --8<-- [end:own]


# --8<-- [start:schema]
@app.tool(
    output_schema={
        "type": "object",
        "properties": {"free_mm": {"type": "integer", "minimum": 0}},
        "required": ["free_mm"],
    }
)
def space() -> dict[str, int]:
    """A schema of your own is published as it stands, and enforced."""
    return {"free_mm": 1200}


# --8<-- [end:schema]


async def check(mode: str) -> None:
    """In both eras."""
    import pytest

    async with Client(app, mode=mode) as client:
        done = await client.call_tool("parts")
        assert done.text.startswith("[20]{id,name,length_mm}:\n  1,part 1,1.5\n")
        one = await client.call_tool("part", {"id": 2})
        assert one.text == '{"id":2,"name":"part 2","length_mm":3.0}'
        assert one.structured_content == {"id": 2, "name": "part 2", "length_mm": 3.0}
        text = await client.call_tool("summary")
        assert (text.text, text.has_structured_content) == ("20 parts", False)
        assert (await client.call_tool("colours")).text == "['BRASS', 'STEEL']"
        assert (await client.call_tool("space")).structured_content == {"free_mm": 1200}
        listed = {tool.name: tool for tool in await client.list_tools()}
        assert (listed["parts"].output_schema or {}).get("type") == ("array" if mode == "auto" else "object")
        assert listed["summary"].output_schema is None

    broken = MCPServer("broken")

    @broken.tool(max_result_bytes=100)
    def big() -> str:
        return "x" * 1000

    @broken.tool
    def wrong() -> list[int]:
        return ["a"]  # type: ignore[list-item]

    @broken.tool
    def nothing() -> float:
        return float("nan")

    async with Client(broken, mode=mode) as client:
        assert (await client.call_tool("big")).text == (
            "The result of tool `big` cannot be given: it is 1,000 bytes and at most 100 are allowed; "
            "ask for less, or for a smaller part"
        )
        assert (await client.call_tool("wrong")).text == (
            "The result of tool `wrong` cannot be given: it does not fit the declared return type at `[0]`: "
            "expected integer, got string"
        )
        assert (await client.call_tool("nothing")).text == (
            "The result of tool `nothing` cannot be given: it does not fit the declared return type: "
            "expected number, got null"
        )
    with pytest.raises(ValueError, match="text='xml': expected 'json', 'toon', 'auto' or a function"):
        MCPServer("x", text="xml")  # type: ignore[arg-type]
