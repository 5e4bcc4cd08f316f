"""Tools with a page that the host shows."""

# --8<-- [start:parts]
from ferrule import MCPServer

app = MCPServer("weather")


@app.ui(
    "apps/board.html",
    csp={"connectDomains": ["https://tiles.example.com"]},
    permissions=["geolocation"],
    state=True,
)
def board(city: str) -> dict[str, float]:
    """Show the weather of a city."""
    return {"high": 21.5}


@app.ui(visibility="app")
def refresh(city: str) -> dict[str, float]:
    """Load the weather again; the page calls it, and hosts hide it from the model."""
    return {"high": 22.0}


# --8<-- [end:parts]

# --8<-- [start:test]
from ferrule import Client
from ferrule.extensions.apps import CLIENT_SETTINGS
from ferrule.testing import AppHost


async def test_the_board() -> None:
    async with Client(app, extensions=CLIENT_SETTINGS) as client:
        view = await AppHost(client, context={"theme": "dark"}).open("board", {"city": "Oslo"})
        await view.initialize()
        assert view.result["structuredContent"] == {"high": 21.5}
        assert (await view.call_tool("refresh", {"city": "Oslo"}))["structuredContent"] == {"high": 22.0}
        view.check()  # policy, references, texts, messages


# --8<-- [end:test]

# --8<-- [start:configured]
from ferrule.extensions.apps import Apps

configured = MCPServer("weather", extensions=[Apps(always=True, flat_key=True, max_page_bytes=1024 * 1024)])
# --8<-- [end:configured]


# --8<-- [start:ready]
from dataclasses import dataclass

from ferrule.extensions.apps import Approval, Chart, Table, ToolForm

shop = MCPServer("shop")


@dataclass
class Item:
    name: str
    price: float


@shop.ui(Table())
def stock() -> list[Item]:
    """Show what there is."""
    return [Item("hat", 12.5), Item("cap", 9.0)]


@shop.ui(Chart("bar", x="name", y="price"))
def prices() -> list[Item]:
    """Show the prices."""
    return stock()


@shop.ui(visibility="app")
def buy(name: str, price: float) -> str:
    """Buy an item."""
    return f"bought {name} for {price}"


@shop.ui(Approval(buy))
def propose(name: str) -> Item:
    """Propose to buy an item; the user decides."""
    return next(item for item in stock() if item.name == name)


@shop.ui(ToolForm(buy, button="Buy"))
def order_form(name: str = "") -> dict[str, str]:
    """Let the user write down what to buy."""
    return {"name": name}


# --8<-- [end:ready]


async def check(mode: str) -> None:
    """Run what the page shows."""
    async with Client(shop, mode=mode, extensions=CLIENT_SETTINGS) as client:
        for name in ("stock", "prices", "order_form"):
            (await AppHost(client).open(name)).check()
        view = await AppHost(client).open("propose", {"name": "hat"})
        await view.initialize()
        bought = await view.call_tool("buy", {"name": "hat", "price": 12.5})
        assert bought["content"][0]["text"] == "bought hat for 12.5"
        view.check()
    await test_the_board()
    async with Client(configured, mode=mode) as client:
        assert client.server_capabilities["extensions"] == {"io.modelcontextprotocol/ui": {}}
    async with Client(app, mode=mode) as client:
        assert [tool.name for tool in await client.list_tools()] == ["board"]
