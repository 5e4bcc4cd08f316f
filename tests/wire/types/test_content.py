"""Content blocks and resource contents."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ferrule import types as t
from ferrule.wire.codec import convert, decode, decoder, encode
from ferrule.wire.faults import ConvertError

LINK = t.resource_link_block("file:///a", "a", title="A", size=3, icons=[t.Icon("https://e.org/i")])
KNOWN = {
    "text": t.text_block("hi", annotations=t.Annotations(audience=["user"], priority=1)),
    "image": t.image_block(b"\x00\x01", "image/png"),
    "audio": t.audio_block("AAE=", "audio/wav", meta={"a": 1}),
    "resource": t.resource_block(t.ResourceContents("file:///a", text="")),
    "resource_link": LINK,
    "tool_use": t.tool_use_block("c1", "add", {"a": 1}),
    "tool_result": t.tool_result_block("c1", [t.text_block("2")], structured_content=None, is_error=False),
}


@pytest.mark.parametrize("kind", list(KNOWN))
def test_every_kind_round_trips(kind: str) -> None:
    """One flat type must lose nothing of any kind."""
    block = KNOWN[kind]
    assert block.type == kind
    assert convert(decode(encode(block)), t.ToolContentBlock) == block


@pytest.mark.parametrize(
    ("wire", "missing"),
    [
        ({"type": "text"}, "text"),
        ({"type": "image", "data": "AA=="}, "mimeType"),
        ({"type": "audio", "mimeType": "audio/wav"}, "data"),
        ({"type": "resource"}, "resource"),
        ({"type": "resource_link", "uri": "a:b"}, "name"),
        ({"type": "tool_use", "id": "1", "name": "n"}, "input"),
        ({"type": "tool_result", "content": []}, "toolUseId"),
    ],
)
def test_a_block_without_what_its_kind_needs_is_refused_with_its_place(wire: Any, missing: str) -> None:
    """A flat type that accepted this would only move the crash into the host."""
    with pytest.raises(ConvertError, match=f"`{missing}`") as caught:
        convert({"content": [{"type": "text", "text": ""}, wire]}, t.ToolResult)
    assert caught.value.path == "$.content[1]"


def test_a_block_is_checked_when_it_is_made_too() -> None:
    """The author of a tool gets the error at once, not the peer."""
    with pytest.raises(ValueError, match="`mimeType`"):
        t.ToolContentBlock("image", data="AA==")


def test_an_unknown_kind_is_kept_with_all_its_fields() -> None:
    """A newer peer's block is shown or forwarded, not refused."""
    wire = {"content": [{"type": "hologram", "shape": {"x": [1, None]}, "_meta": {"a": 1}, "text": "alt"}]}
    for result in (convert(wire, t.ToolResult), decoder(t.ToolResult)(encode(wire))):
        block = result.content[0]
        assert isinstance(block, t.UnknownContentBlock)
        assert (block.type, block.text, block.mime_type) == ("hologram", "alt", None)
        assert block["shape"] == {"x": [1, None]}
        assert decode(encode(result)) == wire


def test_an_unknown_kind_answers_every_attribute_of_a_known_block() -> None:
    """Code written for the flat block must not stumble over a newer one."""
    names = set(t.ToolContentBlock.__struct_fields__)
    assert names <= set(t.UnknownContentBlock.__known_keys__)


def test_unknown_kinds_are_kept_in_prompts_and_samples() -> None:
    """Not only tool results carry content."""
    newer = {"type": "hologram", "x": 1}
    prompt = {"messages": [{"role": "user", "content": newer}]}
    assert decode(encode(convert(prompt, t.GetPromptResult))) == prompt
    sample = {"role": "assistant", "content": [newer, {"type": "text", "text": "a"}], "model": "m"}
    assert decode(encode(convert(sample, t.CreateMessageResult))) == sample


def test_known_kinds_are_decoded_without_python_hooks() -> None:
    """The room for unknown kinds may not cost the known ones anything: no Python call per block but the check."""
    wire = {"content": [{"type": "text", "text": "a"}] * 50}
    convert(wire, t.ToolResult)
    calls: list[str] = []

    def count(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(count)
    try:
        convert(wire, t.ToolResult)
    finally:
        sys.setprofile(None)
    assert calls == ["convert", *["__post_init__"] * 50]


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        ({"text": "", "blob": "eA=="}, {"blob": "eA=="}),
        ({"text": "x", "blob": ""}, {"text": "x"}),
        ({"text": None, "blob": "eA=="}, {"blob": "eA=="}),
    ],
)
def test_an_empty_second_member_counts_as_absent(wire: dict[str, Any], expected: dict[str, Any]) -> None:
    """Servers that write every member of their type; other clients take it."""
    read = convert({"contents": [{"uri": "a:b", **wire}]}, t.ReadResourceResult)
    assert decode(encode(read))["contents"] == [{"uri": "a:b", **expected}]
    block = {"type": "resource", "resource": {"uri": "a:b", **wire}}
    called = convert({"content": [block]}, t.ToolResult)
    assert decode(encode(called))["content"][0]["resource"] == {"uri": "a:b", **expected}


def test_contents_hold_text_or_blob_and_never_both() -> None:
    """A reader that looks at one would silently miss the other."""
    assert t.ResourceContents("a:b", text="").text == ""
    assert t.ResourceContents("a:b", blob="").blob == ""
    with pytest.raises(ValueError, match="both"):
        t.ResourceContents("a:b", text="x", blob="eA==")
    with pytest.raises(ValueError, match="both"):
        t.ResourceContents("a:b", text="", blob="")
    with pytest.raises(ValueError, match="neither"):
        t.ResourceContents("a:b")
    with pytest.raises(ConvertError) as caught:
        convert({"contents": [{"uri": "a:b", "text": "x", "blob": "eA=="}]}, t.ReadResourceResult)
    assert caught.value.path == "$.contents[0]"


def test_bytes_become_base64_and_text_is_taken_as_base64() -> None:
    """Authors have bytes; what comes from elsewhere is encoded already."""
    assert t.image_block(b"\xff\x00", "image/png").data == "/wA="
    assert t.image_block("/wA=", "image/png").data == "/wA="
