"""What a question needs, and whether the client declared it."""

from __future__ import annotations

from collections import OrderedDict, UserDict
from types import MappingProxyType
from typing import Any

import pytest

from ferrule.protocol.capabilities import (
    declares_extension,
    merge_required,
    missing_for_request,
    missing_for_requests,
)

ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
URL = {"mode": "url"}
TOOLS = {"tools": [{"name": "t"}]}
CHOICE = {"toolChoice": {"mode": "auto"}}


@pytest.mark.parametrize(
    ("declared", "method", "params", "missing"),
    [
        ({}, ELICIT, {}, {"elicitation": {}}),
        ({}, ELICIT, None, {"elicitation": {}}),
        ({}, ELICIT, {"mode": "form"}, {"elicitation": {}}),
        ({}, ELICIT, URL, {"elicitation": {"url": {}}}),
        ({"elicitation": {}}, ELICIT, {}, None),
        ({"elicitation": {}}, ELICIT, {"mode": "form"}, None),
        ({"elicitation": {}}, ELICIT, URL, {"elicitation": {"url": {}}}),
        ({"elicitation": {"form": {}}}, ELICIT, {}, None),
        ({"elicitation": {"form": {}}}, ELICIT, URL, {"elicitation": {"url": {}}}),
        ({"elicitation": {"url": {}}}, ELICIT, URL, None),
        ({"elicitation": {"url": {}}}, ELICIT, {}, {"elicitation": {"form": {}}}),
        ({"elicitation": {"form": {}, "url": {}}}, ELICIT, URL, None),
        ({}, SAMPLE, {}, {"sampling": {}}),
        ({}, SAMPLE, TOOLS, {"sampling": {"tools": {}}}),
        ({}, SAMPLE, CHOICE, {"sampling": {"tools": {}}}),
        ({"sampling": {}}, SAMPLE, {}, None),
        ({"sampling": {}}, SAMPLE, TOOLS, {"sampling": {"tools": {}}}),
        ({"sampling": {}}, SAMPLE, CHOICE, {"sampling": {"tools": {}}}),
        ({"sampling": {"tools": {}}}, SAMPLE, {**TOOLS, **CHOICE}, None),
        ({}, ROOTS, None, {"roots": {}}),
        ({"roots": {}}, ROOTS, None, None),
        ({}, "ping", None, None),
        ({}, "no/such", {}, None),
        # Capabilities of the wrong kind declare nothing.
        (None, ROOTS, None, {"roots": {}}),
        ("all", SAMPLE, {}, {"sampling": {}}),
        ([], ELICIT, {}, {"elicitation": {}}),
        ({"sampling": True}, SAMPLE, {}, {"sampling": {}}),
        ({"roots": None}, ROOTS, None, {"roots": {}}),
        ({"elicitation": None}, ELICIT, {}, {"elicitation": {}}),
    ],
)
def test_each_question_against_each_declaration(declared: Any, method: str, params: Any, missing: Any) -> None:
    """`{}` is a declaration; URL mode and tools must be named; a bare `elicitation` means forms."""
    assert missing_for_request(declared, method, params) == missing


@pytest.mark.parametrize("kind", [dict, OrderedDict, MappingProxyType, UserDict])
def test_any_kind_of_mapping_is_a_declaration(kind: Any) -> None:
    """Callers in one process need not send exact dicts."""
    declared = kind({"roots": kind({}), "sampling": kind({"tools": kind({})}), "extensions": kind({"a/b": kind({})})})
    assert missing_for_request(declared, ROOTS, None) is None
    assert missing_for_request(declared, SAMPLE, kind(TOOLS)) is None
    assert missing_for_requests(declared, kind({"a": kind({"method": SAMPLE, "params": kind(TOOLS)})})) is None
    assert missing_for_requests(declared, {"a": kind({"method": ELICIT})}) == {"elicitation": {}}
    assert declares_extension(declared, "a/b")


def test_several_questions_are_refused_at_once() -> None:
    """The client learns all of it in one answer."""
    asked = {
        "a": {"method": ELICIT, "params": URL},
        "b": {"method": ELICIT, "params": {}},
        "c": {"method": SAMPLE, "params": TOOLS},
        "d": {"method": ROOTS},
    }
    assert missing_for_requests({"roots": {}}, asked) == {"elicitation": {"url": {}}, "sampling": {"tools": {}}}
    assert missing_for_requests({"roots": {}}, {"d": asked["d"]}) is None
    assert missing_for_requests({}, {}) is None


def test_malformed_questions_do_not_raise() -> None:
    """They are judged elsewhere."""
    assert missing_for_requests({}, {"a": None, "b": [], "c": {"method": 5, "params": []}}) is None


def test_merging_goes_level_by_level_and_shares_nothing() -> None:
    """The input may be a table of ours."""
    into: dict[str, Any] = {"elicitation": {"url": {}}}
    more: dict[str, Any] = {"elicitation": {"form": {}}, "extensions": {"a/b": {}}}
    merge_required(into, more)
    merge_required(into, {"extensions": {"c/d": {}}})
    assert into == {"elicitation": {"url": {}, "form": {}}, "extensions": {"a/b": {}, "c/d": {}}}
    assert more == {"elicitation": {"form": {}}, "extensions": {"a/b": {}}}


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ({"extensions": {"a/b": {}}}, True),
        ({"extensions": {"a/b": {"x": 1}}}, True),
        ({"extensions": {"a/b": None}}, False),
        ({"extensions": {"a/b": True}}, False),
        ({"extensions": {"a/c": {}}}, False),
        ({"extensions": ["a/b"]}, False),
        ({}, False),
        (None, False),
        ("a/b", False),
    ],
)
def test_an_extension_is_declared_by_its_settings_object(declared: Any, found: bool) -> None:
    """`{}` means supported without settings."""
    assert declares_extension(declared, "a/b") is found
