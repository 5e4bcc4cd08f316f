"""Who may see a component: functions for ``allow=`` that read the user, and so the database.

``@mcp.tool(allow=has_perm("shop.view_invoice"))``. The guard of a component is asked on the event loop, where a query
would block all requests. These are asked before, in the thread of the request; the guard finds the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ferrule.django.access.principals import DjangoPrincipal

__all__ = ["UserCheck", "has_perm", "in_group", "is_staff", "is_superuser", "user_passes"]

logger = logging.getLogger(__name__)


class UserCheck:
    """A function for ``allow=`` whose answer may take a query.

    Args:
        ask: returns whether a sender may see the component; called in a thread. If it raises, the component is hidden,
            and the exception is logged.
        name: the name of the check, for messages.

    Calling it returns the answer for a principal, ``False`` where nothing has asked. For a principal of another kind
    than `DjangoPrincipal`, which a server with ``auth=`` has, it returns ``others``.
    """

    def __init__(self, ask: Callable[[DjangoPrincipal], bool], name: str, *, others: bool = False) -> None:
        self._ask = ask
        self._others = others
        self.__qualname__ = name

    def __call__(self, principal: Any) -> bool:
        """Return the answer that `ask` found."""
        if not isinstance(principal, DjangoPrincipal):
            return self._others
        return principal.answers.get(self, False)

    def ask(self, principal: DjangoPrincipal) -> None:
        """Find the answer for a principal, once; blocks."""
        if self in principal.answers:
            return
        try:
            principal.answers[self] = bool(self._ask(principal))
        except Exception:
            logger.exception("allow=%s failed, so that its component is hidden", self.__qualname__)
            principal.answers[self] = False


def user_passes(test: Callable[[Any], bool]) -> UserCheck:
    """Return a function for ``allow=``: whether a user passes a test.

    Args:
        test: ``(user) -> bool``; may query the database. It is not called for senders without a user.
    """

    def ask(principal: DjangoPrincipal) -> bool:
        return principal.user is not None and bool(test(principal.user))

    return UserCheck(ask, getattr(test, "__qualname__", type(test).__name__))  # a callable object has no name


def has_perm(*permissions: str) -> UserCheck:
    """Return a function for ``allow=``: whether a user has all of these permissions.

    Args:
        permissions: ``"app_label.codename"``.

    Raises:
        ValueError: none is given, or one has no application label.
    """
    if not permissions or not all("." in each for each in permissions):
        raise ValueError(f"has_perm() takes permissions such as 'shop.view_invoice', not {permissions!r}")
    check = user_passes(lambda user: user.has_perms(permissions))
    check.__qualname__ = f"has_perm{permissions!r}"
    return check


def in_group(*names: str) -> UserCheck:
    """Return a function for ``allow=``: whether an active user is in one of these groups.

    Raises:
        ValueError: no name is given.
    """
    if not names:
        raise ValueError("in_group() takes the names of groups")
    check = user_passes(lambda user: user.is_active and user.groups.filter(name__in=names).exists())
    check.__qualname__ = f"in_group{names!r}"
    return check


is_staff = user_passes(lambda user: user.is_active and user.is_staff)
"""For ``allow=``: whether a user is active and may use the admin site."""
is_staff.__qualname__ = "is_staff"

is_superuser = user_passes(lambda user: user.is_active and user.is_superuser)
"""For ``allow=``: whether a user is active and has all permissions."""
is_superuser.__qualname__ = "is_superuser"
