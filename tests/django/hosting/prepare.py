"""Makes the tables and a user, and prints the user's token; run as ``python -m tests.django.hosting.prepare``."""

from __future__ import annotations

import django


def main() -> None:
    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from rest_framework.authtoken.models import Token

    call_command("migrate", run_syncdb=True, verbosity=0)
    user, _ = User.objects.get_or_create(username="alice")
    print(Token.objects.get_or_create(user=user)[0].key)


main()
