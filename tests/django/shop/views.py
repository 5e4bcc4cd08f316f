"""Views of the application."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.permissions import IsAdminUser
from rest_framework.response import Response

from tests.django.shop.models import Invoice


class InvoiceSerializer(serializers.ModelSerializer):
    """An invoice as clients see it."""

    class Meta:
        """Options."""

        model = Invoice
        fields = ("id", "title", "amount", "paid")
        read_only_fields = ("paid",)


class InvoiceViewSet(viewsets.ModelViewSet):
    """Invoices of the user."""

    queryset = Invoice.objects.all()
    serializer_class = InvoiceSerializer

    def get_queryset(self) -> Any:
        """Return the user's own invoices."""
        return Invoice.objects.filter(owner=self.request.user).order_by("id")

    def perform_create(self, serializer: Any) -> None:
        """Save an invoice of the user."""
        serializer.save(owner=self.request.user)

    @action(detail=True, methods=["post"])
    def pay(self, request: Any, pk: Any = None) -> Response:
        """Pay an invoice."""
        invoice = self.get_object()
        invoice.paid = True
        invoice.save()
        return Response(self.get_serializer(invoice).data)

    @action(detail=False, methods=["post"], permission_classes=[IsAdminUser])
    def purge(self, request: Any) -> Response:
        """Delete all paid invoices."""
        return Response({"deleted": Invoice.objects.filter(paid=True).delete()[0]})
