"""The modules ``mcp`` of the installed applications."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ferrule.django.discovery import watch
from tests.django.projects import Project

_LIST = """
import os, django
os.environ["DJANGO_SETTINGS_MODULE"] = "site1.settings"
django.setup()
from ferrule.django import mcp
print(sorted(tool.name for tool in mcp.list_tools()))
"""


def test_a_module_that_fails_leaves_the_others_and_the_project(project: Project) -> None:
    project.write("broken/__init__.py", "")
    project.write("broken/mcp.py", "import nothing_of_this_name")
    project.append("site1/settings.py", 'INSTALLED_APPS.insert(0, "broken")')
    done = project.run("-c", _LIST)
    assert "count_notes" in done.stdout, done.stderr
    assert "broken.mcp could not be imported; nothing that it exposes is there" in done.stderr


def test_a_module_may_import_the_urlconf_which_imports_the_server(project: Project) -> None:
    """Links and names of URLs are looked up while the modules are imported: the URLconf needs no ``mcp`` module."""
    project.append("notes/mcp.py", "from django.urls import reverse\nWHERE = reverse('ferrule:endpoint')")
    project.append("notes/mcp.py", "import site1.urls\nassert WHERE == '/mcp/'")
    done = project.run("-c", _LIST)
    assert "count_notes" in done.stdout, done.stderr


def test_a_urlconf_may_import_a_module_that_imports_it(project: Project) -> None:
    project.append("notes/mcp.py", "import site1.urls")
    project.append("site1/urls.py", "import notes.mcp")
    done = project.run("-c", _LIST)
    assert "count_notes" in done.stdout, done.stderr


def test_an_application_that_is_one_module_has_none(project: Project) -> None:
    project.write("single.py", "")
    project.append("site1/settings.py", 'INSTALLED_APPS.append("single")')
    done = project.run("-c", _LIST)
    assert "count_notes" in done.stdout, done.stderr


def test_the_module_has_the_name_of_the_setting(project: Project) -> None:
    (project.folder / "notes/mcp.py").rename(project.folder / "notes/agents.py")
    project.append("site1/settings.py", 'MCP = {"MODULE": "agents"}')
    done = project.run("-c", _LIST)
    assert "count_notes" in done.stdout, done.stderr


def test_the_reloader_watches_modules_that_are_not_imported() -> None:
    """One that failed is in no list of imported modules, and its repair would go unnoticed."""

    class Reloader:
        def __init__(self) -> None:
            self.watched: list[tuple[Path, str]] = []

        def watch_dir(self, path: Path, pattern: str) -> None:
            self.watched.append((path, pattern))

    found: Any = Reloader()
    watch(found)
    assert (Path(__file__).parent / "shop", "mcp.py") in found.watched
