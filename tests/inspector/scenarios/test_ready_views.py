"""The ready views (`ferrule.extensions.apps.views`) in a browser: what a reader sees and does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from ferrule import MCPServer, ToolError
from ferrule.extensions.apps import Approval, Chart, Table, ToolForm
from tests.inspector.shown_views import shown as shown


@dataclass
class Item:
    """A row."""

    name: str
    unit_price: float
    in_stock: bool | None = None


def shop(log: list[Any]) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("shop")

    @app.ui(Table(), title="Stock")
    def stock(rows: int) -> list[Item]:
        return [Item(f"item {number}", number * 1.5, number % 2 == 0) for number in range(rows)]

    @app.ui(Table({"a": "First"}))
    def free() -> Any:
        return {"rows": [{"a": "x", "b": 2}, {"a": "<b>bold</b>", "b": 1}], "more": None}

    @app.ui(Chart(x="name", y="unit_price"), title="Prices")
    def prices() -> list[Item]:
        return [Item("a", -1), Item("b", 2.5), Item("c", 4)]

    @app.ui(Chart("bar"))
    def shares() -> dict[str, float]:
        return {"x": 1, "y": 3}

    @app.ui(visibility="app")
    def order(item: str, count: int = 1, size: Literal["small", "large"] = "small", gift: bool = False) -> str:
        if count > 5:
            raise ToolError("At most five")
        log.append((item, count, size, gift))
        return f"ordered {count} {item}"

    @app.ui(ToolForm(order, button="Order", done="Thank you."), title="Order")
    def order_form(item: str = "") -> dict[str, str]:
        return {"item": item}

    @app.ui(visibility="app")
    def pay(name: str, unit_price: float) -> str:
        log.append((name, unit_price))
        return "paid"

    @app.ui(Approval(pay), title="Pay?")
    def propose(name: str) -> Item:
        return Item(name, 12.5)

    return app


def test_a_table_of_ten_thousand_rows_has_few_elements(shown: Any) -> None:
    """Only the rows that are seen are elements, wherever the reader is."""
    view = shown(shop([]), "stock", {"rows": 10_000})
    frame = view.frame
    frame.get_by_role("row").nth(1).wait_for()
    table = frame.get_by_role("table")
    assert table.get_attribute("aria-rowcount") == "10001"
    assert frame.get_by_role("columnheader").all_inner_texts() == ["Name", "Unit price", "In stock"]
    assert frame.get_by_role("cell").nth(0).inner_text() == "item 0"
    for place, name in ((300_000, "item 9999"), (150_000, "item 5000"), (0, "item 0")):
        table.evaluate("(e, top) => { e.scrollTop = top; }", place)
        frame.get_by_role("cell", name=name, exact=True).wait_for()
        assert frame.locator(".rows .row").count() <= 60
        assert frame.locator(".rows .row:not([hidden])").count() <= 40
    frame.get_by_role("button", name="Unit price").click()
    frame.get_by_role("button", name="Unit price").click()
    assert frame.get_by_role("columnheader").nth(1).get_attribute("aria-sort") == "descending"
    assert frame.get_by_role("cell").nth(0).inner_text() == "item 9999"
    frame.get_by_label("Filter").fill("ITEM 999")
    frame.get_by_text("11 of 10,000 rows").wait_for()
    assert frame.get_by_role("row").count() == 12
    text = view.view.result["content"][0]["text"]
    assert text.startswith('10,000 rows; the first 20:\n{"name":"item 0"')
    assert len(text) < 2000


def test_a_table_without_types_shows_the_data_as_text(shown: Any) -> None:
    """Nothing of the data is markup."""
    view = shown(shop([]), "free")
    cells = view.frame.get_by_role("cell")
    cells.nth(1).wait_for()
    assert view.frame.get_by_role("columnheader").all_inner_texts() == ["First"]
    assert cells.all_inner_texts() == ["x", "<b>bold</b>"]


def test_charts_have_a_name_and_a_table(shown: Any) -> None:
    """Lines and bars; the numbers are there for those who do not see them."""
    view = shown(shop([]), "prices")
    view.frame.get_by_role("img", name="Prices: Unit price; 3 points from a to c").wait_for()
    assert view.frame.locator("#chart path").get_attribute("d").count("L") == 2
    view.frame.get_by_text("Data").click()
    assert view.frame.get_by_role("row").all_inner_texts() == ["Name\tUnit price", "a\t-1", "b\t2.5", "c\t4"]
    bars = shown(shop([]), "shares")
    bars.frame.get_by_role("img", name="Shares: Value; 2 points from x to y").wait_for()
    heights = [float(bar.get_attribute("height")) for bar in bars.frame.locator("#chart rect").all()]
    assert heights[1] == pytest.approx(3 * heights[0])


def test_a_form_calls_its_tool_with_typed_values(shown: Any) -> None:
    """The fields are those of the tool; its error is shown, and the values stay."""
    log: list[Any] = []
    view = shown(shop(log), "order_form", {"item": "apple"})
    frame = view.frame
    frame.get_by_label("Item *").wait_for()
    assert frame.get_by_label("Item *").input_value() == "apple"
    frame.get_by_label("Count").fill("6")
    frame.get_by_label("Size").select_option("large")
    frame.get_by_label("Gift").check()
    frame.get_by_role("button", name="Order").click()
    frame.get_by_text("At most five").wait_for()
    assert log == []
    frame.get_by_label("Count").fill("5")
    frame.get_by_label("Count").press("Enter")
    frame.get_by_text("Thank you.").wait_for()
    assert log == [("apple", 5, "large", True)]
    assert frame.get_by_label("Item *").is_disabled()
    context = view.wait_for_view(lambda: view.view.model_context)
    assert "ordered 5 apple" in context["content"][0]["text"]


def test_an_approval_is_decided_once(shown: Any) -> None:
    """The buttons go; what was approved reaches the tool, and the model learns of it."""
    log: list[Any] = []
    view = shown(shop(log), "propose", {"name": "hat"})
    frame = view.frame
    frame.get_by_role("button", name="Approve").wait_for()
    assert frame.locator("dl").inner_text().split("\n")[:4] == ["Name", "hat", "Unit price", "12.5"]
    frame.get_by_role("button", name="Approve").click()
    frame.get_by_text("Approved.").wait_for()
    assert log == [("hat", 12.5)]
    assert frame.get_by_role("button").count() == 0
    assert "Approved." in view.wait_for_view(lambda: view.view.model_context)["content"][0]["text"]
    declined = shown(shop(log), "propose", {"name": "cap"})
    declined.frame.get_by_role("button", name="Decline").click()
    declined.frame.get_by_text("Declined.").wait_for()
    assert len(log) == 1


def test_the_views_follow_the_theme_of_the_host(shown: Any) -> None:
    """Dark and light, with the colours of the host where it gives some."""
    backs: list[str] = []
    for context in (
        {"theme": "dark"},
        {"theme": "light"},
        {"styles": {"variables": {"--color-background-primary": "rgb(1, 2, 3)"}}},
    ):
        view = shown(shop([]), "stock", {"rows": 1}, context=context)
        view.frame.get_by_role("cell", name="item 0").wait_for()
        backs.append(view.frame.locator("body").evaluate("e => getComputedStyle(e).backgroundColor"))
    assert backs == ["rgb(28, 28, 30)", "rgb(255, 255, 255)", "rgb(1, 2, 3)"]
