"""``$ref``s of a description, resolved by the `referencing` library, each one once.

Local references, and those into other documents that the caller gives, always work. A document that would have to be
fetched is refused: a description is foreign data, and what it names is no reason to open a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urldefrag, urljoin

from ferrule.expose.operations import UnusableOperation
from ferrule.wire.json_types import is_object

__all__ = ["MAX_HOPS", "References", "UnresolvedReference"]

MAX_HOPS = 32
"""References that may follow each other before something else than a reference comes."""


class UnresolvedReference(UnusableOperation):
    """A reference leads to nothing, or to a document that may not be fetched.

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
        base_uri: of the document, for relative references; empty where it has none.
        documents: others that it may refer to, by URI.
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
        self._documents = documents
        self._fetch = fetch
        self._resolvers: dict[str, Any] = {}
        self._found: dict[str, Any] = {}
        self._registry: Any = None

    def absolute(self, reference: str, base: str) -> str:
        """Return the absolute form of a reference that stands in the document ``base``."""
        return f"{base}{reference}" if reference.startswith("#") else urljoin(base, reference)

    def lookup(self, absolute: str) -> Any:
        """Return what an absolute reference leads to.

        Raises:
            UnresolvedReference: nothing is there, or it may not be fetched.
        """
        try:
            return self._found[absolute]
        except KeyError:
            found = self._found[absolute] = self._lookup(absolute)
            return found

    def follow(self, value: Any, base: str) -> tuple[Any, str]:
        """Return what ``value`` stands for, and the document that it is in: itself, if it is no reference.

        Raises:
            UnresolvedReference: a reference leads to nothing, or in a circle.
        """
        for _ in range(MAX_HOPS):
            reference = value.get("$ref") if is_object(value) else None
            if not isinstance(reference, str):
                return value, base
            absolute = self.absolute(reference, base)
            value, base = self.lookup(absolute), urldefrag(absolute).url
        raise UnresolvedReference(str(value)[:200], "leads in a circle")

    def _lookup(self, absolute: str) -> Any:
        from referencing.exceptions import Unresolvable

        document, _ = urldefrag(absolute)
        is_remote = document != self.base_uri
        if is_remote and self._fetch is None and document not in (self._documents or {}):
            reason = "leads to another document, which is not fetched unless remote references are allowed"
            raise UnresolvedReference(absolute, reason, is_remote=True)
        resolver = self._resolvers.get(document)
        if resolver is None:
            resolver = self._resolvers[document] = self._registry_of_documents().resolver(document)
        try:
            return resolver.lookup(absolute).contents
        except Unresolvable as error:
            raise UnresolvedReference(absolute, "leads to nothing", is_remote=is_remote) from error

    def _registry_of_documents(self) -> Any:
        if self._registry is None:
            from referencing import Registry
            from referencing.jsonschema import DRAFT202012

            make: Any = Registry
            registry = make(retrieve=self._retrieve)
            resources = [(self.base_uri, DRAFT202012.create_resource(self._document))]
            for uri, document in (self._documents or {}).items():
                resources.append((uri, DRAFT202012.create_resource(document)))
            self._registry = registry.with_resources(resources)
        return self._registry

    def _retrieve(self, uri: str) -> Any:
        from referencing.jsonschema import DRAFT202012

        if self._fetch is None:
            raise PermissionError(uri)
        return DRAFT202012.create_resource(self._fetch(uri))
