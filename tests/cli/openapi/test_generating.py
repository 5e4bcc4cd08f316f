"""Files that ``ferrule new --from`` writes: they pass linters and type checkers, run, and send what the API takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client
from ferrule.cli.openapi.descriptions import usable_operations
from ferrule.cli.openapi.generating import server_file
from ferrule.expose import read_openapi
from ferrule.expose.exchange import ApiRequest, ApiResponse
from tests.modules import load_file

DESCRIPTIONS = Path(__file__).parent / "descriptions"
ROOT = Path(__file__).resolve().parents[3]


class Recording:
    """A caller that answers everything with the same JSON, and keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[ApiRequest] = []

    async def call(self, request: ApiRequest, origin: Any, *, max_bytes: int) -> ApiResponse:
        self.sent.append(request)
        return ApiResponse(status=200, headers=(("content-type", "application/json"),), body=b'{"ok":true}')

    async def aclose(self) -> None:
        pass


def generated(name: str, path: Path) -> Path:
    """Write the file of all operations of a description."""
    description = read_openapi(DESCRIPTIONS / name)
    usable, _ = usable_operations(description.operations)
    text = server_file(description, usable, base_url="http://127.0.0.1:9/v2", is_url_from_document=False)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["shop.json", "hostile.json"])
def test_the_file_passes_ruff_and_pyright(name: str, tmp_path: Path) -> None:
    """Whatever the description has in its names and texts is a name or a text in the file, too."""
    path = generated(name, tmp_path / "made_server.py")
    for command in (
        ["ruff", "check", "--isolated", "--select", "E4,E7,E9,F,I,UP,W", str(path)],
        ["pyright", "--pythonpath", sys.executable, str(path)],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command], capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path
        )
        if "No module named" in done.stderr:
            pytest.skip(f"{command[0]} is not installed")
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.anyio
async def test_the_functions_send_what_the_description_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "secret")
    module = load_file(generated("shop.json", tmp_path / "made_shop.py"), "made_shop")
    caller = module.api._caller = Recording()
    assert module.headers == {"X-Key": "secret"}
    async with Client(module.app) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert set(tools) == {"list_orders", "post_orders", "get_order", "login"}
        assert tools["list_orders"].title == "List orders"
        assert "the newest first" in (tools["list_orders"].description or "")
        schema = tools["list_orders"].input_schema["properties"]
        assert schema["limit"]["description"] == "How many"
        arguments = {"limit": 5, "state": "open", "ids": [1, 2], "filter": {"a": "b"}, "x_tenant": "t"}
        assert (await client.call_tool("list_orders", arguments)).structured_content == {"ok": True}
        await client.call_tool("post_orders", {"item": "nut", "class_": "big"})
        await client.call_tool("get_order", {"id": "a/b"})
        await client.call_tool("login", {"user": "ada"})
    first, second, third, fourth = caller.sent
    assert first.target == "/orders?limit=5&state=open&ids=1,2&filter%5Ba%5D=b"
    assert ("x-tenant", "t") in first.headers
    assert (second.method, second.path, second.body) == ("POST", "/orders", b'{"item":"nut","class":"big"}')
    assert third.path == "/orders/a%2Fb"
    assert (fourth.body, ("content-type", "application/x-www-form-urlencoded") in fourth.headers) == (b"user=ada", True)


@pytest.mark.anyio
async def test_names_and_texts_of_a_hostile_description_do_nothing(tmp_path: Path) -> None:
    module = load_file(generated("hostile.json", tmp_path / "made_hostile.py"), "made_hostile")
    caller = module.api._caller = Recording()
    async with Client(module.app) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert len(tools) == 3
        (name,) = (name for name, tool in tools.items() if len(tool.input_schema["properties"]) > 5)
        required = tools[name].input_schema["required"]
        names = [name for name in tools[name].input_schema["properties"] if name.startswith("a_")]
        arguments = {**dict.fromkeys(required, "x"), **dict.fromkeys(names, '"')}
        result = await client.call_tool(name, arguments)
        assert not result.is_error, result.text
    assert "a%2C%20b=%22" in caller.sent[0].query


def test_what_takes_files_is_left_to_people(tmp_path: Path) -> None:
    text = generated("shop.json", tmp_path / "made_files.py").read_text()
    assert "# PUT /picture takes files" in text
