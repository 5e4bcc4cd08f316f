"""``ferrule run``: files over both transports, workers, reloading, and what goes wrong at the start."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client, MCPError
from ferrule.errors import InputRequiredError, LocalError
from ferrule.extensions.apps import CLIENT_SETTINGS
from tests.cli.support import FERRULE, LIMIT_S, PROBE, ferrule, serving

SERVER = """\
import os
from ferrule import MCPServer

app = MCPServer("small")

@app.tool
def version() -> str:
    "Which text of this file is served, and by which process."
    return "one " + str(os.getpid())
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A server file that a test may change."""
    folder = tmp_path / "project"
    folder.mkdir()
    path = folder / "small.py"
    path.write_text(SERVER)
    return path


def write_later(path: Path, text: str) -> None:
    """Write a file so that its time and size differ, as an editor does: whole."""
    path.with_suffix(".new").write_text(text)
    os.utime(path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)


@pytest.mark.parametrize(
    ("text", "attribute", "words"),
    [
        (SERVER, "", "one"),
        (SERVER.replace("app", "anything"), "", "one"),
        (SERVER + "\nother = MCPServer('other')\n", "", "one"),  # `app` is the usual name
        (SERVER + "\nlow = app.lowlevel\ndel app\n", ":low", "one"),
    ],
)
def test_the_server_in_a_file_is_found(source: Path, text: str, attribute: str, words: str) -> None:
    """Usual names first, then the only one; the lowlevel server serves as well."""
    source.write_text(text)
    done = ferrule("call", f"{source}{attribute}", "version")
    assert (done.returncode, done.stdout[: len(words)]) == (0, words)


def test_a_function_that_makes_a_server_is_called(source: Path) -> None:
    """``file.py:make``."""
    body = "\n".join("    " + line for line in SERVER.splitlines()[3:])
    source.write_text(f"import os\nfrom ferrule import MCPServer\n\ndef make():\n{body}\n    return app\n")
    assert ferrule("call", f"{source}:make", "version").stdout.startswith("one")


@pytest.mark.parametrize(
    ("text", "attribute", "words"),
    [
        ("import ferrule\n", "", "no MCPServer"),
        (SERVER + "\none = MCPServer('1')\ntwo = MCPServer('2')\ndel app\n", "", "several servers"),
        (SERVER, ":nothing", "no 'nothing'"),
        (SERVER, ":os", "not a server"),
        ("import ferrule\nthis is no Python\n", "", "SyntaxError"),
    ],
)
def test_a_file_that_cannot_be_served_says_why(source: Path, text: str, attribute: str, words: str) -> None:
    """On stderr, with a status, and with nothing on stdout, which belongs to the protocol."""
    source.write_text(text)
    done = ferrule("run", f"{source}{attribute}")
    assert done.returncode != 0
    assert done.stdout == ""
    assert words in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import ferrule\nimport no_such_package\n", ["line 2", "No module named 'no_such_package'"]),
        ("import ferrule\nthis is no Python\n", ["line 2", "this is no Python", "SyntaxError"]),
        (SERVER + "\n@app.tool\ndef bad(a: 'Nowhere'): ...\n", ["bad(): name 'Nowhere' is not defined"]),
    ],
)
def test_a_file_that_fails_is_not_called_a_bug_of_ours(source: Path, text: str, words: list[str]) -> None:
    """Its author gets the line of the file, and none of the frames that lead to it."""
    source.write_text(text)
    done = ferrule("run", str(source))
    assert (done.returncode, done.stdout) == (2, "")
    assert [word for word in words if word not in done.stderr] == []
    assert "a bug?" not in done.stderr
    assert "importlib" not in done.stderr


@pytest.mark.parametrize("more", [(), ("--reload",)])
def test_a_port_that_is_taken_says_what_to_do(more: tuple[str, ...]) -> None:
    """The most common failure of a second start."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = ferrule("run", PROBE, "--http", "--port", str(taken.getsockname()[1]), *more)
    assert (done.returncode, "choose another port with --port" in done.stderr) == (3, True)


def test_a_foreign_program_is_run_unchanged(tmp_path: Path) -> None:
    """A file that does not import Ferrule is an MCP server of another library."""
    (tmp_path / "other.py").write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    if asked.get('method') == 'initialize':\n"
        "        result = {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}},\n"
        "                  'serverInfo': {'name': 'other', 'version': '1'}}\n"
        "    elif asked.get('method') == 'tools/list':\n"
        "        result = {'tools': [{'name': 'foreign', 'inputSchema': {'type': 'object'}}]}\n"
        "    elif 'id' in asked:\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'error': {'code': -32601, 'message': 'no'}}),\n"
        "              flush=True)\n"
        "        continue\n"
        "    else:\n"
        "        continue\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'result': result}), flush=True)\n"
    )
    assert "foreign" in ferrule("list", str(tmp_path / "other.py")).stdout
    # ... and a bridge in front of it speaks the modern era, which it does not.
    bridged = f"{FERRULE[0]} -m ferrule run {tmp_path / 'other.py'}"
    assert "foreign" in ferrule("list", bridged, "--mode", "2026-07-28").stdout


def test_http_serves_both_eras_and_ends_on_a_signal(tmp_path: Path) -> None:
    """The address is said on stderr once the port is open."""
    with serving(tmp_path / "log", "run", PROBE, "--http", "--port", "0", "--path", "/api") as server:
        assert server.url.endswith("/api")
        for mode in ("legacy", "2026-07-28"):
            assert ferrule("call", server.url, "add", "a=40", "--mode", mode).stdout == "42\n"
    assert server.process.returncode == 0


def test_a_port_that_is_taken_is_said_in_a_sentence(tmp_path: Path) -> None:
    """Not with a traceback."""
    with serving(tmp_path / "log", "run", PROBE, "--http", "--port", "0") as server:
        port = server.url.split(":")[2].split("/")[0]
        done = ferrule("run", PROBE, "--http", "--port", port)
        assert done.returncode == 3
        assert "in use" in done.stderr
        assert "Traceback" not in done.stderr


HAS_WORKERS = pytest.mark.skipif(sys.platform == "win32", reason="sockets are handed down on POSIX only")


@HAS_WORKERS
def test_workers_share_the_port_and_are_replaced(tmp_path: Path, source: Path) -> None:
    """Several processes answer; one that is killed is started again; none is left behind."""
    arguments = ("run", str(source), "--http", "--port", "0", "--workers", "2", "--stateless")
    with serving(tmp_path / "log", *arguments) as server:
        url = server.url

        async def pids(wanted: Callable[[set[int]], bool]) -> set[int]:
            found: set[int] = set()
            with anyio.fail_after(LIMIT_S):
                while not wanted(found):
                    async with Client(url, mode="2026-07-28") as client:
                        found.add(int((await client.call_tool("version")).text.split()[1]))
            return found

        first = anyio.run(pids, lambda found: len(found) == 2)
        killed = min(first)
        os.kill(killed, signal.SIGKILL)
        server.wait_for("another takes its place")
        second = anyio.run(pids, lambda found: len(found - {killed}) == 2)
        assert second - first
    for pid in (first | second) - {killed}:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@HAS_WORKERS
def test_a_session_outlives_its_worker(tmp_path: Path, source: Path) -> None:
    """The store that the workers share has it."""
    source.write_text(SERVER.replace('"small"', f'"small", store="sqlite:///{tmp_path}/server.db"'))
    with serving(tmp_path / "log", "run", str(source), "--http", "--port", "0", "--workers", "2") as server:

        async def kill_mine() -> bool:
            async with Client(server.url, mode="legacy") as client:
                link: Any = client.session.channel
                before = link.session_id
                os.kill(int((await client.call_tool("version")).text.split()[1]), signal.SIGKILL)
                with anyio.fail_after(LIMIT_S):
                    while True:
                        try:
                            await client.call_tool("version")
                            break
                        except (LocalError, MCPError):
                            await anyio.sleep(0.05)
                link = client.session.channel
                return bool(link.session_id == before)

        assert anyio.run(kill_mine)


@HAS_WORKERS
def test_workers_of_a_server_with_nothing_to_share_are_refused_as_by_the_library(source: Path) -> None:
    """One rule and one sentence; only the way out is called what the command line calls it."""
    done = ferrule("run", str(source), "--http", "--port", "0", "--workers", "2")
    assert done.returncode == 2
    assert "Legacy sessions need a store that all workers see" in done.stderr
    assert "--stateless" in done.stderr
    assert "Traceback" not in done.stderr
    source.write_text(SERVER + "\nlow = app.lowlevel\n")
    done = ferrule("run", f"{source}:low", "--http", "--port", "0", "--workers", "2")
    assert (done.returncode, "needs an MCPServer" in done.stderr) == (2, True)


ASKING = """\
import os
from ferrule import Context, MCPServer

def make():
    app = MCPServer("asks")

    @app.tool
    async def where(ctx: Context) -> str:
        asked = await ctx.step("asked", os.getpid)
        await ctx.elicit("Sure?", bool)
        return f"{asked} {os.getpid()}"

    return app
"""


@HAS_WORKERS
def test_workers_open_each_others_states_without_a_key_of_the_authors(tmp_path: Path, source: Path) -> None:
    """Any of them may get the answer; the program is one that makes its server in a function."""
    source.write_text(ASKING)
    arguments = ("run", f"{source}:make", "--http", "--port", "0", "--workers", "2", "--stateless")
    with serving(tmp_path / "log", *arguments) as server:

        def client() -> Client:  # each has a connection of its own, which the kernel gives to either worker
            return Client(server.url, mode="2026-07-28", elicitation_handler=lambda params: None, max_rounds=0)

        async def answer_from_another() -> None:
            with anyio.fail_after(LIMIT_S):
                while True:
                    async with client() as first:
                        with pytest.raises(InputRequiredError) as asked:
                            await first.call_tool("where")
                    (key,) = asked.value.result["inputRequests"]
                    answers = {key: {"action": "accept", "content": {"value": True}}}
                    state = asked.value.result["requestState"]
                    async with client() as second:
                        done = await second.call_tool("where", input_responses=answers, request_state=state)
                    assert not done.is_error
                    if len(set(done.text.split())) == 2:
                        return

        anyio.run(answer_from_another)


async def _reload_http(url: str, source: Path, mode: str) -> None:
    async with Client(url, mode=mode) as client:
        assert (await client.call_tool("version")).text.startswith("one")
        write_later(source, SERVER.replace("one ", "two and more "))
        with anyio.fail_after(LIMIT_S):
            while not (await client.call_tool("version")).text.startswith("two"):
                await anyio.sleep(0.05)
        # A mistake takes the server away, the port stays, and the next version is served again.
        write_later(source, "import ferrule\nno Python\n")
        write_later(source.with_name("noise.py"), "x = 1\n")
        await anyio.sleep(0.6)
        write_later(source, SERVER.replace("one ", "three, after a mistake "))
        with anyio.fail_after(LIMIT_S):
            while True:
                try:
                    if (await client.call_tool("version", timeout_s=5)).text.startswith("three"):
                        break
                except Exception:
                    await anyio.sleep(0.1)


@pytest.mark.skipif(sys.platform == "win32", reason="sockets are handed down on POSIX only")
@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
def test_reload_over_http_keeps_clients(tmp_path: Path, source: Path, mode: str) -> None:
    """One client object, three versions of the file, a syntax error in between, in either era."""
    with serving(tmp_path / "log", "run", str(source), "--http", "--port", "0", "--reload") as server:
        anyio.run(_reload_http, server.url, source, mode)
        assert "reloading" in server.log.read_text()


def test_reload_takes_a_changed_page_without_a_new_start(tmp_path: Path) -> None:
    """A page of an app is no source: the process stays, and clients are notified of its new URI."""
    source, page = tmp_path / "server.py", tmp_path / "page.html"
    source.write_text(
        "import os\nfrom ferrule import MCPServer\napp = MCPServer('x')\n@app.ui('page.html')\n"
        "def show() -> int:\n    return os.getpid()\n"
    )
    page.write_text("<p>one")

    async def main() -> None:
        target = [*FERRULE, "run", str(source), "--reload"]
        async with (
            Client(target, extensions=CLIENT_SETTINGS) as client,
            client.listen(resources=True) as changes,
        ):
            process = (await client.call_tool("show")).data
            [before] = await client.list_resources()
            write_later(page, "<p>two")
            with anyio.fail_after(LIMIT_S):
                while (after := (await client.list_resources())[0]).uri == before.uri:
                    await anext(changes)
            assert "two" in str((await client.read_resource(after.uri)).contents[0].text)
            assert (await client.call_tool("show")).data == process

    anyio.run(main)


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
def test_reload_over_stdio_keeps_the_host_connected(source: Path, mode: str) -> None:
    """The host's process stays; the server behind it is restarted, and the host is notified that lists may have
    changed."""

    async def main() -> None:
        target = [*FERRULE, "run", str(source), "--reload"]
        async with Client(target, mode=mode) as client, client.listen(tools=True) as changes:
            assert (await client.call_tool("version")).text.startswith("one")
            write_later(source, SERVER.replace("one ", "two ") + "\n@app.tool\ndef fresh() -> int:\n    return 1\n")
            with anyio.fail_after(LIMIT_S):
                event = await anext(changes)
            assert event.kind == "tools"
            assert (await client.call_tool("version")).text.startswith("two")
            assert {tool.name for tool in await client.list_tools()} == {"version", "fresh"}

    anyio.run(main)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--workers", "2"), "--workers needs --http"),
        (("--http", "--workers", "2", "--reload"), "--reload is for one process"),
        (("--http", "--path", "mcp"), "--path starts with a slash"),
    ],
)
def test_options_that_contradict_each_other_are_refused(arguments: tuple[str, ...], words: str) -> None:
    """Before anything is started."""
    done = ferrule("run", PROBE, *arguments)
    assert (done.returncode, words in done.stderr) == (2, True)


def test_a_configuration_with_one_server_is_bridged(tmp_path: Path) -> None:
    """Comments in it are no hindrance; with several, one is named."""
    entry = {"command": sys.executable, "args": ["-m", "ferrule", "run", PROBE]}
    config = tmp_path / "mcp.json"
    config.write_text(f'// mine\n{{"mcpServers": {{"probe": {json.dumps(entry)}}}}}')
    bridged = f"{FERRULE[0]} -m ferrule run {config}"
    assert ferrule("call", bridged, "add", "a=1").stdout == "3\n"
    config.write_text(json.dumps({"mcpServers": {"probe": entry, "other": {"url": "http://127.0.0.1:1"}}}))
    assert ferrule("inspect", str(config)).returncode == 2
    assert "add" in ferrule("list", f"{config}:probe").stdout


def test_what_an_entry_says_about_its_use_is_heeded(tmp_path: Path) -> None:
    """As `ferrule gateway` reads it: a disabled server, hidden tools, a deadline; several servers or one."""
    entry = {"command": sys.executable, "args": ["-m", "ferrule", "run", PROBE]}
    servers: dict[str, Any] = {
        "probe": {**entry, "includeTools": ["add"], "timeout": 5},
        "other": {**entry, "disabledTools": ["add"]},
        "off": {"command": "no-such-program", "disabled": True},
    }
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    bridged = f"{FERRULE[0]} -m ferrule run {config}"
    listed = {tool["name"] for tool in json.loads(ferrule("list", bridged, "--json").stdout)["tools"]}
    assert [name for name in listed if name.startswith("probe_")] == ["probe_add"]
    assert "other_add" not in listed
    assert any(name.startswith("other_") for name in listed)
    assert not any(name.startswith("off") for name in listed)
    config.write_text(json.dumps({"mcpServers": {"other": servers["other"]}}))
    listed = {tool["name"] for tool in json.loads(ferrule("list", bridged, "--json").stdout)["tools"]}
    assert listed
    assert "add" not in listed
    assert not any(name.startswith("other_") for name in listed)
    config.write_text(json.dumps({"mcpServers": {"off": servers["off"]}}))
    assert "disabled" in ferrule("run", str(config)).stderr
    servers = {"probe": entry, "signed": {"url": "http://127.0.0.1:1", "auth": "user"}}
    config.write_text(json.dumps({"mcpServers": servers}))
    found = ferrule("run", str(config))
    assert (found.returncode, "ferrule gateway" in found.stderr) == (2, True), found.stderr


def test_a_server_of_an_installed_host_is_found_by_its_name(tmp_path: Path) -> None:
    """``cursor:probe``, or only ``probe`` where one host has it."""
    (tmp_path / ".cursor").mkdir()
    entry = {"command": sys.executable, "args": ["-m", "ferrule", "run", PROBE]}
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"probe-x": entry}}))
    for name in ("cursor:probe-x", "cursor:", "probe-x"):
        assert ferrule("call", name, "add", "a=1", home=tmp_path).stdout == "3\n", name
    done = ferrule("call", "cursor:nothing", "add", home=tmp_path)
    assert (done.returncode, "it has probe-x" in done.stderr) == (2, True)


def test_nothing_of_a_project_is_watched_that_is_not_its_own(tmp_path: Path) -> None:
    """A virtual environment beside the file has thousands of files and is not the program."""
    from ferrule.cli.watching import SourceWatch

    (tmp_path / "a.py").write_text("")
    for folder in (".venv", "node_modules", "__pycache__"):
        (tmp_path / folder).mkdir()
    watch = SourceWatch(tmp_path / "a.py")
    for folder in (".venv", "node_modules", "__pycache__"):
        (tmp_path / folder / "b.py").write_text("")
    (tmp_path / "notes.txt").write_text("")
    assert watch.changed() == []
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.py").write_text("")
    assert watch.changed() == [str(tmp_path / "sub" / "c.py")]
    shutil.rmtree(tmp_path / "sub")
    assert watch.changed() == [str(tmp_path / "sub" / "c.py")]
    assert watch.changed() == []


def test_a_refused_declaration_is_shown_in_its_file(tmp_path: Path) -> None:
    """Also in a client, which shows the last lines of stderr: these must be the frames of the file."""
    (tmp_path / "s.py").write_text(
        "from ferrule import MCPServer\napp = MCPServer('s')\n"
        "@app.resource('memo://{name}')\ndef memo(nam: str) -> str:\n    return nam\n"
    )
    for command in ("run", "list"):
        told = ferrule(command, "s.py", cwd=tmp_path).stderr
        assert ('s.py", line 3' in told, "registry.py" in told, "SignatureError: memo()" in told) == (True, False, True)


# -- the first mistakes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--port=8001", "--host=0.0.0.0", "--path=/x", "--stateless", "--allow-host=a"])
def test_an_option_of_http_without_http_is_refused(source: Path, option: str) -> None:
    """The server would speak over stdin, and who asked for a port would wait for it."""
    done = ferrule("run", str(source), option)
    assert done.returncode == 2
    assert f"{option.partition('=')[0]} needs --http" in done.stderr


FAILING_LIFESPAN = """\
from contextlib import asynccontextmanager
from ferrule import MCPServer

@asynccontextmanager
async def life(app):
    raise RuntimeError("no database")
    yield

app = MCPServer("small", lifespan=life)
"""


@pytest.mark.parametrize("command", [["list"], ["run"]])
def test_a_lifespan_that_fails_is_shown_with_file_and_line(source: Path, command: list[str]) -> None:
    """It is the author's code that failed, not ours."""
    source.write_text(FAILING_LIFESPAN)
    done = ferrule(*command, str(source))
    assert f"{source}:6, in life: RuntimeError: no database" in done.stderr
    assert "a bug?" not in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "from ferrule import MCPServer\na = MCPServer('a')\nb = MCPServer('b')\n",
            "has several servers; choose one: ",
        ),
        ("from ferrule import MCPServer\n", "has no MCPServer at its top level"),
    ],
)
def test_a_file_without_one_server_is_one_line(source: Path, text: str, words: str) -> None:
    """Without a page of usage, also where it is quoted as the last words of a program."""
    source.write_text(text)
    done = ferrule("run", str(source))
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


# -- its log -------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_the_start_lines_and_the_access_log(tmp_path: Path, source: Path) -> None:
    """Where it is and how to try it; each request only where asked for, and no token that a query carries."""
    import aiohttp

    for options, is_logged in (((), False), (("--access-log",), True), (("--access-log", "--log-level", "off"), False)):
        log = tmp_path / "log"
        with serving(log, "run", str(source), "--http", "--port", "0", *options) as running:
            url = running.url
            running.wait_for(rf"Try it: ferrule dev {url}; add it to a host: ferrule install HOST {url}\n")
            headers = {"Authorization": "Bearer s3cret"}
            async with aiohttp.ClientSession() as http, http.get(f"{url}?token=s3cret", headers=headers) as answer:
                status = answer.status
        text = log.read_text()
        assert (f'"GET /mcp HTTP/1.1" {status}' in text) == is_logged, text
        assert "s3cret" not in text


def test_log_options_are_refused_where_they_mean_nothing(source: Path) -> None:
    """A level is one of Python's, and stdio has no requests to log."""
    assert "--access-log needs --http" in ferrule("run", str(source), "--access-log").stderr
    done = ferrule("run", str(source), "--http", "--log-level", "loud")
    assert (done.returncode, "is not one of 'debug'" in done.stderr) == (2, True)
    assert ferrule("run", str(source), "--log-level", "debug").returncode == 0
