"""Published applications, which were not made for this library, as tools: in an environment of their own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, peer_program

PROGRAMS = Path(__file__).parents[1] / "programs"

pytestmark = pytest.mark.peer


def run(program: str) -> Any:
    """Return what a program prints in the environment with the published applications."""
    done = subprocess.run(
        [peer_program("django-programs"), str(PROGRAMS / program)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout)


def test_djoser_and_password_reset_are_exposed_and_called() -> None:
    found = run("published_apps.py")
    assert found["failures"] == []
    assert "user_create" in found["anonymous"]
    assert "user_me" not in found["anonymous"]
    assert {"user_me", "user_me_patch", "user_set_password", "user_destroy"} <= set(found["signed_in"])
    assert found["create_arguments"] == ["email", "password", "username"]
    assert "password: This password is too short" in found["weak"]
    assert found["me"] == {**found["made"]} == {"username": "ann", "email": "ann@example.com", "id": 1}
    assert found["changed"]["email"] == "ann@example.org"
    assert "not of type" in found["others"]  # `me` is another operation than a user's number
    assert found["asked"] == found["valid"] == found["confirmed"] == {"status": "OK"}
    assert "404" in found["wrong"]
    assert "current_password: Invalid password." in found["not_deleted"]
    assert found["signed_out"] == "Done"


def test_specifications_of_the_published_package_are_tools() -> None:
    found = run("service_specs.py")
    assert found["arguments"] == {
        "create_group": ["name"],
        "rename_group": ["name", "pk"],
        "group": ["pk"],
        "groups": ["starts"],
    }
    assert found["made"] == found["one"] == {"id": 1, "name": "a"}
    assert "name: Not this one" in found["taken"]
    assert "Never" in found["never"]
    assert found["all"] == [{"id": 1, "name": "a"}]
    assert found["some"] == []
    assert "404" in found["none"]
    assert found["renamed"] == {"id": 1, "name": "z"}
