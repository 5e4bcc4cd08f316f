"""``ferrule trace`` records, shows and replays."""

from __future__ import annotations

import json
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, cast

import anyio
import pytest

from ferrule import Client
from ferrule.cli.tracing.http_tracing import HttpTrace
from ferrule.cli.tracing.recording import Recorder
from ferrule.transports.http.backend import HttpClientRequest
from tests.cli.support import FERRULE, PROBE, ferrule, serving


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
def test_a_session_is_recorded_shown_and_replayed(tmp_path: Path, mode: str) -> None:
    """Byte for byte between host and server; afterwards it is a test that notices a change."""
    source = tmp_path / "server.py"
    text = (
        "from ferrule import MCPServer\napp = MCPServer('s')\n\n@app.tool\ndef add(a: int) -> int:\n    return a + 1\n"
    )
    source.write_text(text)
    record = tmp_path / "session.jsonl"
    traced = shlex.join([*FERRULE, "trace", str(source), "--to", str(record)])
    assert ferrule("call", traced, "add", "a=1", "--mode", mode).stdout == "2\n"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert {line["from"] for line in lines} == {"client", "server"}
    assert [line["at_s"] for line in lines] == sorted(line["at_s"] for line in lines)
    shown = ferrule("trace", "--show", str(record)).stdout
    assert "tools/call" in shown
    assert " ms " in shown
    done = ferrule("trace", str(source), "--replay", str(record))
    assert (done.returncode, "says the same" in done.stderr) == (0, True), done.stdout
    (tmp_path / "session.conv").write_text(ferrule("trace", "--conversation", str(record)).stdout)
    assert ferrule("trace", str(source), "--replay", str(tmp_path / "session.conv")).returncode == 0
    source.write_text(text.replace("a + 1", "a + 2"))
    done = ferrule("trace", str(source), "--replay", str(record))
    assert done.returncode == 1
    assert "came:" in done.stdout


def test_the_status_of_the_server_is_the_status_of_the_trace(tmp_path: Path) -> None:
    """A host gets the same exit status as without the trace."""
    (tmp_path / "x.py").write_text("import sys\nsys.exit(7)\n")
    done = ferrule("trace", f"{sys.executable} {tmp_path / 'x.py'}", "--to", str(tmp_path / "r"))
    assert done.returncode == 7
    assert ferrule("trace", PROBE).returncode == 2
    (tmp_path / "r").write_text("nonsense\n")
    assert "no line of a recording" in ferrule("trace", "--show", str(tmp_path / "r")).stderr


def test_a_server_may_end_before_its_host(tmp_path: Path) -> None:
    """A server that fails leaves a host whose pipe stays open; the status is the server's, and nothing is aborted."""
    server = shlex.join([sys.executable, "-c", "raise SystemExit(7)"])
    with subprocess.Popen(
        [*FERRULE, "trace", server, "--to", str(tmp_path / "r.jsonl")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        assert (process.wait(60), process.stderr.read()) == (7, b"")


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
def test_a_question_in_a_recording_replays(tmp_path: Path, mode: str) -> None:
    """Ids of questions and sealed states are made up anew in each run, so they are names in the replay."""
    record = tmp_path / "session.jsonl"

    async def main() -> str:
        target = [*FERRULE, "trace", PROBE, "--to", str(record)]
        async with Client(target, mode=mode, elicitation_handler=lambda asked: {"name": "Ada", "age": 36}) as client:
            return (await client.call_tool("greet")).text

    assert anyio.run(main) == "Hello, Ada (36)"
    text = ferrule("trace", "--conversation", str(record)).stdout
    assert '"$any:' in text
    assert '"$is:' in text
    done = ferrule("trace", PROBE, "--replay", str(record))
    assert done.returncode == 0, done.stdout


def calls(url: str, mode: str) -> list[str]:
    """The calls of a host: with a question, with progress, and one that is cancelled."""

    async def main() -> list[str]:
        seen: list[str] = []
        async with Client(url, mode=mode, elicitation_handler=lambda asked: {"name": "Ada", "age": 36}) as client:
            seen.append((await client.call_tool("greet")).text)
            done: list[float] = []
            result = await client.call_tool("steps", {"count": 2}, on_progress=lambda p, t, m: done.append(p))
            seen += [result.text, str(done)]
        return seen

    return anyio.run(main)


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
def test_http_is_recorded_and_replayed(tmp_path: Path, mode: str) -> None:
    """Between a host and a URL: questions, streams and sessions pass, and the recording is a test afterwards."""
    record = tmp_path / "session.jsonl"
    with serving(tmp_path / "log", "run", PROBE, "--http", "--port", "0") as server:
        arguments = ("trace", server.url, "--http", "--port", "0", "--to", str(record))
        with serving(tmp_path / "traced", *arguments) as trace:
            url = trace.wait_for(r"tracing (http://\S+)")[1]
            assert url != server.url
            assert calls(url, mode) == ["Hello, Ada (36)", "done", "[1, 2]"]
        assert trace.process.returncode == 0
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert {line["from"] for line in lines} == {"client", "server"}
    said = [line["message"]["method"] for line in lines if "method" in line.get("message", {})]
    assert said.count("tools/call") == (3 if mode == "2026-07-28" else 2)
    assert "notifications/progress" in said
    assert "elicitation/create" in record.read_text()
    done = ferrule("trace", PROBE, "--replay", str(record))
    assert (done.returncode, "says the same" in done.stderr) == (0, True), done.stdout


def test_a_host_that_goes_away_takes_its_request_with_it(tmp_path: Path) -> None:
    """The end of a connection is how the modern era cancels; a trace that hides it changes what it watches."""
    record = tmp_path / "record"

    async def main(url: str) -> None:
        async with Client(url, mode="2026-07-28") as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "linger", {"record": str(record)})
            with anyio.fail_after(30):
                while not record.exists() or record.read_text() != "began":
                    await anyio.sleep(0.02)
                group.cancel_scope.cancel()
        with anyio.fail_after(30):
            while record.read_text() != "cancelled":
                await anyio.sleep(0.02)

    with serving(tmp_path / "log", "run", PROBE, "--http", "--port", "0") as server:
        arguments = ("trace", server.url, "--http", "--port", "0", "--to", str(tmp_path / "session"))
        with serving(tmp_path / "traced", *arguments) as trace:
            anyio.run(main, trace.wait_for(r"tracing (http://\S+)")[1])


def test_what_http_cannot_trace_says_so(tmp_path: Path) -> None:
    """A file is not a URL, a foreign Host is refused, and a server that is away is a 502 with the reason."""
    done = ferrule("trace", PROBE, "--http", "--to", str(tmp_path / "r"))
    assert (done.returncode, "ferrule run FILE --http" in done.stderr) == (2, True)
    done = ferrule("trace", PROBE, "--to", str(tmp_path / "no" / "folder"))
    assert (done.returncode, "cannot write" in done.stderr) == (2, True)
    arguments = ("trace", "http://127.0.0.1:9/mcp", "--http", "--port", "0", "--to", str(tmp_path / "r"))
    with serving(tmp_path / "traced", *arguments) as trace:
        url = trace.wait_for(r"tracing (http://\S+)")[1]
        done = ferrule("list", url)
        assert (done.returncode, "502" in done.stderr, "Cannot connect" in done.stderr) == (3, True, True)
        assert "403" in ferrule("list", url, "--header", "Host: evil.example").stderr
    assert "no answer" in (tmp_path / "r").read_text()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://localhost:6274", "sec-fetch-site": "same-site"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://localhost.evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"host": "evil.example:8900"}, 403),
        ({"host": "localhost@evil.example"}, 403),
    ],
)
@pytest.mark.anyio
async def test_no_web_page_borrows_the_headers_of_a_trace(headers: dict[str, str], status: int) -> None:
    """A server behind it may allow every Origin, since it counts on a token; here the token would be ours."""
    seen: list[HttpClientRequest] = []

    class Answer:
        status = 200
        headers: ClassVar[dict[str, str]] = {"content-type": "application/json", "access-control-allow-origin": "*"}

        async def receive(self) -> bytes:
            return b""

        async def aclose(self) -> None:
            return None

    class Http:
        async def open(self, request: HttpClientRequest) -> Any:
            seen.append(request)
            return Answer()

    async def receive() -> dict[str, Any]:
        if not seen and not sent:
            return {"type": "http.request", "body": b"{}", "more_body": False}
        await anyio.sleep_forever()
        raise AssertionError

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    given = {"host": "127.0.0.1:8900", "content-type": "application/json", **headers}
    scope = {
        "type": "http", "method": "POST", "path": "/mcp", "raw_path": b"/mcp", "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }  # fmt: skip
    with TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "r")
        trace = HttpTrace("https://tools.example/mcp", recorder, cast("Any", Http()), headers={"authorization": "x"})
        await trace(scope, receive, send)
        recorder.close()
    assert sent[0]["status"] == status
    assert bool(seen) is (status == 200)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of another kind")
def test_a_recording_is_its_owners_alone(tmp_path: Path) -> None:
    """It holds what was said, secrets included; a file that was there keeps its permissions."""
    Recorder(tmp_path / "new").close()
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    (tmp_path / "old").touch(0o644)
    (tmp_path / "old").chmod(0o644)
    Recorder(tmp_path / "old").close()
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o644


def test_secrets_are_masked_unless_they_are_asked_for(tmp_path: Path) -> None:
    """By the name of a member and by the form of a value; the call itself has the real ones."""
    source, record = tmp_path / "server.py", tmp_path / "session.jsonl"
    source.write_text(
        "from ferrule import MCPServer\napp = MCPServer('s')\n\n@app.tool\n"
        "def sign_in(password: str) -> int:\n    return len(password)\n"
    )
    for options, is_masked in (((), True), (("--with-secrets",), False)):
        traced = shlex.join([*FERRULE, "trace", str(source), "--to", str(record), *options])
        assert ferrule("call", traced, "sign_in", "password=hunter2").stdout == "7\n"
        assert ("hunter2" not in record.read_text()) is is_masked


def test_a_recording_is_a_server(tmp_path: Path) -> None:
    """``ferrule run session.jsonl``, and as the target of every other command."""
    record = tmp_path / "session.jsonl"
    traced = shlex.join([*FERRULE, "trace", PROBE, "--to", str(record)])
    real = ferrule("call", traced, "add", "a=2", "b=40")
    assert real.returncode == 0
    done = ferrule("call", str(record), "add", "a=2", "b=40")
    assert (done.returncode, done.stdout) == (0, real.stdout), done.stderr
    done = ferrule("call", str(record), "add", "a=2", "b=41")
    assert done.returncode == 4
    assert "session.jsonl has no tools/call of 'add' with these arguments" in done.stderr
    record.write_text("nonsense\n")
    done = ferrule("run", str(record))
    assert (done.returncode, "no line of a recording" in done.stderr) == (2, True)
