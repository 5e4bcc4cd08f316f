"""The project, its database and its users."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import pytest

from tests.django.projects import Project, made_project, python_with_django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.django.project")
django.setup()  # test modules import models


@pytest.fixture(scope="session", autouse=True)
def database() -> Iterator[None]:
    """A database of this run, with the tables of the project."""
    from django.db import connection
    from django.test.utils import setup_databases, setup_test_environment, teardown_databases

    setup_test_environment()
    made = setup_databases(verbosity=0, interactive=False)
    yield
    if connection.vendor == "postgresql":  # threads of the asynchronous ORM, in tests themselves, keep connections
        with connection.cursor() as cursor:
            others = "datname = current_database() AND pid <> pg_backend_pid()"
            cursor.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
    teardown_databases(made, verbosity=0)


@pytest.fixture
def alice(database: None) -> Iterator[Any]:
    """A user, with a token."""
    from django.contrib.auth.models import User
    from rest_framework.authtoken.models import Token

    user = User.objects.create_user("alice")
    account: Any = user
    account.token = Token.objects.create(user=user).key
    yield user
    user.delete()


@pytest.fixture(scope="session")
def template_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project, made once; tests take copies of it."""
    with python_with_django() as python:
        yield made_project(tmp_path_factory.mktemp("template") / "project", python)


@pytest.fixture
def project(template_project: Project, tmp_path: Path) -> Project:
    """A project with ``manage.py``, a database, and the users alice and bob."""
    return template_project.copy_to(tmp_path / "project")
