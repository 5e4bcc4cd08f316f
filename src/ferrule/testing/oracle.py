"""Validates emitted messages against the official JSON schema of their revision.

Pass the folder with the published schemas (``2024-11-05.json`` … ``2026-07-28.json``) to `SchemaOracle`, and every
message to `SchemaOracle.observe`. It selects the definition by method and kind, raises `SchemaViolation` with the paths
that do not fit, and records the message, so that `SchemaOracle.missing` returns the core methods that were never
emitted.

A response does not name its method, therefore the oracle must also see the request, by `observe` or, for what a peer
sent, by `note`. Ids repeat from connection to connection: ``scope`` keeps them apart.

The schemas allow unknown members, so they do not exclude a field of another revision; therefore fields that the
revision's table lacks are refused too.
"""

import json
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from ferrule.wire.revisions import REVISIONS, Revision, is_core_method, project_params, project_result

if TYPE_CHECKING:
    import jsonschema_rs

__all__ = ["Direction", "Emitted", "SchemaOracle", "SchemaViolation"]

Direction: TypeAlias = Literal["client_to_server", "server_to_client"]

_OPPOSITE: dict[str, Direction] = {"client_to_server": "server_to_client", "server_to_client": "client_to_server"}

_ERROR_DEFINITIONS = {
    -32020: "HeaderMismatchError",
    -32021: "MissingRequiredClientCapabilityError",
    -32022: "UnsupportedProtocolVersionError",
    -32042: "URLElicitationRequiredError",
}
"""Codes whose whole response has a definition of its own, in the revisions that define them."""

_FOREIGN = "it holds something that this revision does not have (see Revision.absent_fields)"


class SchemaViolation(AssertionError):
    """An emitted message does not match the official schema of its revision (the sender's fault).

    Attributes:
        revision: the version string.
        definition: the schema definition that was expected, or the rule that was broken.
        problems: one line per place that does not fit.
        message: the whole message.
    """

    def __init__(self, revision: str, definition: str, problems: list[str], message: Any) -> None:
        shown = json.dumps(message, ensure_ascii=False, default=repr)
        shown = shown if len(shown) <= 2000 else f"{shown[:2000]}…"
        super().__init__(f"not a {definition} of revision {revision}:\n  " + "\n  ".join(problems) + f"\n  in {shown}")
        self.revision = revision
        self.definition = definition
        self.problems = problems
        self.message = message


class Emitted(NamedTuple):
    """One kind of message that was seen: a request, its result (under the same method) or a notification."""

    revision: str
    method: str
    direction: Direction


class SchemaOracle:
    """Validates emitted messages and keeps count.

    Args:
        schema_dir: holds ``<version>.json`` for every revision that will be observed.
        check_formats: also check ``uri`` and other formats, as far as the validator knows them.

    Raises:
        ImportError: jsonschema-rs is not installed.
    """

    def __init__(self, schema_dir: str | Path, *, check_formats: bool = True) -> None:
        self._dir = Path(schema_dir)
        self._check_formats = check_formats
        self._schemas: dict[str, dict[str, Any]] = {}
        self._validators: dict[tuple[str, str], jsonschema_rs.Validator] = {}
        self._asked: dict[tuple[Hashable, Direction, str | int], tuple[str, Any]] = {}
        self._by_method: dict[str, dict[str, str]] = {}
        self.emitted: set[Emitted] = set()
        """The valid messages that were observed."""
        self.violations: list[SchemaViolation] = []
        """The violations that `collect` has recorded."""

    # -- what tests and transports call ------------------------------------------------------------------------------

    def observe(
        self,
        revision: str | Revision,
        direction: Direction,
        message: Mapping[str, Any],
        *,
        method: str | None = None,
        scope: Hashable = None,
    ) -> None:
        """Validate one emitted message, a decoded JSON-RPC object, and record it.

        Args:
            revision: the revision of the connection.
            direction: the sender and the receiver.
            message: the request, notification or response.
            method: for a response, the method that it answers; not needed when the request was seen in the same scope.
            scope: anything hashable that identifies the connection.

        Raises:
            SchemaViolation: the message does not match, or does not exist in this revision.
        """
        spoken = revision if isinstance(revision, Revision) else REVISIONS[revision]
        if "method" in message:
            self._judge_call(spoken, direction, message)
            self.note(direction, message, scope=scope)
        elif "error" in message:
            self._asked.pop((scope, _OPPOSITE[direction], message.get("id", 0)), None)
            self._judge_error(spoken, message)
        else:
            self._judge_result(spoken, direction, message, method, scope)

    def collect(
        self,
        revision: str | Revision,
        direction: Direction,
        message: Mapping[str, Any],
        *,
        method: str | None = None,
        scope: Hashable = None,
    ) -> None:
        """Validate a message as `observe` does, and record a violation in ``violations`` in place of raising it.

        For use inside a running server or client, where an exception would become an internal error of the call: check
        ``violations`` at the end of the test or session.
        """
        try:
            self.observe(revision, direction, message, method=method, scope=scope)
        except SchemaViolation as violation:
            self.violations.append(violation)

    def note(self, direction: Direction, message: Mapping[str, Any], *, scope: Hashable = None) -> None:
        """Record a request of a peer without validating it, so that the response to it can be validated."""
        id_, method = message.get("id"), message.get("method")
        if type(id_) in (int, str) and isinstance(method, str):
            self._asked[scope, direction, cast("str | int", id_)] = (method, message.get("params"))

    def missing(
        self, *, side: Literal["server", "client", "both"] = "server", exempt: Iterable[str] = ()
    ) -> list[Emitted]:
        """The core messages of all revisions that were never emitted, in the order of the tables.

        Args:
            side: the sender: a server emits results of requests, and its own requests and notifications.
            exempt: methods that are not supported.
        """
        skipped = frozenset(exempt)
        wanted: list[Emitted] = []
        for revision in REVISIONS.values():
            from_server = (*revision.requests, *revision.server_requests, *revision.server_notifications)
            from_client = (*revision.requests, *revision.server_requests, *revision.notifications)
            if side in ("server", "both"):
                wanted += [Emitted(revision.version, method, "server_to_client") for method in from_server]
            if side in ("client", "both"):
                wanted += [Emitted(revision.version, method, "client_to_server") for method in from_client]
        unique = dict.fromkeys(wanted)
        return [entry for entry in unique if entry not in self.emitted and entry.method not in skipped]

    def check(self, revision: str, definition: str, value: Any) -> None:
        """Validate any value against a definition of a revision's schema, for instance ``Tool`` or ``CallToolResult``.

        Raises:
            SchemaViolation: the value does not match.
            KeyError: there is no such definition.
        """
        self._check(REVISIONS[revision], definition, value, value)

    def definitions(self, revision: str) -> Mapping[str, Any]:
        """Return the definitions of a revision's schema, by name."""
        schema = self._schema(revision)
        return cast("Mapping[str, Any]", schema[_definitions_key(schema)])

    def methods(self, revision: str) -> Mapping[str, str]:
        """Return method to the name of the definition of its request or notification."""
        found = self._by_method.get(revision)
        if found is None:
            found = self._by_method[revision] = {}
            for name, definition in self.definitions(revision).items():
                method = definition.get("properties", {}).get("method", {}).get("const")
                if isinstance(method, str) and name.endswith(("Request", "Notification")):
                    found[method] = name
        return found

    # -- the judgements ----------------------------------------------------------------------------------------------

    def _judge_call(self, revision: Revision, direction: Direction, message: Mapping[str, Any]) -> None:
        method = cast("str", message["method"])
        is_request = "id" in message
        if direction == "client_to_server":
            exists = method in (revision.requests if is_request else revision.notifications)
        else:
            exists = method in (revision.server_requests if is_request else revision.server_notifications)
        envelope = "JSONRPCRequest" if is_request else "JSONRPCNotification"
        self._check(revision, envelope, message, message)
        if not exists:
            if is_core_method(method):
                problem = f"{method} does not go from {direction.replace('_to_', ' to ')}"
                raise SchemaViolation(revision.version, envelope, [problem], message)
            return
        name = self.methods(revision.version)[method]
        self._check(revision, name, message, message)
        params = message.get("params")
        if project_params(revision, method, params) is not params:
            raise SchemaViolation(revision.version, name, [_FOREIGN], message)
        self.emitted.add(Emitted(revision.version, method, direction))

    def _judge_error(self, revision: Revision, message: Mapping[str, Any]) -> None:
        names = self.definitions(revision.version)
        name = "JSONRPCErrorResponse" if "JSONRPCErrorResponse" in names else "JSONRPCError"
        judged = dict(message)
        if message.get("id", 0) is None:
            # JSON-RPC 2.0, section 5: null when the id could not be read. MCP's schemas leave the key out (from
            # 2025-11-25) or forget the case.
            del judged["id"]
            if name == "JSONRPCError":
                judged["id"] = 0
        self._check(revision, name, judged, message)
        code = message["error"]["code"]
        if code in _ERROR_DEFINITIONS and _ERROR_DEFINITIONS[code] in names:
            self._check(revision, _ERROR_DEFINITIONS[code], judged, message)
        elif revision.has_extensions and (code in (-32002, -32042) or -32099 <= code <= -32020):
            problem = f"code {code} is reserved and has no meaning in this revision (2026-07-28, basic, error codes)"
            raise SchemaViolation(revision.version, name, [problem], message)

    def _judge_result(
        self,
        revision: Revision,
        direction: Direction,
        message: Mapping[str, Any],
        method: str | None,
        scope: Hashable,
    ) -> None:
        names = self.definitions(revision.version)
        name = "JSONRPCResultResponse" if "JSONRPCResultResponse" in names else "JSONRPCResponse"
        asked = self._asked.pop((scope, _OPPOSITE[direction], message.get("id", 0)), None)
        method = method or (asked[0] if asked else None)
        if revision.has_rounds and direction == "client_to_server":
            raise SchemaViolation(revision.version, name, ["clients send no responses in this revision"], message)
        self._check(revision, name, message, message)
        if method is None:
            return
        result = message["result"]
        definition = self._result_definition(revision, direction, method, result)
        if definition is None:
            return
        self._check(revision, definition, result, message)
        if project_result(revision, method, result) is not result:
            raise SchemaViolation(revision.version, definition, [_FOREIGN], message)
        self.emitted.add(Emitted(revision.version, method, direction))

    def _result_definition(self, revision: Revision, direction: Direction, method: str, result: Any) -> str | None:
        """Return the definition of a result; ``None`` where only its extension knows it."""
        table = revision.requests if direction == "server_to_client" else revision.server_requests
        if method not in table:
            return None
        kind = result.get("resultType", "complete") if revision.has_result_type else "complete"
        if kind == "input_required":
            return "InputRequiredResult"
        if kind != "complete":
            return None
        if method in revision.task_methods and "task" in result:
            return "CreateTaskResult"
        name = self.methods(revision.version)[method].removesuffix("Request") + "Result"
        return name if name in self.definitions(revision.version) else "EmptyResult"

    def _check(self, revision: Revision, definition: str, value: Any, message: Any) -> None:
        validator = self._validator(revision.version, definition)
        problems = [_line(error) for error in validator.iter_errors(value)]
        if problems:
            raise SchemaViolation(revision.version, definition, problems, message)

    def _validator(self, version: str, definition: str) -> "jsonschema_rs.Validator":
        found = self._validators.get((version, definition))
        if found is None:
            import jsonschema_rs  # heavy, and only tests need it

            schema = self._schema(version)
            key = _definitions_key(schema)
            if definition not in schema[key]:
                raise KeyError(f"{definition} is not defined in revision {version}")
            rooted = {**schema, "$ref": f"#/{key}/{definition}"}
            found = jsonschema_rs.validator_for(rooted, validate_formats=self._check_formats)
            self._validators[version, definition] = found
        return found

    def _schema(self, version: str) -> dict[str, Any]:
        found = self._schemas.get(version)
        if found is None:
            text = (self._dir / f"{version}.json").read_text(encoding="utf-8")
            found = self._schemas[version] = cast("dict[str, Any]", json.loads(text, object_hook=_correct_schema))
        return found


def _definitions_key(schema: Mapping[str, Any]) -> str:
    return "$defs" if "$defs" in schema else "definitions"


def _correct_schema(node: dict[str, Any]) -> dict[str, Any]:
    """Correct errors of the generator of the JSON schemas; ``schema.ts`` is the source of truth.

    ``string | number | boolean`` became integers only, and ``JSONValue`` lost ``null``.
    """
    if node.get("type") == ["string", "integer", "boolean"]:
        node["type"] = ["string", "number", "boolean"]
    value = node.get("JSONValue")
    if isinstance(value, dict) and "anyOf" in value:
        cast("list[Any]", value["anyOf"]).append({"type": "null"})
    return node


def _line(error: "jsonschema_rs.ValidationError") -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    return f"${path}: {error.message}"
