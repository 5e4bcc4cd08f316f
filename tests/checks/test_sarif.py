"""SARIF 2.1.0: what the form demands of a log."""

from __future__ import annotations

from ferrule.checks.sarif import sarif_of
from tests.checks.samples import found, tool


def test_a_log() -> None:
    """Each result names its rule by id and index, and a place."""
    findings = found(tool(description=None), tool("b", "x\u200b"))
    log = sarif_of(findings, version="1.2", file="server.py")
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert log["version"] == "2.1.0"
    assert [rule["id"] for rule in rules] == ["F10", "F50"]
    for result, finding in zip(run["results"], findings, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.code
        assert result["level"] == finding.severity
        assert result["message"]["text"]
        (place,) = result["locations"]
        assert place["physicalLocation"]["artifactLocation"]["uri"] == "server.py"
        assert place["logicalLocations"][0]["fullyQualifiedName"] == finding.place


def test_fingerprints_stay_when_words_change() -> None:
    """So that a code host knows an old finding again."""
    first, second = (
        sarif_of(found(tool(description=text)), version="1")["runs"][0]["results"][0]["partialFingerprints"]
        for text in ("x" * 1100, "y" * 1200)
    )
    assert first == second


def test_a_server_that_is_no_file_has_no_physical_place() -> None:
    """A URL is no artifact of a repository."""
    log = sarif_of(found(tool(description=None)), version="1")
    assert "physicalLocation" not in log["runs"][0]["results"][0]["locations"][0]
