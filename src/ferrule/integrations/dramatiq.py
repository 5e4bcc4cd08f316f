"""Tasks on dramatiq: a queue in Redis whose messages are JSON (extra ``ferrule[dramatiq]``).

```
app = MCPServer("shop", store=URL, extensions=[Tasks(executor=DramatiqExecutor("redis://host:6379/0"))])
```

and ``ferrule worker FILE`` on each machine that shall run tasks. Arguments, results and progress stay in the server's
store; dramatiq carries ids. Why dramatiq: see "Task engines" in the documentation.

Dramatiq runs an actor in a thread. The one actor here gets a task's id and waits, in its thread, for the event loop
that runs the body. Dramatiq's own retries and time limits are off: the task's record says whether it may run again, and
its ``ttl_s`` when it ends.

Anyone who can write to the queue can make a worker run a task that exists and is not running; it would run anyway.
A program may change the encoder of all messages of dramatiq (``dramatiq.set_encoder``); unless it is the JSON encoder,
the executor refuses to work, because dramatiq's other one unpickles, which runs code of the message's author.

asyncio only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any, Final

from ferrule.extensions.tasks import Delivery, RunTask

__all__ = ["DramatiqExecutor"]

_TASK: Final = "ferrule_task"


class DramatiqExecutor:
    """A `TaskExecutor` on dramatiq.

    Args:
        url: the URL of Redis or Valkey; it need not be that of the server's store.
        name: the name of the queue, and the prefix of its keys.
        redelivery_s: seconds after which dramatiq delivers the tasks of an unresponsive worker again. A task that the
            worker had begun continues sooner, when its own lease has run out.

    Raises:
        ImportError: dramatiq is not installed.
        RuntimeError: the messages of dramatiq are not JSON in this process.
    """

    is_local = False

    def __init__(self, url: str, *, name: str = "ferrule-tasks", redelivery_s: float = 30.0) -> None:
        try:
            self._dramatiq: Any = import_module("dramatiq")
            broker: Any = import_module("dramatiq.brokers.redis").RedisBroker
        except ModuleNotFoundError as error:
            raise ImportError("DramatiqExecutor needs dramatiq: pip install 'ferrule[dramatiq]'") from error
        self._check_encoder()
        self._broker: Any = broker(
            url=url, namespace=name, middleware=[], heartbeat_timeout=max(1, round(redelivery_s * 1000))
        )
        self._actor: Any = self._dramatiq.actor(self._act, actor_name=_TASK, broker=self._broker)
        self._run: RunTask | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def _check_encoder(self) -> None:
        encoder = self._dramatiq.get_encoder()
        # No subclass: what it does with bytes of others is not known.
        if type(encoder) is not self._dramatiq.JSONEncoder:
            raise RuntimeError(
                f"The messages of dramatiq are encoded by {type(encoder).__name__}; DramatiqExecutor needs "
                "dramatiq.JSONEncoder, because others may run code from a message"
            )

    def _act(self, task_id: str) -> None:
        run, loop = self._run, self._loop
        if run is None or loop is None:
            raise RuntimeError("A worker works inside the lifespan of its server")

        async def body() -> None:
            await run(task_id)

        asyncio.run_coroutine_threadsafe(body(), loop).result()

    def connected(self, run: RunTask) -> AbstractAsyncContextManager[None]:
        """See `TaskExecutor`; connections are opened as they are needed."""
        return self._connected(run)

    @asynccontextmanager
    async def _connected(self, run: RunTask) -> AsyncGenerator[None]:
        self._check_encoder()
        self._run, self._loop = run, asyncio.get_running_loop()
        try:
            yield
        finally:
            await asyncio.to_thread(self._broker.close)

    async def submit(self, delivery: Delivery) -> None:
        """See `TaskExecutor`."""
        self._check_encoder()
        await asyncio.to_thread(self._actor.send, delivery.task_id)

    async def withdraw(self, delivery: Delivery) -> None:
        """Do nothing: dramatiq cannot delete a message, and the worker that receives it finds the task ended."""

    async def work(self, *, concurrency: int) -> None:
        """See `TaskExecutor`; one thread for each task at a time."""
        self._check_encoder()
        worker = self._dramatiq.Worker(self._broker, worker_threads=concurrency)
        worker.start()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.shield(asyncio.to_thread(worker.stop))
