"""Tasks: tool calls that outlive their request, in the 2025-11-25 core and in ``io.modelcontextprotocol/tasks``."""

from __future__ import annotations

from ferrule.extensions.tasks.extension import Tasks

__all__ = ["Tasks"]
