"""OpenAPI documents from files, URLs and values.

A document is foreign data: its size, its nesting and what its YAML aliases expand to are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from ferrule.expose.description.reader import NotADescription
from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_list, is_object

__all__ = ["MAX_DOCUMENT_BYTES", "MAX_DOCUMENT_NODES", "Source", "load_document"]

MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
"""Of one document."""

MAX_DOCUMENT_NODES = 5_000_000
"""Values of one document, with YAML aliases counted as often as they are used."""

_FETCH_TIMEOUT_S = 30

Source = Mapping[str, Any] | str | bytes | PathLike[str]
"""A decoded document, its text, the path of a file, or an ``http`` or ``https`` URL."""


def load_document(source: Source) -> tuple[dict[str, Any], str]:
    """Return a document, decoded, and its URI; empty for a value or a text.

    Args:
        source: a mapping is taken as it is; bytes, and a text with a line break or beginning with ``{``, are the
            document; ``http://`` and ``https://`` are fetched; anything else is a path.

    Raises:
        NotADescription: it is neither JSON nor YAML, too large, or cannot be fetched.
        OSError: the file cannot be read.
    """
    if isinstance(source, Mapping):
        return dict(source), ""
    if isinstance(source, bytes):
        return _decoded(source, ""), ""
    text = fspath(source)
    if isinstance(source, str):
        if text.startswith(("http://", "https://")):
            return _decoded(_fetched(text), text), text
        if text.lstrip()[:1] == "{" or "\n" in text:
            return _decoded(text.encode(), ""), ""
    path = Path(text)
    if path.stat().st_size > MAX_DOCUMENT_BYTES:
        raise NotADescription(f"{text} is larger than {MAX_DOCUMENT_BYTES >> 20} MB")
    return _decoded(path.read_bytes(), text), path.resolve().as_uri()


def _fetched(url: str) -> bytes:
    from urllib.error import URLError
    from urllib.request import Request, urlopen

    request = Request(url, headers={"Accept": "application/json, application/yaml;q=0.9, */*;q=0.5"})
    try:
        with urlopen(request, timeout=_FETCH_TIMEOUT_S) as response:
            data: bytes = response.read(MAX_DOCUMENT_BYTES + 1)
    except (URLError, OSError, ValueError) as error:
        raise NotADescription(f"{url} cannot be fetched: {error}") from error
    if len(data) > MAX_DOCUMENT_BYTES:
        raise NotADescription(f"{url} is larger than {MAX_DOCUMENT_BYTES >> 20} MB")
    return data


def _decoded(data: bytes, name: str) -> dict[str, Any]:
    where = name or "the document"
    if data.lstrip()[:1] == b"{":
        try:
            found = decode(data)
        except DecodeError as error:
            raise NotADescription(f"{where} is no JSON: {error}") from error
    else:
        found = _yaml(data, where)
    if not is_object(found):
        raise NotADescription(f"{where} is no OpenAPI description, which is an object")
    return found


def _yaml(data: bytes, where: str) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("reading a description in YAML needs PyYAML: pip install 'ferrule[openapi]'") from error
    # Dates stay text, as they are in JSON. The C parser is much faster, and not on every platform.
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
        for first, known in base.yaml_implicit_resolvers.items()
    }
    loader: Any = type("JsonLoader", (base,), {"yaml_implicit_resolvers": resolvers})
    try:
        found = yaml.load(data, loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise NotADescription(f"{where} is neither JSON nor YAML: {str(error)[:300]}") from error
    return _plain(found, where)


def _plain(value: Any, where: str) -> Any:
    """Return a YAML value as JSON has it: names are texts; aliases that make it too large are refused."""
    nodes = 0

    def convert(part: Any, depth: int) -> Any:
        nonlocal nodes
        nodes += 1
        if nodes > MAX_DOCUMENT_NODES or depth > 500:
            raise NotADescription(f"{where} expands to too many values, or refers to itself")
        if is_object(part):
            return {_name(key): convert(member, depth + 1) for key, member in part.items()}
        if is_list(part):
            return [convert(member, depth + 1) for member in part]
        return part if isinstance(part, str | int | float | bool | None) else str(part)

    try:
        return convert(value, 0)
    except RecursionError as error:
        raise NotADescription(f"{where} is nested too deeply, or refers to itself") from error


def _name(key: Any) -> str:
    return {True: "true", False: "false", None: "null"}.get(key, str(key)) if not isinstance(key, str) else key
