"""A project with a user model of its own, whose keys are UUIDs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.host_processes import program_environment

PROGRAM = Path(__file__).parents[1] / "programs" / "swapped_user.py"


def test_users_of_another_model_are_senders_and_owners() -> None:
    """In a process of its own: the model is chosen before Django starts."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], env=program_environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert "Traceback" not in done.stderr
    seen = json.loads(done.stdout)
    me = f"{seen['id']} ada@example.com"
    assert seen["who"] == [me, me]
    # The description of the view reads the user, which lacks the flags of Django's own model.
    everybody = ["account_list", "account_retrieve", "count", "who", "work"]
    assert (seen["tools"], seen["tools_of_bob"]) == (sorted([*everybody, "for_ada"]), everybody)
    assert seen["accounts"][0] == [{"id": seen["id"], "email": "ada@example.com"}]
    assert seen["sessions"] == [1, 404, 2, seen["id"]]
    assert seen["tasks"]["owners"] == [f"principal:{seen['id']}"]
    assert seen["tasks"]["ada"] == "ada@example.com"
    assert "no such task" in seen["tasks"]["bob"]
    assert seen["as_user"] == [me, *seen["tools"]]
    assert (seen["again"], seen["unknown"]) == (True, [True, True, True])
    assert seen["command"].strip() == me
    assert len(seen["token"].strip()) == 40
