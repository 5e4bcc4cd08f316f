from rest_framework import serializers, viewsets

from books.models import Book


class BookSerializer(serializers.ModelSerializer):
    class Meta:
        model = Book
        fields = ("id", "title", "price")


class BookViewSet(viewsets.ModelViewSet):
    """Books of the shop."""

    queryset = Book.objects.order_by("id")
    serializer_class = BookSerializer
