"""Settings of the project.

SHOP_DATABASE_URL names a PostgreSQL database (``postgresql://user:password@host:5432/name``); without it, SQLite is
used, in the file SHOP_SQLITE. SHOP_SECRET_KEY is the secret of a real site.
"""

import os
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = os.environ.get("SHOP_SECRET_KEY", "only for this example, and never for a site that others reach")
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]
ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_filters",
    "rest_framework",
    "rest_framework.authtoken",
    "ferrule.django",
    "catalog",
    "stock",
    "sales",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
MIDDLEWARE.insert(1, "django.contrib.sessions.middleware.SessionMiddleware")
INSTALLED_APPS.insert(2, "django.contrib.sessions")

database = urlsplit(os.environ.get("SHOP_DATABASE_URL", ""))
if database.scheme:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": database.path.lstrip("/"),
            "USER": database.username,
            "PASSWORD": database.password,
            "HOST": database.hostname,
            "PORT": database.port,
            "CONN_MAX_AGE": 60,
        }
    }
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ.get("SHOP_SQLITE", str(BASE_DIR / "shop.sqlite3")),
            # Readers and one writer at a time, which waits its turn instead of failing.
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
MEDIA_ROOT = os.environ.get("SHOP_MEDIA", str(BASE_DIR / "media"))

# --8<-- [start:rest]
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "rest_framework_simplejwt.authentication.JWTAuthentication",
        "rest_framework.authentication.TokenAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
    "PAGE_SIZE": 20,
    "DEFAULT_FILTER_BACKENDS": [
        "django_filters.rest_framework.DjangoFilterBackend",
        "rest_framework.filters.SearchFilter",
        "rest_framework.filters.OrderingFilter",
    ],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_THROTTLE_RATES": {"reviews": os.environ.get("SHOP_REVIEWS_RATE", "30/min")},
}
SIMPLE_JWT = {"ACCESS_TOKEN_LIFETIME": timedelta(minutes=10)}
# --8<-- [end:rest]

# --8<-- [start:mcp]
MCP = {
    "NAME": "shop",
    "VERSION": "1.0",
    "INSTRUCTIONS": "A shop. Find products with product_list (search=, price_max=, in_stock=), make an order with "
    "order_create and line_create, then call place_order, which asks the user.",
    "TOOL_SEARCH": False,
}
# --8<-- [end:mcp]
