"""A view that knows its user."""

from typing import Any

from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response


class Account(serializers.Serializer):
    """What the view answers."""

    username = serializers.CharField()


class AccountView(GenericAPIView):
    """The account of the user."""

    serializer_class = Account

    def get(self, request: Request) -> Response:
        """Return the account of the user."""
        user: Any = request.user
        return Response(Account(user).data)
