"""A Django project with one package of authentication at a time: ``python manage.py runserver --settings site1.token``.

The settings are ``site1.token``, ``site1.simplejwt``, ``site1.knox`` and ``site1.oauth_toolkit``. Before the first run:
``migrate`` and ``createsuperuser``, with the same ``--settings``.
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site1.token")
    execute_from_command_line(sys.argv)
