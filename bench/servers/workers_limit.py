"""A bare ASGI app under uvicorn's own workers that burns CPU as `workers_server` does: WORKERS BURN_MS STORE PORT."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ["FERRULE_BENCH"] = " ".join(sys.argv[1:])
workers, burn_ms, _store, port = os.environ["FERRULE_BENCH"].split()
os.sched_setaffinity(0, range(os.cpu_count() or 1))
burn_s = float(burn_ms) / 1000


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer every request as the echo tool does."""
    if scope["type"] != "http":
        return
    message = json.loads((await receive())["body"])
    end = time.thread_time() + burn_s
    while time.thread_time() < end:
        pass
    content = [{"type": "text", "text": message["params"]["arguments"]["text"]}]
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"content": content}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    import uvicorn

    uvicorn.run(
        f"{Path(__file__).stem}:app",
        app_dir=str(Path(__file__).parent),
        port=int(port),
        workers=int(workers),
        lifespan="off",
        log_level="warning",
    )
