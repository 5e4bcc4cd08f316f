"""ferrule.wire.types: sampling."""

from __future__ import annotations

from ferrule import types as t
from ferrule.wire.codec import convert


def test_the_text_of_a_sampling_result_is_read_in_both_shapes() -> None:
    """`content` is one block or many, by revision; an author wants the words."""
    said = {"role": "assistant", "model": "m"}
    one = convert({**said, "content": {"type": "text", "text": "hi"}}, t.CreateMessageResult)
    tool = {"type": "tool_use", "id": "1", "name": "n", "input": {}}
    many = [{"type": "text", "text": "a"}, tool, {"type": "text", "text": "b"}]
    assert one.text == "hi"
    assert convert({**said, "content": many}, t.CreateMessageResult).text == "ab"
    assert convert({**said, "content": [tool]}, t.CreateMessageResult).text == ""
