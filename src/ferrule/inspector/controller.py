"""State and actions behind the page: connections, jobs, questions, subscriptions, roots.

The command line names the program or the URL. The page chooses the era and the credentials only: a stolen token must
not be enough to start a program.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

import anyio
import anyio.from_thread
import anyio.to_thread

from ferrule.client.calls.subscriptions import Subscription
from ferrule.extensions.apps import CLIENT_SETTINGS
from ferrule.extensions.apps.sandbox.profiles import PROFILES
from ferrule.inspector.connection import InspectorConnection
from ferrule.inspector.crashes import CrashReader
from ferrule.inspector.errors import BadCall
from ferrule.inspector.feed import Feed
from ferrule.inspector.jobs import MAX_PINNED, OPERATIONS, Jobs
from ferrule.inspector.questions import PendingQuestions
from ferrule.inspector.sessions import write_session
from ferrule.inspector.snippets import write_snippet
from ferrule.inspector.target import InspectedTarget
from ferrule.inspector.trace import ConnectionTrace, MessageStore
from ferrule.inspector.values import check_value
from ferrule.inspector.views import Views
from ferrule.transports.background import Background, BackgroundTask
from ferrule.wire.codec import Encoded, encode_str, to_builtins
from ferrule.wire.faults import FerruleError
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.revisions import LATEST_MODERN_VERSION, REVISIONS

__all__ = ["InspectorController"]

logger = logging.getLogger("ferrule.inspector")

CONNECTIONS: Final[Mapping[str, str | None]] = {"main": None, "legacy": "legacy", "modern": LATEST_MODERN_VERSION}
"""Names of the connections, and the revision or era that each requires; ``None``: the one chosen on the page."""
LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
MAX_ROOTS: Final = 100
MAX_RETIRED: Final = 3
"""Old processes that still run calls after their source changed; with more, the calls of the newest end."""
COMPLETE_S: Final = 10.0
WATCH_INTERVAL_S: Final = 0.5


class InspectorController:
    """The state of one inspector, and the actions of its API in `calls`.

    Args:
        target: the server.
        mode: era or revision of the main connection.
        roots: folders or ``file://`` URIs, offered to the server until the page changes them.
        changed: returns the source files that changed since its previous call; the server is then restarted.

    Attributes:
        on_state: called with the description of the main connection whenever it changes.
    """

    def __init__(
        self,
        target: InspectedTarget,
        *,
        mode: str = "auto",
        roots: list[str] | None = None,
        changed: Callable[[], list[str]] | None = None,
    ) -> None:
        self.feed = Feed()
        self.store = MessageStore()
        self.jobs = Jobs(self.feed, self.store)
        self.views = Views(self.feed)
        self.target = target
        self._mode = mode
        self._headers = dict(target.headers)
        self._token = target.token
        self._oauth = target.oauth
        self._roots: list[dict[str, Any]] = [{"uri": root} for root in roots or []]
        self._log_level = "info"
        self._changed = changed
        self._questions = PendingQuestions(self.feed, target.text, self.jobs.note_answer)
        self._connections: dict[str, InspectorConnection] = {}
        self._retired: list[InspectorConnection] = []
        self._opening: dict[str, anyio.Lock] = {}
        self._subscriptions: dict[str, tuple[InspectorConnection, Subscription, BackgroundTask]] = {}
        self._background = Background()
        self._warnings: _WarningForwarder | None = None
        self.on_state: Callable[[Mapping[str, Any]], object] = lambda facts: None
        self.calls: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "answer": self._answer,
            "cancel": self._cancel,
            "check": _check,
            "clear": self._clear,
            "complete": self._complete,
            "connect": self._connect,
            "disconnect": self._disconnect,
            "job": self._job,
            "log_level": self._set_log_level,
            "message": self._message,
            "outcome": self._outcome,
            "pin": self._pin,
            "roots": self._set_roots,
            "run": self._run,
            "session": self._session,
            "snippet": self._snippet,
            "state": self._state,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "view": self.views.admit,
            "view_check": self.views.check,
        }

    # -- start and stop ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the main connection, watch the source files, and forward the client's warnings to the page."""
        import asyncio

        self._warnings = _WarningForwarder(self.feed, asyncio.get_running_loop().call_soon_threadsafe)
        logging.getLogger("ferrule").addHandler(self._warnings)
        self._background.start(self._open_quietly("main"), "ferrule-inspector-connect")
        self._background.start(self._watch_connections(), "ferrule-inspector-lost")
        if self._changed is not None:
            self._background.start(self._watch(self._changed), "ferrule-inspector-watch")

    async def aclose(self) -> None:
        """Close every connection and end every event stream."""
        if self._warnings is not None:
            logging.getLogger("ferrule").removeHandler(self._warnings)
        await self.feed.aclose()
        await self._background.aclose()
        for connection in [*self._connections.values(), *self._retired]:
            await connection.aclose()

    async def _watch(self, changed: Callable[[], list[str]]) -> None:
        while True:
            await anyio.sleep(WATCH_INTERVAL_S)
            names = await anyio.to_thread.run_sync(changed)
            if names:
                self.feed.publish_event(
                    "notice", text=f"{len(names)} source file(s) changed: started again", names=names[:5]
                )
                for name in list(self._connections):
                    await self._retire_connection(name)
                    await self._open_quietly(name)

    async def _watch_connections(self) -> None:
        """Show when a server's process ends by itself; a call, or *Reconnect*, starts it again."""
        while True:
            await anyio.sleep(WATCH_INTERVAL_S)
            for connection in list(self._connections.values()):
                if connection.note_loss():
                    self._publish_connection(connection)

    async def _retire_connection(self, name: str) -> None:
        """Give a connection's name to a new one. Calls that run on the old one go on there, and then it is closed."""
        retired = self._connections.get(name)
        running = [] if retired is None else self.jobs.of_connection(retired)
        if retired is None or not running or len(self._retired) >= MAX_RETIRED:
            await self._close_connection(name)
            return
        await self._end_subscriptions(name)
        del self._connections[name]
        self._retired.append(retired)

        async def wait_and_close() -> None:
            for job in running:
                await job.ended.wait()
            self._retired.remove(retired)
            await retired.aclose()

        self._background.start(wait_and_close(), "ferrule-inspector-retire")

    # -- connections --------------------------------------------------------------------------------------------------

    async def connection(self, name: str) -> InspectorConnection:
        """Return an open connection; it is opened first where necessary.

        Raises:
            BadCall: there is no such connection.
            LocalError, RemoteError: it cannot be connected.
        """
        if name not in CONNECTIONS:
            raise BadCall(f"There is no connection {name!r}")
        # A lock for each name: several calls of the page must not start several processes.
        async with self._opening.setdefault(name, anyio.Lock()):
            found = self._connections.get(name)
            if found is not None and found.state == "open":
                return found
            if found is not None:
                await found.aclose()
            mode = CONNECTIONS[name] or self._mode
            connection = self._connections[name] = InspectorConnection(
                name, self.target, mode, ConnectionTrace(name, self.feed, self.store), self._options(name)
            )
            self._publish_connection(connection)
            try:
                await connection.connect()
            finally:
                self._publish_connection(connection)
            return connection

    def _options(self, connection: str) -> dict[str, Any]:
        crashes = CrashReader(lambda crash: self.jobs.note_crash(connection, crash))

        def on_stderr(line: str) -> None:
            self.feed.publish_event("stderr", connection=connection, text=line[:4000])
            crashes.feed(line)

        def log(message: Any) -> None:
            data = message.data if isinstance(message.data, str) else encode_str(message.data)
            self.feed.publish_event(
                "log", connection=connection, level=message.level, logger=message.logger or "", text=data[:20000]
            )

        options: dict[str, Any] = {
            **self._questions.handlers(connection),
            "on_stderr": on_stderr,
            "roots": lambda: list(self._roots_now()),
            "log_handler": log,
            "log_level": self._log_level,
            # The user of the page cancels calls, and wants to see results that do not fit their schema.
            "timeout_s": 3600.0,
            "validate_output": False,
            "extensions": CLIENT_SETTINGS,
        }
        if self.target.is_http:
            options["headers"] = self._headers
            options["auth"] = self._sign_in(connection) if self._oauth else self._token
        return options

    def _sign_in(self, connection: str) -> Any:
        from ferrule.auth.client.interaction import BrowserInteraction
        from ferrule.auth.client.oauth import OAuth

        def show(url: str) -> bool:  # called in a thread
            anyio.from_thread.run_sync(
                lambda: self.feed.publish_state("sign_in", connection, connection=connection, url=url)
            )
            return True

        return OAuth(interaction=BrowserInteraction(open_url=show), storage=self.target.token_storage)

    def _roots_now(self) -> list[Any]:
        from ferrule.wire.types import Root

        return [Root(root["uri"], name=root.get("name") or None) for root in self._roots]

    def _publish_connection(self, connection: InspectorConnection) -> None:
        facts = connection.describe()
        self.feed.publish_state("connection", connection.name, **facts)
        if connection.name == "main":
            self.on_state(facts)
        if connection.state != "connecting":
            self.feed.publish_state("sign_in", connection.name, connection=connection.name, url="")

    async def _open_quietly(self, name: str) -> None:
        try:
            await self.connection(name)
        except (
            FerruleError,
            OSError,
            ValueError,
            TypeError,
        ) as error:  # the connection's state, which the page shows, has the reason
            logger.debug("InspectorConnection %s did not open: %s", name, error)

    async def _close_connection(self, name: str) -> None:
        await self._end_subscriptions(name)
        closing = self._connections.pop(name, None)
        if closing is not None:
            await closing.aclose()
            self._publish_connection(closing)

    # -- the actions of the page ------------------------------------------------------------------------------------

    async def _state(self, body: Mapping[str, Any]) -> Any:
        from ferrule import __version__

        connections: list[dict[str, Any]] = [connection.describe() for connection in self._connections.values()]
        return {
            "version": __version__,
            "target": self.target.text,
            "is_http": self.target.is_http,
            "label": self.target.target.label,
            "mode": self._mode,
            "modes": ["auto", "legacy", *reversed(list(REVISIONS))],
            "headers": self._shown_headers(),
            "has_token": self._token is not None,
            "oauth": self._oauth,
            "roots": self._roots,
            "log_level": self._log_level,
            "log_levels": LOG_LEVELS,
            "connections": connections,
            "view_profiles": [{"name": each.name, "title": each.title} for each in PROFILES.values()],
        }

    def _shown_headers(self) -> str:
        return "\n".join(f"{name}: {value}" for name, value in self._headers.items())

    async def _connect(self, body: Mapping[str, Any]) -> Any:
        """Connect again with the settings in ``body``; a setting that is missing keeps its value."""
        mode = body.get("mode", self._mode)
        if mode not in ("auto", "legacy", *REVISIONS):
            raise BadCall("mode is auto, legacy or a revision")
        headers = _read_headers(body["headers"]) if isinstance(body.get("headers"), str) else self._headers
        self._mode, self._headers = mode, headers
        if isinstance(body.get("token"), str):
            self._token = body["token"] or None
        if isinstance(body.get("oauth"), bool):
            self._oauth = body["oauth"]
        for name in list(self._connections):
            await self._close_connection(name)
        self._background.start(self._open_quietly("main"), "ferrule-inspector-connect")
        return {}

    async def _disconnect(self, body: Mapping[str, Any]) -> Any:
        connection = body.get("connection")
        for name in [connection] if isinstance(connection, str) else list(self._connections):
            await self._close_connection(name)
        return {}

    async def _run(self, body: Mapping[str, Any]) -> Any:
        key, op, connection = body.get("job"), body.get("op"), body.get("connection", "main")
        params: Any = body.get("params") or {}
        if not isinstance(key, str) or not key or len(key) > 64 or self.jobs.get(key) is not None:
            raise BadCall("job is a new name")
        if not isinstance(op, str) or op not in OPERATIONS:
            raise BadCall("There is no such operation")
        if not isinstance(connection, str) or connection not in CONNECTIONS:
            raise BadCall("There is no such connection")
        if not is_mapping(params):
            raise BadCall("params is an object")
        job = self.jobs.begin(key, connection, op, params)

        async def work() -> None:
            try:
                found = await self.connection(connection)
            except (FerruleError, OSError, ValueError, TypeError) as error:
                self.jobs.end(job, "failed", str(error) or type(error).__name__)
                return
            except anyio.get_cancelled_exc_class():
                self.jobs.end(job, "cancelled")
                raise
            job.owner = found
            await self.jobs.run(job, found.client)

        job.running = self._background.start(work(), "ferrule-inspector-job")
        return {"job": key}

    async def _cancel(self, body: Mapping[str, Any]) -> Any:
        job = self.jobs.get(str(body.get("job")))
        if job is None or job.state != "running":
            return {"cancelled": False}
        if job.handle is not None and job.handle.task_id is not None:
            await job.handle.cancel()
        elif job.running is not None:
            job.running.cancel()
        return {"cancelled": True}

    async def _outcome(self, body: Mapping[str, Any]) -> Any:
        job = self.jobs.get(str(body.get("job")))
        if job is None:
            raise BadCall("That outcome is no longer kept")
        return {"outcome": Encoded(job.outcome), "error": job.error, "code": job.code, "state": job.state}

    async def _job(self, body: Mapping[str, Any]) -> Any:
        """Return the operation of a job with all its parameters, and the traceback of its crash."""
        job = self.jobs.get(str(body.get("job")))
        if job is None:
            raise BadCall("That call is no longer kept")
        crash = None if job.crash is None else job.crash.describe()
        return {"op": job.op, "params": job.params, "connection": job.connection, "crash": crash}

    async def _session(self, body: Mapping[str, Any]) -> Any:
        """Return the messages of a connection as a recording."""
        text, left_out = write_session(self.store, str(body.get("connection", "main")))
        return {"text": text.decode("utf-8", "replace"), "left_out": left_out}

    async def _pin(self, body: Mapping[str, Any]) -> Any:
        if not self.jobs.pin(str(body.get("job")), body.get("pinned") is True):
            raise BadCall(f"That call is no longer kept, or there are {MAX_PINNED} pinned ones already")
        return {}

    async def _message(self, body: Mapping[str, Any]) -> Any:
        number = body.get("number")
        found = self.store.get(number) if isinstance(number, int) else None
        if found is None:
            raise BadCall("That message is no longer kept")
        return {"message": Encoded(found[0]), "http": found[1]}

    async def _answer(self, body: Mapping[str, Any]) -> Any:
        answer = body.get("answer")
        if answer is not None and not isinstance(answer, dict):
            raise BadCall("answer is an object, or null to refuse")
        return {"taken": self._questions.answer(str(body.get("question")), cast("dict[str, Any] | None", answer))}

    async def _complete(self, body: Mapping[str, Any]) -> Any:
        connection = await self.connection(str(body.get("connection", "main")))
        reference, argument, value = body.get("ref"), body.get("argument"), body.get("value", "")
        if not isinstance(reference, dict) or not isinstance(argument, str) or not isinstance(value, str):
            raise BadCall("ref is an object, argument and value are text")
        context = body.get("context")
        found = await connection.client.complete(
            cast("dict[str, Any]", reference),
            argument,
            value,
            context=cast("dict[str, str]", context) if isinstance(context, dict) and context else None,
            timeout_s=COMPLETE_S,
        )
        return to_builtins(found)

    async def _set_log_level(self, body: Mapping[str, Any]) -> Any:
        level = body.get("level")
        if level not in LOG_LEVELS:
            raise BadCall(f"level is one of {', '.join(LOG_LEVELS)}")
        self._log_level = level
        for connection in self._connections.values():
            if connection.state == "open":
                await connection.client.set_log_level(cast("Any", level))
        return {}

    async def _set_roots(self, body: Mapping[str, Any]) -> Any:
        roots = body.get("roots")
        if not is_list(roots) or len(roots) > MAX_ROOTS:
            raise BadCall(f"roots is a list of at most {MAX_ROOTS}")
        made: list[dict[str, Any]] = []
        for root in roots:
            if not is_mapping(root) or not str(root.get("uri", "")).startswith("file://"):
                raise BadCall("A root is a file:// URI, and may have a name")
            made.append({"uri": str(root["uri"]), "name": str(root.get("name") or "")})
        self._roots = made
        for connection in self._connections.values():
            if connection.state == "open":
                await connection.client.notify_roots_changed()
        return {"roots": made}

    async def _clear(self, body: Mapping[str, Any]) -> Any:
        for kind in ("message", "log", "stderr", "change", "notice"):
            self.feed.discard(kind)
        self.store.clear()
        self.feed.publish_event("cleared")
        return {}

    async def _snippet(self, body: Mapping[str, Any]) -> Any:
        job = self.jobs.get(str(body.get("job")))
        op = job.op if job is not None else str(body.get("op"))
        params: Any = job.params if job is not None else body.get("params") or {}
        if not is_mapping(params):
            raise BadCall("params is an object")
        connection = await self.connection(str(body.get("connection", "main")))
        if op in ("call", "task"):
            await self._know_tool(connection, str(params.get("tool")))
        try:
            text = write_snippet(str(body.get("form")), self._target_now(), connection, op, params, job)
        except ValueError as error:
            raise BadCall(str(error)) from error
        return {"text": text}

    async def _know_tool(self, connection: InspectorConnection, name: str) -> None:
        """List the tools unless they were listed: the schema says which arguments are secrets."""
        if connection.client.tool_metadata.knows(name):
            return
        try:
            await connection.client.list_tools()
        except (FerruleError, OSError) as error:  # the names of arguments still say most of it
            logger.debug("the tools could not be listed: %s", error)

    def _target_now(self) -> InspectedTarget:
        """Return the target with the credentials that the page set."""
        return replace(self.target, headers=self._headers, token=self._token, oauth=self._oauth)

    # -- subscriptions ------------------------------------------------------------------------------------------------

    async def _subscribe(self, body: Mapping[str, Any]) -> Any:
        connection = await self.connection(str(body.get("connection", "main")))
        key = str(body.get("subscription"))
        uris: Any = body.get("uris") or []
        if not is_list(uris) or not all(isinstance(uri, str) for uri in uris):
            raise BadCall("uris is a list of texts")
        if key in self._subscriptions or len(key) > 64 or len(self._subscriptions) >= 64:
            raise BadCall("subscription is a new name, and there are at most 64")
        wanted: dict[str, Any] = {kind: bool(body.get(kind)) for kind in ("tools", "prompts", "resources")}
        wanted["uris"] = list(uris)
        subscription = connection.client.listen(**wanted)
        following = self._background.start(
            self._follow(key, connection, subscription, wanted), "ferrule-inspector-listen"
        )
        self._subscriptions[key] = connection, subscription, following
        return {}

    async def _follow(
        self, key: str, connection: InspectorConnection, subscription: Subscription, wanted: Mapping[str, Any]
    ) -> None:
        def publish(state: str, error: str = "") -> None:
            granted = to_builtins(subscription.granted)
            self.feed.publish_state(
                "subscription",
                key,
                connection=connection.name,
                state=state,
                wanted=wanted,
                granted=granted,
                error=error,
            )

        publish("opening")
        state, why = "closed", ""
        try:
            await subscription.ready()
            publish("open")
            async for event in subscription:
                self.feed.publish_event(
                    "change",
                    connection=connection.name,
                    subscription=key,
                    what=event.kind,
                    uri=event.uri,
                    method=event.method,
                )
        except (FerruleError, OSError) as error:
            state, why = "failed", str(error)
        finally:
            self._subscriptions.pop(key, None)
            publish(state, why)

    async def _unsubscribe(self, body: Mapping[str, Any]) -> Any:
        await self._end_subscription(str(body.get("subscription")))
        return {}

    async def _end_subscriptions(self, name: str) -> None:
        for key, (connection, _, _) in list(self._subscriptions.items()):
            if connection.name == name:
                await self._end_subscription(key)

    async def _end_subscription(self, key: str) -> None:
        found = self._subscriptions.pop(key, None)
        if found is not None:
            _, subscription, following = found
            await subscription.aclose()
            following.cancel()


async def _check(body: Mapping[str, Any]) -> Any:
    return check_value(body)


def _read_headers(text: str) -> dict[str, str]:
    made: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon or not name.strip() or any(character in value for character in "\r\n\0"):
            raise BadCall("A header is written 'Name: value', one a line")
        made[name.strip()] = value.strip()
    return made


class _WarningForwarder(logging.Handler):
    """Shows the client's warnings on the page: invalid lines on stdout, tools that were left out, lost connections."""

    def __init__(self, feed: Feed, call_soon: Callable[..., object]) -> None:
        super().__init__(logging.WARNING)
        self._feed = feed
        self._call_soon = call_soon

    def emit(self, record: logging.LogRecord) -> None:
        """Forward a record to the page; may be called in any thread."""
        text = record.getMessage()[:4000]
        try:
            self._call_soon(self._publish, text)
        except RuntimeError:  # the loop has ended
            return

    def _publish(self, text: str) -> None:
        self._feed.publish_event("notice", text=text)
