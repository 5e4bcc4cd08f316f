"""ferrule.extensions.apps.views: the settings of ready views, made from types; `tests/inspector` shows them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from ferrule import Client, Field, MCPServer
from ferrule.app.errors import RegistrationError
from ferrule.extensions.apps import CLIENT_SETTINGS, Approval, Chart, Table, ToolForm
from ferrule.extensions.apps.views import text_of_rows
from ferrule.testing import AppHost

pytestmark = pytest.mark.anyio


@dataclass
class Item:
    """A row."""

    name: str
    price: Annotated[float | None, Field(title="Price in €")]
    tags: list[str]


class Page(TypedDict):
    """Rows with a cursor."""

    items: list[Item]
    next: str | None


COLUMNS = [
    {"key": "name", "title": "Name", "type": "string"},
    {"key": "price", "title": "Price in €", "type": "number"},
    {"key": "tags", "title": "Tags", "type": "array"},
]


async def config_of(view: Any, function: Any, app: Any = None, **options: Any) -> dict[str, Any]:
    """The settings in the page of a tool."""
    app = app or MCPServer("x")
    app.ui(view, name="show", **options)(function)
    async with Client(app, extensions=CLIENT_SETTINGS) as client:
        opened = await AppHost(client).open("show")
        opened.check()
        found = re.search(r'id="config">(.*?)</script>', opened.html)
        assert found is not None
        return json.loads(found[1])


def listed() -> list[Item]:
    return []


def paged() -> Page:
    return {"items": [], "next": None}


def untyped() -> Any:
    return []


@pytest.mark.parametrize(("function", "columns"), [(listed, COLUMNS), (paged, COLUMNS), (untyped, [])])
async def test_the_columns_of_a_table_are_the_fields_of_its_rows(function: Any, columns: Any) -> None:
    """With their titles and types; without types the page reads them from the data."""
    assert await config_of(Table(), function) == {"title": "Show", "columns": columns}
    assert (await config_of(Table, function, title="<Items>"))["title"] == "<Items>"


async def test_chosen_columns_keep_their_types() -> None:
    """In the chosen order, with own titles."""
    assert (await config_of(Table(["price", "other"], title="T"), listed)) == {
        "title": "T",
        "columns": [COLUMNS[1], {"key": "other", "title": "Other", "type": "string"}],
    }
    assert (await config_of(Table({"price": "Cost"}), listed))["columns"] == [{**COLUMNS[1], "title": "Cost"}]


async def test_a_chart_knows_the_titles_of_its_fields() -> None:
    """The page chooses axes that are not given."""
    found = await config_of(Chart("bar", x="name", y="price"), listed)
    assert found == {
        "title": "Show",
        "kind": "bar",
        "x": "name",
        "y": ["price"],
        "titles": {"name": "Name", "price": "Price in €", "tags": "Tags"},
    }
    with pytest.raises(RegistrationError, match="not 'pie'"):
        Chart("pie")  # type: ignore[arg-type]


def with_order() -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("x")
    app.tool(order)
    return app


def order(name: str, count: int = 1) -> str:
    return name


@pytest.mark.parametrize("submit", [order, "order"])
async def test_a_form_has_the_schema_of_the_tool_that_it_calls(submit: Any) -> None:
    """By its function or its name."""
    found = await config_of(ToolForm(submit), untyped, with_order())
    assert found["tool"] == "order"
    assert list(found["schema"]["properties"]) == ["name", "count"]


async def test_an_approval_sends_the_fields_that_are_arguments() -> None:
    """The other button calls nothing unless a tool is given."""
    found = await config_of(Approval(order, labels=("Yes", "No")), one_item, with_order())
    assert found["approve"] == {"label": "Yes", "tool": "order", "names": ["name", "count"], "done": "Approved."}
    assert found["decline"] == {"label": "No", "tool": None, "names": [], "done": "Declined."}
    assert found["titles"]["price"] == "Price in €"


def one_item() -> Item:
    return Item("x", 1, [])


@dataclass
class Other:
    """Without a name."""

    count: int


def one_other() -> Other:
    return Other(1)


def test_a_tool_that_a_view_cannot_call_is_refused() -> None:
    """When the view is registered, and nothing of it stays."""
    app = with_order()
    for view, said in (
        (ToolForm("missing"), "'missing', which is no tool of 'x' yet"),
        (Approval(order), "'order' needs name, and the result that is approved has count"),
    ):
        with pytest.raises(RegistrationError, match=said):
            app.ui(view)(one_other)
    assert [tool.name for tool in app.list_tools()] == ["order"]


async def test_the_model_gets_the_first_rows_of_long_results() -> None:
    """Ten thousand rows are for the reader; ``text=`` of the tool decides otherwise."""
    rows = [{"number": number, "text": "x" * 50} for number in range(10_000)]
    text = text_of_rows(rows)
    assert text.startswith('10,000 rows; the first 20:\n{"number":0,')
    assert len(text.splitlines()) == 21
    assert text_of_rows({"rows": rows, "next": None}) == text
    assert text_of_rows([1, 2]) == "[1,2]"
    assert text_of_rows({"a": "x" * 5000}) == json.dumps({"a": "x" * 5000}, separators=(",", ":"))
    assert len(text_of_rows([{"a": "x" * 3000}] * 9).splitlines()) == 3
    app = MCPServer("x")
    app.ui(Table(), name="own", text=lambda data: "mine")(listed)
    app.ui(Table(), name="whole", text=None)(listed)
    async with Client(app) as client:
        assert (await client.call_tool("own")).text == "mine"
        assert (await client.call_tool("whole")).text == "[]"
