"""The examples: each as its one command, whose output is the page's; and what each promises, in both eras."""

from __future__ import annotations

import ast
import base64
import importlib
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client, MCPError, StdioServer
from ferrule.wire.faults import FerruleError
from tests.modules import load_file

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^```console\n\$ python (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
pytestmark = pytest.mark.anyio


def load(name: str) -> Any:
    """Return an example as a new module, without state from another test."""
    return load_file(EXAMPLES / f"{name}.py", f"example_{name}")


@pytest.mark.parametrize(("path", "shown"), SHOWN, ids=[path for path, _ in SHOWN])
def test_the_command_prints_what_the_page_shows(path: str, shown: str) -> None:
    """Line by line in this order; where the page says … there may be more."""
    if path.endswith("mount.py"):
        for package in ("fastapi", "starlette", "django"):
            pytest.importorskip(package)
    if path.endswith("django_store.py"):
        pytest.importorskip("django")
    if path.endswith("fastapi_expose.py"):
        pytest.importorskip("fastapi")
    if path.endswith("flask_expose.py"):
        pytest.importorskip("flask")
    if path.endswith("one_trace.py"):
        pytest.importorskip("opentelemetry.sdk")
    if "protected" in path:
        pytest.importorskip("joserfc")
    done = subprocess.run([sys.executable, path], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    printed = iter(done.stdout.splitlines())
    for line in shown.splitlines():
        assert line == "…" or line in printed, f"{line!r} is missing or not in its place in:\n{done.stdout}"
    for revision in ("2025-11-25", "2026-07-28"):
        assert "protected" in path or revision in done.stdout


def test_the_page_names_every_example() -> None:
    """Readers find examples on this page only."""
    helpers = {"showing.py", "demo.py"}
    names = {path.name for path in EXAMPLES.glob("*.py")} - helpers
    assert {name for name in names if f"(../examples/{name})" not in PAGE} == set()


@ERAS
async def test_weather_helps_with_a_misspelt_city_and_refuses_a_month_that_is_none(mode: str) -> None:
    """What a model gets wrong first."""
    async with Client(load("weather").app, mode=mode) as client:
        assert "Did you mean Tokyo" in (await client.call_tool("climate", {"city": "Tokio", "month": 1})).text
        assert (await client.call_tool("climate", {"city": "Tokyo", "month": 13})).is_error
        with pytest.raises(MCPError):
            await client.read_resource("climate://Atlantis")


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("DELETE FROM city", "syntax error"),
        ("SELECT 1; DROP TABLE city", "syntax error"),
        ("SELECT 1) ; DROP TABLE city --", "one statement"),
        ("SELECT * FROM pragma_database_list", "not authorized"),
        ("SELECT load_extension('x')", "not authorized"),
        ("SELECT zeroblob(900000000)", "too big"),
        ("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n", "interrupted"),
    ],
)
@ERAS
async def test_explorer_refuses_what_does_not_only_read(sql: str, said: str, mode: str) -> None:
    """A model writes the SQL, possibly from the text of a stranger."""
    explorer = load("explorer")
    explorer.QUERY_LIMIT_S = 0.2
    async with Client(explorer.app, mode=mode) as client:
        refused = await client.call_tool("query", {"sql": sql})
        assert refused.is_error
        assert said in refused.text
        assert (await client.call_tool("query", {"sql": "SELECT count(*) FROM city"})).structured_content["rows"] == [
            [43]
        ]


@ERAS
async def test_explorer_gives_every_row_once(mode: str) -> None:
    """Pages of 100 of the 516 rows, until there is no cursor; the list of tables comes in pages, too."""
    async with Client(load("explorer").app, mode=mode) as client:
        rows: list[Any] = []
        cursor: int | None = 0
        while cursor is not None:
            arguments = {"sql": "SELECT city, month FROM climate", "cursor": cursor, "limit": 100}
            page = (await client.call_tool("query", arguments)).structured_content
            rows += page["rows"]
            cursor = page["next_cursor"]
        assert len(rows) == len({tuple(row) for row in rows}) == 516
        assert (await client.list_resources_page()).next_cursor is not None
        assert {resource.name for resource in await client.list_resources()} == {"city", "climate", "year"}
        assert "PRIMARY KEY" in ((await client.read_resource("db:///city")).contents[0].text or "")


@ERAS
async def test_search_finds_lines_and_reports_progress(tmp_path: Path, mode: str) -> None:
    """Two files, one hit, progress for both; over stdio as a host starts it."""
    (tmp_path / "a.md").write_text("nothing\n", encoding="utf-8")
    (tmp_path / "b.md").write_text("one\na ring of brass\n", encoding="utf-8")
    seen: list[float] = []
    server = StdioServer(sys.executable, [str(EXAMPLES / "search.py"), "stdio"], env={"SEARCH_FOLDER": str(tmp_path)})
    async with Client(server, mode=mode) as client:
        done = await client.call_tool(
            "search",
            {"words": "brass", "pattern": "*.md"},
            on_progress=lambda now, total, text: seen.append(now),
            result_type=list[dict],
        )
    assert done.data == [{"path": "b.md", "line": 2, "text": "a ring of brass"}]
    assert seen == [1, 2]


@ERAS
async def test_search_does_not_leave_its_folder(tmp_path: Path, mode: str) -> None:
    """By no pattern and no link."""
    (tmp_path / "secret.md").write_text("brass", encoding="utf-8")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    search = load("search")
    search.ROOT = folder
    async with Client(search.app, mode=mode) as client:
        for pattern in ("*.md", "../*.md", f"{tmp_path}/*.md", "**/../../*.md"):
            found = await client.call_tool("search", {"words": "brass", "pattern": pattern}, result_type=list[dict])
            assert found.data == [], pattern


@ERAS
async def test_search_ends_when_the_client_gives_up(mode: str, tmp_path: Path) -> None:
    """Not at the last of a thousand files."""
    for number in range(1000):
        (tmp_path / f"{number:04}.md").write_text("brass", encoding="utf-8")
    search = load("search")
    search.ROOT = tmp_path
    calls: list[Any] = []
    ended = anyio.Event()

    async def note(ctx: Any, call_next: Any) -> Any:
        try:
            return await call_next(ctx)
        finally:
            if ctx.method == "tools/call":
                calls.append(ctx.session.dispatch)
                ended.set()

    search.app.lowlevel.middleware.append(note)
    seen: list[float] = []
    enough = anyio.CancelScope()

    def stop_at_three(now: float, total: float | None, text: str | None) -> None:
        seen.append(now)
        if now == 3:
            enough.cancel()

    async with Client(search.app, mode=mode) as client:
        with enough:
            await client.call_tool("search", {"words": "brass", "pattern": "*.md"}, on_progress=stop_at_three)
        assert enough.cancelled_caught
        with anyio.fail_after(30):
            await ended.wait()
    assert [call.cancel_requested for call in calls] == [True]
    assert max(seen) < 1000


@ERAS
async def test_picture_is_a_png_that_others_can_read(mode: str) -> None:
    """Signature, checksums, size, and the pixels of the one bar that is not there."""
    async with Client(load("picture").app, mode=mode) as client:
        arguments = {"values": [1, 0], "height_px": 20, "color": "#ff0000"}
        text, image = (await client.call_tool("bar_chart", arguments)).content
        assert (await client.call_tool("bar_chart", {"values": []})).is_error
        assert (await client.call_tool("bar_chart", {"values": [1], "color": "red"})).is_error
    assert text.text == "2 bars, the highest is 1"
    data = base64.b64decode(image.data or "")
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        body = data[at + 4 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length]) == (zlib.crc32(body),)
        chunks[body[:4]] = body[4:]
        at += 12 + length
    width, height, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    pixels = zlib.decompress(chunks[b"IDAT"])
    assert (width, height, len(pixels)) == (66, 20, 20 * (1 + 3 * 66))
    assert pixels.count(b"\xff\0\0") == 24 * 20


@ERAS
async def test_approval_moves_money_only_after_a_yes_and_once(mode: str) -> None:
    """The effect of each payment, counted where it happens."""
    approval = load("approval")
    async with Client(approval.app, mode=mode, elicitation_handler=approval.user) as client:
        for payee in ("Ada", "Bob", "Mallory"):
            await client.call_tool("pay", {"payee": payee, "amount_eur": 800})
        await client.call_tool("pay", {"payee": "Eve", "amount_eur": 5})
    assert approval.ACCOUNT == ["Ada", "Eve"]
    async with Client(approval.app, mode=mode) as client:
        with pytest.raises(FerruleError):  # there is no user to ask
            (await client.call_tool("pay", {"payee": "Ada", "amount_eur": 800})).raise_on_error()
    assert approval.ACCOUNT == ["Ada", "Eve"]


@ERAS
async def test_report_serves_clients_without_tasks(mode: str) -> None:
    """The same function is an ordinary call for them, with progress."""
    report = load("report")
    seen: list[float] = []
    async with Client(report.app, mode=mode) as client:
        done = await client.call_tool(
            "write_report",
            {"chapters": 2, "pause_s": 0},
            on_progress=lambda now, total, text: seen.append(now),
            result_type=report.Report,
        )
    assert done.data == report.Report(2, 300)
    assert seen == [0, 1]


@ERAS
async def test_agent_reports_a_missing_tool_to_the_model_and_stops_at_last(mode: str) -> None:
    """A model that wants the wrong tool for ever."""
    agent = load("agent")
    told: list[Any] = []

    def stubborn(params: Any) -> Any:
        last = params.messages[-1].content
        if isinstance(last, list):
            told.append(last[0].is_error)
        uses = [agent.tool_use_block("call", "launch", {})]
        return agent.CreateMessageResult(role="assistant", content=uses, model="fake", stop_reason="toolUse")

    async with Client(agent.app, mode=mode, sampling_handler=stubborn, sampling_tools=True) as client:
        result = await client.call_tool("ask_the_clerk", {"question": "?"})
    assert result.text == "The clerk is still thinking; ask something simpler."
    assert told == [True] * (agent.MAX_TURNS - 1)


@ERAS
async def test_gateway_works_without_one_of_its_servers(mode: str) -> None:
    """The tools of the other servers stay, and a name without a server is refused."""
    gateway = load("gateway")
    gateway.SERVERS["weather"] = {"command": sys.executable, "args": ["-c", "raise SystemExit(1)"]}
    async with Client(gateway.app, mode=mode) as client:
        assert [tool.name for tool in await client.list_tools()] == ["search_search", "picture_bar_chart"]
        with pytest.raises(MCPError, match="There is no tool"):
            await client.call_tool("nobody_s", {})


def test_the_extension_of_ones_own_uses_public_names_only() -> None:
    """What it needs, others need: a name that is not public could change under them."""
    tree = ast.parse((EXAMPLES / "extension.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    ours = [node for node in imports if str(node.module).split(".")[0] == "ferrule"]
    assert len(ours) >= 4
    for node in ours:
        module = importlib.import_module(str(node.module))
        assert not any(part.startswith("_") for part in str(node.module).split("."))
        assert {alias.name for alias in node.names} <= set(module.__all__)
    private = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.startswith("_")}
    assert private <= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@ERAS
async def test_extension_tells_only_clients_that_declare_it(mode: str) -> None:
    """One that does not gets its tools, and nothing else."""
    module = load("extension")
    heard: list[str] = []
    async with Client(module.app, mode=mode, message_handler=lambda method, _: heard.append(method)) as client:
        assert (await client.call_tool("sell", {"item": "lamp"})).text == "sold lamp"
        with pytest.raises(MCPError):
            await client.request("receipts/list")
        assert heard == []
    async with Client(module.app, mode=mode, extensions=[module.ReceiptsClient()]) as client:
        receipts = client.extension(module.ReceiptsClient)
        await receipts.printed(1)
        await receipts.all()  # after the notification, on the same connection
        assert module.app.extensions["com.example/receipts"].filed == {1}


@ERAS
async def test_skills_are_those_of_the_folder(mode: str) -> None:
    """Each with every file that its folder has."""
    async with Client(load("skills").app, mode=mode) as client:
        skills = {skill.name: skill.paths for skill in await client.list_skills()}
        assert skills["monthly-report"] == ["templates/rain.md", "templates/report.md"]
