"""URLs with djangorestframework-simplejwt."""

from django.urls import path
from notes.views import AccountView
from rest_framework_simplejwt.views import TokenObtainPairView, TokenRefreshView

from ferrule.django import mcp

urlpatterns = [
    path("login/", TokenObtainPairView.as_view()),
    path("refresh/", TokenRefreshView.as_view()),
    path("account/", AccountView.as_view()),
    path("mcp/", mcp.urls),
]
