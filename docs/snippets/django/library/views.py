from rest_framework import serializers, viewsets
from rest_framework.permissions import IsAuthenticated
from rest_framework.versioning import AcceptHeaderVersioning

from library.models import Book


class BookSerializer(serializers.ModelSerializer):
    class Meta:
        model = Book
        fields = ("id", "title")


class LongBookSerializer(serializers.ModelSerializer):
    class Meta:
        model = Book
        fields = ("id", "title", "pages")


class CostSerializer(serializers.ModelSerializer):
    class Meta:
        model = Book
        fields = ("id", "title", "cost")


# --8<-- [start:version]
class Versions(AcceptHeaderVersioning):
    default_version = "1"
    allowed_versions = ("1", "2")


class BookViewSet(viewsets.ModelViewSet):
    """Books of the library."""

    queryset = Book.objects.order_by("id")
    permission_classes = (IsAuthenticated,)
    versioning_class = Versions

    def get_serializer_class(self):
        return LongBookSerializer if self.request.version == "2" else BookSerializer


# --8<-- [end:version]


# --8<-- [start:user]
class PurchaseViewSet(viewsets.ModelViewSet):
    """Books that the library bought."""

    queryset = Book.objects.order_by("id")
    permission_classes = (IsAuthenticated,)

    def get_serializer_class(self):
        return CostSerializer if self.request.user.is_staff else BookSerializer


# --8<-- [end:user]
