"""Content helpers: media types that are registered, and content that can be sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import pytest

from ferrule import Audio, File, Image, MCPServer
from ferrule.app.errors import SignatureError
from tests.app.support import call

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("made", "mime_type"),
    [
        (Image(b"x", format="jpg"), "image/jpeg"),
        (Image(b"x", format="JPEG"), "image/jpeg"),
        (Image(b"x", format=".svg"), "image/svg+xml"),
        (Image(b"x", format="tif"), "image/tiff"),
        (Image(b"x", format="png"), "image/png"),
        (Image(b"x", format="image/webp"), "image/webp"),
        (Image(b"x"), "image/png"),
        (Audio(b"x", format="mp3"), "audio/mpeg"),
        (Audio(b"x", format="m4a"), "audio/mp4"),
        (Audio(b"x", format="weba"), "audio/webm"),
        (Audio(b"x", format="mid"), "audio/midi"),
        (Audio(b"x", format="ogg"), "audio/ogg"),
        (Audio(b"x", format="wav"), "audio/wav"),
    ],
)
def test_a_format_gives_the_registered_media_type(made, mime_type):
    """A host looks it up to show the picture or play the sound."""
    assert made.block().mime_type == mime_type


@pytest.mark.parametrize(
    ("name", "mime_type"),
    [
        ("a.json", "application/json"),
        ("a.json.gz", "application/gzip"),
        ("a.tar.bz2", "application/x-bzip2"),
        ("a.tar.xz", "application/x-xz"),
        ("a.svg", "image/svg+xml"),
    ],
)
def test_a_compressed_file_is_of_the_type_of_its_compression(name, mime_type):
    """Its bytes are not JSON."""
    resource = File(b"\x1f\x8b\xff", name=name).block().resource
    assert resource is not None
    assert resource.mime_type == mime_type
    assert resource.blob is not None


@pytest.mark.parametrize(
    "returns",
    [dict[str, Image], list[list[Image]], dict[str, list[Image]], tuple[list[Image], str], list[dict[str, File]]],
)
def test_content_where_it_could_never_be_sent_is_refused(returns):
    """Every call of such a tool would fail."""

    def function() -> Any: ...

    function.__annotations__["return"] = returns
    with pytest.raises(SignatureError, match="return a list of them"):
        MCPServer("x").tool(function)


@pytest.mark.parametrize(
    "returns",
    [
        Image,
        Image | None,
        list[Image],
        list[Image | str],
        tuple[str, Image],
        Sequence[Image],
        list[Image] | str,
        Annotated[Image, "a"],
        Annotated[list[Image] | None, "a"],
        list[Annotated[Image, "x"] | dict[str, int]],
    ],
)
async def test_content_alone_or_in_a_list_is_served(returns):
    app = MCPServer("x")

    def function() -> Any:
        return [Image(b"p")]

    function.__annotations__["return"] = returns
    app.tool(function)
    assert (await call(app, "function"))["content"][0]["type"] == "image"


@pytest.mark.parametrize(
    ("kind", "name", "mime_type"),
    [
        (Audio, "a.mp4", "audio/mp4"),
        (Audio, "a.WEBM", "audio/webm"),
        (Audio, "a.weba", "audio/webm"),
        (Audio, "a.mid", "audio/midi"),
        (Audio, "a.wav", "audio/wav"),
        (Image, "a.jfif", "image/jpeg"),
        (Image, "a.webp", "image/webp"),
        (File, "a.yaml", "application/yaml"),
        (File, "a.toml", "application/toml"),
        (File, "a.mp4", "video/mp4"),
    ],
)
def test_the_type_follows_from_the_file_name_on_every_machine(kind, name, mime_type, tmp_path):
    """A sound is never announced as a film, and what the machine's tables hold decides little."""
    (tmp_path / name).write_bytes(b"x: 1")
    block = kind(path=tmp_path / name).block()
    assert (block.mime_type or block.resource.mime_type) == mime_type
