"""The URLconf of the project."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import DefaultRouter

from ferrule.django import mcp
from tests.django.shop.views import InvoiceViewSet

router = DefaultRouter()
router.register("invoices", InvoiceViewSet)

urlpatterns = [path("api/", include(router.urls)), path("mcp/", mcp.urls)]
