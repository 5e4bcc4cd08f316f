"""A view that needs a scope."""

from oauth2_provider.contrib.rest_framework import TokenHasScope
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response


class Note(serializers.Serializer):
    """A note."""

    title = serializers.CharField()


class NoteView(GenericAPIView):
    """Notes of the user."""

    permission_classes = [TokenHasScope]
    required_scopes = ["write"]
    serializer_class = Note

    def post(self, request: Request) -> Response:
        """Write a note."""
        note = self.get_serializer(data=request.data)
        note.is_valid(raise_exception=True)
        return Response(note.data)
