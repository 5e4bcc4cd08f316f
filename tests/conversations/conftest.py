"""``--update``: write the server lines of the conversation files anew; the difference is the thing to review."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Works where this folder is named on the command line: ``pytest tests/conversations --update``."""
    parser.addoption("--update", action="store_true", help="rewrite the server lines of the conversation files")
