"""API by kind of content, and API by outcome: each cell is what that API documents for it."""

from __future__ import annotations

import base64
from typing import Any

import anyio
import pytest

from ferrule import Client, MCPServer
from ferrule.types import (
    ResourceContents,
    ToolResult,
    audio_block,
    image_block,
    resource_block,
    resource_link_block,
    text_block,
)
from tests.client.bridges.recorded import RESPONSES

pytestmark = pytest.mark.anyio

PNG, WAV, PDF = (base64.b64encode(data).decode() for data in (b"\x89PNG", b"RIFF", b"%PDF"))
PNG_URL, PDF_URL = f"data:image/png;base64,{PNG}", f"data:application/pdf;base64,{PDF}"
LINK = "[Report](https://example.com/r.pdf) (application/pdf, 9 bytes): The numbers"
NO_AUDIO = "[Not shown: audio/wav, 4 bytes]"
NO_PDF = "[Not shown: x://f.pdf, application/pdf, 4 bytes]"
ZIP = "[Not shown: x://z, application/zip, 4 bytes]"

KINDS: dict[str, ToolResult] = {
    "text": ToolResult([text_block("hello")]),
    "two texts": ToolResult([text_block("a"), text_block("b")]),
    "image": ToolResult([text_block("see"), image_block(PNG, "image/png")]),
    "unusual image": ToolResult([image_block(PNG, "image/svg+xml")]),
    "sound": ToolResult([audio_block(WAV, "audio/wav")]),
    "text resource": ToolResult([resource_block(ResourceContents("x://a", "text/markdown", "# A"))]),
    "image resource": ToolResult([resource_block(ResourceContents("x://p.png", "image/png", blob=PNG))]),
    "pdf resource": ToolResult([resource_block(ResourceContents("x://f.pdf", "application/pdf", blob=PDF))]),
    "other resource": ToolResult([resource_block(ResourceContents("x://z", "application/zip", blob=PDF))]),
    "link": ToolResult(
        [
            resource_link_block(
                "https://example.com/r.pdf",
                "r",
                title="Report",
                description="The numbers",
                mime_type="application/pdf",
                size=9,
            )
        ]
    ),
    "structured beside content": ToolResult([text_block("sum: 3")], structured_content={"sum": 3}),
    "structured only": ToolResult([], structured_content={"sum": 3}),
    "structured null": ToolResult([], structured_content=None),
    "blank text and structured": ToolResult([text_block(" ")], structured_content=[1]),
    "nothing": ToolResult([]),
    "error": ToolResult([text_block("no such city")], is_error=True),
    "error with image": ToolResult([text_block("bad"), image_block(PNG, "image/png")], is_error=True),
    "malformed base64": ToolResult([image_block("!!", "image/png")]),
}


def a_text(text: str) -> dict[str, Any]:
    """Anthropic's block of text."""
    return {"type": "text", "text": text}


def a_media(kind: str, mime_type: str, data: str, **more: Any) -> dict[str, Any]:
    """Anthropic's block of an image or document."""
    return {"type": kind, "source": {"type": "base64", "media_type": mime_type, "data": data}, **more}


A_PNG = a_media("image", "image/png", PNG)
IN_PNG = {"type": "input_image", "image_url": PNG_URL, "detail": "auto"}
CHAT_IMAGE = [{"type": "text", "text": "Image 1 of t:"}, {"type": "image_url", "image_url": {"url": PNG_URL}}]
FOLLOWS = "[Image 1 of t follows after the results]"
G_PNG = {"inlineData": {"mimeType": "image/png", "data": PNG}}
BAD = "[Not shown, its base64 is malformed: image/png, 1 bytes]"
SVG = "[Not shown: image/svg+xml, 4 bytes]"

ANTHROPIC: dict[str, list[dict[str, Any]]] = {
    "text": [a_text("hello")],
    "two texts": [a_text("a"), a_text("b")],
    "image": [a_text("see"), A_PNG],
    "unusual image": [a_text(SVG)],
    "sound": [a_text(NO_AUDIO)],
    "text resource": [
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "# A"}, "title": "x://a"}
    ],
    "image resource": [A_PNG],
    "pdf resource": [a_media("document", "application/pdf", PDF, title="x://f.pdf")],
    "other resource": [a_text(ZIP)],
    "link": [a_text(LINK)],
    "structured beside content": [a_text("sum: 3")],
    "structured only": [a_text('{"sum":3}')],
    "structured null": [a_text("null")],
    "blank text and structured": [a_text("[1]")],
    "nothing": [a_text("(no content)")],
    "error": [a_text("no such city")],
    "error with image": [a_text("bad"), A_PNG],
    "malformed base64": [a_text(BAD)],
}

OPENAI: dict[str, Any] = {
    "text": "hello",
    "two texts": "a\n\nb",
    "image": [{"type": "input_text", "text": "see"}, IN_PNG],
    "unusual image": SVG,
    "sound": NO_AUDIO,
    "text resource": "Resource x://a:\n# A",
    "image resource": [IN_PNG],
    "pdf resource": [{"type": "input_file", "filename": "f.pdf", "file_data": PDF_URL}],
    "other resource": ZIP,
    "link": LINK,
    "structured beside content": "sum: 3",
    "structured only": '{"sum":3}',
    "structured null": "null",
    "blank text and structured": "[1]",
    "nothing": "(no content)",
    "error": "Error: no such city",
    "error with image": [{"type": "input_text", "text": "Error:"}, {"type": "input_text", "text": "bad"}, IN_PNG],
    "malformed base64": BAD,
}

CHAT: dict[str, tuple[str, list[dict[str, Any]] | None]] = {
    **{name: (output, None) for name, output in OPENAI.items() if isinstance(output, str)},
    "image": (f"see\n\n{FOLLOWS}", CHAT_IMAGE),
    "image resource": (FOLLOWS, CHAT_IMAGE),
    "pdf resource": (NO_PDF, None),
    "error with image": (f"Error: bad\n\n{FOLLOWS}", CHAT_IMAGE),
}

GEMINI: dict[str, tuple[str, list[dict[str, Any]] | None]] = {
    **{name: (output, None) for name, output in OPENAI.items() if isinstance(output, str)},
    "image": ("see", [G_PNG]),
    "image resource": ("", [G_PNG]),
    "pdf resource": ("", [{"inlineData": {"mimeType": "application/pdf", "data": PDF}}]),
    "sound": ("[A sound follows]", None),
    "error": ("no such city", None),
    "error with image": ("bad", [G_PNG]),
}


def expected(api: str, kind: str) -> list[dict[str, Any]]:
    """The messages for one call of the id ``c1``."""
    is_error = bool(KINDS[kind].is_error)
    if api == "anthropic":
        block = {"type": "tool_result", "tool_use_id": "c1", "content": ANTHROPIC[kind]}
        return [{"role": "user", "content": [{**block, "is_error": True} if is_error else block]}]
    if api == "openai":
        return [{"type": "function_call_output", "call_id": "c1", "output": OPENAI[kind]}]
    if api == "openai-chat":
        text, images = CHAT[kind]
        tool = {"role": "tool", "tool_call_id": "c1", "content": text}
        return [tool] if images is None else [tool, {"role": "user", "content": images}]
    text, parts = GEMINI[kind]
    response: dict[str, Any] = {"name": "t", "id": "c1", "response": {"error" if is_error else "output": text}}
    made: list[dict[str, Any]] = [{"functionResponse": response if parts is None else {**response, "parts": parts}}]
    if kind == "sound":
        made.append({"inlineData": {"mimeType": "audio/wav", "data": WAV}})
    return [{"role": "user", "parts": made}]


def server(result: ToolResult) -> MCPServer[Any]:
    """A server whose tool ``t`` gives one result."""
    app = MCPServer("s")

    @app.tool(output_schema=None)
    def t() -> ToolResult:
        return result

    return app


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("api", ["anthropic", "openai", "openai-chat", "gemini"])
async def test_content(api: str, kind: str) -> None:
    """The model gets the content, or what is structured where there is none: nothing lost, nothing twice."""
    async with Client(server(KINDS[kind])) as client:
        answer = await client.answer(RESPONSES[api](("c1", "t", {})))
    assert list(answer) == expected(api, kind)
    (outcome,) = answer.outcomes
    assert outcome.status == ("failed" if KINDS[kind].is_error else "done")


OUTCOMES = {
    "unknown tool": ("There is no tool 'nope'", True),
    "malformed": ("The arguments ", True),
    "denied": ("Not today", True),
    "timed out": ("did not answer within 0.05 s", True),
    "duplicate": ("is that of a call before", True),
    "too many": ("Only 1 calls are made at a time", True),
    "failed": ("kaputt", True),
    "done": ("3", False),
}


def text_of(api: str, messages: list[dict[str, Any]], index: int) -> tuple[str, bool]:
    """What the model reads of one result, and whether it is marked as an error."""
    if api == "anthropic":
        block = messages[0]["content"][index]
        return block["content"][0]["text"], block.get("is_error", False)
    if api == "openai":
        return messages[index]["output"], messages[index]["output"].startswith("Error: ")
    if api == "openai-chat":
        return messages[index]["content"], messages[index]["content"].startswith("Error: ")
    if api == "json-schema":
        return messages[index]["content"][0]["text"], messages[index]["is_error"]
    ((key, text),) = messages[0]["parts"][index]["functionResponse"]["response"].items()
    return text, key == "error"


@pytest.mark.parametrize("status", OUTCOMES)
@pytest.mark.parametrize("api", RESPONSES)
async def test_outcomes(api: str, status: str) -> None:
    """Each call is answered, in its place, and an error is marked in the way of the API."""
    app = MCPServer("s")

    @app.tool
    def add(a: int, b: int) -> int:
        if a == 13:
            raise ValueError("kaputt") from None
        return a + b

    @app.tool
    async def wait() -> None:
        await anyio.sleep_forever()

    good: Any = {"a": 1, "b": 2}
    malformed: Any = "{" if api.startswith("openai") else [1]
    calls: list[Any] = {
        "unknown tool": [("c1", "nope", {})],
        "malformed": [("c1", "add", malformed)],
        "timed out": [("c1", "wait", {})],
        "duplicate": [("c0", "add", good), ("c0", "add", good)],
        "too many": [("c0", "add", good), ("c1", "add", good)],
        "failed": [("c1", "add", {"a": 13, "b": 1})],
    }.get(status, [("c1", "add", good)])
    options: dict[str, Any] = {
        "denied": {"approve": lambda use: "Not today"},
        "timed out": {"timeout_s": 0.05},
        "too many": {"max_calls": 1},
    }.get(status, {})
    async with Client(app) as client:
        answer = await client.answer(RESPONSES[api](*calls), **options)
    assert answer.outcomes[-1].status == status
    text, is_error = text_of(api, answer, len(calls) - 1)
    said, marked = OUTCOMES[status]
    assert is_error is marked
    if status != "failed":  # what a failing function says is masked
        assert said in text


def test_every_kind_and_outcome_has_its_cell() -> None:
    """A kind without an expectation would be no test."""
    assert all(set(table) == set(KINDS) for table in (ANTHROPIC, OPENAI, CHAT, GEMINI))
