"""The error of a call from the page."""

from __future__ import annotations

__all__ = ["BadCall"]


class BadCall(Exception):
    """The parameters of a call from the page are not valid; the message names the parameter."""
