"""``ferrule doctor``: each diagnosis has a broken server here that triggers it."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import PROBE, ferrule, serving

HERE = Path(__file__).parent
BROKEN_WEB = str(HERE / "servers" / "broken_web.py")


def doctor(*arguments: str, cwd: Path | None = None, **extra: str) -> dict[str, dict[str, Any]]:
    """The findings by their codes; the exit status agrees with them."""
    # On a busy machine each start is slow; a test that looks for that gives a limit of its own.
    options = ("--slow-after", "60", "--wait", "1")
    done = ferrule("doctor", *options, *arguments, "-o", "json", home=None, cwd=cwd, **extra)
    assert "Traceback" not in done.stderr, done.stderr
    found = json.loads(done.stdout)
    assert done.returncode == int(any(each["level"] == "fail" for each in found)), found
    return {each["code"]: each for each in found}


def troubles(found: dict[str, dict[str, Any]]) -> set[str]:
    """Codes of what warns or fails."""
    return {code for code, each in found.items() if each["level"] in ("warn", "fail")}


def program(tmp_path: Path, text: str, name: str = "server.py") -> str:
    """A server program, as a command line."""
    path = tmp_path / name
    path.write_text(text)
    return f"{sys.executable} {path}"


SERVE = "from ferrule import MCPServer\napp = MCPServer('s')\n\n@app.tool\ndef add(a: int) -> int:\n    return a\n\n"

RAW = """\
import json, sys, time
{before}
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        result = {{"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {{}},
                  "serverInfo": {{"name": "raw", "version": "1"}}}}
        if result["protocolVersion"] == "2026-07-28":
            result["protocolVersion"] = "2025-11-25"
        {each}
        print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": result}}), flush=True)
    elif "id" in asked:
        error = {{"code": -32601, "message": "no"}}
        print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "error": error}}), flush=True)
{after}
"""


def test_a_good_process_has_no_trouble() -> None:
    """Every revision is tried; nothing is invented."""
    found = doctor(PROBE)
    assert troubles(found) == set()
    assert {"program", "starts", "era-works", "ends"} <= set(found)


@pytest.mark.parametrize("command", ["no-such-program-here", "./no/such/program"])
def test_a_missing_program(command: str) -> None:
    """The most common failure of all."""
    assert troubles(doctor(f"{command} x")) == {"missing-program"}


def test_a_missing_interpreter(tmp_path: Path) -> None:
    """The file exists; the system's "no such file" is about the interpreter."""
    path = tmp_path / "tool"
    path.write_text("#!/opt/nowhere/python\n")
    path.chmod(0o755)
    assert "missing-interpreter" in doctor(f"{path} x")
    path.chmod(0o644)
    if os.geteuid() != 0 or not os.access(path, os.X_OK):
        assert "not-executable" in doctor(f"{path} x")


def test_a_missing_script(tmp_path: Path) -> None:
    """A path that was right in another folder."""
    assert troubles(doctor(f"{sys.executable} nowhere/server.py", cwd=tmp_path)) == {"missing-script"}


def test_a_server_that_ends_at_once_is_quoted(tmp_path: Path) -> None:
    """A package that is not installed, named with what to do."""
    found = doctor(program(tmp_path, "import no_such_package_at_all\n"))
    assert troubles(found) == {"early-exit"}
    assert "no_such_package_at_all" in found["early-exit"]["fix"]


def test_a_server_that_needs_a_variable_of_the_shell(tmp_path: Path) -> None:
    """It works when it is tried by hand and not in the host: the most confusing failure."""
    text = "import os\nos.environ['SECRET_KEY_X']\n" + SERVE + "app.run()\n"
    found = doctor(program(tmp_path, text), SECRET_KEY_X="1")
    assert troubles(found) == {"needs-environment"}
    assert found["needs-environment"]["facts"]["variables"] == ["SECRET_KEY_X"]


def test_noise_on_stdout_is_quoted(tmp_path: Path) -> None:
    """Our client skips it; other hosts do not."""
    text = RAW.format(before="print('Welcome to my server', flush=True)", each="pass", after="")
    found = doctor(program(tmp_path, text))
    assert "stdout-noise" in troubles(found)
    assert "Welcome to my server" in found["stdout-noise"]["says"]
    assert "legacy-only" in found


def test_a_slow_start(tmp_path: Path) -> None:
    """Measured against a limit; here a small one."""
    text = RAW.format(before="time.sleep(0.5)", each="pass", after="")
    assert "slow-start" in troubles(doctor(program(tmp_path, text), "--slow-after", "0.4"))


def test_a_silent_server(tmp_path: Path) -> None:
    """It runs, and does not speak this protocol."""
    found = doctor(program(tmp_path, "import sys\nfor line in sys.stdin:\n    pass\n"), "--timeout", "1")
    assert troubles(found) == {"silent"}


def test_a_server_that_does_not_end(tmp_path: Path) -> None:
    """Hosts leave it behind, hour by hour."""
    text = RAW.format(before="", each="pass", after="time.sleep(60)")
    assert "does-not-end" in troubles(doctor(program(tmp_path, text)))


def test_names_and_schemas_that_are_refused(tmp_path: Path) -> None:
    """One such tool costs a user all tools."""
    extra = (
        "@app.tool('a' * 70, input_schema={'type': 'object', 'properties': {'x': {'type': ['string', 'null']}}})\n"
        "def bad(**values: object) -> str:\n    return ''\n\n"
    )
    path = tmp_path / "server.py"
    path.write_text(SERVE + extra)
    assert {"tool-names", "tool-schemas"} <= troubles(doctor(str(path)))
    assert ferrule("inspect", str(path), "--strict").returncode == 1


# -- over HTTP --------------------------------------------------------------------------------------------------------


@contextmanager
def web(tmp_path: Path, kind: str) -> Iterator[str]:
    """The base URL of a broken server."""
    with serving(tmp_path / "log", BROKEN_WEB, kind, command=(sys.executable,)) as server:
        yield server.url


def test_a_good_url_has_no_trouble(tmp_path: Path) -> None:
    """Both eras, streams, and a refusal of foreign names."""
    with serving(tmp_path / "log", "run", PROBE, "--http", "--port", "0") as server:
        found = doctor(server.url)
        assert troubles(found) == set()
        assert {"reachable", "era-works", "names", "streams"} <= set(found)
        assert "origin" in doctor(server.url, "--origin", server.url.removesuffix("/mcp"))
        assert "origin-refused" in troubles(doctor(server.url, "--origin", "https://app.example"))


def test_nothing_listens_and_no_such_host() -> None:
    """Before HTTP begins."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert troubles(doctor(f"http://127.0.0.1:{port}/mcp")) == {"nothing-listens"}
    assert troubles(doctor("http://no-such-host.invalid/mcp")) == {"unknown-host"}


def test_a_wrong_path_is_corrected(tmp_path: Path) -> None:
    """404, and the right URL."""
    with serving(tmp_path / "log", "run", PROBE, "--http", "--port", "0") as server:
        found = doctor(server.url.replace("/mcp", "/"))
        assert troubles(found) == {"wrong-path"}
        assert found["wrong-path"]["facts"]["url"] == server.url
        assert troubles(doctor(server.url.replace("http:", "https:"))) == {"tls"}
        done = ferrule("list", server.url.replace("/mcp", "/"))  # who does not ask the doctor is sent there
        assert (done.returncode, "`ferrule doctor URL` looks for it" in done.stderr) == (4, True)
        done = ferrule("read", server.url, "memo://", "--mode", "2026-07-28")
        assert (done.returncode, "doctor" in done.stderr) == (4, False)


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        ("page", {"not-mcp"}),
        ("redirect", {"redirect"}),
        ("bad-gateway", {"proxy-error"}),
        ("crash", {"server-error"}),
        ("host", {"host-refused"}),
        ("forbidden", {"forbidden"}),
        ("buffering", {"buffering"}),
        ("legacy-buffering", {"buffering"}),
        ("unlisted", {"tools-unlisted"}),
        ("no-era", {"no-era"}),
        ("open", {"rebinding"}),
        ("401-bare", {"no-challenge", "no-resource-metadata"}),
        ("401-no-issuer", {"no-issuer-metadata"}),
        ("401-stray", {"auth-discovery"}),
        ("401-no-pkce", {"no-pkce", "no-registration"}),
    ],
)
def test_a_broken_web_server(tmp_path: Path, kind: str, codes: set[str]) -> None:
    """One kind of breakage each, and nothing else is found."""
    with web(tmp_path, kind) as url:
        assert troubles(doctor(url)) == codes


def test_it_is_readable_for_people() -> None:
    """One line per finding, what to do below it."""
    done = ferrule("doctor", "no-such-program-here x")
    assert done.stdout.startswith("FAIL  the program 'no-such-program-here' is in no folder of PATH\n      fix: ")


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    """``cwd`` of a configuration that came from another machine."""
    entry = {"command": sys.executable, "args": ["-m", "ferrule", "run", PROBE], "cwd": str(tmp_path / "gone")}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"x": entry}}))
    assert troubles(doctor(str(tmp_path / "mcp.json"))) == {"missing-folder"}


def test_a_token_that_is_refused(tmp_path: Path) -> None:
    """The finding has the reason in the challenge."""
    with web(tmp_path, "401-no-pkce") as url:
        assert "token-refused" in troubles(doctor(url, "--token", "stale"))


@pytest.mark.parametrize(("kind", "code"), [("modern", "modern-only"), ("no-cors", "no-cors")])
def test_warnings_about_other_peoples_clients(tmp_path: Path, kind: str, code: str) -> None:
    """It works here, and not for older hosts or for pages."""
    with web(tmp_path, kind) as url:
        assert code in troubles(doctor(url, "--origin", "https://app.example"))


def test_a_server_without_subscriptions(tmp_path: Path) -> None:
    """Clients must ask again and again; that is allowed, and worth knowing."""
    with web(tmp_path, "no-streams") as url:
        found = doctor(url)
        assert troubles(found) == set()
        assert "no-streams" in found


def test_the_transport_of_2024(tmp_path: Path) -> None:
    """Two endpoints; what works is said, and that hosts drop it."""
    with web(tmp_path, "old-sse") as url:
        found = doctor(url.replace("/mcp", "/sse"))
        assert troubles(found) == set()
        assert {"old-sse", "era-works", "legacy-only"} <= set(found)


@contextmanager
def listener(answer: bytes | None) -> Iterator[str]:
    """A listener that accepts connections and sends one fixed response, or nothing."""
    import threading

    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                kept.append(connection)
                if answer is not None:
                    connection.recv(65536)
                    connection.sendall(answer)
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/mcp"
        for connection in kept:
            connection.close()


def test_a_server_that_takes_requests_and_never_answers() -> None:
    """A worker that hangs, a security group that swallows."""
    with listener(None) as url:
        assert troubles(doctor(url, "--timeout", "1")) == {"no-answer"}


def test_a_port_of_another_protocol() -> None:
    """The port is open and no HTTP comes out of it."""
    with listener(b"SSH-2.0-OpenSSH_9.2\r\n") as url:
        assert troubles(doctor(url)) == {"no-connection"}


def test_a_process_with_another_protocol(tmp_path: Path) -> None:
    """It answers every request with an error: JSON-RPC, and no MCP."""
    text = (
        "import json, sys\nfor line in sys.stdin:\n    asked = json.loads(line)\n    if 'id' in asked:\n"
        "        error = {'code': -32601, 'message': 'what?'}\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': asked['id'], 'error': error}), flush=True)\n"
    )
    found = doctor(program(tmp_path, text))
    assert troubles(found) == {"no-connection"}
    assert "what?" in found["no-connection"]["says"]


def test_tools_that_cannot_be_listed(tmp_path: Path) -> None:
    """The worst hour: it connects everywhere, and no host shows a tool."""
    broken = "async def fail(ctx):\n    raise ValueError('x')\napp.lowlevel.add_request_handler('tools/list', fail)\n"
    (tmp_path / "server.py").write_text(SERVE + broken)
    found = doctor(str(tmp_path / "server.py"))
    assert troubles(found) == {"tools-unlisted"}
    assert "era-works" in found


def test_what_a_host_would_not_find_is_noted(tmp_path: Path) -> None:
    """A relative path works in this folder, and in no host."""
    (tmp_path / "server.py").write_text(RAW.format(before="", each="pass", after=""))
    found = doctor(f"{sys.executable} server.py", cwd=tmp_path)
    assert {"relative-path", "era-missing"} <= set(found)


def test_every_code_has_a_server_that_triggers_it() -> None:
    """Each result of the doctor is tested with a server that has the problem."""
    import re

    source = HERE.parents[1] / "src" / "ferrule" / "cli" / "doctor"
    found = set(re.findall(r'report\.add\(\s*"([a-z-]+)",', "".join(path.read_text() for path in source.glob("*.py"))))
    tests = Path(__file__).read_text() + (HERE / "scenarios" / "test_oauth.py").read_text()
    tests += "".join(path.read_text() for path in (HERE / "doctor").glob("*.py"))
    assert {code for code in found if f'"{code}"' not in tests} == set()


def test_every_code_is_described() -> None:
    """Programs decide by codes, so people must find them."""
    import re

    source = HERE.parents[1] / "src" / "ferrule" / "cli" / "doctor"
    text = "".join(path.read_text() for path in source.glob("*.py"))
    found = re.findall(r'report\.add\(\s*"([a-z-]+)",\s*"(?:warn|fail)"', text)
    described = (HERE.parents[1] / "docs" / "reference" / "cli.md").read_text()
    assert len(found) > 30
    assert [code for code in found if f"`{code}`" not in described] == []


def test_the_servers_of_a_configuration_are_checked_one_after_the_other(tmp_path: Path) -> None:
    """Each with its name, and a table at the end."""
    (tmp_path / "s.py").write_text(SERVE + "app.run()\n")
    entries = {
        "good": {"command": sys.executable, "args": [str(tmp_path / "s.py")]},
        "gone": {"command": "no-such-program-at-all"},
        "odd": {"comand": "x"},
        "off": {"command": "x", "disabled": True},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": entries}))
    done = ferrule("doctor", "mcp.json", "--slow-after", "60", cwd=tmp_path)
    assert done.returncode == 1
    assert "good (1 of 4)\nok    the program is" in done.stdout
    assert "  good  ok\n  gone  FAIL: missing-program\n  odd   FAIL: bad-entry\n  off   disabled\n" in done.stdout
    done = ferrule("doctor", "mcp.json", "--slow-after", "60", "-o", "json", cwd=tmp_path)
    found = json.loads(done.stdout)["servers"]
    assert [each["code"] for each in found["odd"] + found["off"]] == ["bad-entry", "disabled"]
    assert found["good"][0]["code"] == "program"


def test_variables_of_the_command_line_are_those_of_the_configuration(tmp_path: Path) -> None:
    """``--env`` tries what ``"env"`` of the entry would do."""
    (tmp_path / "s.py").write_text("import os, sys\n'KEY' in os.environ or sys.exit('KEY is not set')\n" + SERVE)
    found = doctor("s.py", cwd=tmp_path)
    assert found["early-exit"]["says"].count("KEY is not set") == 1
    assert not troubles(doctor("s.py", "--env", "KEY=1", cwd=tmp_path))
