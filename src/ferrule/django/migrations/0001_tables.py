"""The tables of the store (`ferrule.django.models`)."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Makes the tables."""

    initial = True

    dependencies = ()

    operations = (
        migrations.CreateModel(
            name="BlobRow",
            fields=[
                ("expires_at", models.FloatField(db_index=True)),
                ("key", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("value", models.BinaryField()),
            ],
            options={
                "db_table": "ferrule_blob",
                "abstract": False,
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="DeliveryRow",
            fields=[
                ("expires_at", models.FloatField(db_index=True)),
                ("number", models.BigAutoField(primary_key=True, serialize=False)),
                ("key", models.CharField(max_length=64, unique=True)),
                ("task_id", models.BinaryField()),
            ],
            options={
                "db_table": "ferrule_delivery",
                "abstract": False,
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="MarkRow",
            fields=[
                ("expires_at", models.FloatField(db_index=True)),
                ("key", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("value", models.BinaryField(null=True)),
            ],
            options={
                "db_table": "ferrule_mark",
                "abstract": False,
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="MessageRow",
            fields=[
                ("expires_at", models.FloatField(db_index=True)),
                ("number", models.BigAutoField(primary_key=True, serialize=False)),
                ("message", models.BinaryField()),
            ],
            options={
                "db_table": "ferrule_message",
                "abstract": False,
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="RateRow",
            fields=[
                ("expires_at", models.FloatField(db_index=True)),
                ("key", models.CharField(max_length=64, primary_key=True, serialize=False)),
            ],
            options={
                "db_table": "ferrule_rate",
                "abstract": False,
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="SessionRow",
            fields=[
                ("expires_at", models.FloatField(db_index=True)),
                ("key", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("value", models.BinaryField()),
            ],
            options={
                "db_table": "ferrule_session",
                "abstract": False,
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="CacheRow",
            fields=[
                ("expires_at", models.FloatField(db_index=True)),
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("bundle", models.CharField(max_length=64)),
                ("key", models.CharField(max_length=64)),
                ("size", models.IntegerField()),
                ("value", models.BinaryField()),
            ],
            options={
                "db_table": "ferrule_cache",
                "abstract": False,
                "default_permissions": (),
                "constraints": [models.UniqueConstraint(fields=("bundle", "key"), name="ferrule_cache_key")],
            },
        ),
        migrations.CreateModel(
            name="EventRow",
            fields=[
                ("expires_at", models.FloatField(db_index=True)),
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("session", models.CharField(max_length=64)),
                ("stream", models.CharField(max_length=64)),
                ("number", models.BigIntegerField()),
                ("data", models.BinaryField()),
            ],
            options={
                "db_table": "ferrule_event",
                "abstract": False,
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("session", "stream", "number"), name="ferrule_event_number")
                ],
            },
        ),
        migrations.CreateModel(
            name="TaskRow",
            fields=[
                ("expires_at", models.FloatField(db_index=True)),
                ("number", models.BigAutoField(primary_key=True, serialize=False)),
                ("key", models.CharField(max_length=64, unique=True)),
                ("task_id", models.BinaryField()),
                ("owner_key", models.CharField(max_length=64)),
                ("owner", models.BinaryField()),
                ("version", models.BigIntegerField()),
                ("created_at", models.FloatField()),
                ("leased_until", models.FloatField(null=True)),
                ("body", models.BinaryField()),
            ],
            options={
                "db_table": "ferrule_task",
                "abstract": False,
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["owner_key", "number"], name="ferrule_task_owner"),
                    models.Index(
                        condition=models.Q(("leased_until__isnull", False)),
                        fields=["leased_until"],
                        name="ferrule_task_lease",
                    ),
                ],
            },
        ),
    )
