"""The hooks of an endpoint, with and without a protection of its server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ferrule.kernel.protection import hooks_of

Document = tuple[int, bytes, list[tuple[str, str]]]


class Protection:
    """Accepts all senders, and has a document for one context."""

    async def authenticate(self, context: Any, /) -> Any:
        return context

    def document_for(self, context: Any, path: str, /) -> Document | None:
        return (200, path.encode(), []) if context == "metadata" else None

    def document_paths(self, path: str, /) -> Sequence[str]:
        return [path]


def own(context: Any) -> Document | None:
    return (200, b"own", []) if context == "own" else None


async def accept(context: Any) -> Any:
    return context


def test_without_a_protection_the_options_of_the_endpoint_are_its_hooks() -> None:
    """Or it has none."""
    assert hooks_of(None, accept, own, "/mcp") == (accept, own)
    assert hooks_of(None, None, None, "/mcp") == (None, None)


def test_a_protected_server_authenticates_itself() -> None:
    """A second authentication beside it would leave open which of them counts."""
    protection = Protection()
    authenticate, _ = hooks_of(protection, None, None, "/mcp")
    assert authenticate == protection.authenticate
    with pytest.raises(ValueError, match="authenticate="):
        hooks_of(protection, accept, None, "/mcp")


@pytest.mark.parametrize("documents", [None, own])
def test_the_documents_of_a_protection_are_served_beside_those_of_the_endpoint(documents: Any) -> None:
    """Those of the endpoint take precedence, and other requests have none."""
    _, document_for = hooks_of(Protection(), None, documents, "/mcp")
    assert document_for is not None
    assert document_for("metadata") == (200, b"/mcp", [])
    assert document_for("own") == ((200, b"own", []) if documents else None)
    assert document_for("tools/call") is None
