"""ferrule.wire.types: completion."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import types as t
from ferrule.wire.codec import convert, decode, encode
from ferrule.wire.faults import ConvertError


@pytest.mark.parametrize(
    ("wire", "kind"),
    [
        ({"type": "ref/prompt", "name": "p"}, t.PromptReference),
        ({"type": "ref/resource", "uri": "file:///{x}"}, t.ResourceTemplateReference),
    ],
)
def test_a_completion_reference_is_read_by_its_type(wire: Any, kind: type) -> None:
    """Prompt and resource references share a field."""
    params = convert({"ref": wire, "argument": {"name": "a", "value": ""}}, t.CompleteRequestParams)
    assert type(params.ref) is kind
    assert params.ref.type == wire["type"]
    assert decode(encode(params))["ref"] == wire


def test_an_unknown_completion_reference_is_refused() -> None:
    """There is nothing to complete for it."""
    with pytest.raises(ConvertError, match="ref"):
        convert({"ref": {"type": "ref/x"}, "argument": {"name": "a", "value": ""}}, t.CompleteRequestParams)
