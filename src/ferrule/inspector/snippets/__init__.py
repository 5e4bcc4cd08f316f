"""Code for a call that was made in the inspector: Python, `curl` and a pytest test."""

from __future__ import annotations

from ferrule.inspector.snippets.writer import write_snippet

__all__ = ["write_snippet"]
