"""Models can be imported only after Django has been set up; the tests of the store import them at the top."""

from __future__ import annotations

import django

django.setup()
