"""Checks the server card of a server at a URL against the server itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ferrule.cli.doctor.eras import why
from ferrule.cli.doctor.findings import Report
from ferrule.protocol.errors import FerruleError

if TYPE_CHECKING:
    from ferrule.extensions.cards.discovery import DiscoveredServer

__all__ = ["examine_card"]


async def examine_card(
    report: Report, target: Any, options: Mapping[str, Any], http: Any, worked: Sequence[str]
) -> None:
    """Report whether the card of a server agrees with it; nothing for a server without a card.

    Args:
        report: takes the results.
        target: the URL of the server, for a client that asks it for its identity.
        options: the options of that client.
        http: sends the requests.
        worked: the revisions in which the server was reached, newest first.
    """
    from ferrule.client.client import Client
    from ferrule.extensions.cards.comparison import differences
    from ferrule.extensions.cards.discovery import read_card

    try:
        found = await read_card(target.url, http=http)
        if found is None or found.card is None:
            return
        async with Client(target, **dict[str, Any](options, mode=worked[0])) as client:
            info = client.server_info
    except (FerruleError, OSError) as error:
        report.add("card-unreadable", "warn", f"its server card cannot be read: {why(error)}",
                   "Clients that discover servers do not find it. See the card with: ferrule card URL")  # fmt: skip
        return
    if info is None:
        return
    differing = differences(found.card, info, url=target.url, versions=worked)
    if differing:
        report.add("card-differs", "warn", "its server card contradicts the server:\n  "
                   + "\n  ".join(differing), "Correct the card; Ferrule's app.card() takes it from the server.",
                   differences=differing)  # fmt: skip
    else:
        report.add("card", "ok", f"its server card agrees with it: {found.card.name} {found.card.version}")
    await _examine_catalog(report, target.url, http)


async def _examine_catalog(report: Report, url: str, http: Any) -> None:
    """Report whether the catalog of the site names a server that has a card; nothing for a site without a catalog."""
    from ferrule.extensions.cards.discovery import discover
    from ferrule.extensions.cards.documents import card_url

    try:
        servers = await discover(url, http=http)
    except (FerruleError, OSError) as error:
        report.add("no-catalog", "note", f"its site has no catalog that names it: {why(error)}",
                   "Serve /.well-known/ai-catalog.json at the root of the site; for a server below a prefix: "
                   "ferrule card FILE --catalog")  # fmt: skip
        return
    own = card_url(url)
    named = [server for server in servers if _is_own(server, url, own)]
    if not named:
        report.add("not-in-catalog", "warn", f"the catalog of its site does not name it ({len(servers)} servers)",
                   "Add its entry: app.card(entries=[…]) of the server that has the catalog.")  # fmt: skip
    elif named[0].problem is not None:
        report.add("catalog-entry", "warn", f"the catalog names it, but {named[0].problem}", "Correct the entry.")
    else:
        report.add("catalog", "ok", f"the catalog of its site names it: {named[0].identifier}")


def _is_own(server: DiscoveredServer, url: str, card_url: str) -> bool:
    """Return whether an entry of a catalog is the server at a URL: by the place of its card, or by an address in it."""
    from ferrule.extensions.cards.comparison import is_same_address

    if server.card_url is not None and is_same_address(server.card_url, card_url):
        return True
    remotes = [] if server.card is None else server.card.remotes or []
    return any(is_same_address(remote.url, url) for remote in remotes)
