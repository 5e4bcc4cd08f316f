"""examples/django, served as its users serve it: by gunicorn (WSGI) and by uvicorn (ASGI).

``FERRULE_DJANGO_PRODUCTS=100000`` fills the shop with as many products; 300 without.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

for _package in ("django", "rest_framework", "django_filters", "drf_spectacular", "rest_framework_simplejwt"):
    pytest.importorskip(_package)

PRODUCTS = int(os.environ.get("FERRULE_DJANGO_PRODUCTS", "300"))
QUERIES = Path(__file__).with_name("django_queries.py")
HOSTS = {
    "wsgi": (["gunicorn", "--workers", "2", "--threads", "2", "--bind", "127.0.0.1:0", "config.wsgi"], "gunicorn"),
    "asgi": (["uvicorn", "--port", "0", "config.asgi:application"], "uvicorn"),
}


class Shop:
    """The project in a process environment of its own."""

    def __init__(self, folder: Path, scratch: Path, **environment: str) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            **environment,
            "SHOP_SQLITE": str(scratch / "shop.sqlite3"),
            "SHOP_MEDIA": str(scratch / "media"),
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PYTHONPATH": str(folder),
        }

    def run(self, *command: str) -> str:
        """What a program prints."""
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=250,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextlib.contextmanager
    def served(self, command: list[str]) -> Iterator[str]:
        """Serve the project until the block ends; gives the URL of the endpoint."""
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", *command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        try:
            lines: list[str] = []
            for line in process.stderr:
                lines.append(line)
                if (found := re.search(r"http://127\.0\.0\.1:\d+", line)) is not None:
                    yield f"{found[0]}/mcp/"
                    break
            else:
                raise AssertionError("".join(lines))
        finally:
            process.terminate()
            process.communicate(timeout=60)


@pytest.fixture(scope="module")
def shop(examples_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """The project with a filled database."""
    made = Shop(examples_dir / "django", tmp_path_factory.mktemp("shop"))
    made.run("manage.py", "migrate", "--verbosity", "0")
    made.printed = made.run("manage.py", "fill", "--products", str(PRODUCTS))  # type: ignore[attr-defined]
    return made


def test_the_project_passes_its_checks(shop: Shop) -> None:
    """Migrations fit the models, and Django finds nothing wrong."""
    assert "no issues" in shop.run("manage.py", "check")
    assert "No changes" in shop.run("manage.py", "makemigrations", "--check", "--dry-run")
    assert f"{PRODUCTS} products" in shop.printed  # type: ignore[attr-defined]


@pytest.fixture
def shop_on_postgres(examples_dir: Path, tmp_path: Path, postgres_url: str) -> Iterator[Shop]:
    """The project with its tables, the store's among them, and 300 products on PostgreSQL."""
    psycopg = pytest.importorskip("psycopg")
    name = f"example_{os.getpid()}"
    with psycopg.connect(postgres_url, autocommit=True) as own:
        own.execute(f"CREATE DATABASE {name}")
        try:
            made = Shop(
                examples_dir / "django", tmp_path, SHOP_DATABASE_URL=f"{postgres_url.rpartition('/')[0]}/{name}"
            )
            made.run("manage.py", "migrate", "--verbosity", "0")
            made.run("manage.py", "fill", "--products", "300")
            yield made
        finally:
            own.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("host", HOSTS)
def test_an_agent_orders_and_cancels(shop: Shop, host: str) -> None:
    """From search to cancellation, with a question between, which another process may continue."""
    order_and_cancel(shop, host)


def test_an_agent_orders_and_cancels_on_postgresql(shop_on_postgres: Shop) -> None:
    """Two processes, which share the database and the store in it."""
    order_and_cancel(shop_on_postgres, "wsgi")


def order_and_cancel(shop: Shop, host: str) -> None:
    """Let the agent work at the shop under a host, and look at what it says."""
    command, package = HOSTS[host]
    pytest.importorskip(package)
    with shop.served(command) as url:
        lines = shop.run("agent.py", url).splitlines()
    assert lines[0] == "2026-07-28"
    assert lines[-1] == "  order: cancelled, the pieces are back"
    assert [line.rpartition(" ")[2] for line in lines if "user: " in line] == ["no", "yes"]
    assert "  Nothing was ordered: the user did not agree." in lines


def test_a_tool_makes_the_queries_of_its_view(shop: Shop) -> None:
    """Lists of twenty make no query per row, and a tool none more than its view, which takes the sender as found."""
    found: dict[str, Any] = json.loads(shop.run(str(QUERIES)))
    print(json.dumps(found, indent=1))
    for name, each in found.items():
        assert each["queries"] == each.get("view_queries", 2), (name, each)
        assert each.get("view_queries", 0) <= 5, (name, each)
    assert found["list"]["rows"] == 20
    assert found["words"]["rows"] > 0
