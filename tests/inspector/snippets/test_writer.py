"""A call copied as code runs as it was copied: Python, curl and pytest, over a process and over HTTP, in both eras."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import ferrule.inspector
from ferrule.protocol.secret_forms import is_secret_name
from tests.inspector.conftest import ROOT, WORKSHOP, Dev, developing

TRICKY = 'it\'s "quoted" $(touch pwned) `touch pwned` \\ \u202e\n\'\'\'""" {x} ü'


@pytest.fixture(scope="module", params=["auto", "legacy"])
def over_http(request: pytest.FixtureRequest, http_url: str) -> Iterator[Dev]:
    """An inspector of a URL, in each era."""
    with developing(http_url, "--mode", request.param) as running:
        yield running


@pytest.fixture(scope="module")
def over_stdio() -> Iterator[Dev]:
    """An inspector of a file, started beside the file."""
    with developing(WORKSHOP.name, "--mode", "legacy", cwd=WORKSHOP.parent) as running:
        yield running


def python(text: str, where: Path) -> str:
    """Run a program; what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=where, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr + text
    return done.stdout.strip()


def curl(text: str, where: Path, **extra: str) -> Any:
    """Run it in a shell; the last JSON-RPC message that came, as JSON or as an event."""
    if shutil.which("curl") is None:
        pytest.skip("no curl")
    done = subprocess.run(
        ["sh", "-c", text], cwd=where, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, **extra},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + text
    lines = [line.removeprefix("data: ") for line in done.stdout.splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{")][-1]


def a_test(text: str, where: Path, count: int = 1) -> None:
    """Run it with pytest in an otherwise empty folder."""
    path = where / "test_copied.py"
    path.write_text(text, encoding="utf-8")
    alone = ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(where)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *alone, str(path)],
        cwd=where, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(WORKSHOP.parent)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + text
    assert f"{count} passed" in done.stdout


CALLS = [
    ("call", {"tool": "add", "arguments": {"a": 40}}),
    (
        "call",
        {"tool": "cut", "arguments": {"metal": "brass", "length_mm": 1.5, "labels": [TRICKY, "b"], "note": TRICKY}},
    ),
    ("read", {"uri": "workshop://metals/brass"}),
    ("prompt", {"name": "quote", "arguments": {"metal": TRICKY}}),
]


def test_over_http(over_http: Dev, tmp_path: Path) -> None:
    """All three forms of each kind of call, with values that a careless quoting would run."""
    for number, (op, params) in enumerate(CALLS):
        assert over_http.job(f"job{number}", op, **params)["state"] == "done"
    texts = {
        form: [over_http.call("snippet", job=f"job{number}", form=form)["text"] for number in range(len(CALLS))]
        for form in ("python", "curl", "test")
    }
    assert "\u202e" not in "".join(texts["python"] + texts["test"])
    for text in texts["python"]:
        ast.parse(text)
    with ThreadPoolExecutor(2) as pool:
        printed = list(pool.map(lambda text: python(text, tmp_path), texts["python"]))
    assert printed[0] == "42"
    assert all(printed)
    answers = [curl(text, tmp_path)["result"] for text in texts["curl"]]
    assert answers[0]["content"][0]["text"] == "42"
    assert answers[1]["structuredContent"]["note"] == TRICKY
    assert TRICKY in answers[3]["messages"][0]["content"]["text"]
    a_test("\n\n".join(texts["test"]), tmp_path, count=len(CALLS))
    assert not list(tmp_path.glob("pwned"))


def test_over_stdio(over_stdio: Dev, tmp_path: Path, http_url: str) -> None:
    """A file is started by the copied program, imported by the copied test, and served for curl as its comment says."""
    over_stdio.job("add", "call", tool="add", arguments={"a": 1, "b": 2})
    texts = {form: over_stdio.call("snippet", job="add", form=form)["text"] for form in ("python", "curl", "test")}
    assert python(texts["python"], WORKSHOP.parent) == "3"
    assert "from workshop import app" in texts["test"]
    a_test(texts["test"], tmp_path)
    assert "ferrule run workshop.py --http" in texts["curl"]
    assert curl(texts["curl"].replace("http://127.0.0.1:8000/mcp", http_url), tmp_path)["id"] in (1, 2)


def test_answers_and_failures_are_copied_too(over_stdio: Dev, tmp_path: Path) -> None:
    """A call that asked something gets the same answers again, and a failure that was seen is expected."""
    over_stdio.call("run", job="order", op="call", params={"tool": "order", "arguments": {"product": "cane"}})
    for event in over_stdio.events():
        if event["kind"] == "question" and event["state"] == "open":
            content = {"size": "S", "engrave": True, "name": TRICKY}
            over_stdio.call("answer", question=event["key"], answer={"action": "accept", "content": content})
        if event["kind"] == "job" and event["key"] == "order" and event["state"] == "done":
            break
    over_stdio.job("fails", "call", tool="fails", arguments={})
    text = over_stdio.call("snippet", job="order", form="python")["text"]
    tests = [over_stdio.call("snippet", job=job, form="test")["text"] for job in ("order", "fails")]
    assert "size S, engraved: True" in python(text, WORKSHOP.parent)
    assert "assert result.is_error" in tests[1]
    a_test("\n\n".join(tests), tmp_path, count=2)


def test_secrets_stay_out_of_code(http_url: str, tmp_path: Path) -> None:
    """They are read from the environment, in all forms; harmless headers are written out."""
    secret = "s3cret-value-never-shown"
    options = ("--token", secret, "--header", f"X-Api-Key: {secret}", "--header", "X-Team: blue team")
    with developing(http_url, *options, cwd=ROOT) as running:
        running.job("add", "call", tool="add", arguments={"a": 1})
        texts = [running.call("snippet", job="add", form=form)["text"] for form in ("python", "curl", "test")]
        for text in texts:
            assert secret not in text
            assert "blue team" in text
        assert 'os.environ["FERRULE_TOKEN"]' in texts[0]
        assert 'os.environ["X_API_KEY"]' in texts[0]
        answer = curl(texts[1], tmp_path, FERRULE_TOKEN=secret, X_API_KEY=secret)
        assert answer["result"]["content"][0]["text"] == "3"
        numbers = [event["number"] for event in _until_caught_up(running) if event["kind"] == "message"]
        kept = json.dumps([running.call("message", number=number) for number in numbers])
        assert numbers
        assert "(not kept)" in kept
        assert secret not in kept


VAULT = """
from typing import Any

from ferrule import MCPServer, Secret

app = MCPServer("vault")


@app.tool
def open_vault(door: str, code: Secret[str], pin: int, options: dict[str, Any]) -> str:
    return f"{door} {len(code.get_secret_value())} {pin % 10} {sorted(options)} {len(options['api_key'])}"
"""
CODE = "it's \\ s3cret"


def test_secret_arguments_stay_out_of_code(tmp_path: Path) -> None:
    """By their schema, by their name, and inside of others; the code has the same result with them."""
    (tmp_path / "vault.py").write_text(VAULT, encoding="utf-8")
    arguments = {"door": "left", "code": CODE, "pin": 9431, "options": {"api_key": "k3y-of-it", "fast": True}}
    with developing("vault.py", cwd=tmp_path) as running:
        outcome = running.job("open", "call", tool="open_vault", arguments=arguments)
        assert outcome["state"] == "done"
        texts = {form: running.call("snippet", job="open", form=form)["text"] for form in ("python", "curl", "test")}
    for text in texts.values():
        assert "left" in text
        for secret in ("s3cret", "9431", "k3y-of-it"):
            assert secret not in text
    names = {"ARGUMENT_CODE": CODE, "ARGUMENT_PIN": "9431", "ARGUMENT_API_KEY": "k3y-of-it"}
    environment = {**os.environ, **names}
    done = subprocess.run(
        [sys.executable, "-c", texts["python"]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )
    assert done.stdout.strip() == f"left {len(CODE)} 1 ['api_key', 'fast'] 9", done.stderr + texts["python"]
    path = tmp_path / "test_copied.py"
    path.write_text(texts["test"], encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(path)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={**environment, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + texts["test"]
    # The shell: what it would send, without a server.
    sent = tmp_path / "sent"
    script = texts["curl"].replace("curl ", f"printf '%s\\n' >>{sent} ")
    subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, timeout=60, check=True, env={**environment, "ARGUMENT_CODE": "a b"}
    )
    (body,) = [json.loads(line) for line in sent.read_text().splitlines() if '"tools/call"' in line]
    assert body["params"]["arguments"] == {**arguments, "code": "a b"}


def test_the_page_and_the_recordings_know_the_same_names_of_secrets() -> None:
    """The page cannot import `is_secret_name`; its patterns are read from its source."""
    source = (Path(ferrule.inspector.__file__).parent / "static" / "secrets.js").read_text(encoding="utf-8")
    name, other = (re.search(rf"const {each} = /(.*)/i;", source) for each in ("NAME", "NOT_SECRET"))
    breaks = re.search(r"replace\(/(.*)/g, \"_\"\)", source)
    assert name is not None
    assert other is not None
    assert breaks is not None
    words = ["password", "pwd", "PIN", "apiKey", "DBPassword", "db.secret", "user_token", "maxTokens", "page-token"]
    words += ["keyboard", "spin", "token_count", "accessKeyId", "Authorization", "cookies", "credentials", "x-api-key"]
    for word in words:
        spelled = re.sub(breaks[1], "_", word)
        in_page = re.search(name[1], spelled, re.I) is not None and re.search(other[1], spelled, re.I) is None
        assert in_page == is_secret_name(word), word


def _until_caught_up(running: Dev) -> Iterator[dict[str, Any]]:
    for event in running.events():
        if event["kind"] == "caught_up":
            return
        yield event
