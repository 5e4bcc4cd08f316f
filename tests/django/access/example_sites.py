"""The example of authentication, served by a process for each package: in an environment of their own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.conftest import ROOT, peer_program
from tests.processes import free_port, wait_until_served

__all__ = ["ExampleSite", "example_site"]

EXAMPLE = ROOT / "examples" / "django" / "auth"


class ExampleSite(NamedTuple):
    """A site that is served.

    Attributes:
        url: of the root.
        package: the module of its settings.
        tokens: ``keyword``; ``valid`` and ``other``, of ada and bob; where tokens of the package expire, ``expired``.
    """

    url: str
    package: str
    tokens: dict[str, str]

    @property
    def endpoint(self) -> str:
        """The URL of the endpoint."""
        return f"{self.url}/mcp/"

    def header(self, token: str) -> str:
        """Return the value of ``Authorization`` with one of the tokens, or with another one."""
        return f"{self.tokens['keyword']} {self.tokens.get(token, token)}"


@contextmanager
def example_site(package: str, folder: Path) -> Generator[ExampleSite]:
    """Serve the example with one package inside the ``with`` block.

    Args:
        package: the module of its settings.
        folder: for the database and the log.
    """
    port, log = free_port(), folder / "log.txt"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(EXAMPLE)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "EXAMPLE_DATABASE": str(folder / "db.sqlite3"),
        "DJANGO_SETTINGS_MODULE": f"site1.{package}",
    }
    command = [peer_program("django-auth"), str(Path(__file__).with_name("serve_example.py")), f"127.0.0.1:{port}"]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, cwd=EXAMPLE, env=environment, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        try:
            assert process.stdout is not None
            made = process.stdout.readline()
            assert made, log.read_text()
            wait_until_served(process, port, log)
            yield ExampleSite(f"http://127.0.0.1:{port}", package, json.loads(made))
        finally:
            process.terminate()
