"""What the revisions are: their order, their flags, their tables."""

from __future__ import annotations

import itertools

import pytest

from ferrule import types as t
from ferrule.wire.revisions import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
    REVISIONS,
    is_core_method,
)
from ferrule.wire.revisions.base import derive, follow, without


def test_the_revisions_are_five_in_two_eras() -> None:
    """Negotiation picks from these, oldest first."""
    assert HANDSHAKE_PROTOCOL_VERSIONS == ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
    assert MODERN_PROTOCOL_VERSIONS == ("2026-07-28",)
    assert (LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION) == ("2025-11-25", "2026-07-28")
    assert tuple(REVISIONS) == HANDSHAKE_PROTOCOL_VERSIONS + MODERN_PROTOCOL_VERSIONS
    assert all(version == revision.version for version, revision in REVISIONS.items())


FLAGS = {
    # flag: values from 2024-11-05 to 2026-07-28 (digest, 0.4, 1.2, 12, 13, 20; schemas)
    "is_modern": [False, False, False, False, True],
    "structured_output": ["none", "none", "object", "object", "any"],
    "has_batches": [False, True, False, False, False],
    "has_result_type": [False, False, False, False, True],
    "has_cache_hints": [False, False, False, False, True],
    "missing_resource_code": [-32002, -32002, -32002, -32002, -32602],
    "has_url_elicitation_error": [False, False, False, True, False],
    "sampling_tools": [False, False, False, True, True],
    "has_completions_capability": [False, True, True, True, True],
    "has_progress_message": [False, True, True, True, True],
    "http": ["sse", "sessions", "sessions", "sessions", "stateless"],
    "requires_version_header": [False, False, True, True, True],
    "mirrors_headers": [False, False, False, False, True],
}


@pytest.mark.parametrize("flag", list(FLAGS))
def test_a_flag_has_its_value_in_every_revision(flag: str) -> None:
    """Behaviour elsewhere hangs on flags alone, so each is written down twice: there and here."""
    assert [getattr(revision, flag) for revision in REVISIONS.values()] == FLAGS[flag]


def test_the_kinds_of_content_grow() -> None:
    """Audio came in 2025-03-26, links in 2025-06-18, tool use in sampling in 2025-11-25."""
    kinds = [revision.content_kinds for revision in REVISIONS.values()]
    assert [sorted(after - before) for before, after in itertools.pairwise(kinds)] == [
        ["audio"],
        ["resource_link"],
        [],
        [],
    ]
    sampling = [len(revision.sampling_content_kinds) for revision in REVISIONS.values()]
    assert sampling == [2, 3, 3, 5, 5]


def test_cacheable_and_interim_methods_are_methods_of_the_revision() -> None:
    """A name that is in no table would never match a request."""
    for revision in REVISIONS.values():
        assert revision.cacheable_methods <= set(revision.requests)
        assert revision.input_required_methods <= set(revision.requests)
        assert revision.task_methods <= set(revision.requests) | set(revision.server_requests)
    modern = REVISIONS["2026-07-28"]
    cacheable = {method for method, (_, result) in modern.requests.items() if issubclass(result, t.CacheableResult)}
    assert modern.cacheable_methods == cacheable


def test_tables_cannot_be_changed() -> None:
    """They are shared by every connection."""
    with pytest.raises(TypeError):
        REVISIONS["2026-07-28"].requests["x"] = (None, None)  # type: ignore[index]
    with pytest.raises(TypeError):
        REVISIONS["x"] = REVISIONS["2026-07-28"]  # type: ignore[index]


def test_extension_methods_are_in_no_core_table() -> None:
    """Tasks are core in 2025-11-25 only; later they belong to the extension."""
    assert not any(method.startswith("tasks/") for method in REVISIONS["2026-07-28"].requests)
    assert not is_core_method("tasks/update")
    assert is_core_method("tasks/get")
    assert is_core_method("notifications/roots/list_changed")
    assert not is_core_method("skills/list")


def test_a_derived_revision_declares_only_its_differences() -> None:
    """Backwards and forwards: the tables, flags and fields of the neighbour stay."""
    newest = REVISIONS[LATEST_MODERN_VERSION]
    once = follow(newest, "2999-01-01", absent={t.Tool: {"icons"}}, renamed={t.Tool: {"title": "label"}})
    twice = follow(once, "2999-02-02", renamed={t.Tool: {"name": "id"}}, has_batches=True)
    assert twice.renames(t.Tool) == {"title": "label", "name": "id"}
    assert twice.lacks(t.Tool) == newest.lacks(t.Tool) | {"icons"}
    assert (once.has_batches, twice.has_batches, twice.requests) == (False, True, newest.requests)
    older = derive(twice, "2998-01-01", absent={t.Prompt: {"icons"}})
    assert (older.renames(t.Tool), older.lacks(t.Prompt)) == (twice.renames(t.Tool), {"icons"})
    with pytest.raises(KeyError):
        without(newest.requests, {"tools/lists"})


@pytest.mark.parametrize(
    ("flag", "values"),
    [
        ("elicitation_modes", [set(), set(), {"form"}, {"form", "url"}, {"form", "url"}]),
        ("has_titles", [False, False, True, True, True]),
        ("has_icons", [False, False, False, True, True]),
    ],
)
def test_a_flag_of_release_0_1_answers_with_a_warning(flag: str, values: list[object]) -> None:
    """Ferrule does not read them any more; another program may."""
    with pytest.warns(DeprecationWarning, match=flag):
        assert [getattr(revision, flag) for revision in REVISIONS.values()] == values
