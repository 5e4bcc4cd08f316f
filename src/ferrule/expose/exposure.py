"""Registers operations as tools and resources of a server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from ferrule._options import suggestion
from ferrule.app.components.deferred_schema import DeferredSchema
from ferrule.app.components.keywords import ToolKeywords
from ferrule.app.errors import RegistrationError, SignatureError
from ferrule.app.execution.context import current_context
from ferrule.app.server import MCPServer
from ferrule.expose.calls import OperationCall
from ferrule.expose.choice import Include, NothingMatches, choose_operations, matcher
from ferrule.expose.exchange import Caller
from ferrule.expose.operations import Body, Field, Operation, Parameter, Skipped, UnusableOperation
from ferrule.expose.settings import ExposeSettings
from ferrule.kernel.concurrency.yielding import NEEDS_NO_LOOP
from ferrule.wire.json_types import is_object

__all__ = ["Exposure", "annotations_of", "refresh_before_reads"]

logger = logging.getLogger(__name__)


class Exposure:
    """The operations of one API, on one server.

    Args:
        server: the server on which the tools are registered.
        caller: sends the requests.
        settings: the options of `expose`.
        base_url: the base URL of the API; ``None`` for an application of this process.
        allow_for: returns the ``allow=`` of an operation's tool or resource; ``None`` for none.

    Attributes:
        operations: the exposed operations, by the name of their tool.
        skipped: the chosen operations that cannot be exposed.
    """

    def __init__(
        self,
        server: MCPServer[Any],
        caller: Caller,
        settings: ExposeSettings,
        *,
        base_url: str | None = None,
        allow_for: Callable[[Operation], Callable[[Any], bool]] | None = None,
    ) -> None:
        self.server = server
        self.caller = caller
        self.settings = settings
        self.operations: dict[str, Operation] = {}
        self.skipped: list[Skipped] = []
        self._base_url = base_url
        self._allow_for = allow_for
        self._made: dict[str, _Made] = {}
        self._defers = False

    def update(self, operations: Iterable[Operation], *, strict: bool = True) -> None:
        """Expose the chosen ones of these operations, and remove exposed ones that are not among them.

        Args:
            operations: all operations of the API.
            strict: raise an error for a pattern that matches nothing.

        Raises:
            NothingMatches: ``strict``, and a pattern matches nothing.
            RegistrationError: a name is taken by another tool of the server.
        """
        every = list(operations)
        chosen = choose_operations(every, self.settings.include, self.settings.exclude, strict=strict)
        resources = {operation.label for operation in _chosen_resources(chosen, self.settings.resources, strict=strict)}
        if strict:
            self._check_names(every)
            for operation in chosen:
                if operation.label in resources and self.settings.of(self.settings.override, operation) is not None:
                    raise NothingMatches(
                        f"override names {operation.label}, which resources= makes a resource: "
                        "a function can be a tool only"
                    )
        self.skipped.clear()
        wanted: dict[str, tuple[Operation, bool]] = {}
        for operation in chosen:
            is_resource = operation.label in resources
            key = f"{'resource' if is_resource else 'tool'} {operation.label}"
            wanted[key] = (operation, is_resource)
        # An unchanged operation keeps its place in the list, and stays disabled if it was.
        for key, made in list(self._made.items()):
            if key not in wanted or not _is_same(wanted[key][0], made.operation):
                self._remove(key, made)
        search = self.server.tools.search
        # What search finds one by one is converted one by one; of a list that is read whole, at once.
        self._defers = search is not None and search.replaces(len(wanted.keys() | self.server.tools.index.live.keys()))
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
        skipped = Skipped(method=operation.method, path=operation.path, reason=reason)
        if skipped not in self.skipped:  # a deferred schema that fails is asked for again
            self.skipped.append(skipped)
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

        for pattern in settings.hints:
            choose_operations(operations, pattern)
        self._check_constants(operations)

    def _check_constants(self, operations: list[Operation]) -> None:
        """Raise `NothingMatches` for a constant that is no parameter: a model would be asked for the one that is."""
        given = self.settings.parameters
        if not given:
            return
        names = {parameter.name for each in operations for parameter in each.parameters}
        headers = {
            parameter.name.lower()
            for each in operations
            for parameter in each.parameters
            if parameter.location == "header"
        }
        for name in given:
            if name not in names and name.lower() not in headers:
                near = suggestion(name, sorted(names))
                hint = "" if near is None else f"; did you mean {near!r}?"
                raise NothingMatches(
                    f"parameters names {name!r}, which is a parameter of none of {len(operations)} operations{hint}"
                )

    def _add_tool(self, operation: Operation) -> str:
        settings = self.settings
        name = settings.of(settings.rename, operation) or operation.name
        override = settings.of(settings.override, operation)
        if override is not None:
            self._add_function(override, name, operation)
            return name
        schema: Mapping[str, Any]
        constants = self._constants(operation)
        added: Mapping[str, Any] = settings.of(settings.add_parameters, operation) or {}
        if self._defers and not added:
            schema = self._deferred(operation, constants)
        else:
            schema, operation = self._input(operation, constants, added)
        if operation.reads and not added:
            logger.warning(
                "%s reads %s, which its description lacks: say with add_parameters= what a model may give",
                operation.label,
                ", ".join(operation.reads),
            )
        output = self._output(operation)
        call = self._call(operation, constants, shows_next_page=True, is_output_published=output is not None)

        async def run(**arguments: Any) -> Any:  # without a parameter for the context: an argument may have any name
            return await call(current_context(), arguments)

        setattr(run, NEEDS_NO_LOOP, call.needs_no_loop)
        options: ToolKeywords = {
            "name": name,
            "description": self._description(operation),
            "title": operation.title,
            "annotations": self._annotations(operation),
            "tags": operation.tags,
            "input_schema": schema,
            "scopes": settings.scopes,
            "timeout_s": settings.timeout_s,
            "text": settings.text,
        }
        if output is not None:
            options["output_schema"] = output
        if self._allow_for is not None:
            options["allow"] = self._allow_for(operation)
        self.server.add_tool(run, **options)
        self.operations[name] = operation
        return name

    def _add_function(self, function: Callable[..., Any], name: str, operation: Operation) -> None:
        """Add a function in place of an operation; who may call it is the same as for the operation."""
        settings = self.settings
        options: ToolKeywords = {
            "name": name,
            "description": settings.of(settings.describe, operation),
            "annotations": self._hints(operation) or None,
            "tags": operation.tags,
            "scopes": settings.scopes,
            "text": settings.text,
        }
        if self._allow_for is not None:
            options["allow"] = self._allow_for(operation)
        self.server.add_tool(function, **options)
        self.operations[name] = operation

    def _output(self, operation: Operation) -> dict[str, Any] | None:
        """Return the output schema of a tool; ``None`` for none.

        Only read-only operations have one: a response that contradicts it is an error, which would be wrong for a write
        that has succeeded.
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

    def _constants(self, operation: Operation) -> dict[str, Any]:
        """Return the values that are the same in every call, by argument."""
        given = self.settings.parameters
        headers = {name.lower(): value for name, value in given.items()}  # whose names are the same in capitals
        found: dict[str, Any] = {}
        for parameter in operation.parameters:
            values, name = (
                (headers, parameter.name.lower()) if parameter.location == "header" else (given, parameter.name)
            )
            if name in values:
                found[parameter.argument] = values[name]
        return found

    def _input(
        self, operation: Operation, constants: Mapping[str, Any], added: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Operation]:
        """Return the input schema and the operation, without what is constant and with the parameters that are added.

        Raises:
            UnusableOperation: the schema cannot be made.
        """
        schema = operation.schemas().input
        properties = {name: part for name, part in schema["properties"].items() if name not in constants}
        schema = {**schema, "properties": properties}
        required = [name for name in schema.pop("required", ()) if name not in constants]
        if required:
            schema["required"] = required
        return (schema, _with_added(operation, schema, added)) if added else (schema, operation)

    def _deferred(self, operation: Operation, constants: Mapping[str, Any]) -> DeferredSchema:
        def make() -> dict[str, Any]:
            try:
                return self._input(operation, constants, {})[0]
            except UnusableOperation as error:
                self._skip(operation, str(error))
                raise SignatureError(str(error)) from error

        texts: dict[str, str] = {each.argument: each.description or "" for each in operation.parameters}
        body = operation.body
        if body is not None:
            texts.update({each.argument: _described(each.raw_schema) for each in body.fields})
            if body.argument is not None:
                texts[body.argument] = body.description or ""
        return DeferredSchema(make, {name: text for name, text in texts.items() if name not in constants})

    def _description(self, operation: Operation) -> str:
        text = self.settings.of(self.settings.describe, operation) or operation.description or operation.label
        return f"Deprecated. {text}" if operation.deprecated and self.settings.mark_deprecated else text

    def _annotations(self, operation: Operation) -> dict[str, Any]:
        return {**annotations_of(operation), **self._hints(operation)}

    def _hints(self, operation: Operation) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for pattern, hints in self.settings.hints.items():
            if matcher(pattern)(operation):
                made.update(hints)
        return made

    def _add_resource(self, operation: Operation) -> str:
        constants = self._constants(operation)
        schema, operation = self._input(
            operation, constants, self.settings.of(self.settings.add_parameters, operation) or {}
        )
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
            allow=None if self._allow_for is None else self._allow_for(operation),
        )
        return uri


def _chosen_resources(operations: list[Operation], resources: Include, *, strict: bool) -> list[Operation]:
    """Return the operations that become resources.

    Raises:
        NothingMatches: ``strict``, and a pattern matches nothing, or only operations that change something.
    """
    found = choose_operations(operations, resources, strict=strict)
    readable = [each for each in operations if each.method == "GET"]
    try:
        choose_operations(readable, resources, strict=strict and resources != "*")
    except NothingMatches as error:
        raise NothingMatches(f"{error}; only operations with GET can be resources") from error
    return [each for each in found if each.method == "GET"]


def refresh_before_reads(server: MCPServer[Any], settings: ExposeSettings, refresh: Callable[[], None]) -> None:
    """Have ``refresh`` called before each read of the lists that an exposure with these settings adds to.

    Args:
        server: the server of the lists; it offers them from now on.
        settings: how operations are exposed.
        refresh: exposes what is there now; cheap if nothing has changed.
    """
    server.tools.serve()
    indexes: list[Any] = [server.tools.index]
    if settings.resources != ():
        server.resources.serve()
        indexes += [server.resources.fixed, server.resources.templates]
    for index in indexes:
        if refresh not in index.before_read:
            index.before_read.append(refresh)


class _Made(NamedTuple):
    """The component that was made from an operation."""

    operation: Operation
    identity: str
    """Name of the tool, or URI of the resource."""
    is_resource: bool


def _is_same(one: Operation, other: Operation) -> bool:
    """Return whether two operations of one label have the same definition and the same requests."""
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


def _described(raw: Any) -> str:
    text = raw.get("description") if is_object(raw) else None
    return text if isinstance(text, str) else ""


def _with_added(operation: Operation, schema: dict[str, Any], added: Mapping[str, Any]) -> Operation:
    """Return an operation with parameters that its description lacks; they are added to its input schema too.

    Raises:
        UnusableOperation: the location of a parameter cannot be added to.
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
"""Location of added members → media type of a body that has only these members."""


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
            is_given = parameter.argument in names  # a value that is the same in every call is not a model's business
            shown = f"{{{parameter.argument}}}" if is_given else parameter.argument
            path = path.replace(f"{{{parameter.name}}}", shown)
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
