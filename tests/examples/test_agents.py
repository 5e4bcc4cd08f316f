"""The examples of agents, each against a stub of its provider on the loopback interface with recorded messages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.client.bridges.recorded import RESPONSES
from tests.conftest import ROOT, peer_program
from tests.integrations.agents.servers import Stub, stub_of

FOLDER = ROOT / "examples" / "agents"
CALLS = [
    ("c1", "weather_climate", {"city": "Oslo", "month": 1}),
    ("c2", "weather_climate", {"city": "Tokio", "month": 1}),
]


def ended(api: str, text: str) -> Any:
    """The last response of a conversation."""
    response = RESPONSES[api]()
    if api == "anthropic":
        return {**response, "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
    if api == "openai":
        content = [{"type": "output_text", "text": text, "annotations": []}]
        message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
        return {**response, "output": [message]}
    if api == "openai-chat":
        message = {"role": "assistant", "content": text}
        return {**response, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    content = {"role": "model", "parts": [{"text": text}]}
    return {**response, "candidates": [{"content": content, "finishReason": "STOP"}]}


@pytest.fixture
def servers(tmp_path: Path) -> str:
    """A configuration whose server runs in this environment, since that of a provider's package has no ferrule."""
    path = tmp_path / "mcp.json"
    entry = {"command": sys.executable, "args": [str(ROOT / "examples" / "weather.py"), "stdio"]}
    path.write_text(json.dumps({"mcpServers": {"weather": entry}}), "utf-8")
    return str(path)


def run(python: str, name: str, *arguments: str, **variables: str) -> str:
    """What an example prints."""
    done = subprocess.run(
        [python, str(FOLDER / f"{name}.py"), "How cold is it?", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1", **variables},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(stub: Stub, path: str, printed: str) -> str:
    """The tools were offered, both calls answered, and the text printed; returns the last request as text."""
    first, second = stub.requests
    assert first[0].partition("?")[0].endswith(path)
    assert "warmest" in str(first[1]["tools"])
    assert printed == "Cold.\n"
    return str(second[1])


def test_any_address(servers: str) -> None:
    """With nothing but the standard library beside Ferrule."""
    with stub_of(RESPONSES["openai-chat"](*CALLS), ended("openai-chat", "Cold.")) as stub:
        printed = run(
            sys.executable, "any_address", "--servers", servers, "--base-url", f"{stub.url}/v1", "--model", "m"
        )
    sent = check(stub, "/v1/chat/completions", printed)
    assert "'tool_call_id': 'c1'" in sent
    assert "Did you mean Tokyo" in sent


@pytest.mark.peer
@pytest.mark.parametrize(
    ("name", "api", "path", "variables"),
    [
        ("claude", "anthropic", "/v1/messages", {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": "{}"}),
        ("openai_responses", "openai", "/v1/responses", {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": "{}/v1"}),
        (
            "gemini",
            "gemini",
            "/models/gemini-3.8-flash:generateContent",
            {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{}"},
        ),
    ],
)
def test_an_agent(name: str, api: str, path: str, variables: dict[str, str], servers: str) -> None:
    """The provider's own package makes the requests and reads the responses."""
    python = peer_program("model-packages")
    with stub_of(RESPONSES[api](*CALLS), ended(api, "Cold.")) as stub:
        printed = run(python, name, servers, **{key: value.format(stub.url) for key, value in variables.items()})
    sent = check(stub, path, printed)
    assert "-2.0" in sent
    assert "Did you mean Tokyo" in sent


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_an_agent_is_short(file: Path) -> None:
    """What they show is that it takes about thirty lines."""
    lines = [line for line in file.read_text("utf-8").split('"""', 2)[2].splitlines() if line.strip()]
    assert len(lines) <= 45
