"""How a model hands over a file."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.expose.requests.files import FileContents, InvalidFile, read_file_argument

pytestmark = pytest.mark.anyio


async def read(value: Any) -> tuple[bytes, str | None, str | None]:
    async def read_uri(uri: str) -> FileContents:
        return FileContents(data=uri.encode(), filename="read", content_type="a/b")

    found = await read_file_argument("f", value, read_uri)
    return found.data, found.filename, found.content_type


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"text": "é"}, ("é".encode(), "file", "text/plain; charset=utf-8")),
        ({"base64": "aGk=", "filename": "h", "content_type": "x/y"}, (b"hi", "h", "x/y")),
        ({"uri": "api://x/1"}, (b"api://x/1", "read", "a/b")),
        ({"uri": "data:image/png;base64,aGk="}, (b"hi", "file", "image/png")),
        ({"uri": "DATA:,a%20b"}, (b"a b", "file", "text/plain;charset=US-ASCII")),
        ({"uri": "data:text/csv,x", "content_type": "x/y"}, (b"x", "file", "x/y")),
    ],
)
async def test_a_file_is_text_base64_or_a_uri(value: Any, expected: Any) -> None:
    assert await read(value) == expected


@pytest.mark.parametrize(
    "value",
    [{}, {"text": "a", "base64": "aGk="}, {"base64": "!"}, {"uri": "data:x;base64,!"}, {"uri": "data:x"}, "a", None],
)
async def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(InvalidFile, match="`f"):
        await read(value)
