"""Every conversation file, in each revision and on each carrier that it names, judged by the file and by the schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.testing.conversations import (
    Transcript,
    load_conversation,
    run_conversation,
    runs_of,
    save_conversation,
    update_conversation,
)
from ferrule.testing.oracle import SchemaOracle
from ferrule.wire.revisions import REVISIONS
from tests.conversations.servers import SERVERS
from tests.schemas import SCHEMAS

FILES = sorted(Path(__file__).parent.glob("*.conv"))
CONVERSATIONS = {path.stem: load_conversation(path) for path in FILES}
RUNS = [(name, revision, carrier) for name, each in CONVERSATIONS.items() for revision, carrier in runs_of(each)]

# These speak both eras on one connection or endpoint, so no one schema fits all that is said.
BOTH_ERAS = {"http_eras_side_by_side", "lock_stays_open_after_neutral"}


@pytest.fixture
def updates(request: pytest.FixtureRequest) -> bool:
    """Whether the files are to be rewritten."""
    return bool(request.config.getoption("--update", default=False))


@pytest.fixture(scope="module")
def oracle() -> SchemaOracle | None:
    """The official schemas, where the folder with them is beside this project."""
    return SchemaOracle(SCHEMAS) if SCHEMAS.is_dir() else None


@pytest.mark.anyio
@pytest.mark.parametrize(("name", "revision", "carrier"), RUNS, ids=["-".join(run) for run in RUNS])
async def test_the_server_says_what_the_file_says(
    name: str, revision: str, carrier: str, updates: bool, oracle: SchemaOracle | None, any_backend: str
) -> None:
    """The conversation is the specification of the kernel, whatever carries it."""
    conversation = CONVERSATIONS[name]
    if updates:
        if any_backend == "asyncio" and (revision, carrier) == runs_of(conversation)[0]:
            save_conversation(conversation, await update_conversation(conversation, SERVERS[conversation.server]))
        pytest.skip("rewritten")
    server = SERVERS[conversation.server]()
    transcript = await run_conversation(conversation, server, revision=revision, carrier=carrier)
    if oracle is not None and name not in BOTH_ERAS:
        judge(oracle, transcript, name)


def judge(oracle: SchemaOracle, transcript: Transcript, name: str) -> None:
    """Everything the server said must match the official schema of the revision that was spoken."""
    scope = (name, transcript.revision, transcript.carrier)
    for exchange in transcript.messages:
        if exchange.sender == "server":
            oracle.observe(transcript.revision, "server_to_client", exchange.message, scope=scope)
        elif isinstance(exchange.message, dict):
            oracle.note("client_to_server", exchange.message, scope=scope)


@pytest.mark.anyio
async def test_every_core_message_of_every_revision_has_a_conversation(oracle: SchemaOracle | None) -> None:
    """Results of all requests, and all requests and notifications of the server, in each revision that has them."""
    if oracle is None:
        pytest.skip("the folder with the official schemas is not beside this project")
    for name, revision, carrier in RUNS:
        # One carrier says all that there is, but for the withdrawal of a subscription, which stdio alone needs.
        if (carrier == "memory" and name not in BOTH_ERAS) or (carrier, name) == ("bytes", "listen_ends_gracefully"):
            server = SERVERS[CONVERSATIONS[name].server]()
            transcript = await run_conversation(CONVERSATIONS[name], server, revision=revision, carrier=carrier)
            judge(oracle, transcript, name)
    assert {(each.revision, each.method) for each in oracle.missing()} == set()


def test_every_client_message_of_every_revision_has_a_conversation() -> None:
    """The requests and notifications of a client, in each revision that has them."""
    said: dict[str, set[str]] = {version: {"initialize", "notifications/initialized"} for version in REVISIONS}
    for name, revision, carrier in RUNS:
        for step in CONVERSATIONS[name].steps:
            if step.kind == "send" and isinstance(step.value, dict) and step.holds(revision, carrier):
                said[revision].add(step.value.get("method", ""))
    for version, revision in REVISIONS.items():
        assert {*revision.requests, *revision.notifications} <= said[version], version
