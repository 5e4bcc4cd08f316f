"""URLs of the project: the API, tokens, and the endpoint."""

from django.urls import include, path
from rest_framework_simplejwt.views import TokenObtainPairView, TokenRefreshView

from ferrule.django import mcp

urlpatterns = [
    path("api/", include("catalog.urls")),
    path("api/", include("stock.urls")),
    path("api/", include("sales.urls")),
    path("api/token/", TokenObtainPairView.as_view()),
    path("api/token/refresh/", TokenRefreshView.as_view()),
    path("mcp/", mcp.urls),
]
