"""Tasks on docket: a queue for asyncio in Redis streams, whose workers renew their claims (extra ``ferrule[docket]``).

```
app = MCPServer("shop", store=URL, extensions=[Tasks(executor=DocketExecutor(URL))])
```

and ``ferrule worker FILE`` on each machine that shall run tasks. Arguments, results and progress stay in the server's
store; docket carries ids. Why docket: see "Task engines" in the documentation.

A client that can write to docket's Redis can run code in every process that opens it, web processes included: docket
unpickles the data that it reads there (`cloudpickle`). Protect that Redis like the program itself.

asyncio only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any, Final

from ferrule.extensions.tasks import Delivery, RunTask

__all__ = ["DocketExecutor"]

_TASK: Final = "ferrule_task"


class DocketExecutor:
    """A `TaskExecutor` on docket.

    Args:
        url: the URL of Redis or Valkey as docket reads it; ``redis+cluster://`` for a cluster, ``redis+sentinel://``
            for Sentinel. It need not be that of the server's store.
        name: the name of the queue, and the prefix of its keys.
        redelivery_s: seconds after which docket delivers the tasks of an unresponsive worker again. A task that the
            worker had begun continues sooner, when its own lease has run out.

    Raises:
        ImportError: docket is not installed.
    """

    is_local = False

    def __init__(self, url: str, *, name: str = "ferrule-tasks", redelivery_s: float = 30.0) -> None:
        try:
            self._docket: Any = import_module("docket")
        except ModuleNotFoundError as error:
            raise ImportError("DocketExecutor needs docket: pip install 'ferrule[docket]'") from error
        self._url = url
        self._name = name
        self._redelivery_s = redelivery_s
        self._open: list[Any] = []

    def connected(self, run: RunTask) -> AbstractAsyncContextManager[None]:
        """See `TaskExecutor`."""
        return self._connected(run)

    @asynccontextmanager
    async def _connected(self, run: RunTask) -> AsyncGenerator[None]:
        async def ferrule_task(task_id: str) -> None:
            await run(task_id)

        # Nothing is read from docket's own records, and a key shall not outlive its task.
        async with self._docket.Docket(name=self._name, url=self._url, execution_ttl=timedelta(0)) as docket:
            docket.register(ferrule_task, names=[_TASK])
            self._open.append(docket)
            try:
                yield
            finally:
                self._open.remove(docket)

    async def submit(self, delivery: Delivery) -> None:
        """See `TaskExecutor`."""
        await self._open[-1].add(_TASK, key=delivery.key)(delivery.task_id)

    async def withdraw(self, delivery: Delivery) -> None:
        """See `TaskExecutor`."""
        await self._open[-1].cancel(delivery.key)

    async def work(self, *, concurrency: int) -> None:
        """See `TaskExecutor`."""
        redelivery = timedelta(seconds=self._redelivery_s)
        async with self._docket.Worker(
            self._open[-1], concurrency=concurrency, redelivery_timeout=redelivery, schedule_automatic_tasks=False
        ) as worker:
            await worker.run_forever()
