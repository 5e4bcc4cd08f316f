"""The keys that seal the state between the rounds of a call, derived from the secret of the project.

So any process of the project continues a call that another one began. The secret itself is used for nothing: each key
is a digest of it for this one purpose, as Django derives those of its own signatures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from django.conf import settings
from django.utils.crypto import salted_hmac

from ferrule.app.rounds.sealing import StateKey

__all__ = ["SecretKeys"]

_SALT = "ferrule.django request state"


class SecretKeys(Sequence[StateKey]):
    """The keys of ``SECRET_KEY``, which seals and opens, and of ``SECRET_KEY_FALLBACKS``, which open only.

    The settings are read when a key is first needed: commands such as ``collectstatic`` run without a secret.
    """

    @overload
    def __getitem__(self, index: int) -> StateKey: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StateKey]: ...
    def __getitem__(self, index: int | slice) -> StateKey | Sequence[StateKey]:
        """Return one key, or several."""
        older: Sequence[str | bytes] = settings.SECRET_KEY_FALLBACKS
        keys = [_key(settings.SECRET_KEY), *(_key(each, opens_only=True) for each in older)]
        return keys[index]

    def __len__(self) -> int:
        """Return the number of keys."""
        return 1 + len(settings.SECRET_KEY_FALLBACKS)


def _key(secret: str | bytes, *, opens_only: bool = False) -> StateKey:
    derived = salted_hmac(_SALT, "state 1", secret=secret, algorithm="sha256").digest()
    return StateKey(derived, opens_only=opens_only)
