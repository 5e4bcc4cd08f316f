"""ferrule.wire.types: elicitation."""

from __future__ import annotations

import pytest

from ferrule import types as t
from ferrule.wire.codec import convert
from ferrule.wire.faults import ConvertError


def test_elicitation_needs_what_its_mode_needs() -> None:
    """A form without a schema, or a page without an address, cannot be shown."""
    schema = {"type": "object", "properties": {}}
    assert t.ElicitRequestParams(message="?", requested_schema=schema).mode is None
    with pytest.raises(ValueError, match="requestedSchema"):
        t.ElicitRequestParams(message="?")
    with pytest.raises(ConvertError, match="`url`"):
        convert({"message": "?", "mode": "url", "requestedSchema": schema}, t.ElicitRequestParams)
