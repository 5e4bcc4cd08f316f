"""list, call, read, prompt, listen: in pipes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import PROBE, ferrule, serving
from tests.extensions.skills.support import add_skill


def test_list_is_text_for_people_and_json_for_programs() -> None:
    """Plain text in a pipe: no colour, no box, no width that cuts."""
    done = ferrule("list", PROBE)
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "\x1b" not in done.stdout
    assert "  add      a [b]" in done.stdout
    assert "Add two integers.\n" in done.stdout
    found = json.loads(ferrule("list", PROBE, "--json").stdout)
    assert {tool["name"] for tool in found["tools"]} >= {"add", "greet"}
    assert [resource["uri"] for resource in found["resources"]] == ["memo://today"]
    assert [template["uriTemplate"] for template in found["templates"]] == ["memo://{day}/{item}"]
    assert [prompt["name"] for prompt in found["prompts"]] == ["ask"]
    assert list(json.loads(ferrule("list", PROBE, "prompts", "-o", "json").stdout)) == ["prompts"]


@pytest.mark.parametrize("mode", ["auto", "legacy", "2025-03-26"])
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("add", "a=40"), "42"),
        (("add", "--json", '{"a": 1, "b": 1}'), "2"),
        (("add", "--json", '{"a": 1, "b": 1}', "b=5"), "6"),
        (("join", "words=a", "words=b", "upper=yes"), "A B"),
        (("kinds", "text=5", 'extra:={"x": 1}'), "'5' 0.5 'a' {'x': 1}"),
    ],
)
def test_call_prints_the_text_of_the_result(mode: str, arguments: tuple[str, ...], text: str) -> None:
    """The result and nothing but the result is on stdout, in either era."""
    done = ferrule("call", PROBE, *arguments, "--mode", mode)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{text}\n", "")


def test_arguments_come_from_stdin() -> None:
    """``--json -`` at the end of a pipe."""
    assert ferrule("call", PROBE, "add", "--json", "-", stdin='{"a": 2, "b": 3}').stdout == "5\n"


def test_call_as_json_is_the_whole_result() -> None:
    """With structured content and ``isError``, as the wire has it."""
    done = ferrule("call", PROBE, "add", "a=1", "-o", "json")
    result = json.loads(done.stdout)
    assert (result["structuredContent"], result["content"][0]["text"]) == (3, "3")
    failed = ferrule("call", PROBE, "fail", "why=rain", "-o", "json")
    assert (failed.returncode, json.loads(failed.stdout)["isError"]) == (1, True)


def test_a_failure_shows_what_the_server_said_on_stderr() -> None:
    """The server hides the reason from its peer; the person at this terminal started it and may know."""
    done = ferrule("call", PROBE, "crash")
    assert done.returncode == 1
    assert "secret reason" not in done.stdout
    assert "RuntimeError: the secret reason" in done.stderr


def test_progress_and_log_are_lines_in_a_pipe_on_request() -> None:
    """Beside the result, never in it."""
    done = ferrule("call", PROBE, "steps", "-v")
    assert done.stdout == "done\n"
    assert "progress 3/3 step 3" in done.stderr
    assert "[info] all steps done" in done.stderr
    assert "progress" not in ferrule("call", PROBE, "steps").stderr


def test_pictures_are_named_and_kept_on_request(tmp_path: Path) -> None:
    """Bytes never go to the terminal."""
    done = ferrule("call", PROBE, "picture")
    assert done.stdout == "[image-1: image/png, 12 bytes; --save DIR keeps it]\n"
    ferrule("call", PROBE, "picture", "--save", str(tmp_path))
    assert (tmp_path / "image-1.png").read_bytes() == b"\x89PNG\r\n\x1a\n...."


def test_resources_and_prompts() -> None:
    """Fixed, from a template, and filled in."""
    assert ferrule("read", PROBE, "memo://today").stdout == "buy milk\n"
    assert ferrule("read", PROBE, "memo://monday/tea").stdout == "tea on monday\n"
    assert ferrule("prompt", PROBE, "ask", "topic=tea", "style=long").stdout == "user:\nWhat about tea, long?\n"
    found = json.loads(ferrule("prompt", PROBE, "ask", "topic=tea", "-o", "json").stdout)
    assert found["messages"][0]["content"]["text"] == "What about tea, short?"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_listen_receives_changes_updates_and_logs(tmp_path: Path, mode: str) -> None:
    """One listener, another client that causes the events, one server."""
    with serving(tmp_path / "log", "run", PROBE, "--http", "--port", "0") as server:
        arguments = ("listen", server.url, "memo://today", "--count", "2", "-o", "json", "--mode", mode)
        with serving(tmp_path / "heard", *arguments) as listener:
            listener.wait_for("listening to probe")
            assert ferrule("call", server.url, "grow").stdout == "grown\n"
            listener.wait_for('"event":"resource"')
            assert listener.process.wait(30) == 0
        heard = (tmp_path / "heard").read_text()
        assert '{"event":"changed","list":"tools"}' in heard
        assert '{"event":"resource","uri":"memo://today"}' in heard


def test_skills_are_listed_and_their_files_read(tmp_path: Path) -> None:
    """A table for people, the entries for programs; a server without skills shows no empty list of them."""
    add_skill(tmp_path / "skills", "refunds", "Handle refunds")
    server = tmp_path / "server.py"
    folder = str(tmp_path / "skills")
    server.write_text(f"from ferrule import MCPServer\napp = MCPServer('x')\napp.add_skills({folder!r})\n", "utf-8")
    shown = ferrule("list", str(server)).stdout
    assert "Skills (1)" in shown
    assert "Handle refunds" in shown
    (entry,) = json.loads(ferrule("list", str(server), "skills", "-o", "json").stdout)["skills"]
    assert entry["resources"][0]["uri"] == "skill://refunds/SKILL.md"
    assert "# Do it" in ferrule("read", str(server), "skill://refunds/SKILL.md").stdout
    assert "skills" not in json.loads(ferrule("list", PROBE, "--json").stdout)
