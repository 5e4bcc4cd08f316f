"""A server with 132 tools, of which a model gets three: search, description, call.

Each tool converts one unit to another. A list of all of them would be read, and paid for, with every question.

python examples/tool_search.py                    shows it in both eras
python examples/tool_search.py stdio              serves over stdin and stdout (or http --port 8000)
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

from ferrule import Client, MCPServer

FACTORS = {
    "length": {"metres": 1.0, "kilometres": 1000.0, "miles": 1609.344, "feet": 0.3048, "inches": 0.0254},
    "mass": {"kilograms": 1.0, "grams": 0.001, "pounds": 0.45359237, "ounces": 0.028349523125},
    "volume": {"litres": 1.0, "cups": 0.2365882365, "gallons": 3.785411784, "pints": 0.473176473},
    "speed": {
        "metres_per_second": 1.0,
        "kilometres_per_hour": 1 / 3.6,
        "knots": 1852 / 3600,
        "miles_per_hour": 0.44704,
    },
    "time": {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0, "weeks": 604800.0},
    "energy": {"joules": 1.0, "calories": 4.184, "kilowatt_hours": 3.6e6, "electronvolts": 1.602176634e-19},
    "pressure": {"pascals": 1.0, "bars": 1e5, "atmospheres": 101325.0, "millimetres_of_mercury": 133.322387415},
    "area": {"square_metres": 1.0, "hectares": 1e4, "acres": 4046.8564224, "square_miles": 2589988.110336},
    "data": {"bytes": 1.0, "kilobytes": 1e3, "megabytes": 1e6, "gigabytes": 1e9, "mebibytes": 1048576.0},
}

app = MCPServer("converter", version="1.0", tool_search="auto")


def conversion(factor: float) -> Callable[[float], float]:
    """A tool that multiplies."""

    def convert(value: float) -> float:
        return float(f"{value * factor:.10g}")

    return convert


for quantity, units in FACTORS.items():
    for source, target in permutations(units, 2):
        words = f"{source} to {target}".replace("_", " ")
        app.add_tool(
            conversion(units[source] / units[target]),
            name=f"{source}_to_{target}",
            title=f"Convert {words}",
            description=f"Convert a {quantity} from {words}.",
            tags=[quantity],
            annotations={"readOnlyHint": True},
        )


async def show(client: Client) -> None:
    """What a model does: look for it, look at it, use it."""
    print("  listed:   ", ", ".join(tool.name for tool in await client.list_tools()))
    for query in ("miles into kilometres", "cups in a gallon"):
        found = await client.call_tool("search_tools", {"query": query, "limit": 2})
        print(f"  {query}:", ", ".join(tool["name"] for tool in found.structured_content["tools"]))
    described = await client.call_tool("describe_tool", {"name": "miles_to_kilometres"})
    print("  arguments:", described.structured_content["inputSchema"]["required"])
    result = await client.call_tool("call_tool", {"name": "miles_to_kilometres", "arguments": {"value": 26}})
    print("  26 miles: ", result.text)
    wrong = await client.call_tool("call_tool", {"name": "mile_to_kilometre", "arguments": {"value": 26}})
    print("  a mistake:", wrong.text)


if __name__ == "__main__":
    from showing import main

    main(app, show)
