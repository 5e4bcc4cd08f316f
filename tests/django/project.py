"""Settings and URLconf of the project that these tests serve."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SECRET_KEY = "only for tests"
ALLOWED_HOSTS = ["testserver", "127.0.0.1", "localhost"]
ROOT_URLCONF = "tests.django.urls"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "rest_framework",
    "rest_framework.authtoken",
    "ferrule.django",
    "tests.django.shop",
]
MIDDLEWARE = [
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
MIDDLEWARE.insert(1, "django.contrib.sessions.middleware.SessionMiddleware")
INSTALLED_APPS.insert(2, "django.contrib.sessions")


def database_at(address: str) -> dict[str, Any]:
    """Return the entry of ``DATABASES`` for the address of a database."""
    url = urlsplit(address)
    if url.scheme != "postgresql":
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url.path, "OPTIONS": {"timeout": 30}}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.path[1:],
        "USER": url.username,
        "HOST": url.hostname,
        "PORT": url.port,
        "OPTIONS": {"application_name": url.path[1:]},
    }


# A file, where one thread waits for another. Tables of a database in memory that threads share are locked at once.
_FILE = str(Path(tempfile.gettempdir()) / f"ferrule-django-{os.getpid()}.db")
DATABASES: dict[str, dict[str, Any]] = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": _FILE, "TEST": {"NAME": f"{_FILE}-test"}}
}
if "FERRULE_DJANGO_DATABASE" in os.environ:  # the tests run again, in a process of their own
    DATABASES["default"] = database_at(os.environ["FERRULE_DJANGO_DATABASE"])
    DATABASES["default"]["TEST"] = {"NAME": f"exposed_{os.getpid()}"}
    # Tables are made from the models: those of an application without migrations would be made before those of users.
    MIGRATION_MODULES = dict.fromkeys(name.rpartition(".")[2] for name in INSTALLED_APPS)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "rest_framework.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
    "PAGE_SIZE": 2,
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",  # for `@extend_schema`
}
MCP = {"NAME": "shop", "INSTRUCTIONS": "A shop."}
