"""Views of Django REST framework as tools: CPU per call beside the same view over HTTP, and beside two packages.

    python bench/django_views.py [--django-mcp-server PYTHON] [--djangorestframework-mcp-server PYTHON] [--output FILE]

PYTHON are interpreters with ``django-mcp-server==0.5.7``, or ``djangorestframework-mcp-server==0.54``, ``mcp<2``,
Django, gunicorn and uvicorn. The project is ``django_project/django_shop``: a list of 20 of 1,000 products, and one
product, for a user with a token of ``rest_framework.authtoken``, in SQLite. Each candidate is served by gunicorn (one
process, threads: WSGI) and by uvicorn (ASGI). Each answers 1,000 calls of each kind on one connection, in rounds of 100
which take turns; the figure is the CPU time of its process tree over the calls, the least of the rounds: other work
on the machine only adds to it. After that,
the descriptors that are open on the database are counted.

``http`` is ``GET /api/products/``. django-mcp-server turns the pages of views off, so that its view cuts the rows, and
has no retrieving view: a method with the same serializer. djangorestframework-mcp-server takes no views: selectors with
the same serializer. Neither runs the view's own authentication, filters or throttles.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from measure import LEGACY, MODERN, free_port, message, process_tree, split_cpus, stop, take_answer  # noqa: E402

PROJECT = HERE / "django_project"
ROUNDS, PER_ROUND = 10, 100
KINDS = {
    "list": ("product_list", {}, "/api/products/"),
    "retrieve": ("product_retrieve", {"id": 7}, "/api/products/7/"),
}
HOSTS = {
    "WSGI": ["gunicorn", "--threads", "4", "--keep-alive", "600", "--bind", "127.0.0.1:{port}", "django_shop.wsgi"],
    "ASGI": [
        "uvicorn",
        "--port",
        "{port}",
        "--log-level",
        "warning",
        "--timeout-keep-alive",
        "600",
        "django_shop.asgi:application",
    ],
}

FILL = """
import django; django.setup()
from django.core.management import call_command
call_command("migrate", run_syncdb=True, verbosity=0)
from django.contrib.auth.models import User
from django_shop.models import Product
from rest_framework.authtoken.models import Token
Product.objects.bulk_create(Product(name=f"product {n}", price="1.50", pieces=n) for n in range(1000))
print(Token.objects.create(user=User.objects.create(username="ada")).key)
"""


def environment(candidate: str, database: str) -> dict[str, str]:
    """That of a server process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {
        **kept,
        "PYTHONPATH": str(PROJECT),
        "DJANGO_SETTINGS_MODULE": "django_shop.settings",
        "CANDIDATE": candidate,
        "SHOP_DATABASE": database,
    }


def spent_s(root: int) -> float:
    """CPU seconds of a process and its children, of threads that have ended, too: Django makes one for each request."""
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in process_tree(root))  # the clock of a process (Linux)


class Served:
    """A candidate behind a host, and a connection to it."""

    def __init__(self, python: str, candidate: str, host: str, database: str, token: str) -> None:
        self.candidate = candidate
        self._token = token
        self._database = database
        self._port = free_port()
        command = [part.format(port=self._port) for part in HOSTS[host]]
        self.process = subprocess.Popen(
            [python, "-m", *command],
            env=environment(candidate, database),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.sched_setaffinity(self.process.pid, split_cpus()[0])
        self._connection: Any = None
        self._buffer = bytearray()

    def connect(self) -> None:
        """Wait until the host listens."""
        end = time.monotonic() + 60
        while True:
            try:
                self._connection = socket.create_connection(("127.0.0.1", self._port), timeout=60)
                self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def request(self, kind: str) -> bytes:
        """One request as bytes."""
        tool, arguments, path = KINDS[kind]
        head = [f"Host: 127.0.0.1:{self._port}", f"Authorization: Token {self._token}"]
        if self.candidate == "http":
            return "\r\n".join([f"GET {path} HTTP/1.1", *head, "Accept: application/json", "", ""]).encode()
        is_legacy = self.candidate == "django-mcp-server"
        if self.candidate == "djangorestframework-mcp-server" and kind == "list":
            arguments = {"limit": 20}
        revision = LEGACY if is_legacy else MODERN
        body = message(1, "tools/call", {"name": tool, "arguments": arguments}, revision)
        head = [
            f"POST /mcp{'' if is_legacy else '/'} HTTP/1.1",
            *head,
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"MCP-Protocol-Version: {revision}",
            *([] if is_legacy else ["Mcp-Method: tools/call", f"Mcp-Name: {tool}"]),
            f"Content-Length: {len(body)}",
            "",
            "",
        ]
        return "\r\n".join(head).encode() + body

    def call(self, kind: str, request: bytes) -> None:
        """Send a request, and check its answer."""
        self._connection.sendall(request)
        while (answer := take_answer(self._buffer)) is None:
            received = self._connection.recv(262_144)
            assert received, "the host closed the connection"
            self._buffer += received
        assert answer.status == 200, answer.body
        assert answer.body.count(b"pieces") >= (20 if kind == "list" else 1), answer.body
        assert b'"isError":true' not in answer.body, answer.body

    def round(self, kind: str, calls: int) -> float:
        """CPU milliseconds for each of some calls."""
        request = self.request(kind)
        before = spent_s(self.process.pid)
        for _ in range(calls):
            self.call(kind, request)
        return 1000 * (spent_s(self.process.pid) - before) / calls

    def open_databases(self) -> int:
        """Descriptors of the process tree that are open on the database."""
        count = 0
        for pid in process_tree(self.process.pid):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                try:
                    count += os.readlink(entry) == self._database
                except OSError:
                    continue
        return count

    def close(self) -> None:
        """End it."""
        if self._connection is not None:
            self._connection.close()
        stop(self.process)  # type: ignore[arg-type]


def measured(pythons: dict[str, str], host: str, database: str, token: str) -> dict[str, dict[str, Any]]:
    """Milliseconds by kind and candidate."""
    every = os.sched_getaffinity(0)
    servers = [Served(python, name, host, database, token) for name, python in pythons.items()]
    try:
        found: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        for server in servers:
            server.connect()
        os.sched_setaffinity(0, split_cpus()[1])
        for kind in KINDS:
            rounds: dict[str, list[float]] = {server.candidate: [] for server in servers}
            for server in servers:
                server.round(kind, 30)
            for _ in range(ROUNDS):
                for server in servers:
                    rounds[server.candidate].append(server.round(kind, PER_ROUND))
            found[kind] = {name: min(each) for name, each in rounds.items()}
        found["open"] = {server.candidate: server.open_databases() for server in servers}
        return found
    finally:
        os.sched_setaffinity(0, every)
        for server in servers:
            server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--django-mcp-server", metavar="PYTHON")
    parser.add_argument("--djangorestframework-mcp-server", metavar="PYTHON")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    pythons = {
        "http": sys.executable,
        "ferrule": sys.executable,
        "django-mcp-server": given.django_mcp_server,
        "djangorestframework-mcp-server": given.djangorestframework_mcp_server,
    }
    pythons = {name: python for name, python in pythons.items() if python is not None}
    lines = [
        "| CPU ms per call (times the view over HTTP) | " + " | ".join(pythons) + " |",
        "|---|" + "---:|" * len(pythons),
    ]
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "shop.sqlite3")
        made = subprocess.run(
            [sys.executable, "-c", FILL],
            env=environment("ferrule", database),
            capture_output=True,
            text=True,
            check=True,
        )
        for host in HOSTS:
            found = measured(pythons, host, database, made.stdout.strip())
            print(json.dumps({host: found}), file=sys.stderr)
            for kind in KINDS:
                cells = [
                    f"{found[kind][name]:.2f} ({found[kind][name] / found[kind]['http']:.2f}x)" for name in pythons
                ]
                lines.append(f"| {kind}, {host} | " + " | ".join(cells) + " |")
            cells = [str(found["open"][name]) for name in pythons]
            lines.append(f"| open descriptors of the database after that, {host} | " + " | ".join(cells) + " |")
    table = "\n".join(lines) + "\n"
    print(table)
    if given.output is not None:
        given.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
