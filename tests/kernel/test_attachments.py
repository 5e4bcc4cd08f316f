"""ferrule.kernel.attachments: what layers keep with a server."""

from __future__ import annotations

from typing import assert_type

import pytest

from ferrule.kernel.attachments import Attachments


class Settings:
    """What a layer keeps."""


def test_a_value_is_found_by_its_class_and_has_its_type() -> None:
    """No layer has to cast what it kept itself."""
    attachments = Attachments()
    assert attachments.get(Settings) is None
    with pytest.raises(KeyError):
        attachments[Settings]
    attachments[Settings] = kept = Settings()
    assert assert_type(attachments[Settings], Settings) is kept
    assert assert_type(attachments.get(Settings), Settings | None) is kept


def test_a_value_is_made_once() -> None:
    """The first use makes it, independent of the order of the layers."""
    attachments = Attachments()
    made = attachments.made(Settings)
    assert attachments.made(Settings) is made
    assert attachments[Settings] is made
