"""Every conversation file, in each revision and on each carrier that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.testing.conversations import (
    Conversation,
    load_conversation,
    run_conversation,
    runs_of,
    save_conversation,
    update_conversation,
)
from tests.conversations.servers import SERVERS

FILES = sorted(Path(__file__).parent.glob("*.conv"))
CONVERSATIONS = {path.stem: load_conversation(path) for path in FILES}
RUNS = [(name, revision, carrier) for name, each in CONVERSATIONS.items() for revision, carrier in runs_of(each)]


@pytest.fixture
def updates(request: pytest.FixtureRequest) -> bool:
    """Whether the files are to be rewritten."""
    return bool(request.config.getoption("--update", default=False))


@pytest.mark.anyio
@pytest.mark.parametrize(("name", "revision", "carrier"), RUNS, ids=["-".join(run) for run in RUNS])
async def test_the_server_says_what_the_file_says(name: str, revision: str, carrier: str, updates: bool) -> None:
    """The conversation is the specification of the kernel, whatever carries it."""
    conversation = CONVERSATIONS[name]
    if updates:
        if (revision, carrier) == next(runs_of(conversation)):
            save_conversation(conversation, await update_conversation(conversation, SERVERS[conversation.server]))
        pytest.skip("rewritten")
    await run(conversation, revision, carrier)


async def run(conversation: Conversation, revision: str, carrier: str) -> None:
    """Replay it once against a fresh server."""
    server = SERVERS[conversation.server]()
    await run_conversation(conversation, server, revision=revision, carrier=carrier)
