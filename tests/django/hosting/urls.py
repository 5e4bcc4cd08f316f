"""The URLconf: that of the other tests, where the applications have exposed more."""

from __future__ import annotations

from tests.django.urls import urlpatterns

__all__ = ["urlpatterns"]
