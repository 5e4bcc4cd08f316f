"""``manage.py mcp``."""

from __future__ import annotations

import asyncio
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from ferrule import Client
from ferrule.transports.stdio.client import StdioServer
from tests.django.projects import Project
from tests.inspector.conftest import Dev


def test_the_help_names_every_command_and_each_command_its_options(project: Project) -> None:
    whole = project.manage("mcp", "--help").stdout
    for name in ("list", "call", "read", "prompt", "inspect", "trace", "doctor", "dev", "serve", "worker", "token"):
        assert re.search(rf"^  {name} ", whole, re.MULTILINE)
    assert project.manage("help", "mcp").stdout == whole
    one = project.manage("mcp", "call", "-h").stdout
    assert one.startswith("Usage: manage.py mcp call [OPTIONS] TOOL [NAME=VALUE]...")
    assert "--user NAME" in one
    assert "manage.py mcp call note_create title=Shopping --user alice" in one
    assert "TARGET" not in one


def test_a_user_lists_and_calls_what_the_user_may(project: Project) -> None:
    nobody = project.manage("mcp", "list", "tools")
    assert "note_create" not in nobody.stdout
    assert "--user NAME shows what a user may see" in nobody.stderr
    made = project.manage("mcp", "--user", "alice", "call", "note_create", "title=Milk")
    assert json.loads(made.stdout) == {"id": 1, "title": "Milk"}
    listed = project.manage("mcp", "list", "-o", "json", "--user=alice")
    names = {tool["name"] for tool in json.loads(listed.stdout)["tools"]}
    assert {"note_create", "note_list", "count_notes"} <= names
    other = project.manage("mcp", "call", "note_retrieve", "id=1", "--user", "bob")
    assert other.returncode == 1
    assert "the tool 'note_retrieve' failed" in other.stderr


def test_resources_and_prompts_and_the_picture(project: Project) -> None:
    assert project.manage("mcp", "read", "notes://about").stdout == "A project with notes.\n"
    assert "Summarize the note Milk." in project.manage("mcp", "prompt", "summarize", "title=Milk").stdout
    picture = json.loads(project.manage("mcp", "inspect", "-o", "json", "--user", "alice").stdout)
    assert picture["server"]["name"] == "notes"
    assert set(picture["revisions"]) >= {"2025-11-25", "2026-07-28"}


def test_what_the_project_prints_is_apart_from_the_result(project: Project) -> None:
    done = project.manage("mcp", "call", "chatty", "times=2")
    assert done.stdout == "said\n"
    assert done.stderr.count("printed by the project") == 2


def test_verbosity_is_written_as_for_every_command(project: Project) -> None:
    """``-v 2`` of Django would be ``-v`` and a further argument for ``ferrule``."""
    for words in (("-v", "2", "call", "count_notes"), ("call", "count_notes", "-v", "2")):
        done = project.manage("mcp", *words)
        assert done.stdout == "0\n", done.stderr


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["list", "--user", "carol"], 2, "There is no user 'carol'"),
        (["serve", "--user", "carol"], 2, "There is no user 'carol'"),
        (["dev", "--no-open", "--user", "carol"], 2, "There is no user 'carol'"),
        (["call", "nothing", "a=1"], 2, "The server has no tool 'nothing'"),
        (["call", "discount", "percent=x"], 2, "percent is not of type integer: 'x'"),
        (["call", "discount"], 1, "the tool 'discount' failed"),
        (["list", "--server", "tests.django.shop.nothing"], 2, 'does not define a "nothing" attribute'),
        (["list", "--server", "tests.django.shop.mcp.count_invoices"], 2, "is no DjangoServer, but of type function"),
        (["read", "notes://nothing"], 4, "the server answered with the error"),
        (["worker"], 2, "a worker runs them with MCP = {'TASK_WORKER': True}"),
        (["trace"], 2, "--to FILE says where the recording goes"),
        (["dev", "--mode", "1999-01-01"], 2, "--mode is auto, legacy or one of"),
    ],
)
def test_a_failure_has_its_exit_status_and_a_sentence(words: list[str], status: int, text: str) -> None:
    from ferrule.django import mcp

    @mcp.tool
    def discount(percent: int) -> int:
        """Return a discount."""
        return percent

    try:
        with pytest.raises(CommandError) as caught:
            call_command("mcp", *words)
    finally:
        mcp.remove_tool("discount")
    assert (caught.value.returncode, text in str(caught.value)) == (status, True), caught.value


def test_a_failure_is_one_line_on_stderr(project: Project) -> None:
    done = project.manage("mcp", "list", "--user", "carol")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "ferrule: There is no user 'carol'\n")
    done = project.manage("mcp", "lists")
    assert done.returncode == 2
    assert "invalid choice: 'lists'" in done.stderr


def test_a_user_who_could_not_sign_in_is_refused(project: Project) -> None:
    _run(project, "U.objects.filter(username='bob').update(is_active=False)")
    done = project.manage("mcp", "list", "--user", "bob")
    assert (done.returncode, done.stderr) == (2, "ferrule: The user 'bob' is not active, and could not sign in\n")


def test_tables_that_are_missing_are_said(project: Project) -> None:
    (project.folder / "db.sqlite3").unlink()
    for words in (["list", "--user", "alice"], ["token", "alice"]):
        done = project.manage("mcp", *words)
        assert done.returncode == 2
        assert "The table of users cannot be read (no such table: auth_user)" in done.stderr
        assert "Has `manage.py migrate` been run?" in done.stderr
    assert "count_notes" in project.manage("mcp", "list").stdout


def test_a_module_that_fails_leaves_the_rest(project: Project) -> None:
    project.write("broken/__init__.py", "")
    project.write("broken/mcp.py", "import nothing_of_this_name")
    project.append("site1/settings.py", 'INSTALLED_APPS.append("broken")')
    done = project.manage("mcp", "list", "tools")
    assert "count_notes" in done.stdout
    assert "broken.mcp could not be imported" in done.stderr


def test_a_wrong_setting_is_said_in_one_line(project: Project) -> None:
    project.append("site1/settings.py", 'MCP = {"PAGESIZE": 3}')
    done = project.manage("mcp", "list")
    assert done.returncode == 2
    assert done.stderr == "ferrule: The setting MCP has no key 'PAGESIZE'. Did you mean 'PAGE_SIZE'?\n"


def test_another_settings_module_and_folder_are_used(project: Project, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    text = 'from site1.settings import *\nMCP = {"NAME": "other"}\n'
    (tmp_path / "elsewhere" / "other_settings.py").write_text(text)
    given = ["--settings", "other_settings", "--pythonpath", str(tmp_path / "elsewhere")]
    for words in (["inspect", "-o", "json", *given], [*given, "inspect", "-o", "json"]):
        done = project.manage("mcp", *words)
        assert json.loads(done.stdout)["server"]["name"] == "other", done.stderr


def test_the_doctor_starts_it_as_a_host_does(project: Project) -> None:
    """A host passes few variables: settings and folders are named on the command line."""
    project.write("elsewhere/other_settings.py", 'from site1.settings import *\nMCP = {"NAME": "other"}\n')
    given = ["--settings", "other_settings", "--pythonpath", str(project.folder / "elsewhere")]
    done = project.manage("mcp", "doctor", "--user", "alice", "-o", "json", *given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "other" in done.stdout
    assert json.loads(done.stdout)


def test_a_project_with_several_servers_names_one(project: Project) -> None:
    project.write(
        "notes/admin.py",
        """
from ferrule.django import DjangoServer

staff = DjangoServer("staff")


@staff.tool
def purge() -> str:
    \"\"\"Delete all.\"\"\"
    return "gone"
""",
    )
    done = project.manage("mcp", "list", "--server", "notes.admin.staff", "tools")
    assert "purge" in done.stdout
    assert "count_notes" not in done.stdout
    assert "gone" in _serve(project, "--server", "notes.admin.staff", tool="purge")[1]


def test_serving_over_stdio_is_for_the_user_and_prints_break_nothing(project: Project) -> None:
    project.append("notes/mcp.py", 'print("printed by the module")')
    project.append("site1/settings.py", 'print("printed by the settings")')
    names, text = _serve(project, "--user", "alice", tool="chatty", arguments={"times": 3})
    assert "note_create" in names
    assert text == "said"


def test_a_recording_is_made_shown_and_replayed(project: Project) -> None:
    record = str(project.folder / "session.jsonl")
    server = StdioServer(
        sys.executable,
        ("manage.py", "mcp", "trace", "--to", record, "--user", "alice"),
        cwd=str(project.folder),
        env=project.environment(),
    )
    asyncio.run(_talk(server, "count_notes", {}))
    assert "tools/call" in project.manage("mcp", "trace", "--show", record).stdout
    done = project.manage("mcp", "trace", "--replay", record, "--user", "alice")
    assert (done.returncode, "the server says the same" in done.stderr) == (0, True), done.stdout + done.stderr


def test_the_inspector_restarts_the_project_when_code_changes(project: Project) -> None:
    with _inspecting(project, "--user", "alice") as running:
        opened = (event for event in running.events() if event["kind"] == "connection" and event["state"] == "open")
        assert next(opened)["server"]["name"] == "notes"
        assert "count_notes" in _names(running, "before")
        project.append("notes/mcp.py", "@mcp.tool\ndef added_later() -> int:\n    return 1\n")
        next(opened)
        assert {"added_later", "note_create"} <= _names(running, "after")


def test_a_worker_runs_until_it_is_terminated(project: Project) -> None:
    project.append("site1/settings.py", 'MCP = {"NAME": "notes", "TASK_WORKER": True}')
    process = subprocess.Popen(
        [sys.executable, "manage.py", "mcp", "worker", "--concurrency", "2"],
        cwd=project.folder,
        env=project.environment(PYTHONUNBUFFERED="1"),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == "running the tasks of notes\n"
    finally:
        process.terminate()
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 0, rest


def test_a_token_is_made_by_the_project_s_own_package(project: Project) -> None:
    done = project.manage("mcp", "token", "alice")
    key = done.stdout.strip()
    assert len(key) == 40
    assert "for requests with the header Authorization: Token …; it does not expire" in done.stderr
    again = project.manage("mcp", "token", "alice")
    assert again.stdout.strip() == key
    assert "the user had it before" in again.stderr
    assert project.manage("mcp", "token", "carol").returncode == 2
    project.append("site1/settings.py", 'REST_FRAMEWORK["DEFAULT_AUTHENTICATION_CLASSES"] = []')
    none = project.manage("mcp", "token", "alice")
    assert none.returncode == 2
    assert "The server accepts no tokens that can be made here: it has no authentication class." in none.stderr


def test_another_command_calls_it_in_this_process(alice: Any) -> None:
    """``call_command`` in a test sees the database of the test, and gets an exception in place of an exit."""
    out = io.StringIO()
    call_command("mcp", "call", "invoice_create", "title=a", "amount=2", user="alice", stdout=out)
    assert json.loads(out.getvalue())["title"] == "a"
    out = io.StringIO()
    call_command("mcp", "call", "count_invoices", stdout=out)
    assert out.getvalue() == "1\n"
    with pytest.raises(CommandError, match="There is no user 'carol'") as caught:
        call_command("mcp", "list", user="carol")
    assert caught.value.returncode == 2


def test_a_command_sees_what_its_transaction_has_not_committed(alice: Any) -> None:
    from django.db import transaction

    from tests.django.shop.models import Invoice

    with transaction.atomic():
        Invoice.objects.create(owner=alice, title="open", amount=1)
        out = io.StringIO()
        call_command("mcp", "call", "invoice_list", "--user", "alice", stdout=out)
        assert json.loads(out.getvalue())["count"] == 1
        transaction.set_rollback(True)


def _run(project: Project, script: str) -> None:
    setup = "import os, django; os.environ['DJANGO_SETTINGS_MODULE'] = 'site1.settings'; django.setup()\n"
    text = f"{setup}from django.contrib.auth.models import User as U\n{script}"
    assert project.run("-c", text).returncode == 0


def _serve(project: Project, *words: str, tool: str, arguments: Any = None) -> tuple[set[str], str]:
    server = StdioServer(
        sys.executable,
        ("manage.py", "mcp", "serve", *words),
        cwd=str(project.folder),
        env=project.environment(),
    )
    return asyncio.run(_talk(server, tool, arguments or {}))


async def _talk(server: StdioServer, tool: str, arguments: dict[str, Any]) -> tuple[set[str], str]:
    async with Client(server) as client:
        names = {each.name for each in await client.list_tools()}
        return names, (await client.call_tool(tool, arguments)).text


def _names(running: Dev, job: str) -> set[str]:
    return {tool["name"] for tool in running.job(job, "list", list="tools")["outcome"]}


@contextmanager
def _inspecting(project: Project, *words: str) -> Iterator[Dev]:
    process = subprocess.Popen(
        [sys.executable, "manage.py", "mcp", "dev", "--no-open", *words],
        cwd=project.folder,
        env=project.environment(PYTHONUNBUFFERED="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        found = re.search(r"(http://127\.0\.0\.1:\d+/\?token=\S+)", process.stderr.readline())
        assert found is not None
        yield Dev(process, found[1], [])
    finally:
        process.terminate()
        process.communicate(timeout=60)
