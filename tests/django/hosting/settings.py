"""The project of these tests as servers run it: with a database that the environment names."""

from __future__ import annotations

import os

from tests.django.project import *  # noqa: F403
from tests.django.project import INSTALLED_APPS, MIDDLEWARE, database_at

INSTALLED_APPS = [*INSTALLED_APPS, "tests.django.hosting"]
MIDDLEWARE = [*MIDDLEWARE, "tests.django.hosting.middleware.ReadsTheBody"]
ROOT_URLCONF = "tests.django.hosting.urls"
WSGI_APPLICATION = "tests.django.hosting.wsgi.application"
MIGRATION_MODULES = dict.fromkeys(name.rpartition(".")[2] for name in INSTALLED_APPS)  # tables are made from the models
ALLOWED_HOSTS = ["127.0.0.1"]
DATA_UPLOAD_MAX_MEMORY_SIZE = 10 * 1024 * 1024
DATABASES = {
    "default": {
        **database_at(os.environ.get("HOSTED_DATABASE", "")),
        "ATOMIC_REQUESTS": True,
        "CONN_MAX_AGE": int(os.environ.get("HOSTED_CONN_MAX_AGE", "0")),
        "CONN_HEALTH_CHECKS": True,
    }
}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    if os.environ.get("HOSTED_SQLITE") == "plain":  # as a new project has it
        DATABASES["default"].update(OPTIONS={}, ATOMIC_REQUESTS=False)
    elif os.environ.get("HOSTED_SQLITE") == "immediate":  # as transactions need it that read before they write
        DATABASES["default"]["OPTIONS"]["transaction_mode"] = "IMMEDIATE"
# The store in the database holds a connection of each process, which most of these tests would count.
MCP = {"NAME": "shop", "MAX_BODY_BYTES": 100_000, "STORE": os.environ.get("HOSTED_STORE", "memory:")}
