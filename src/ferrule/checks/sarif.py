"""Findings as SARIF 2.1.0, the form that code hosts show beside a change.

A server has no file, so that a place is a logical location; a file that is known is the physical one, line 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from ferrule.checks.table import RULES, RuleFinding

__all__ = ["sarif_of"]

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_of(findings: Sequence[RuleFinding], *, version: str, file: str | None = None) -> dict[str, Any]:
    """Return findings as a SARIF log with one run.

    Args:
        findings: the findings.
        version: the version of Ferrule.
        file: the file of the server as a relative path with slashes; ``None`` if it is not a file.
    """
    used = [rule for code, rule in RULES.items() if any(found.code == code for found in findings)]
    indices = {rule.code: at for at, rule in enumerate(used)}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "ferrule check",
                        "semanticVersion": version,
                        "rules": [
                            {
                                "id": rule.code,
                                "name": "".join(word.capitalize() for word in rule.name.split("-")),
                                "shortDescription": {"text": rule.title},
                                "fullDescription": {"text": rule.why},
                                "help": {"text": f"{rule.why} {rule.do}"},
                                "defaultConfiguration": {"level": rule.severity},
                            }
                            for rule in used
                        ],
                    }
                },
                "results": [_result(found, indices[found.code], file) for found in findings],
            }
        ],
    }


def _result(found: RuleFinding, index: int, file: str | None) -> dict[str, Any]:
    place: dict[str, Any] = {
        "logicalLocations": [{"fullyQualifiedName": found.place, "name": found.name or found.kind, "kind": "member"}]
    }
    if file is not None:
        place["physicalLocation"] = {"artifactLocation": {"uri": file}, "region": {"startLine": 1}}
    identity = "\n".join((found.code, found.kind, found.name, found.path))
    return {
        "ruleId": found.code,
        "ruleIndex": index,
        "level": found.severity,
        "message": {"text": f"{found.name or 'the server'} {found.message}"},
        "locations": [place],
        "partialFingerprints": {"ferrule/v1": sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]},
    }
