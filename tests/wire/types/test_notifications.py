"""ferrule.wire.types: notifications."""

from __future__ import annotations

import pytest

from ferrule import types as t
from ferrule.wire.codec import convert
from ferrule.wire.faults import ConvertError


def test_a_progress_token_is_no_truth_value() -> None:
    """`True == 1` in Python, not on the wire."""
    with pytest.raises(ConvertError):
        convert({"progressToken": True, "progress": 1}, t.ProgressNotificationParams)
