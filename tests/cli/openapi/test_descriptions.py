"""OpenAPI descriptions on the command line: recognized, listed, served, and converted to a server file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ferrule import Client, StdioServer
from ferrule.cli.openapi.descriptions import is_description
from tests.cli.support import FERRULE, ferrule

SHOP = str(Path(__file__).parent / "descriptions" / "shop.json")


@pytest.mark.parametrize(
    ("name", "text", "is_one"),
    [
        ("a.json", '{"openapi": "3.1.0"}', True),
        ("a.json", '{"swagger": "2.0"}', True),
        ("a.json", '{"openapi": "3.1.0"', True),  # broken: the reader says where
        ("a.json", '{"mcpServers": {"openapi": {"command": "x"}}}', False),
        ("a.json", "{}", False),
        ("a.yaml", "info: {}\nopenapi: 3.0.0\n", True),
        ("a.yml", "'openapi': 3.0.0\n", True),
        ("a.yaml", "services: {}\n", False),
        ("a.py", "openapi: 1", False),
    ],
)
def test_a_description_is_distinguished_from_other_files(name: str, text: str, is_one: bool, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert is_description(str(path)) is is_one


def test_a_url_is_a_description_by_its_ending_or_by_the_options() -> None:
    assert is_description("https://api.example/openapi.json?x=1")
    assert not is_description("https://api.example/mcp")
    assert is_description("https://api.example/schema", is_asked=True)
    assert not is_description("nothing.json")


def test_a_list_says_what_would_be_exposed_and_what_not() -> None:
    done = ferrule("list", SHOP)
    assert done.returncode == 0, done.stderr
    for part in (
        "Shop 2 (OpenAPI 3.1.0)",
        "Operations (5)",
        "listOrders",
        "List orders",
        "the parameter 'x' stands in",
    ):
        assert part in done.stdout
    assert "Repaired (1)" in done.stdout
    assert '"tag:orders"' in done.stdout
    assert "tokens" in done.stdout


def test_a_list_of_some_operations_has_the_line_to_copy() -> None:
    done = ferrule("list", SHOP, "--include", "GET", "--exclude", "getOrder")
    assert 'Exactly these: include=["GET /orders"]' in done.stdout
    assert "login" not in done.stdout


def test_a_list_as_json_is_whole() -> None:
    picture = json.loads(ferrule("list", SHOP, "--json").stdout)
    assert [each["include"] for each in picture["operations"]] == [
        "GET /orders", "POST /orders", "GET /orders/{id}", "POST /login", "PUT /picture",
    ]  # fmt: skip
    assert picture["skipped"][0]["method"] == "DELETE"
    assert picture["size"]["bytes"] > picture["size"]["tokens"] > 100
    assert picture["size"]["isSearched"] is False


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", SHOP), "--include '*'    all of them"),
        (("run", SHOP), "--include tag:orders"),
        (("run", SHOP, "--include", "*"), "--base-url https://…; the description names https://shop.example/v2"),
        (("run", SHOP, "--include", "tag:order", "--base-url", "http://127.0.0.1:9"), "did you mean 'orders'?"),
        (("run", SHOP, "--include", "*", "--base-url", "ftp://x"), "--base-url is an absolute URL"),
        (("run", SHOP, "--include", "*", "--base-url", "http://x", "--auth-env", "NOT_SET_HERE"), "NOT_SET_HERE"),
        (("run", SHOP, "--include", "*", "--base-url", "http://x", "--header", "broken"), "A header is written"),
        (("run", SHOP, "--include", "*", "--base-url", "http://x", "--reload"), "ferrule new --from"),
        (("run", SHOP, "--include", "*", "--base-url", "http://x", "--token", "t"), "--auth-env"),
        (("run", __file__, "--include", "*"), "are for an OpenAPI description"),
        (("list", __file__, "--include", "*"), "are for an OpenAPI description"),
        (("list", SHOP, "tools"), "operations only"),
        (("inspect", SHOP), "every other command takes that line in quotes"),
        (("new", "--from", SHOP, "server.py"), "--include '*'    all of them"),
        (("new", "--from", SHOP, "--include", "*", "folder"), "a Python file to write"),
        (("new", "--include", "*", "folder"), "are for --from"),
    ],
)
def test_a_mistake_is_reported_with_the_correction(arguments: tuple[str, ...], said: str) -> None:
    done = ferrule(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unreadable_description_is_an_error(tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text('{"swagger": "2.0", "paths": {}}')
    broken = tmp_path / "broken.json"
    broken.write_text('{"openapi": "3.1.0"')
    for path, said in ((old, "Swagger 2.0"), (broken, "neither JSON")):
        done = ferrule("list", str(path))
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    done = ferrule("list", "http://127.0.0.1:9/openapi.json")
    assert (done.returncode, "cannot be fetched" in done.stderr) == (3, True)


@pytest.mark.anyio
async def test_a_description_is_served_over_stdio() -> None:
    """The API cannot be reached, so a call is an error; its tools are listed."""
    command, *arguments = FERRULE
    arguments += ["run", SHOP, "--include", "tag:orders", "--base-url", "http://127.0.0.1:9", "--header", "X-A: b"]
    async with Client(StdioServer(command, arguments, inherit_env=True)) as client:
        assert [tool.name for tool in await client.list_tools()] == ["listOrders", "post_orders", "getOrder"]
        result = await client.call_tool("getOrder", {"id": "1"})
        assert result.is_error
        assert "cannot be reached" in result.text


def test_a_file_is_made_once_and_lists(tmp_path: Path) -> None:
    done = ferrule("new", "--from", SHOP, "--include", "tag:orders", "server.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "server.py").read_text()
    assert 'BASE_URL = "https://shop.example/v2"' in text
    assert "check that your credentials may go there" in text
    assert "list_orders" in ferrule("list", "server.py", "tools", cwd=tmp_path).stdout
    again = ferrule("new", "--from", SHOP, "--include", "*", "server.py", cwd=tmp_path)
    assert (again.returncode, (tmp_path / "server.py").read_text()) == (2, text)


def test_a_list_of_a_server_shows_what_is_behind_its_search(tmp_path: Path) -> None:
    path = tmp_path / "many.py"
    path.write_text(
        "from ferrule import MCPServer\n"
        'app = MCPServer("many", tool_search=True)\n'
        "for number in range(120):\n"
        '    app.add_tool(lambda: "x", name=f"tool_{number:03}", description=f"The {number}.")\n'
    )
    done = ferrule("list", str(path), "tools")
    assert "Tools (3)" in done.stdout
    assert "Behind search_tools (120)" in done.stdout
    assert all(f"tool_{number:03}" in done.stdout for number in range(120))
    found = json.loads(ferrule("list", str(path), "--json").stdout)
    assert [tool["name"] for tool in found["behindSearch"]] == [f"tool_{number:03}" for number in range(120)]
