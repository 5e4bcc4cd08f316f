"""Which kind of views something is, and what is said where it is none."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.django.exposing import kinds
from tests.django.shop.views import InvoiceViewSet


def target_of(target: Any) -> Any:
    return kinds.target_of(target, actions=None, prefix=None, version=None, describe_as=None)


def failing(name: str) -> Any:
    def fail(_: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    return fail


@pytest.mark.parametrize("is_installed", [True, False])
def test_a_function_is_a_tool_and_no_view(is_installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Django REST framework and without."""
    if not is_installed:
        monkeypatch.setattr(kinds, "import_module", failing("rest_framework.routers"))
    with pytest.raises(TypeError, match=r"A plain function becomes a tool with @mcp\.tool"):
        target_of(lambda request: None)


def test_a_view_without_drf_spectacular_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "import_module", failing("drf_spectacular.openapi"))
    with pytest.raises(ImportError, match=r"described by drf-spectacular: pip install 'ferrule\[django\]'"):
        target_of(InvoiceViewSet)


def test_another_module_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a mistake of the project, or of an installation."""
    monkeypatch.setattr(kinds, "import_module", failing("shop.tax"))
    with pytest.raises(ModuleNotFoundError, match=r"shop\.tax"):
        target_of(InvoiceViewSet)
