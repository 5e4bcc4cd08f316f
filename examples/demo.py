"""Call the example server the way hosts do: over stdio and over HTTP, in both protocol eras.

Run it with ``scripts/demo``. It starts the servers itself and ends when every answer was shown; the first conversation
in full, the others compared with it. ``--all`` shows all four in full.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

from showing import process_listening

from ferrule import Client, StdioServer, __version__

SERVER = Path(__file__).resolve().with_name("server.py")
IN_COLOR = sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def styled(text: str, code: int) -> str:
    """Bold (1), dim (2) or colored text, at a terminal."""
    return f"\x1b[{code}m{text}\x1b[0m" if IN_COLOR else text


class Conversation:
    """Asks, keeps the answers, and shows them on request."""

    def __init__(self, *, shows: bool) -> None:
        self.answers: dict[str, Any] = {}
        self.took_ms = 0.0
        self._shows = shows
        self._began = time.perf_counter()

    def note(self, what: str, answer: Any, *, is_answer: bool = True) -> None:
        """One answer, or what came before it."""
        took_ms = (time.perf_counter() - self._began) * 1000
        self.answers[what] = answer
        self.took_ms += took_ms
        if self._shows:
            took = styled(f"{took_ms:5.1f} ms", 2) if is_answer else " " * 8
            print(f"  {took}  {what:<35} {answer}", flush=True)
        self._began = time.perf_counter()

    async def hold(self, client: Client) -> None:
        """A bit of everything that a server offers."""
        self._began = time.perf_counter()
        self.note("tools/list", ", ".join(tool.name for tool in await client.list_tools()))
        self.note("add(a=2, b=40)", (await client.call_tool("add", {"a": 2, "b": 40})).data)

        passes: list[str | None] = []
        brass = {"metal": "brass", "length_mm": 12}
        cut = await client.call_tool("cut", brass, on_progress=lambda now, total, text: passes.append(text))
        self.note("cut(metal=brass, length_mm=12)", cut.structured_content)
        self.note("  its progress meanwhile", " · ".join(text or "" for text in passes), is_answer=False)

        refused = await client.call_tool("cut", {"metal": "copper", "length_mm": 9_999})
        self.note("cut(metal=copper, length_mm=9999)", f"error: {refused.text}")
        steel = await client.read_resource("workshop://metals/steel")
        self.note("workshop://metals/steel", steel.contents[0].text)
        quote = await client.get_prompt("quote", {"metal": "copper"})
        self.note("the prompt quote", quote.messages[0].content.text)


async def main() -> None:
    """Four conversations: two transports, two eras."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="show every answer of all four conversations")
    shows_all: bool = parser.parse_args().all

    print(f"Ferrule {__version__} serves examples/server.py, a file of functions; a client calls it as hosts do.\n")
    first: Conversation | None = None
    spoken: set[str] = set()
    async with process_listening(str(SERVER), "http", "--port") as origin:
        stdio = StdioServer(sys.executable, [str(SERVER)])
        for name, target in (("stdio", stdio), ("HTTP", f"{origin}/mcp")):
            for mode in ("auto", "legacy"):
                began = time.perf_counter()
                async with Client(target, mode=mode) as client:
                    start_ms = (time.perf_counter() - began) * 1000
                    era = "modern era" if client.is_modern else "legacy era"
                    title = f"{client.protocol_version} over {name}"
                    heading = f"the {era}; connected in {start_ms:.0f} ms"
                    shows = shows_all or first is None
                    if shows:
                        print(f"{styled(title, 1)}, {heading}", flush=True)
                    conversation = Conversation(shows=shows)
                    await conversation.hold(client)
                    spoken.add(client.protocol_version)
                if not shows and first is not None:
                    check_same(title, first, conversation)
                    count = len(conversation.answers)
                    same = styled(f"the same {count} answers", 32)
                    print(f"{styled(title, 1)}, {heading}: {same} in {conversation.took_ms:.0f} ms", flush=True)
                first = first or conversation
                if shows:
                    print()
    print(f"""
One server, one client, spoken to in the revisions {" and ".join(sorted(spoken))}. Now you:

  .venv/bin/ferrule inspect examples/server.py
  .venv/bin/ferrule call examples/server.py cut metal=brass length_mm=12
  .venv/bin/python examples/weather.py            and the others that docs/examples.md lists""")


def check_same(title: str, first: Conversation, other: Conversation) -> None:
    """What one era says differently from the other would be a fault: say it and fail."""
    for what, answer in first.answers.items():
        if other.answers.get(what) != answer:
            raise SystemExit(f"{title}: {what} answered {other.answers.get(what)!r} and not {answer!r}")


if __name__ == "__main__":
    asyncio.run(main())
