"""Names of the code on pages that describe the code exist, so that a renamed class does not leave a page behind."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["CONTRIBUTING.md", "docs/topics/architecture.md", "docs/topics/security.md"]

_DOTTED = re.compile(r"`(ferrule(?:\.\w+)+)(?:\(\))?`")
_FOLDER = re.compile(r"`((?:src|tests|scripts|docs|examples|bench|conformance)/[\w./-]*)[^`]*`")


def find(name: str) -> Any:
    """Return the module or the object of a dotted name.

    Raises:
        ImportError, AttributeError: there is none.
    """
    if name.startswith("ferrule.django."):
        _set_up_django()
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = (
                found.__dataclass_fields__[part]
                if part in getattr(found, "__dataclass_fields__", ())
                else getattr(found, part)
            )
        return found
    raise ImportError(name)


def _set_up_django() -> None:
    """Models can be imported only inside a project."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.django.project")
    pytest.importorskip("django").setup()


def missing(text: str) -> list[str]:
    """Return the dotted names and the paths of a page that lead nowhere."""
    found = [path for path in _FOLDER.findall(text) if not (ROOT / path).exists()]
    for name in sorted(set(_DOTTED.findall(text))):
        try:
            find(name)
        except (ImportError, AttributeError, DeprecationWarning):  # warnings are errors: an old name counts as missing
            found.append(name)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_name_of_the_code_exists(page: str) -> None:
    """Dotted names below `ferrule`, and paths of the repository."""
    assert missing((ROOT / page).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "name",
    ["`ferrule.kernel.none`", "`ferrule.Client.none`", "`src/ferrule/none.py`", "`ferrule.kernel.bus`"],
)
def test_a_wrong_name_is_found(name: str) -> None:
    """Of a module, a member and a file; and a name that only an alias of the last release keeps alive."""
    assert missing(f"See {name} for more.") != []
