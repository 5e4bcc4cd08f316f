"""Resolves the ``$ref``s of a description: JSON Pointers (RFC 6901), ``$anchor`` and ``$id``, each once.

Local references, and those to other documents that the caller gives, are resolved. A reference to a document that would
have to be fetched is refused: a description is foreign data and must not cause connections.

The `referencing` library is not used: it indexes a whole document again for each anchor that it looks up, does not find
anchors below ``components``, and raises errors of its own kinds for pointers through plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from ferrule.expose.operations import UnusableOperation
from ferrule.wire.json_types import is_list, is_object

__all__ = ["MAX_HOPS", "References", "UnresolvedReference", "resolved"]

MAX_HOPS = 32
"""Maximum number of references in a chain."""


class UnresolvedReference(UnusableOperation):
    """A reference has no target, or its document may not be fetched.

    Attributes:
        is_remote: whether it leads to another document.
    """

    def __init__(self, reference: str, reason: str, *, is_remote: bool = False) -> None:
        super().__init__(f"the reference {reference[:200]!r} {reason}")
        self.is_remote = is_remote


class References:
    """The references of one document.

    Args:
        document: the description.
        base_uri: the URI of the document, for relative references; empty where it has none.
        documents: other documents that it may refer to, by URI.
        fetch: returns the document of a URI; ``None`` refuses all that are not in ``documents``.
    """

    def __init__(
        self,
        document: dict[str, Any],
        *,
        base_uri: str = "",
        documents: Mapping[str, Any] | None = None,
        fetch: Callable[[str], Any] | None = None,
    ) -> None:
        self.base_uri = base_uri
        self._document = document
        self._documents = documents or {}
        self._fetch = fetch
        self._found: dict[str, Any] = {}
        self._others: dict[str, Any] = {}
        self._refused: dict[str, str] = {}
        self._anchors: dict[str, dict[str, Any]] = {}

    def absolute(self, reference: str, base: str) -> str:
        """Return the absolute form of a reference in the document ``base``."""
        if reference.startswith("#"):
            return f"{base}{reference}"
        _, _, fragment = reference.partition("#")
        return f"{resolved(reference, base)}#{fragment}"

    def lookup(self, absolute: str) -> Any:
        """Return the target of an absolute reference.

        Raises:
            UnresolvedReference: there is no target, or its document may not be fetched.
        """
        try:
            return self._found[absolute]
        except KeyError:
            found = self._found[absolute] = self._lookup(absolute)
            return found

    def follow(self, value: Any, base: str) -> tuple[Any, str]:
        """Return the target of ``value`` and the URI of its document; ``value`` itself if it is not a reference.

        Raises:
            UnresolvedReference: a reference has no target, or references form a circle.
        """
        for _ in range(MAX_HOPS):
            reference = value.get("$ref") if is_object(value) else None
            if not isinstance(reference, str):
                return value, base
            absolute = self.absolute(reference, base)
            value, base = self.lookup(absolute), absolute.partition("#")[0]
        raise UnresolvedReference(str(value)[:200], "leads in a circle")

    def _lookup(self, absolute: str) -> Any:
        document, _, fragment = absolute.partition("#")
        root = self._document_at(document, absolute)
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            anchors = self._index(document)
            if fragment not in anchors:
                raise UnresolvedReference(absolute, "leads to nothing")
            return anchors[fragment]
        found = root
        for step in fragment.split("/")[1:]:
            try:
                found = _member(found, step.replace("~1", "/").replace("~0", "~"))
            except LookupError as error:
                raise UnresolvedReference(absolute, "leads to nothing") from error
        return found

    def _document_at(self, uri: str, absolute: str) -> Any:
        if uri == self.base_uri:
            return self._document
        if uri in self._others:
            return self._others[uri]
        if uri in self._documents:
            return self._documents[uri]
        for known in (self.base_uri, *self._documents, *self._others):
            self._index(known)
        if uri in self._others:  # the `$id` of a schema
            return self._others[uri]
        if uri in self._refused:
            raise UnresolvedReference(absolute, self._refused[uri], is_remote=True)
        if self._fetch is None or not uri:
            reason = "leads to another document, which is not fetched unless remote references are allowed"
            raise UnresolvedReference(absolute, reason, is_remote=True)
        try:
            fetched = self._fetch(uri)
        except (OSError, ValueError, RecursionError) as error:
            reason = self._refused[uri] = f"leads to another document, which is not read: {str(error)[:200]}"
            raise UnresolvedReference(absolute, reason, is_remote=True) from error
        self._others[uri] = fetched
        return fetched

    def _index(self, document: str) -> dict[str, Any]:
        """Return the named schemas of a document, by ``$anchor``; schemas with an ``$id`` become documents."""
        found = self._anchors.get(document)
        if found is not None:
            return found
        found = self._anchors[document] = {}
        todo: list[tuple[Any, str]] = [(self._document_at(document, document), document)]
        seen: set[int] = set()  # values of YAML and of Python may be shared, or contain themselves
        while todo:
            value, base = todo.pop()
            if id(value) in seen:
                continue
            if is_list(value):
                seen.add(id(value))
                todo.extend((part, base) for part in value)
            if not is_object(value):
                continue
            seen.add(id(value))
            identifier, anchor = value.get("$id"), value.get("$anchor")
            if isinstance(identifier, str) and value is not self._document:
                base = resolved(identifier, base)
                self._others.setdefault(base, value)
            if isinstance(anchor, str):
                self._anchors.setdefault(base, {}).setdefault(anchor, value)
            todo.extend((part, base) for part in value.values())
        return found


def resolved(reference: str, base: str) -> str:
    """Return the absolute URI of a document that ``reference`` names, without a fragment (RFC 3986, section 5)."""
    try:
        return urldefrag(urljoin(base, reference)).url
    except ValueError:  # brackets in the place of a host
        return reference.partition("#")[0]


def _member(value: Any, step: str) -> Any:
    """Return the member of a value that one step of a JSON Pointer names.

    Raises:
        LookupError: there is none.
    """
    if is_object(value):
        return value[step]
    if is_list(value) and step.isascii() and step.isdigit() and len(step) < 10:
        return value[int(step)]
    raise LookupError(step)
