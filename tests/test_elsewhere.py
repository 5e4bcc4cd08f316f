"""Names of other libraries are answered with the name here, and each such name exists."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

import ferrule
from ferrule import Client, Context, MCPServer
from ferrule._elsewhere import IN_PACKAGE, MODULES, ON_CLIENT, ON_CONTEXT, ON_SERVER

THREE: tuple[tuple[Any, Mapping[str, str]], ...] = (
    (MCPServer("x"), ON_SERVER),
    (Client(MCPServer("x")), ON_CLIENT),
    (Context(SimpleNamespace()), ON_CONTEXT),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
)


@pytest.mark.parametrize(("made", "table"), THREE, ids=["server", "client", "context"])
def test_names_are_translated(made: Any, table: Mapping[str, str]) -> None:
    """The suggestion is a name that there is, and the asked one is none."""
    for name, here in table.items():
        with pytest.raises(AttributeError, match=f"has no '{name}'; here it is {re.escape(here)}"):
            getattr(made, name)
        own = vars(made) if hasattr(made, "__dict__") else {}
        known = {*dir(type(made)), *own, *dir(ferrule), *dir(importlib.import_module("ferrule.expose.applications"))}
        for suggested in re.findall(r"`(?:ferrule\.)?(\w+)", here):
            assert suggested in {*known, "expose"}, here


@pytest.mark.parametrize("made", [made for made, _ in THREE], ids=["server", "client", "context"])
def test_other_names_are_missing_as_ever(made: Any) -> None:
    """`hasattr` and default values work."""
    assert not hasattr(made, "nothing_of_the_kind")
    assert getattr(made, "get_http_headers", None) is None
    with pytest.raises(AttributeError, match=r"has no 'nothing_of_the_kind'$"):
        made.nothing_of_the_kind  # noqa: B018


@pytest.mark.parametrize(("name", "here"), list(IN_PACKAGE.items()))
def test_what_is_imported_is_translated(name: str, here: str) -> None:
    """The first line of a program that moves; the named thing exists."""
    with pytest.raises(ImportError, match=f"ferrule has no '{name}'; its name here is {re.escape(here)}"):
        exec(f"from ferrule import {name}")
    path = re.match(r"(?:ferrule\.)?([\w.]+)", here)
    assert path is not None
    if path[1] == "expose":
        assert hasattr(importlib.import_module("ferrule.expose"), "expose")
        return
    found: Any = ferrule
    for part in path[1].removesuffix(".").split("."):
        importlib.import_module("ferrule.auth")
        found = getattr(found, part)


@pytest.mark.parametrize(("name", "here"), list(MODULES.items()))
def test_modules_are_translated(name: str, here: str) -> None:
    """After ``mcp`` or ``fastmcp`` was replaced by ``ferrule`` in all files; also for what is below the module."""
    for asked in (name, f"{name}.something"):
        with pytest.raises(ModuleNotFoundError, match=re.escape(f"There is no module {name!r}; here it is `{here}`")):
            importlib.import_module(asked)
    exec(here)


def test_an_unknown_module_is_missing_as_before() -> None:
    """In the words of Python."""
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'ferrule\.nothing'$"):
        importlib.import_module("ferrule.nothing")
