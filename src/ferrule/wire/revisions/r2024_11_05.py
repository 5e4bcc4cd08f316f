"""2024-11-05, the first published revision; over HTTP it has two endpoints (HTTP+SSE).

It does not have yet, against 2025-03-26: tool annotations, audio, batches, the ``completions`` capability, text in
progress notifications.
"""

from ferrule.wire.revisions.base import derive
from ferrule.wire.revisions.r2025_03_26 import REVISION as NEWER
from ferrule.wire.types.notifications import ProgressNotificationParams
from ferrule.wire.types.server_features.tools import Tool

__all__ = ["REVISION"]

REVISION = derive(
    NEWER,
    "2024-11-05",
    absent={Tool: {"annotations"}, ProgressNotificationParams: {"message"}},
    content_kinds=frozenset({"text", "image", "resource"}),
    sampling_content_kinds=frozenset({"text", "image"}),
    has_batches=False,
    has_completions_capability=False,
    has_progress_message=False,
    http="sse",
)
