"""Helpers for the tests of a project, used by test suites of a project of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import ROOT, cache_dir, missing_peer
from tests.django.projects import Project

SUITE = '''
import asyncio

from django.contrib.auth.models import User
from django.test import LiveServerTestCase, TransactionTestCase
from rest_framework.authtoken.models import Token

from ferrule.client.calls.results import ToolFailed
from ferrule.django import DjangoServer, mcp
from ferrule.django.testing import MCPTestCase, MCPTestMixin
from ferrule.protocol.errors import RemoteError
from notes.models import Note


@mcp.tool
async def count_async() -> int:
    """Count all notes by the async ORM."""
    return await Note.objects.acount()


class People:
    def setUp(self):
        self.alice = User.objects.create_user("alice")
        self.bob = User.objects.create_user("bob")
        self.headers = {"authorization": f"Token {Token.objects.create(user=self.alice).key}"}


class InProcess(People, MCPTestCase):
    def test_both_eras_work_in_the_transaction_of_the_test(self):
        for mode in ("auto", "legacy"):
            client = self.mcp_client(self.alice, mode=mode)
            made = client.call("note_create", title="Milk")
            self.assertEqual(Note.objects.get(id=made["id"]).owner, self.alice)
            self.assertIn("note_list", {tool.name for tool in client.list_tools()})
        self.assertEqual(client.call("count_notes"), 2)
        self.assertEqual(client.call("count_async"), 2)

    def test_nothing_of_another_test_is_there(self):
        self.assertEqual(self.mcp_client().call("count_notes"), 0)
        self.assertEqual(self.mcp_client().call("count_async"), 0)

    def test_errors_are_exceptions(self):
        client = self.mcp_client(self.alice)
        with self.assertRaisesMessage(ToolFailed, "title"):
            client.call("note_create", title="x" * 200)
        self.assertTrue(client.call_result("note_create", title="x" * 200).is_error)
        with self.assertRaises(RemoteError):
            client.call("nothing")

    def test_assertions_say_what_is_there(self):
        self.assertToolListed("note_create", self.alice)
        self.assertToolDenied("note_create", None, title="x")
        mine = self.mcp_client(self.alice).call("note_create", title="Milk")
        self.assertToolDenied("note_retrieve", self.bob, id=mine["id"])
        with self.assertRaisesMessage(AssertionError, "does not see the tool 'nothing', but "):
            self.assertToolListed("nothing", self.alice)
        with self.assertRaisesMessage(AssertionError, "by The user alice was not refused; it was done"):
            self.assertToolDenied("note_retrieve", self.alice, id=mine["id"])

    async def test_async_tests_have_the_same(self):
        client = self.mcp_client(self.alice)
        made = await client.acall("note_create", title="Milk")
        self.assertEqual(await Note.objects.acount(), 1)
        self.assertEqual((await client.acall_result("note_retrieve", id=made["id"])).data["title"], "Milk")
        self.assertEqual(await client.acall("count_async"), 1)
        self.assertIn("note_list", await client.atool_names())
        with self.assertRaisesMessage(RuntimeError, "use the async method of this name"):
            client.call("count_notes")

    def test_everything_else_of_a_client(self):
        prompts = self.mcp_client(self.alice).run(lambda client: client.list_prompts())
        self.assertEqual([prompt.name for prompt in prompts], ["summarize"])

    def test_requests_with_credentials_run_the_whole_stack(self):
        for mode in ("auto", "legacy"):
            client = self.mcp_client(http=True, headers=self.headers, mode=mode)
            self.assertEqual(client.call("note_create", title="Milk")["title"], "Milk")
            self.assertEqual(client.call("count_notes"), Note.objects.filter(owner=self.alice).count())
        with self.assertRaises(Exception):
            self.mcp_client(http=True).call("count_notes")
        with self.assertRaises(TypeError):
            self.mcp_client(self.alice, http=True)


class Other(People, MCPTestCase):
    mcp_server = DjangoServer("other")

    def test_another_server(self):
        self.assertEqual(self.mcp_client().list_tools(), [])


class Live(People, MCPTestMixin, LiveServerTestCase):
    def test_over_a_socket_and_in_process(self):
        client = self.mcp_client(url=f"{self.live_server_url}/mcp/", headers=self.headers)
        self.assertEqual(client.call("note_create", title="Milk")["title"], "Milk")
        self.assertEqual(self.mcp_client(self.alice).call("count_notes"), 1)


class Transactions(People, MCPTestMixin, TransactionTestCase):
    def test_in_process(self):
        self.mcp_client(self.alice).call("note_create", title="Milk")
        self.assertEqual(self.mcp_client().call("count_async"), 1)
'''

PYTEST_SUITE = """
import pytest

from ferrule.django.testing import MCPClient
from notes.models import Note


def test_a_note_is_made(mcp_client, django_user_model):
    alice = django_user_model.objects.create_user("alice")
    client = mcp_client.as_user(alice)
    assert client.call("note_create", title="Milk")["title"] == "Milk"
    assert Note.objects.count() == 1
    assert mcp_client.call("count_notes") == 1
    assert "note_create" not in mcp_client.tool_names()


def test_the_database_is_empty_again(mcp_client):
    assert mcp_client.call("count_notes") == 0


def test_in_its_own_transactions(transactional_db):
    assert MCPClient().call("count_notes") == 0
"""


def test_a_suite_of_django_test_cases_passes(project: Project) -> None:
    project.write("notes/tests.py", SUITE)
    done = project.manage("test", "notes", timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Ran 10 tests" in done.stderr
    done = project.manage("test", "notes", "--parallel", "2", timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.peer
def test_a_suite_with_pytest_django_passes(project: Project) -> None:
    packages = _pytest_django()
    project.write("notes/test_notes.py", PYTEST_SUITE)
    project.write("conftest.py", 'pytest_plugins = ["ferrule.django.pytest_plugin"]\n')
    project.write("pytest.ini", "[pytest]\nDJANGO_SETTINGS_MODULE = site1.settings\n")
    path = os.pathsep.join([str(ROOT / "src"), str(packages)])
    done = project.run("-m", "pytest", "-q", "-p", "no:cacheprovider", PYTHONPATH=path)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert "3 passed" in done.stdout


def _pytest_django() -> Path:
    """Return the folder with pytest-django, which would take over the tests beside this one in their environment."""
    found = cache_dir() / "pytest-django"
    if not found.is_dir():
        missing_peer("no pytest-django")
    return found
