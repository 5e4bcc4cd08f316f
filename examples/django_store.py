"""A Django project keeps sessions, marks and tasks in its own database: a call goes on when its process has ended.

The project is this file, its database a file of SQLite in a temporary folder. While the user thinks about a question,
the process that asked is stopped and another one takes its place; the state of the call is sealed with a key derived
from SECRET_KEY, and the mark of the step is in the database. A session of the older protocol goes on, too.

python examples/django_store.py                   shows it in both eras
python examples/django_store.py serve 8000        serves the project (after a migrate)
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import django
from django.conf import settings

from ferrule import Client, Context

if TYPE_CHECKING:
    from collections.abc import Generator

settings.configure(
    SECRET_KEY="of the project, and long enough for anybody",
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SHOP_DB", "shop.db")}},
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "ferrule.django"],
    USE_TZ=True,
    MCP={"NAME": "shop", "REQUIRE_LOGIN": False},
)
django.setup()

from ferrule.django import mcp  # noqa: E402 - needs the settings


def reserve(item: str, count: int) -> str:
    """Stands for a change in the warehouse."""
    return f"{count} x {item} reserved by process {os.getpid()}"


@mcp.tool
async def order(item: str, ctx: Context) -> str:
    """Order something; the user says how many."""
    answer = await ctx.elicit(f"How many {item}?", int)
    if answer.action != "accept":
        return "Nothing was ordered."
    done = await ctx.step("reserve", reserve, item, answer.data, once=True)
    return f"{done.partition(' by ')[0]}"


@mcp.tool
async def visit(ctx: Context) -> int:
    """Count the calls of a session."""
    count: int = ctx.session_state.get("visits", 0) + 1
    ctx.session_state["visits"] = count
    return count


class Processes:
    """The processes that serve the project on one port, one after the other."""

    def __init__(self, database: str) -> None:
        self._environment = {**os.environ, "SHOP_DB": database}
        with socket.create_server(("127.0.0.1", 0)) as found:
            self._port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}/mcp"
        self.running = self._start()

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, __file__, "serve", str(self._port)]
        process = subprocess.Popen(command, env=self._environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    def replace(self) -> None:
        """Stop the process, and start another one."""
        self.stop()
        self.running = self._start()

    def stop(self) -> None:
        """Stop the process."""
        self.running.kill()
        self.running.communicate()


@contextmanager
def project() -> Generator[Processes]:
    """Make the database, and serve the project until the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        database = os.path.join(folder, "shop.db")
        migrate = "from django.core.management import call_command; call_command('migrate', verbosity=0)"
        program = f"import runpy; runpy.run_path({__file__!r}); {migrate}"
        subprocess.run([sys.executable, "-c", program], env={**os.environ, "SHOP_DB": database}, check=True)
        processes = Processes(database)
        try:
            yield processes
        finally:
            processes.stop()


async def show(processes: Processes) -> None:
    """A question in the modern era, a session in the legacy one, each answered by another process."""

    async def user(params: Any) -> dict[str, Any]:
        await asyncio.to_thread(processes.replace)  # while the user thinks
        return {"value": 3}

    print("2026-07-28 over HTTP")
    async with Client(processes.url, mode="2026-07-28", elicitation_handler=user) as client:
        print(f"  {(await client.call_tool('order', {'item': 'chairs'})).text}, answered by another process")
    print("2025-11-25 over HTTP")
    async with Client(processes.url, mode="2025-11-25") as client:
        first = (await client.call_tool("visit")).data
        await asyncio.to_thread(processes.replace)
        print(f"  visits of one session: {first}, and in another process {(await client.call_tool('visit')).data}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        mcp.run("http", port=int(sys.argv[2]), on_started=lambda host, port: print("ready", flush=True))
    else:
        with project() as processes:
            asyncio.run(show(processes))
