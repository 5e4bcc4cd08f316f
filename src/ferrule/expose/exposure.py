"""Operations as tools and resources of a server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from ferrule._options import suggestion
from ferrule.app.components.keywords import ToolKeywords
from ferrule.app.errors import RegistrationError
from ferrule.app.execution.context import current_context
from ferrule.app.server import MCPServer
from ferrule.expose.calls import OperationCall
from ferrule.expose.choice import NothingMatches, choose_operations, matcher
from ferrule.expose.exchange import Caller
from ferrule.expose.operations import Body, Field, Operation, Parameter, Skipped, UnusableOperation
from ferrule.expose.settings import ExposeSettings
from ferrule.wire.json_types import is_object

__all__ = ["Exposure", "annotations_of"]

logger = logging.getLogger(__name__)


class Exposure:
    """The operations of one API, on one server.

    Args:
        server: where the tools are registered.
        caller: sends the requests.
        settings: how operations are exposed.
        base_url: the base URL of the API; ``None`` for an application of this process.

    Attributes:
        operations: that are exposed, by the name of their tool.
        skipped: those that were chosen and cannot be offered.
    """

    def __init__(
        self, server: MCPServer[Any], caller: Caller, settings: ExposeSettings, *, base_url: str | None = None
    ) -> None:
        self.server = server
        self.caller = caller
        self.settings = settings
        self.operations: dict[str, Operation] = {}
        self.skipped: list[Skipped] = []
        self._base_url = base_url
        self._made: dict[str, _Made] = {}

    def update(self, operations: Iterable[Operation], *, strict: bool = True) -> None:
        """Expose what is chosen of these operations, and take away what was exposed and is not among them.

        Args:
            operations: all of the API.
            strict: a pattern that matches nothing is an error.

        Raises:
            NothingMatches: ``strict``, and a pattern matches nothing.
            RegistrationError: a name is taken by another tool of the server.
        """
        every = list(operations)
        chosen = choose_operations(every, self.settings.include, self.settings.exclude, strict=strict)
        resources = {
            operation.label
            for operation in choose_operations(chosen, self.settings.resources, strict=strict)
            if operation.method == "GET"
        }
        if strict:
            self._check_names(every)
        self.skipped.clear()
        wanted: dict[str, tuple[Operation, bool]] = {}
        for operation in chosen:
            is_resource = operation.label in resources
            key = f"{'resource' if is_resource else 'tool'} {operation.label}"
            wanted[key] = (operation, is_resource)
        # What is the same as before stays as it is: its place in the list, and whether it is disabled.
        for key, made in list(self._made.items()):
            if key not in wanted or not _is_same(wanted[key][0], made.operation):
                self._remove(key, made)
        for key, (operation, is_resource) in wanted.items():
            if key in self._made:
                continue
            try:
                identity = self._add_resource(operation) if is_resource else self._add_tool(operation)
            except UnusableOperation as error:
                self._skip(operation, str(error))
            except RegistrationError as error:
                if strict:
                    raise
                self._skip(operation, str(error))
            else:
                self._made[key] = _Made(operation, identity, is_resource)

    def _remove(self, key: str, made: _Made) -> None:
        del self._made[key]
        try:
            if made.is_resource:
                self.server.remove_resource(made.identity)
            else:
                self.operations.pop(made.identity, None)
                self.server.remove_tool(made.identity)
        except KeyError:  # the author has removed it already
            logger.debug("%s was removed before", made.identity)

    def _skip(self, operation: Operation, reason: str) -> None:
        self.skipped.append(Skipped(method=operation.method, path=operation.path, reason=reason))
        logger.warning("%s is not exposed: %s", operation.label, reason)

    def _check_names(self, operations: list[Operation]) -> None:
        """Raise `NothingMatches` for an option that names an operation which does not exist."""
        settings = self.settings
        known = {key for each in operations for key in (each.name, each.operation_id, each.label) if key is not None}
        options: dict[str, Mapping[str, Any]] = {
            "rename": settings.rename,
            "describe": settings.describe,
            "override": settings.override,
            "add_parameters": settings.add_parameters,
            "fields": settings.fields,
        }
        for option, given in options.items():
            for name in given:
                if name not in known:
                    near = suggestion(name, sorted(known))
                    hint = "" if near is None else f"; did you mean {near!r}?"
                    raise NothingMatches(
                        f"{option} names {name!r}, which is none of {len(operations)} operations{hint}"
                    )

    def _add_tool(self, operation: Operation) -> str:
        settings = self.settings
        name = settings.of(settings.rename, operation) or operation.name
        override = settings.of(settings.override, operation)
        if override is not None:
            self.server.add_tool(override, name=name, description=settings.of(settings.describe, operation))
            self.operations[name] = operation
            return name
        schema, operation, constants = self._input(operation)
        if operation.reads and not settings.of(settings.add_parameters, operation):
            logger.warning(
                "%s reads %s, which its description lacks: say with add_parameters= what a model may give",
                operation.label,
                ", ".join(operation.reads),
            )
        output = self._output(operation)
        call = self._call(operation, constants, shows_next_page=True, is_output_published=output is not None)

        async def run(**arguments: Any) -> Any:  # without a parameter for the context: an argument may have any name
            return await call(current_context(), arguments)

        options: ToolKeywords = {
            "name": name,
            "description": self._description(operation),
            "title": operation.title,
            "annotations": self._annotations(operation),
            "tags": operation.tags,
            "input_schema": schema,
            "scopes": settings.scopes,
            "timeout_s": settings.timeout_s,
        }
        if output is not None:
            options["output_schema"] = output
        self.server.add_tool(run, **options)
        self.operations[name] = operation
        return name

    def _output(self, operation: Operation) -> dict[str, Any] | None:
        """Return the output schema of a tool; ``None`` for none.

        Only what reads has one: an answer that contradicts it is an error, and a write that was done is none.
        """
        settings = self.settings
        is_wanted = settings.validate_output == "publish" or (
            settings.validate_output == "proven" and operation.is_output_proven
        )
        if not is_wanted or not operation.is_read_only:
            return None
        if settings.mask or settings.of(settings.fields, operation) is not None:
            return None
        return operation.schemas().output

    def _call(
        self,
        operation: Operation,
        constants: dict[str, Any],
        *,
        shows_next_page: bool,
        is_output_published: bool = False,
    ) -> OperationCall:
        return OperationCall(
            operation,
            self.caller,
            self.settings,
            constants=constants,
            base_url=self._base_url,
            path_prefix="" if self._base_url is None else urlsplit(self._base_url).path.rstrip("/"),
            is_output_published=is_output_published,
            shows_next_page=shows_next_page,
        )

    def _input(self, operation: Operation) -> tuple[dict[str, Any], Operation, dict[str, Any]]:
        """Return the input schema without what is the same in every call, the operation, and those values."""
        settings = self.settings
        schemas = operation.schemas()
        schema = {**schemas.input, "properties": dict(schemas.input["properties"])}
        constants: dict[str, Any] = {}
        headers: Mapping[str, Any] = {name.lower(): value for name, value in settings.parameters.items()}
        for parameter in operation.parameters:
            if parameter.location == "header":  # whose names are the same in capitals
                given, name = headers, parameter.name.lower()
            else:
                given, name = settings.parameters, parameter.name
            if name in given:
                constants[parameter.argument] = given[name]
                schema["properties"].pop(parameter.argument, None)
        if constants:
            required = [name for name in schema.get("required", ()) if name not in constants]
            schema.pop("required", None)
            if required:
                schema["required"] = required
        added: Mapping[str, Any] = settings.of(settings.add_parameters, operation) or {}
        if added:
            operation = _with_added(operation, schema, added)
        return schema, operation, constants

    def _description(self, operation: Operation) -> str:
        text = self.settings.of(self.settings.describe, operation) or operation.description or operation.label
        return f"Deprecated. {text}" if operation.deprecated and self.settings.mark_deprecated else text

    def _annotations(self, operation: Operation) -> dict[str, Any]:
        made = annotations_of(operation)
        for pattern, hints in self.settings.hints.items():
            if matcher(pattern)(operation):
                made.update(hints)
        return made

    def _add_resource(self, operation: Operation) -> str:
        schema, operation, constants = self._input(operation)
        call = self._call(operation, constants, shows_next_page=False)
        names = [name for name in schema["properties"] if name in _resource_variables(operation)]
        uri = _resource_uri(self.server.name, operation, names)
        function = _resource_function(call, names)
        self.server.add_resource(
            uri,
            function,
            name=self.settings.of(self.settings.rename, operation) or operation.name,
            title=operation.title,
            description=self._description(operation),
            tags=operation.tags,
            scopes=self.settings.scopes,
        )
        return uri


class _Made(NamedTuple):
    """What an operation became."""

    operation: Operation
    identity: str
    """Name of the tool, or URI of the resource."""
    is_resource: bool


def _is_same(one: Operation, other: Operation) -> bool:
    """Return whether two operations of one label are the same to a model, and to a call."""
    if _facts(one) != _facts(other):
        return False
    try:
        return one.schemas() == other.schemas()
    except UnusableOperation:
        return False


def _facts(operation: Operation) -> Operation:
    return replace(operation, make_schemas=None, kept={})


def annotations_of(operation: Operation) -> dict[str, Any]:
    """Return the hints that an operation's method promises (RFC 9110, section 9.2)."""
    if operation.is_read_only:
        return {"readOnlyHint": True, "openWorldHint": False}
    return {
        "readOnlyHint": False,
        "destructiveHint": operation.method == "DELETE",
        "idempotentHint": operation.is_idempotent,
        "openWorldHint": False,
    }


def _with_added(operation: Operation, schema: dict[str, Any], added: Mapping[str, Any]) -> Operation:
    """Return an operation with parameters that its description lacks; they are put into its input schema, too.

    Raises:
        UnusableOperation: a parameter stands in no place that can be added to.
    """
    parameters = list(operation.parameters)
    body = operation.body
    required: list[str] = list(schema.get("required", ()))
    for name, given in added.items():
        place, is_required, own = "query", False, given
        if is_object(given) and "in" in given:
            place, is_required, own = str(given["in"]), given.get("required") is True, given.get("schema", True)
        if place in ("query", "header", "cookie"):
            location: Any = place
            parameters.append(
                Parameter(name=name, argument=name, location=location, required=is_required, explode=True)
            )
        elif place in _BODY_TYPES and (body is None or body.form == "fields"):
            field = Field(name=name, argument=name, required=is_required)
            if body is None:
                body = Body(content_type=_BODY_TYPES[place], form="fields")
            body = replace(body, required=body.required or is_required, fields=(*body.fields, field))
        else:
            raise UnusableOperation(f"the added parameter {name!r} cannot stand in {place!r}")
        schema["properties"][name] = own
        if is_required:
            required.append(name)
    if required:
        schema["required"] = required
    return replace(operation, parameters=tuple(parameters), body=body)


_BODY_TYPES = {"body": "application/json", "form": "application/x-www-form-urlencoded"}
"""Media type of a body that has added members only, by the place that is said of them."""


def _resource_variables(operation: Operation) -> list[str]:
    """Return the arguments of an operation with plain values, which a URI can hold."""
    found: list[str] = []
    for parameter in operation.parameters:
        if parameter.location == "path":
            found.append(parameter.argument)
        elif parameter.location == "query":
            raw = parameter.raw_schema
            if not is_object(raw) or raw.get("type") not in ("array", "object"):
                found.append(parameter.argument)
    return found


def _resource_uri(server: str, operation: Operation, names: list[str]) -> str:
    path = operation.path
    for parameter in operation.parameters:
        if parameter.location == "path":
            path = path.replace(f"{{{parameter.name}}}", f"{{{parameter.argument}}}")
    query = [parameter.argument for parameter in operation.parameters if parameter.location == "query"]
    query = [name for name in query if name in names]
    host = quote("".join(c if c.isalnum() else "-" for c in server.lower()).strip("-") or "api")
    return f"api://{host}{path}" + (f"{{?{','.join(query)}}}" if query else "")


def _resource_function(call: OperationCall, names: list[str]) -> Callable[..., Any]:
    """Return a function whose parameters are the variables of a resource's URI."""
    from inspect import Parameter as Argument
    from inspect import Signature

    in_path = {p.argument for p in call.operation.parameters if p.location == "path"}

    async def read(**arguments: Any) -> Any:
        return await call(current_context(), {name: value for name, value in arguments.items() if value is not None})

    function: Any = read
    function.__signature__ = Signature(
        [
            Argument(name, Argument.KEYWORD_ONLY, annotation=str)
            if name in in_path
            else Argument(name, Argument.KEYWORD_ONLY, annotation=str, default=None)
            for name in names
        ]
    )
    return read
