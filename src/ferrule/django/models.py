"""The tables of the store in the project's database (`ferrule.django.store`).

Keys are digests of what clients and programs name (`ferrule.django.store.database.digest`): of any length and with any
characters, and who reads the tables finds no session id. Every row has a time of expiry, in seconds since the epoch by
the clock of the database; an expired row does not exist, and is deleted later.
"""

from __future__ import annotations

from django.db import models

__all__ = [
    "KINDS",
    "BlobRow",
    "CacheRow",
    "DeliveryRow",
    "EventRow",
    "MarkRow",
    "MessageRow",
    "RateRow",
    "SessionRow",
    "StoreRow",
    "TaskRow",
]

_DIGEST = 64
"""Characters of a SHA-256 digest in hexadecimal."""


class StoreRow(models.Model):
    """A row that expires."""

    expires_at: models.Field[float, float] = models.FloatField(db_index=True)

    class Meta:
        """No permissions: these rows are not edited in the admin."""

        abstract = True
        default_permissions = ()


class MarkRow(StoreRow):
    """A one-time mark; without a value it is running."""

    key: models.Field[str, str] = models.CharField(max_length=_DIGEST, primary_key=True)
    value: models.Field[bytes | None, bytes | None] = models.BinaryField(null=True)

    class Meta(StoreRow.Meta):
        """The name of the table."""

        db_table = "ferrule_mark"


class BlobRow(StoreRow):
    """A small value."""

    key: models.Field[str, str] = models.CharField(max_length=_DIGEST, primary_key=True)
    value: models.Field[bytes, bytes] = models.BinaryField()

    class Meta(StoreRow.Meta):
        """The name of the table."""

        db_table = "ferrule_blob"


class SessionRow(StoreRow):
    """A legacy session."""

    key: models.Field[str, str] = models.CharField(max_length=_DIGEST, primary_key=True)
    value: models.Field[bytes, bytes] = models.BinaryField()

    class Meta(StoreRow.Meta):
        """The name of the table."""

        db_table = "ferrule_session"


class EventRow(StoreRow):
    """An event of a stream of a legacy session."""

    id: models.Field[int, int] = models.BigAutoField(primary_key=True)
    session: models.Field[str, str] = models.CharField(max_length=_DIGEST)
    stream: models.Field[str, str] = models.CharField(max_length=_DIGEST)
    number: models.Field[int, int] = models.BigIntegerField()
    data: models.Field[bytes, bytes] = models.BinaryField()

    class Meta(StoreRow.Meta):
        """The name of the table, and what is unique."""

        db_table = "ferrule_event"
        constraints = (models.UniqueConstraint(fields=("session", "stream", "number"), name="ferrule_event_number"),)


class MessageRow(StoreRow):
    """A message to the other processes."""

    number: models.Field[int, int] = models.BigAutoField(primary_key=True)
    message: models.Field[bytes, bytes] = models.BinaryField()

    class Meta(StoreRow.Meta):
        """The name of the table."""

        db_table = "ferrule_message"


class CacheRow(StoreRow):
    """A cached result; ``size`` is the number of its bytes."""

    id: models.Field[int, int] = models.BigAutoField(primary_key=True)
    bundle: models.Field[str, str] = models.CharField(max_length=_DIGEST)
    key: models.Field[str, str] = models.CharField(max_length=_DIGEST)
    size: models.Field[int, int] = models.IntegerField()
    value: models.Field[bytes, bytes] = models.BinaryField()

    class Meta(StoreRow.Meta):
        """The name of the table, and what is unique."""

        db_table = "ferrule_cache"
        constraints = (models.UniqueConstraint(fields=("bundle", "key"), name="ferrule_cache_key"),)


class RateRow(StoreRow):
    """A rate limit; it expires when its bucket is full."""

    key: models.Field[str, str] = models.CharField(max_length=_DIGEST, primary_key=True)

    class Meta(StoreRow.Meta):
        """The name of the table."""

        db_table = "ferrule_rate"


class TaskRow(StoreRow):
    """A task; without a lease it has ended.

    ``task_id`` and ``owner`` are UTF-8 and not text columns, which cannot hold every text on every database.
    """

    number: models.Field[int, int] = models.BigAutoField(primary_key=True)
    key: models.Field[str, str] = models.CharField(max_length=_DIGEST, unique=True)
    task_id: models.Field[bytes, bytes] = models.BinaryField()
    owner_key: models.Field[str, str] = models.CharField(max_length=_DIGEST)
    owner: models.Field[bytes, bytes] = models.BinaryField()
    version: models.Field[int, int] = models.BigIntegerField()
    created_at: models.Field[float, float] = models.FloatField()
    leased_until: models.Field[float | None, float | None] = models.FloatField(null=True)
    body: models.Field[bytes, bytes] = models.BinaryField()

    class Meta(StoreRow.Meta):
        """The name of the table, and its indexes."""

        db_table = "ferrule_task"
        indexes = (
            models.Index(fields=("owner_key", "number"), name="ferrule_task_owner"),
            models.Index(
                fields=("leased_until",),
                name="ferrule_task_lease",
                condition=models.Q(leased_until__isnull=False),
            ),
        )


class DeliveryRow(StoreRow):
    """A task that waits for ``manage.py mcp worker``."""

    number: models.Field[int, int] = models.BigAutoField(primary_key=True)
    key: models.Field[str, str] = models.CharField(max_length=_DIGEST, unique=True)
    task_id: models.Field[bytes, bytes] = models.BinaryField()

    class Meta(StoreRow.Meta):
        """The name of the table."""

        db_table = "ferrule_delivery"


KINDS: tuple[type[StoreRow], ...] = (
    MarkRow,
    BlobRow,
    SessionRow,
    EventRow,
    MessageRow,
    CacheRow,
    RateRow,
    TaskRow,
    DeliveryRow,
)
"""All tables."""
