"""The pages about Django: the project of the tutorial is made from nothing, and its commands print what is shown."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

for _package in ("django", "rest_framework", "drf_spectacular"):
    pytest.importorskip(_package)

ROOT = Path(__file__).resolve().parents[2]
SNIPPETS = ROOT / "docs" / "snippets" / "django"
TUTORIAL = (ROOT / "docs" / "tutorial" / "django.md").read_text(encoding="utf-8")


def run(folder: Path, *command: str, **environment: str) -> str:
    """What a command prints, run with this interpreter."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**{name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}, **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a reader has after the first half of the page."""
    folder = tmp_path_factory.mktemp("tutorial")
    run(folder, "-m", "django", "startproject", "site1", ".")
    run(folder, "manage.py", "startapp", "notes")
    for path in (SNIPPETS / "notes").glob("*.py"):
        shutil.copy(path, folder / "notes")
    shutil.copy(SNIPPETS / "urls.py", folder / "site1")
    with (folder / "site1" / "settings.py").open("a", encoding="utf-8") as settings:
        settings.write(SNIPPETS.joinpath("settings.py").read_text(encoding="utf-8"))
    run(folder, "manage.py", "makemigrations", "notes")
    run(folder, "manage.py", "migrate")
    user = ("createsuperuser", "--noinput", "--username", "ada", "--email", "ada@example.com")
    run(folder, "manage.py", *user, DJANGO_SUPERUSER_PASSWORD="tell nobody")
    return folder


def test_the_commands_of_the_tutorial_print_what_it_shows(project: Path) -> None:
    """A newcomer compares line by line."""
    shown = re.findall(r"^```sh\npython (manage.py mcp [^\n]*)\n```\n\n```text\n(.*?)^```", TUTORIAL, re.M | re.S)
    assert len(shown) == 2
    for command, lines in shown:
        assert run(project, *shlex.split(command)).strip() == lines.strip()


def test_the_project_of_the_tutorial_has_no_fault(project: Path) -> None:
    """Neither of Django's checks nor of ours."""
    assert "no issues" in run(project, "manage.py", "check")


def test_the_tests_of_the_page_about_tests_pass(project: Path) -> None:
    """In the transaction of each test case, which leaves nothing behind."""
    done = subprocess.run(
        [sys.executable, "manage.py", "test", "notes"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=200,
        env={name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 2 tests" in done.stderr


def test_the_library_of_the_page_about_viewsets_offers_what_the_page_says() -> None:
    """Versions, a named user, specifications, Django Ninja, and checks of the user."""
    if find_spec("ninja") is None:  # importing it needs the settings of a project
        pytest.skip("django-ninja is not installed")
    shown = run(SNIPPETS, "library_site.py").splitlines()
    common = ["add_book", "book_create", "long_books", "opening_hours", "purchase_create"]
    assert shown == [
        f"reader {sorted([*common, 'count_books'])}",
        f"colleague {sorted([*common, 'count_pages', 'desk_number'])}",
        f"staff {sorted([*common, 'count_users'])}",
        "book_create ['pages', 'title']",
        "purchase_create ['cost', 'title']",
        "add_book ['pages', 'title']",
        "long_books ['at_least', 'page']",
        '{"id": 1, "title": "Emma", "pages": 474}',
        '{"id": 2, "title": "Faust", "cost": "9.00"}',
        '{"id": 3, "title": "Ulysses"}',
        '[{"id": 3, "title": "Ulysses", "pages": 730}]',
        '{"day": "sunday", "opens": "closed"}',
    ]
