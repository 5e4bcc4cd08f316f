"""A store in the project's own database, so that a Django server needs no Redis and no file.

`ferrule.django.store.store.django_store` makes it; the setting ``MCP["STORE"]`` chooses it.
"""
