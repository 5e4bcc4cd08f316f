"""Who sent a request: when two are the same, and what a token allows."""

from __future__ import annotations

from ferrule.auth.server.principal import Principal


def test_scopes_are_all_or_nothing() -> None:
    """A handler that needs two must not run with one."""
    principal = Principal("https://issuer.example", "ann", scopes=frozenset({"read", "write"}))
    assert principal.has_scopes()
    assert principal.has_scopes("read", "write")
    assert not principal.has_scopes("read", "delete")


def test_a_refreshed_token_is_the_same_party() -> None:
    """Sessions are bound to the party; another client of the same user is another."""
    one = Principal("https://issuer.example", "ann", "app", scopes=frozenset({"read"}), token="1")
    assert one == Principal("https://issuer.example", "ann", "app", scopes=frozenset({"write"}), token="2")
    assert one != Principal("https://issuer.example", "ann", "other")


def test_an_id_cannot_be_made_from_other_parts() -> None:
    """Two parties must not share a partition because a blank moved."""
    assert Principal("a b", "c").id != Principal("a", "b c").id
    assert Principal("a%20b", "c").id != Principal("a b", "c").id


def test_tokens_without_an_identity_are_never_the_same_party() -> None:
    """Two tokens without subject and client may belong to different parties."""
    for nobody in (None, ""):
        one = Principal("https://issuer.example", nobody, token="a")
        other = Principal("https://issuer.example", nobody, token="b")
        assert one != other
        assert one.id != other.id
        assert one == Principal("https://issuer.example", nobody, scopes=frozenset({"read"}), token="a")
        assert "a" not in one.id.split(" ")
        assert hash(one) == hash(Principal("https://issuer.example", nobody, token="a"))
