"""ferrule.wire.types: prompts."""

from __future__ import annotations

import pytest

from ferrule import types as t
from ferrule.wire.codec import convert
from ferrule.wire.faults import ConvertError


def test_the_role_of_a_prompt_message_is_user_or_assistant() -> None:
    """Other roles exist in other protocols and must not leak into this one."""
    assert t.PromptMessage.text("user", "hi") == t.PromptMessage("user", t.text_block("hi"))
    with pytest.raises(ValueError, match="system"):
        t.PromptMessage.text("system", "hi")  # type: ignore[arg-type]
    with pytest.raises(ConvertError) as caught:
        convert({"messages": [{"role": "system", "content": {"type": "text", "text": ""}}]}, t.GetPromptResult)
    assert caught.value.path == "$.messages[0].role"
