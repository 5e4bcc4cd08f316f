"""The row of Django under WSGI of the table of decisions; see ``tests/app/middleware/scenarios/test_decisions.py``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client
from ferrule.django import DjangoServer
from ferrule.django.conf import DjangoSettings
from tests.app.middleware.scenarios.decisions import (
    DECISIONS,
    add_tools,
    judge,
    middleware_for,
    search_for_secrets,
)
from tests.django.serving import served


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize("decision", [name for name in DECISIONS if name != "cancelled"])
def test_each_decision_under_wsgi(
    decision: str, mode: str, tmp_path: Path, alice: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """No request is cancelled under WSGI: it runs to its end, and is recorded with it."""
    caplog.set_level(logging.DEBUG)
    row = DECISIONS[decision]
    settings = DjangoSettings(require_login=False, store="memory:")
    server = DjangoServer("site", settings=settings, middleware=middleware_for(decision, tmp_path))
    add_tools(server, tmp_path)

    async def use(client: Client) -> None:
        await judge(row, client, row.tool, tmp_path)

    with served("wsgi", server=server) as site:
        site.run(use, mode, alice)
    search_for_secrets(tmp_path, caplog.text, secrets=("hunter2-which-nobody-may-write", alice.token))
