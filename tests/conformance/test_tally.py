"""conformance/run.py: our own tally, which forgives less than the suite."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.modules import load_file


@pytest.fixture
def run(project_root: Path) -> ModuleType:
    module: ModuleType = load_file(project_root / "conformance" / "run.py", "conformance_run")
    return module


def scenario(folder: Path, name: str, *statuses: str) -> None:
    (folder / name).mkdir()
    checks = [{"id": f"check-{i}", "status": status, "errorMessage": "why"} for i, status in enumerate(statuses)]
    (folder / name / "checks.json").write_text(json.dumps(checks))


def test_a_scenario_without_a_success_has_failed(run: ModuleType, tmp_path: Path) -> None:
    """The suite gives a tick to a scenario that never connected."""
    scenario(tmp_path, "server-empty")
    scenario(tmp_path, "server-info", "INFO", "SKIPPED")
    scenario(tmp_path, "server-good", "SUCCESS", "INFO")
    assert run.tally(tmp_path)[2] == ["server-empty: nothing succeeded", "server-info: nothing succeeded"]


def test_every_failed_check_counts_warnings_included(run: ModuleType, tmp_path: Path) -> None:
    """Whether or not the suite scores it for the revision."""
    scenario(tmp_path, "server-a", "SUCCESS", "FAILURE", "WARNING")
    passed, failed, complaints = run.tally(tmp_path)
    assert (passed, failed, len(complaints)) == (1, 2, 2)


def test_scenarios_that_the_suite_always_skips_do_not_count(run: ModuleType, tmp_path: Path) -> None:
    """And nothing else is forgiven."""
    for number, part in enumerate(run.ALWAYS_SKIPPED):
        scenario(tmp_path, f"server-{part}{number}-2026", "FAILURE")
    scenario(tmp_path, "server-ping-2026", "FAILURE")
    assert len(run.tally(tmp_path)[2]) == 2  # its failure, and that nothing succeeded


def test_only_scenarios_that_need_streams_are_left_out_of_a_wsgi_host(run: ModuleType) -> None:
    """By their whole name: the name of another scenario may begin with it."""
    own = "server-tools-call-with-progress-2026-11-28T15: tools-call-with-progress: FAILURE: none"
    other = "server-tools-call-with-progress-bars-2026-11-28T15: a: FAILURE: none"
    plain = "server-tools-call-simple-text-2026-11-28T15: a: FAILURE: none"
    assert run.without_streams([own, other, plain]) == ([other, plain], [own])


def test_what_cannot_pass_through_a_gateway_does_not_count_there(run: ModuleType) -> None:
    """Only scenarios with a reason in the list are left out."""
    complaints = ["server-server-sse-polling-2026-11-29T03: nothing succeeded", "server-tools-list-2026-11-29T03: x"]
    assert run.without_gateway(complaints, run.BEHIND_GATEWAY) == ([complaints[1]], [complaints[0]])
    assert all(run.BEHIND_GATEWAY.values())
    assert all(run.BETWEEN_ERAS.values())
