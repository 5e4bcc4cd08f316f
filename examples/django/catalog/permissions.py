"""Who may change what."""

from typing import Any

from rest_framework.permissions import SAFE_METHODS, BasePermission


class StaffWrites(BasePermission):
    """Everybody reads; members of the staff write."""

    def has_permission(self, request: Any, view: Any) -> bool:
        """Return whether the request may go on."""
        return request.method in SAFE_METHODS or request.user.is_staff


class AuthorWrites(BasePermission):
    """Everybody reads; only the author changes a review."""

    message = "Only its author may change a review."

    def has_object_permission(self, request: Any, view: Any, obj: Any) -> bool:
        """Return whether this review may be changed."""
        return request.method in SAFE_METHODS or obj.author_id == request.user.pk
