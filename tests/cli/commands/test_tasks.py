"""``ferrule call --task`` and ``ferrule tasks``: begun in one process, found again in the next."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import FERRULE, HERE, LIMIT_S, PROBE, environment, ferrule, serving, terminal

PRESS = str(HERE / "servers" / "press.py")
LEGACY = f"{sys.executable} {HERE / 'servers' / 'legacy_tasks.py'}"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The press, over HTTP: a process that outlives the commands."""
    with serving(tmp_path / "log", "run", PRESS, "--http", "--port", "0") as server:
        yield server.url


def begin(url: str, *arguments: str) -> str:
    """The id of a new task."""
    done = ferrule("call", url, *arguments, "--task")
    assert done.returncode == 0, done.stderr
    assert "wait for it with: ferrule tasks" in done.stderr
    return done.stdout.strip()


def wait(url: str, task: str, enough: Path, *options: str) -> tuple[int, str, str]:
    """Status, stdout and stderr of ``ferrule tasks wait``; the press may end once the first change was shown."""
    with subprocess.Popen(
        [*FERRULE, "tasks", url, "wait", task, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(None),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        shown = process.stdout if options else process.stderr
        first = shown.readline()
        enough.touch()
        stdout, stderr = process.communicate(timeout=LIMIT_S)
    return process.returncode, first * bool(options) + stdout, first * (not options) + stderr


def test_a_task_is_begun_looked_at_and_waited_for(url: str, tmp_path: Path) -> None:
    """Only the result is on stdout; the changes on the way are on stderr."""
    task = begin(url, "press", f"until={tmp_path / 'enough'}")
    assert ferrule("tasks", url, "get", task).stdout.startswith("working")
    status, stdout, stderr = wait(url, task, tmp_path / "enough")
    assert (status, stdout) == (0, "pressed\n")
    assert "working: sheet " in stderr
    done = ferrule("tasks", url, "result", task)
    assert (done.returncode, done.stdout, done.stderr) == (0, "pressed\n", "")
    assert ferrule("tasks", url, "get", task).stdout.startswith("completed")


def test_programs_get_a_line_of_json_per_change(url: str, tmp_path: Path) -> None:
    """With the result in the last one; and the id in one line where it begins."""
    until = f"until={tmp_path / 'enough'}"
    task = json.loads(ferrule("call", url, "press", until, "--task", "-o", "json").stdout)["taskId"]
    _, stdout, _ = wait(url, task, tmp_path / "enough", "-o", "json")
    states = [json.loads(line) for line in stdout.splitlines()]
    assert {state["taskId"] for state in states} == {task}
    assert states[0]["status"] == "working"
    assert (states[-1]["status"], states[-1]["result"]["content"][0]["text"]) == ("completed", "pressed")
    assert json.loads(ferrule("tasks", url, "get", task, "-o", "json").stdout)["status"] == "completed"


def test_how_a_task_ended_is_the_status(url: str) -> None:
    """A failed tool and a cancelled task are 1; an unknown id is an error of the server."""
    done = ferrule("tasks", url, "wait", begin(url, "jam"))
    assert (done.returncode, "paper jam" in done.stdout) == (1, True)
    task = begin(url, "forever")
    assert ferrule("tasks", url, "cancel", task).returncode == 0
    done = ferrule("tasks", url, "wait", task)
    assert (done.returncode, done.stdout, "cancelled" in done.stderr) == (1, "", True)
    done = ferrule("tasks", url, "get", "nothing")
    assert (done.returncode, "Tasks belong to who began them" in done.stderr) == (4, True)


def test_a_question_of_a_task_is_answered_by_hand_or_at_the_terminal(url: str) -> None:
    """In a pipe no user can answer: the command ends with the command line that answers."""
    task = begin(url, "confirm")
    done = ferrule("tasks", url, "wait", task)
    assert done.returncode == 6
    assert "Go on?" in done.stdout
    assert f"answer {task} --json" in done.stderr
    key = next(iter(json.loads(ferrule("tasks", url, "get", task, "-o", "json").stdout)["inputRequests"]))
    answers = json.dumps({key: {"action": "accept", "content": {"value": True}}})
    assert ferrule("tasks", url, "answer", task, "--json", answers).returncode == 0
    assert ferrule("tasks", url, "wait", task).stdout == "accept True\n"
    with terminal("tasks", url, "wait", begin(url, "confirm")) as screen:
        screen.read_until("Go on?")
        screen.read_until("value")
        screen.type("yes")  # one question with yes or no is asked once
        assert screen.wait() == 0
        assert "accept True" in screen.seen


def test_what_is_no_task_says_so(url: str) -> None:
    """A tool that answers at once, a server without tasks, an era without a list."""
    done = ferrule("call", url, "quick", "--task")
    assert (done.returncode, done.stdout, "made no task" in done.stderr) == (0, "at once\n", True)
    done = ferrule("tasks", url, "list")
    assert (done.returncode, "no list of tasks" in done.stderr) == (4, True)
    done = ferrule("tasks", PROBE, "list", "--mode", "2025-11-25")
    assert (done.returncode, "has no tasks in 2025-11-25" in done.stderr) == (4, True)
    done = ferrule("tasks", url, "get", "-vmade-up", "-o", "json")  # ids may begin with a hyphen
    assert (done.returncode, "Tasks belong" in done.stderr) == (4, True)
    assert ferrule("tasks", url, "get").returncode == 2
    assert ferrule("tasks", url, "answer", "x").returncode == 2


def test_the_tasks_of_2025_are_listed_and_waited_for() -> None:
    """Over pages; `tasks/result` waits there, and the result joins the last line for programs."""
    done = ferrule("tasks", LEGACY, "list")
    assert (done.returncode, "t1" in done.stdout, "t2" in done.stdout) == (0, True, True)
    lines = ferrule("tasks", LEGACY, "list", "-o", "json").stdout.splitlines()
    assert [json.loads(line)["taskId"] for line in lines] == ["t1", "t2"]
    assert ferrule("call", LEGACY, "press", "--task").stdout == "t1\n"
    assert ferrule("tasks", LEGACY, "wait", "t1").stdout == "the result of t1\n"
    last = json.loads(ferrule("tasks", LEGACY, "wait", "t1", "-o", "json").stdout.splitlines()[-1])
    assert (last["status"], last["result"]["content"][0]["text"]) == ("completed", "the result of t1")
    assert ferrule("tasks", LEGACY, "cancel", "t2").stdout.startswith("cancelled")
    done = ferrule("tasks", LEGACY, "answer", "t1", "--json", "{}")
    assert (done.returncode, "while it is waited for" in done.stderr) == (4, True)
