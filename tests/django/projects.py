"""A Django project of its own in a temporary folder, and its ``manage.py`` as a process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

from tests.conftest import ROOT
from tests.warm_python import WarmPython

__all__ = ["Project", "made_project", "python_with_django"]

TIMEOUT_S = 120

_MODULES = [
    "anyio._backends._asyncio",
    "click",
    "django.contrib.admin.sites",
    "django.contrib.postgres.fields",
    "django.core.management.commands.migrate",
    "django.core.management.commands.test",
    "django.db.backends.sqlite3.base",
    "django.test",
    "ferrule.app.search",
    "ferrule.app.server",
    "ferrule.app.serving.http",
    "ferrule.auth.server.resource_server",
    "ferrule.cli.connect",
    "ferrule.cli.openapi.descriptions",
    "ferrule.cli.targets",
    "ferrule.client.client",
    "ferrule.client.groups.behind_search",
    "ferrule.expose.callers.wsgi",
    "ferrule.expose.description.reader",
    "ferrule.expose.exposure",
    "ferrule.extensions.tasks",
    "ferrule.transports.asgi.legacy.endpoint",
    "ferrule.transports.hosting.running",
    "ferrule.transports.http.adapters",
    "ferrule.transports.wsgi.endpoint",
    "jsonschema_rs",
    "pydantic.json_schema",
    "rest_framework.compat",
    "rest_framework.fields",
    "yaml",
]

_SETTINGS = """

INSTALLED_APPS += ["rest_framework", "rest_framework.authtoken", "ferrule.django", "notes"]
REST_FRAMEWORK = {"DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
                  "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.TokenAuthentication"],
                  "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination", "PAGE_SIZE": 10}
MCP = {"NAME": "notes"}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
"""

_FILES = {
    "notes/__init__.py": "",
    "notes/migrations/__init__.py": "",
    "notes/models.py": """
from django.conf import settings
from django.db import models


class Note(models.Model):
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    title = models.CharField(max_length=80)
""",
    "notes/views.py": """
from rest_framework import serializers, viewsets

from notes.models import Note


class NoteSerializer(serializers.ModelSerializer):
    class Meta:
        model = Note
        fields = ["id", "title"]


class NoteViewSet(viewsets.ModelViewSet):
    \"\"\"Notes of the user.\"\"\"

    queryset = Note.objects.order_by("id")
    serializer_class = NoteSerializer

    def get_queryset(self):
        return super().get_queryset().filter(owner=self.request.user)

    def perform_create(self, serializer):
        serializer.save(owner=self.request.user)
""",
    "notes/mcp.py": """
from ferrule import Context
from ferrule.django import mcp

from notes.models import Note
from notes.views import NoteViewSet

mcp.expose(NoteViewSet)


@mcp.tool
def count_notes() -> int:
    \"\"\"Count all notes.\"\"\"
    return Note.objects.count()


@mcp.tool
def chatty(times: int) -> str:
    \"\"\"Print something.\"\"\"
    for _ in range(times):
        print("printed by the project")
    return "said"


@mcp.resource("notes://about")
def about() -> str:
    \"\"\"What this is.\"\"\"
    return "A project with notes."


@mcp.prompt
def summarize(title: str) -> str:
    \"\"\"Ask for a summary.\"\"\"
    return f"Summarize the note {title}."
""",
    "site1/urls.py": """
from django.urls import include, path
from rest_framework.routers import DefaultRouter

from ferrule.django import mcp
from notes.views import NoteViewSet

router = DefaultRouter()
router.register("notes", NoteViewSet)

urlpatterns = [path("api/", include(router.urls)), path("mcp/", mcp.urls)]
""",
}


class Project:
    """A project in a folder.

    Args:
        folder: where ``manage.py`` is.
    """

    def __init__(self, folder: Path, python: WarmPython) -> None:
        self.folder = folder
        self._python = python

    def manage(self, *arguments: str, timeout: float = TIMEOUT_S, **environment: str) -> CompletedProcess[str]:
        """Run ``manage.py`` with these arguments and further variables of the environment."""
        return self.run("manage.py", *arguments, timeout=timeout, **environment)

    def run(self, *command: str, timeout: float = TIMEOUT_S, **environment: str) -> CompletedProcess[str]:
        """Run a program of Python in the folder of the project."""
        return self._python.run(*command, cwd=self.folder, env=self.environment(**environment), timeout=timeout)

    def environment(self, **more: str) -> dict[str, str]:
        """Return the variables of the project's processes."""
        found = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        return {**found, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT / "src"), **more}

    def write(self, path: str, text: str) -> None:
        """Write a file of the project."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def append(self, path: str, text: str) -> None:
        """Add to a file of the project."""
        target = self.folder / path
        target.write_text(f"{target.read_text(encoding='utf-8')}\n{text}\n", encoding="utf-8")

    def copy_to(self, folder: Path) -> Project:
        """Return a copy of the project."""
        shutil.copytree(self.folder, folder)
        return Project(folder, self._python)


@contextmanager
def python_with_django() -> Generator[WarmPython]:
    """What runs programs of projects inside the ``with`` block: Python with all imported that needs no settings."""
    made = WarmPython(_MODULES, {**os.environ, "PYTHONPATH": str(ROOT / "src")})
    try:
        yield made
    finally:
        made.close()


def made_project(folder: Path, python: WarmPython) -> Project:
    """Make a project with ``django-admin startproject``, an application, its tables and the users alice and bob."""
    folder.mkdir()
    project = Project(folder, python)
    done = project.run("-m", "django", "startproject", "site1", ".")
    assert done.returncode == 0, done.stderr
    project.append("site1/settings.py", _SETTINGS)
    for path, text in _FILES.items():
        project.write(path, text)
    for words in (("makemigrations", "notes", "--skip-checks"), ("migrate", "-v0", "--skip-checks")):
        done = project.manage(*words)
        assert done.returncode == 0, done.stderr
    script = "from django.contrib.auth.models import User as U; [U.objects.create_user(n) for n in ('alice', 'bob')]"
    done = project.manage("shell", "-c", script)
    assert done.returncode == 0, done.stderr
    return project
