"""A gateway that waits for its servers, for tests of what they answer: a busy machine may take its time."""

from __future__ import annotations

from typing import Any

from ferrule import Gateway

__all__ = ["patient_gateway"]


def patient_gateway(targets: Any, **options: Any) -> Gateway:
    """A gateway whose start and whose lists wait up to 30 seconds for servers that connect."""
    given: dict[str, Any] = {"open_s": 30.0, "moment_s": 30.0, **options}
    return Gateway(targets, **given)
