"""Prints the content of results for people: text unchanged, other content as one line, or saved in a file."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from ferrule.cli.output import print_text, say

__all__ = ["print_blocks", "print_contents"]


def print_blocks(blocks: Iterable[Any], save: Path | None) -> None:
    """Print the content blocks of a tool or a prompt; save binary ones in the folder ``save`` if it is given."""
    for number, block in enumerate(blocks, 1):
        if block.type == "text":
            print_text(block.text or "")
        elif block.type in ("image", "audio"):
            _print_binary(f"{block.type}-{number}", block.mime_type, block.data, save)
        elif block.type == "resource":
            print_contents([block.resource], save)
        elif block.type == "resource_link":
            print_text(f"[link {block.uri} {block.name or ''}]".replace(" ]", "]"))
        else:
            print_text(f"[{block.type}]")


def print_contents(contents: Iterable[Any], save: Path | None) -> None:
    """Print the contents of a resource; save binary ones in the folder ``save`` if it is given."""
    for number, item in enumerate(contents, 1):
        # An item has text or bytes; an item of an unknown kind has neither.
        text = getattr(item, "text", None)
        blob = getattr(item, "blob", None)  # text contents have no blob
        if isinstance(text, str):
            print_text(text)
        elif isinstance(blob, str):
            _print_binary(f"resource-{number}", item.mime_type, blob, save)


def _print_binary(name: str, mime_type: str | None, data: str | None, save: Path | None) -> None:
    try:
        raw = base64.b64decode(data or "", validate=True)
    except (binascii.Error, ValueError):
        print_text(f"[{name}: its data is not base64]")
        return
    if save is None:
        print_text(f"[{name}: {mime_type or 'unknown type'}, {len(raw)} bytes; --save DIR keeps it]")
        return
    import mimetypes  # not above: most results are text

    ending = mimetypes.guess_extension(mime_type or "") or ".bin"
    path = save / f"{name}{ending}"
    try:
        save.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
    except OSError as error:
        raise click.UsageError(f"--save: {error}") from error
    say(f"saved {path} ({len(raw)} bytes)")
