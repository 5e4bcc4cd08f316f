"""What reaches a model of a result is bounded, whole and well-formed."""

from __future__ import annotations

import base64

from ferrule.client.bridges.parts import MAX_PARTS, ContentBounds, Media, Text, parts_of, parts_of_blocks, well_formed
from ferrule.client.calls.results import ToolCallResult
from ferrule.types import ResourceContents, ToolResult, image_block, resource_block, text_block
from ferrule.wire.codec import convert
from ferrule.wire.types import ToolContentBlock

IMAGES = frozenset({"image/png"})


def test_texts_are_cut_together_and_at_a_character() -> None:
    """With the number of bytes that are missing."""
    blocks = [text_block("é" * 10), text_block("é" * 10)]
    parts = parts_of_blocks(blocks, IMAGES, ContentBounds(text_bytes=25))
    assert parts == [Text("é" * 10), Text("éé\n[16 bytes of this text are left out]")]
    assert parts_of_blocks(blocks, IMAGES, ContentBounds(text_bytes=20))[1] == Text(
        "[20 bytes of this text are left out]"
    )


def test_structured_content_is_bounded_too() -> None:
    """It is text then."""
    result = ToolCallResult("t", ToolResult([], structured_content={"a": "x" * 100}))
    (part,) = parts_of(result, IMAGES, ContentBounds(text_bytes=10))
    assert part == Text('{"a":"xxxx\n[98 bytes of this text are left out]')


def test_media_share_a_bound() -> None:
    """What does not fit is named."""
    blocks = [image_block(b"1234", "image/png"), image_block(b"12345", "image/png")]
    parts = parts_of_blocks(blocks, IMAGES, ContentBounds(media_bytes=8))
    assert parts[0] == Media(base64.b64encode(b"1234").decode(), "image/png")
    assert parts[1] == Text("[Too large to be shown: image/png, 5 bytes]")


def test_a_flood_of_blocks_is_counted() -> None:
    """A server chooses how many there are."""
    parts = parts_of_blocks([text_block("x")] * (MAX_PARTS + 5), IMAGES, ContentBounds())
    assert len(parts) == MAX_PARTS + 1
    assert parts[-1] == Text("[5 more blocks are left out]")


def test_half_characters_and_unknown_blocks() -> None:
    """A request with half a character could not be encoded; a block of tomorrow is named."""
    assert well_formed("a\ud83d") == "a\ufffd"
    assert well_formed("a😀") == "a😀"
    block = convert({"content": [{"type": "hologram", "x": 1}]}, ToolResult).content[0]
    assert parts_of_blocks([block], IMAGES, ContentBounds()) == [
        Text("[A block of the kind 'hologram', which cannot be shown]")
    ]


def test_media_types_have_parameters_and_names() -> None:
    """A file gets the end of its URI as a name."""
    block = resource_block(ResourceContents("file:///a/b.png", "IMAGE/PNG; x=y", blob="AAAA"))
    (part,) = parts_of_blocks([block], IMAGES, ContentBounds())
    assert isinstance(part, Media)
    assert (part.mime_type, part.name) == ("image/png", "b.png")
    assert Media("", "image/svg+xml").name == "file.svg"
    assert isinstance(block, ToolContentBlock)
