"""What a card says otherwise than the live server, which decides (SEP-2127, "Consistency with Runtime Behavior")."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from ferrule.extensions.cards.documents import last_part
from ferrule.wire.types import Implementation
from ferrule.wire.types.cards import ServerCard

__all__ = ["differences", "is_same_address"]


def differences(
    card: ServerCard, info: Implementation, *, url: str | None = None, versions: Collection[str] | None = None
) -> list[str]:
    """Return a sentence for each statement of a card that the live server contradicts; empty if they agree.

    A statement that one of the two leaves out is no difference.

    Args:
        card: the card.
        info: the identity that the server announced.
        url: the URL at which the server was reached; ``None`` to leave the addresses out.
        versions: the protocol versions that the server speaks; ``None`` to leave them out.
    """
    found: list[str] = []
    if info.name != card.name and last_part(info.name) != last_part(card.name):
        found.append(f"the card names it {card.name!r}, the server {info.name!r}")
    pairs = (
        ("version", card.version, info.version),
        ("title", card.title, info.title),
        ("website", card.website_url, info.website_url),
        ("description", card.description, info.description),
    )
    for what, said, live in pairs:
        if said is not None and live is not None and not _agree(said, live):
            found.append(f"its {what} is {said!r} in the card, {live!r} in the server")
    remotes = card.remotes or []
    own = [remote for remote in remotes if url is not None and is_same_address(remote.url, url)]
    if url is not None and remotes and not own:
        found.append(f"the card gives other addresses: {', '.join(remote.url for remote in remotes)}")
    for remote in own if versions is not None else []:
        said_versions = remote.supported_protocol_versions
        if said_versions is not None and set(said_versions) != set(versions or ()):
            found.append(f"the card promises {', '.join(said_versions)}, the server speaks {', '.join(versions or ())}")
    return found


def _agree(said: str, live: str) -> bool:
    """Return whether two texts are the same, or one is the shortened other."""
    one, other = " ".join(said.split()), " ".join(live.split())
    return one == other or (one.endswith("…") and other.startswith(one[:-1]))


def is_same_address(one: str, other: str) -> bool:
    """Return whether two URLs are the same address: scheme, host and path without a final slash.

    ``False`` for a malformed URL.
    """
    try:
        first, second = urlsplit(one), urlsplit(other)
    except ValueError:
        return False
    return (first.scheme, first.netloc.lower(), first.path.rstrip("/")) == (
        second.scheme,
        second.netloc.lower(),
        second.path.rstrip("/"),
    )
