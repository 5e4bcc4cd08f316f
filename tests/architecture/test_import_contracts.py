"""The import contract for public names finds what it promises to find."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.import_contracts import private_names


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A package with a layer that has private parts, and a user of it."""
    layer = tmp_path / "house" / "layer"
    layer.mkdir(parents=True)
    (layer / "__init__.py").write_text("", encoding="utf-8")
    (layer / "rules.py").write_text('__all__ = ["open_"]\nopen_ = 1\nshut = 2\n_hidden = 3\n', encoding="utf-8")
    (layer / "_inner.py").write_text("", encoding="utf-8")
    (tmp_path / "house" / "guest").mkdir()
    return tmp_path


def problems(source: Path, text: str) -> list[str]:
    """Return the contract's problems for a user's module with this text."""
    (source / "house" / "guest" / "a.py").write_text(text, encoding="utf-8")
    return [problem for _, problem in private_names("house.guest.a", "house.guest", source)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("from house.layer.rules import _hidden", "house.layer.rules._hidden is a private name"),
        ("from house.layer.rules import shut", "shut is not in __all__ of house.layer.rules"),
        ("from house.layer import _inner", "house.layer._inner is a private module"),
        ("from house.layer._inner import x", "house.layer._inner is a private module"),
        ("import house.layer._inner", "house.layer._inner is a private module"),
        ("if TYPE_CHECKING:\n    from house.layer.rules import shut", "shut is not in __all__ of house.layer.rules"),
        ("def f():\n    from house.layer.rules import shut", "shut is not in __all__ of house.layer.rules"),
    ],
)
def test_a_private_import_is_found(source: Path, text: str, problem: str) -> None:
    """Wherever it stands: in a function and in annotations too."""
    assert problems(source, text) == [problem]


@pytest.mark.parametrize(
    "text",
    [
        "from house.layer.rules import open_",
        "from house.layer import rules",
        "import house.layer.rules",
        "from house.guest.b import _own",
        "from other._private import x",
        "from __future__ import annotations",
    ],
)
def test_a_public_or_own_import_is_not(source: Path, text: str) -> None:
    """A part may use its own private names; other distributions are their authors' concern."""
    assert problems(source, text) == []
