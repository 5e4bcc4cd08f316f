"""Sealing: keys, rotation, tampering, and what is left without a cipher."""

from __future__ import annotations

import base64
import secrets
import sys

import pytest

from ferrule.app.rounds import sealing
from ferrule.app.rounds.errors import StateTampered, StateUnknownKey
from ferrule.app.rounds.sealing import AeadSealer, InMemorySealer, StateKey, sealer_for

OLD, NEW = (StateKey(bytes([n]) * 32) for n in (1, 2))


def test_a_token_opens_to_its_payload():
    ring = AeadSealer([OLD])
    assert ring.open(ring.seal({"a": [1, "ü"]})) == {"a": [1, "ü"]}


def test_the_same_payload_never_gives_the_same_token():
    """Each token has its own nonce, so that a client cannot see whether two states are equal."""
    ring = AeadSealer([OLD])
    assert ring.seal(1) != ring.seal(1)


def test_nothing_of_the_payload_shows():
    ring = AeadSealer([OLD])
    token = ring.seal("attack at dawn")
    assert b"attack" not in base64.urlsafe_b64decode(token + "===")


def test_the_length_of_a_token_reveals_only_the_length_of_its_state():
    """No compression: a state full of one letter is as long as a random one of its size."""
    ring = AeadSealer([OLD])
    assert len(ring.seal("a" * 500)) == len(ring.seal(secrets.token_hex(250)))


@pytest.mark.parametrize("payload", ["", "a", "ab"])
def test_every_changed_character_is_noticed(payload):
    """The last one too, of which base64 leaves bits unused at two of three lengths."""
    ring = AeadSealer([OLD])
    token = ring.seal(payload)
    for index in range(len(token)):
        changed = token[:index] + ("A" if token[index] != "A" else "B") + token[index + 1 :]
        with pytest.raises(StateTampered):
            ring.open(changed)


@pytest.mark.parametrize("token", ["", "x", "äöü", "held.abc", "A" * 40, "=" * 8, "A" * (5 * 1024 * 1024)])
def test_what_is_no_token_is_refused(token):
    with pytest.raises(StateTampered):
        AeadSealer([OLD]).open(token)


def test_the_newest_key_seals_and_older_keys_open():
    """Rotation: states that are on their way when the key changes still open."""
    before, after = AeadSealer([OLD]), AeadSealer([NEW, OLD])
    assert after.open(before.seal(1)) == 1
    with pytest.raises(StateUnknownKey):
        before.open(after.seal(1))


def test_a_key_is_handed_out_before_it_seals():
    """`opens_only`: no worker may seal with a key that another one does not have yet."""
    waiting = StateKey(b"\2" * 32, opens_only=True)
    first, second = AeadSealer([waiting, OLD]), AeadSealer([OLD])
    assert second.open(first.seal(1)) == 1
    assert first.open(AeadSealer([NEW]).seal(2)) == 2
    with pytest.raises(ValueError, match="seals"):
        AeadSealer([waiting])


def test_a_short_key_is_refused():
    with pytest.raises(ValueError, match="32"):
        StateKey("too short")


def test_a_key_does_not_show_its_secret():
    key = StateKey("p" * 32)
    assert "ppp" not in repr(key)
    assert key.id.hex() in repr(key)


def test_text_and_bytes_are_one_key():
    """Configuration is text, a vault gives bytes."""
    assert StateKey("k" * 32).id == StateKey(b"k" * 32).id


def test_without_a_cipher_states_stay_here(monkeypatch: pytest.MonkeyPatch):
    """`cryptography` is an extra: without it one process still serves rounds."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    sealer = sealer_for(None)
    assert isinstance(sealer, InMemorySealer)
    assert sealer.open(sealer.seal([1])) == [1]
    with pytest.raises(ImportError, match="pip install"):
        sealer_for(["k" * 32])


def test_held_states_expire_and_are_bounded():
    now = [0.0]
    held = InMemorySealer(max_states=2, ttl_s=10, clock=lambda: now[0])
    first, second, third = held.seal(1), held.seal(2), held.seal(3)
    with pytest.raises(StateUnknownKey):
        held.open(first)
    assert (held.open(second), held.open(third)) == (2, 3)
    now[0] = 10
    with pytest.raises(StateUnknownKey):
        held.open(third)


def test_the_default_key_is_of_one_process():
    with pytest.raises(StateUnknownKey):
        sealer_for(None).open(sealer_for(None).seal(1))


def test_held_states_are_bounded_in_bytes() -> None:
    """A state holds what the client sent, and a client may begin any number of calls that it never finishes."""
    held = InMemorySealer(max_bytes=10_000)
    tokens = [held.seal("x" * 1000) for _ in range(50)]
    assert [held.open(token) for token in tokens[-9:]] == ["x" * 1000] * 9
    for token in tokens[:40]:
        with pytest.raises(StateUnknownKey):
            held.open(token)


def test_a_token_of_another_version_is_not_taken_for_one_of_ours() -> None:
    """Even where the key is known: what follows has another form then."""
    ring = AeadSealer([OLD])
    token = ring.seal(1)
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    assert raw[0] == 1
    for version in (0, 2, 255):
        other = base64.urlsafe_b64encode(bytes([version]) + raw[1:]).decode().rstrip("=")
        with pytest.raises(StateUnknownKey):
            ring.open(other)


def test_a_token_that_was_cut_is_refused_wherever_it_was() -> None:
    """Also before the end of its nonce, which the cipher would complain of otherwise."""
    ring = AeadSealer([OLD])
    token = ring.seal("x")
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    for length in range(len(raw)):
        with pytest.raises(StateTampered):
            ring.open(base64.urlsafe_b64encode(raw[:length]).decode().rstrip("="))


def test_a_held_state_is_kept_for_its_whole_time_and_makes_room_after_it() -> None:
    """Expired ones go first, whether or not there are too many."""
    now = [0.0]
    held = InMemorySealer(max_states=10, max_bytes=25, ttl_s=10, clock=lambda: now[0])
    first = held.seal("x" * 10)
    now[0] = 9.9
    assert held.open(first) == "x" * 10
    second = held.seal("y" * 10)
    now[0] = 10.0
    third = held.seal("z" * 10)
    assert (held.open(second), held.open(third)) == ("y" * 10, "z" * 10)


@pytest.mark.parametrize(("max_bytes", "kept"), [(24, 2), (23, 1), (12, 1), (1, 1)])
def test_the_bytes_of_held_states_are_counted_exactly(max_bytes: int, kept: int) -> None:
    """Each of these takes twelve as JSON; the last one is held in any case."""
    held = InMemorySealer(max_bytes=max_bytes)
    for _ in range(3):  # what was deleted does not count any more
        tokens = [held.seal(text * 10) for text in ("x", "y")]
        found = []
        for token in tokens:
            try:
                found.append(held.open(token))
            except StateUnknownKey:
                continue
        assert found == ["x" * 10, "y" * 10][-kept:]


def test_held_states_take_64_mebibytes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server keeps for calls that clients never finish."""

    class Large(bytes):
        """Bytes that say they are more."""

        def __len__(self) -> int:
            return 32 << 20

    monkeypatch.setattr(sealing, "encode", lambda payload: Large(str(payload).encode()))
    held = InMemorySealer()
    first, second = held.seal(1), held.seal(2)
    assert (held.open(first), held.open(second)) == (1, 2)
    third = held.seal(3)
    with pytest.raises(StateUnknownKey):
        held.open(first)
    assert (held.open(second), held.open(third)) == (2, 3)


def test_a_token_longer_than_four_mebibytes_is_not_decoded() -> None:
    """No server made such a long token; decoding it would cost memory."""
    ring = AeadSealer([OLD])
    with pytest.raises(StateTampered, match="longer than any state"):
        ring.open("A" * (4 * 1024 * 1024 + 1))
    with pytest.raises(StateTampered, match="not issued by this server"):
        ring.open("A" * (4 * 1024 * 1024))
