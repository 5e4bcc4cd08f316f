"""Users without a name and without flags of the admin, whose keys are UUIDs."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models


class AccountManager(BaseUserManager["Account"]):
    """Makes users."""

    def create_user(self, email: str) -> Account:
        """Return a new user."""
        return self.create(email=email)


class Account(AbstractBaseUser):
    """A user."""

    id: Any = models.UUIDField(primary_key=True, default=uuid.uuid4)
    email: Any = models.EmailField(unique=True)
    is_active: Any = models.BooleanField(default=True)

    objects: ClassVar[AccountManager] = AccountManager()

    USERNAME_FIELD = "email"
