"""The pytest plugin: the fixtures ``server``, ``client``, ``async_client`` and ``calls`` for a server under test.

pytest imports this module in every environment that has Ferrule. It defines nothing but ini options; the fixtures, and
all that they import, come only with ``ferrule_server`` in the configuration, so that they cannot collide with a
``client`` of another plugin.
"""

from __future__ import annotations

from typing import Any

__all__ = ["pytest_addoption", "pytest_configure"]

MODES = ("2026-07-28", "2025-11-25")


def pytest_addoption(parser: Any) -> None:
    """Define the ini options; called by pytest."""
    parser.addini("ferrule_server", "The server under test: FILE:NAME or package.module:NAME; NAME may make a server.")
    parser.addini("ferrule_modes", "Revisions in which its tests run.", type="args", default=list(MODES))


def pytest_configure(config: Any) -> None:
    """Load the fixtures if the project asks for them; called by pytest."""
    if config.getini("ferrule_server"):
        from ferrule.testing.plugin import fixtures

        config.pluginmanager.register(fixtures, "ferrule-fixtures")
