"""The pages of a gateway for people who sign in to a server behind it: before, and after."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ferrule.client.gateway.credentials.sign_in import SignInPage

__all__ = ["PAGE_HEADERS", "confirm_page", "message_page"]

PAGE_HEADERS: Final = (
    ("content-type", "text/html; charset=utf-8"),
    ("cache-control", "no-store"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
)
"""The headers of these pages: nothing is loaded, kept, or shown inside another page."""
_STYLE: Final = (
    "body{font:16px/1.5 system-ui;margin:4em auto;max-width:34em;padding:0 1em}"
    "a.go{display:inline-block;padding:.6em 1.2em;background:#1a5fb4;color:#fff;border-radius:.4em;"
    "text-decoration:none}"
)


def _page(title: str, body: str) -> bytes:
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>"
        f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style><h1>{escape(title)}</h1>{body}"
    ).encode()


def confirm_page(page: SignInPage) -> bytes:
    """Return the page that says for whom a sign-in is made, and leads to the authorization server."""
    server, account = escape(page.server), escape(page.account)
    return _page(
        f"Sign in to {page.server}",
        f"<p>Your account of <b>{server}</b> will be used by the account <b>{account}</b> of this gateway.</p>"
        f"<p>Go on only if <b>{account}</b> is you, and you asked for this just now.</p>"
        f'<p><a class=go rel=noreferrer href="{escape(page.url, quote=True)}">Sign in to {server}</a></p>',
    )


def message_page(title: str, text: str) -> bytes:
    """Return a page with one sentence."""
    return _page(title, f"<p>{escape(text)}</p>")
