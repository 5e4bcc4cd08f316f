"""The keys of the state between rounds, derived from the secret of the project."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from ferrule.app.rounds.errors import StateUnknownKey
from ferrule.app.rounds.sealing import sealer_for
from ferrule.django.store.keys import SecretKeys


@pytest.fixture
def secret() -> Iterator[None]:
    with override_settings(SECRET_KEY="new " * 10, SECRET_KEY_FALLBACKS=["old " * 10, b"bytes are allowed, too"]):
        yield


def sealed_with(secret: str, payload: Any) -> str:
    with override_settings(SECRET_KEY=secret, SECRET_KEY_FALLBACKS=[]):
        return sealer_for(SecretKeys()).seal(payload)


def test_a_state_of_another_process_opens_and_one_of_a_former_secret(secret: None) -> None:
    """A process has the same keys whenever it reads the same settings."""
    sealer = sealer_for(SecretKeys())
    for of in ("new " * 10, "old " * 10):
        assert sealer.open(sealed_with(of, {"a": 1})) == {"a": 1}
    with pytest.raises(StateUnknownKey):
        sealer.open(sealed_with("other " * 10, {}))


def test_a_former_secret_seals_nothing(secret: None) -> None:
    """After its time in SECRET_KEY_FALLBACKS it can be taken away."""
    token = sealer_for(SecretKeys()).seal({"a": 1})
    with override_settings(SECRET_KEY_FALLBACKS=[]):
        assert sealer_for(SecretKeys()).open(token) == {"a": 1}


def test_a_key_is_not_the_secret(secret: None) -> None:
    """Nor what Django's own signatures are made with; each key is another one."""
    keys = [key.secret for key in SecretKeys()]
    assert len(keys) == len(set(keys)) == 3
    assert all(b"new" not in key and len(key) == 32 for key in keys)


def test_a_secret_is_read_when_a_state_is_sealed() -> None:
    """Commands such as ``collectstatic`` run without one."""
    from ferrule.django import DjangoServer

    with override_settings(SECRET_KEY=""):
        DjangoServer("x", store="memory:")
