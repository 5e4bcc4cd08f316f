"""The runner of conversations: it passes what is right, and above all it fails what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.testing import (
    ConversationMismatch,
    Transcript,
    load_conversation,
    parse_conversation,
    run_conversation,
    runs_of,
    update_conversation,
)
from ferrule.testing.conversations import CARRIERS, save_conversation
from ferrule.testing.script import ConversationSyntaxError

pytestmark = pytest.mark.anyio

CALL = '> {"id": 1, "method": "tools/call", "params": {"name": "x"}}\n'
ANSWER = '< {"id": 1, "result": {"content": [], "...": true}}\n'


def server(*, notifies: int = 0, asks: bool = False, answers: bool = True) -> Server[Any]:
    """A server whose only tool sends a given number of messages."""
    made: Server[Any] = Server("s", version="1")

    async def call(ctx: ServerRequestContext[Any]) -> Any:
        for at in range(notifies):
            await ctx.session.progress(at + 1)
        if asks:
            await ctx.session.send_request("roots/list")
        if not answers:
            raise RuntimeError("no answer")
        return {"content": []}

    made.add_request_handler("tools/call", call)
    return made


async def run(
    text: str, made: Server[Any] | None = None, *, revision: str = "2025-11-25", carrier: str = "memory"
) -> Transcript:
    """Replay a text once."""
    conversation = parse_conversation(text)
    return await run_conversation(conversation, made or server(), revision=revision, carrier=carrier, timeout_s=0.3)


@pytest.mark.usefixtures("any_backend")
@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_a_conversation_passes_on_every_carrier_and_both_loops(carrier: str, revision: str) -> None:
    """Handshake or envelope are the runner's affair."""
    transcript = await run(CALL + ANSWER, revision=revision, carrier=carrier)
    said = [(each.sender, each.message.get("method", "answer")) for each in transcript.messages]
    call = [("client", "tools/call"), ("server", "answer")]
    if revision == "2026-07-28":
        assert said == call
        assert "_meta" in transcript.messages[0].message["params"]
    else:
        assert said == [
            ("client", "initialize"),
            ("server", "answer"),
            ("client", "notifications/initialized"),
            *call,
        ]


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize(
    ("text", "made", "words"),
    [
        (CALL + '< {"id": 1, "result": {"content": [1], "...": true}}\n', server, "elements"),
        (CALL + '< {"id": 2, "result": "$any"}\n', server, r"\$\.id"),
        (CALL + '< {"id": 1, "error": "$any"}\n', server, "missing"),
        (CALL, server, "says more"),
        (CALL + ANSWER + ANSWER, server, "nothing came"),
        (ANSWER, server, "nothing came"),
        (CALL + ANSWER, lambda: server(answers=False), r"\$\.result is missing"),
    ],
)
async def test_a_conversation_fails_for_what_is_wrong(
    text: str, made: Callable[[], Server[Any]], words: str, carrier: str
) -> None:
    """A wrong value, a wrong id, a missing answer, one too many, an error instead of a result."""
    with pytest.raises(ConversationMismatch, match=words):
        await run(text, made(), carrier=carrier)


async def test_a_mismatch_names_its_line_and_run() -> None:
    """What a person needs to go there."""
    with pytest.raises(ConversationMismatch) as caught:
        await run(f"# one\n{CALL}# three\n< {{}}\n", revision="2026-07-28")
    assert caught.value.line == 4
    assert caught.value.received is not None
    assert caught.value.received["id"] == 1
    assert str(caught.value).startswith("conversation:4: ")
    assert "2026-07-28 over memory" in str(caught.value)


PROGRESS = '> {"id": 1, "method": "tools/call", "params": {"name": "x", "_meta": {"progressToken": 1}}}\n'
TOLD = '< {"method": "notifications/progress", "params": {"progress": 1, "...": true}}\n'


async def test_the_order_counts_unless_the_file_says_otherwise() -> None:
    """``order: any`` is for messages that travel on different streams."""
    await run(PROGRESS + TOLD + ANSWER, server(notifies=1))
    with pytest.raises(ConversationMismatch):
        await run(PROGRESS + ANSWER + TOLD, server(notifies=1))
    await run("order: any\n" + PROGRESS + ANSWER + TOLD, server(notifies=1))
    with pytest.raises(ConversationMismatch):
        await run("order: any\n" + PROGRESS + ANSWER + ANSWER, server(notifies=1))


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_question_of_the_server_is_answered_by_the_file(carrier: str) -> None:
    """The id that the server chose is put into the answer."""
    text = (
        'capabilities: {"roots": {}}\n'
        + CALL
        + '< {"id": "$any:asked", "method": "roots/list"}\n'
        + '> {"id": "$is:asked", "result": {"roots": []}}\n'
        + ANSWER
    )
    await run(text, server(asks=True), carrier=carrier)


async def test_steps_of_other_runs_are_left_out() -> None:
    """One file for all revisions."""
    text = CALL + '<[modern] {"wrong": 1}\n<[asgi] {"wrong": 1}\n' + ANSWER
    await run(text)
    with pytest.raises(ConversationMismatch):
        await run(text, carrier="asgi")


async def test_an_http_status_counts_over_http_only() -> None:
    """The other carriers have none."""
    unknown = '> {"id": 1, "method": "no/such"}\n= 404\n< {"id": 1, "error": "$any"}\n'
    await run(unknown, revision="2026-07-28", carrier="asgi")
    await run(unknown, revision="2026-07-28", carrier="memory")
    with pytest.raises(ConversationMismatch, match="status is 200 and not 404"):
        await run(CALL + "= 404\n" + ANSWER, carrier="asgi")


async def test_headers_are_set_and_left_out_for_one_message() -> None:
    """The next one has the usual ones again."""
    refused = '= 400\n< {"id": 1, "error": {"code": -32020, "...": true}}\n'
    text = f"- Mcp-Method\n{CALL}{refused}+ Mcp-Method: other\n{CALL}{refused}{CALL}{ANSWER}"
    await run(text, revision="2026-07-28", carrier="asgi")


@pytest.mark.parametrize("carrier", ["direct", "memory"])
async def test_raw_bytes_need_a_carrier_that_has_some(carrier: str) -> None:
    """The error names the line of the file."""
    with pytest.raises(ConversationSyntaxError, match=r"conversation:1: raw bytes"):
        await run(">> x\n", carrier=carrier)
    await run('>> x\n< {"id": null, "error": "$any"}\n', carrier="bytes")


async def test_nothing_comes_after_the_client_has_closed_but_what_was_accepted() -> None:
    """``! close`` ends the input; the drain answers what is in flight."""
    await run(CALL + "! close\n" + ANSWER)
    await run(CALL + "! close\n" + ANSWER, carrier="bytes")
    with pytest.raises(ConversationMismatch, match="has ended"):
        await run("! close\n" + ANSWER)


async def test_any_two_chunks_carry_a_message_alike() -> None:
    """Every position of every client line, one split at a time."""
    conversation = parse_conversation(CALL + ANSWER)
    for position in range(1, 400):

        def in_two(data: bytes, position: int = position) -> list[bytes]:
            return [data[:position], data[position:]]

        await run_conversation(conversation, server(), revision="2026-07-28", carrier="bytes", chunks=in_two)


async def test_a_whole_conversation_in_one_chunk_is_the_same() -> None:
    """A pipelining client writes ahead."""
    conversation = parse_conversation(CALL + ANSWER)
    await run_conversation(conversation, server(), revision="2025-11-25", carrier="bytes", chunks=lambda data: [data])


async def test_an_unknown_carrier_is_refused() -> None:
    """The caller's mistake."""
    with pytest.raises(ValueError, match="pigeon"):
        await run(CALL, carrier="pigeon")


def test_every_run_of_a_file_is_listed() -> None:
    """What a test suite parametrises over."""
    conversation = parse_conversation("revisions: 2025-11-25..\ncarriers: memory, asgi\n")
    assert runs_of(conversation) == [
        ("2025-11-25", "memory"),
        ("2025-11-25", "asgi"),
        ("2026-07-28", "memory"),
        ("2026-07-28", "asgi"),
    ]


# --- updating ---------------------------------------------------------------------------------------------------------


async def updated(text: str, made: Callable[[], Server[Any]] = server) -> str:
    """The text as the updater writes it."""
    return await update_conversation(parse_conversation(text), made)


async def test_updating_fills_in_what_the_server_says() -> None:
    """Per group of revisions that say the same, comments and client lines untouched."""
    text = "# why\nrevisions: 2025-06-18..\ncarriers: memory\n\n" + CALL + "\n# end\n"
    new = await updated(text)
    assert new == text.replace(
        CALL,
        CALL
        + '<[legacy] {"id":1,"result":{"content":[]}}\n'
        + '<[modern] {"id":1,"result":{"resultType":"complete","content":[],"_meta":'
        + '{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}}\n',
    )
    assert await updated(new) == new


async def test_updating_keeps_lines_that_match_and_replaces_those_that_do_not() -> None:
    """Patterns survive; that is what they are for."""
    head = "revisions: 2025-11-25\ncarriers: memory\n"
    assert await updated(head + CALL + ANSWER) == head + CALL + ANSWER
    assert await updated(head + CALL + '< {"id": 1,\n  "result": 5}\n# end\n') == (
        head + CALL + '< {"id":1,"result":{"content":[]}}\n# end\n'
    )


async def test_updating_removes_lines_that_are_not_said() -> None:
    """An answer that no longer comes."""
    head = "revisions: 2025-11-25\ncarriers: memory\n"
    assert await updated(head + CALL + ANSWER + ANSWER) == head + CALL + ANSWER


async def test_what_is_written_is_no_pattern_by_accident() -> None:
    """Text of the server that starts with a dollar is kept from meaning something."""

    def made() -> Server[Any]:
        dollar: Server[Any] = Server("s", version="1")

        async def call(ctx: ServerRequestContext[Any]) -> Any:
            return {"content": [{"type": "text", "text": "$any"}, {"type": "text", "text": "$5"}]}

        dollar.add_request_handler("tools/call", call)
        return dollar

    new = await updated("revisions: 2025-11-25\ncarriers: memory\n" + CALL, made)
    assert '"$$any"' in new
    await run_conversation(parse_conversation(new), made(), revision="2025-11-25", carrier="memory")
    with pytest.raises(ConversationMismatch):
        await run_conversation(parse_conversation(new), server(), revision="2025-11-25", carrier="memory")


async def test_an_updated_file_is_written_only_if_it_changed(tmp_path: Path) -> None:
    """So that a clean update leaves no trace."""
    path = tmp_path / "a.conv"
    path.write_text("revisions: 2025-11-25\ncarriers: memory\n" + CALL, encoding="utf-8")
    conversation = load_conversation(path)
    assert save_conversation(conversation, await update_conversation(conversation, server))
    conversation = load_conversation(path)
    assert not save_conversation(conversation, await update_conversation(conversation, server))
