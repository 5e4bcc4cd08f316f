"""Settings of the property tests: no example is judged by a clock, for the machine may be busy with something else."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("ferrule", deadline=None)
settings.load_profile("ferrule")
