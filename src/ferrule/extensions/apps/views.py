"""Ready views: `Table`, `Chart`, `ToolForm` and `Approval`, made from the types of tools.

``@app.ui(Table())`` shows the result of a tool that returns a list of dataclasses, TypedDicts or dicts: the columns and
their titles come from the output schema. The pages need nothing from elsewhere, take colours and fonts from the host,
and can be used with the keyboard and a screen reader.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from ferrule.app.errors import RegistrationError, SignatureError
from ferrule.extensions.apps.packaging import Packaged, package
from ferrule.extensions.apps.policy import UiPolicy
from ferrule.extensions.apps.view_script import STATIC, static_text
from ferrule.wire.codec import encode_str
from ferrule.wire.json_types import is_array, is_list, is_mapping, is_object

if TYPE_CHECKING:
    from ferrule.app.components.tools import ToolComponent
    from ferrule.app.server import MCPServer
    from ferrule.extensions.apps.page import PageSource

__all__ = ["Approval", "Chart", "ReadyView", "Table", "ToolForm"]

_CONFIG: Final = '<script type="application/json" id="config">{}</script>'
_SHOWN_ROWS: Final = 20
_SHOWN_CHARS: Final = 4000


class ReadyView(ABC):
    """Base of the ready views.

    Attributes:
        title: the title of the page; the tool's if not given.
        needs_state: whether the view remembers what was done in it.
    """

    template: str
    needs_state = False

    def __init__(self, title: str | None) -> None:
        self.title = title

    @property
    def text(self) -> Callable[[Any], str] | None:
        """The function that writes the result for the model, unless the tool has one; ``None`` for JSON."""
        return None

    @abstractmethod
    def config(self, tool: ToolComponent, app: MCPServer[Any]) -> dict[str, Any]:
        """Return the settings of the page of a tool.

        Raises:
            RegistrationError: another tool that the view calls is not registered.
        """

    def page_for(self, tool: ToolComponent, app: MCPServer[Any]) -> PageSource:
        """Return the page of a tool of a server."""
        title = self.title or tool.options.title or _words(tool.name)
        return _ReadyPage(tool.name, self.template, {"title": title, **self.config(tool, app)})


class _ReadyPage:
    """A template with its settings."""

    def __init__(self, name: str, template: str, config: Mapping[str, Any]) -> None:
        self.name = name
        self._template = template
        # In a script element "<" could end it.
        self._config = json.dumps(config, ensure_ascii=False).replace("<", "\\u003c")

    def packaged(self, policy: UiPolicy, max_bytes: int) -> Packaged:
        """See `PageSource`."""
        text = static_text(self._template)
        assert _CONFIG in text
        filled = text.replace(_CONFIG, _CONFIG.replace("{}", self._config))
        return Packaged(package(filled, policy, label=self._template, folder=STATIC, max_bytes=max_bytes).html, ())


class Table(ReadyView):
    """A table of the rows of a result, with a filter and an order by column; ten thousand rows stay smooth.

    The tool returns a list of objects, or an object with one list in it. The model gets the number of rows and the
    first of them as text, unless the tool has ``text=``.

    Args:
        columns: names of the fields to show, or names with titles; all of the output schema if not given.
        title: the title; the tool's if not given.
    """

    template = "table.html"

    def __init__(self, columns: Iterable[str] | Mapping[str, str] | None = None, *, title: str | None = None) -> None:
        super().__init__(title)
        self._columns = None if columns is None else _titled(columns)

    @property
    def text(self) -> Callable[[Any], str]:
        """See `ReadyView`."""
        return text_of_rows

    def config(self, tool: ToolComponent, app: MCPServer[Any]) -> dict[str, Any]:
        """See `ReadyView`."""
        fields = _fields_of_rows(tool)
        names = self._columns or {name: _title_of(name, part) for name, part in fields.items()}
        return {
            "columns": [
                {
                    "key": name,
                    "title": title or _title_of(name, fields.get(name, {})),
                    "type": _type_of(fields.get(name)),
                }
                for name, title in names.items()
            ]
        }


class Chart(ReadyView):
    """A chart of lines or bars, with the same numbers as a table for those who do not see it.

    The tool returns a list of objects, a list of numbers, or numbers by name.

    Args:
        kind: ``"line"`` or ``"bar"``.
        x: the field for the horizontal axis; the first that is not a number if not given.
        y: the fields to draw; all other numbers if not given.
        title: the title; the tool's if not given.
    """

    template = "chart.html"

    def __init__(
        self,
        kind: Literal["line", "bar"] = "line",
        *,
        x: str | None = None,
        y: str | Iterable[str] | None = None,
        title: str | None = None,
    ) -> None:
        super().__init__(title)
        if cast("Any", kind) not in ("line", "bar"):
            raise RegistrationError(f'a chart is of the kind "line" or "bar", not {kind!r}')
        self._kind = kind
        self._x = x
        self._y = None if y is None else [y] if isinstance(y, str) else list(y)

    @property
    def text(self) -> Callable[[Any], str]:
        """See `ReadyView`."""
        return text_of_rows

    def config(self, tool: ToolComponent, app: MCPServer[Any]) -> dict[str, Any]:
        """See `ReadyView`."""
        titles = {name: _title_of(name, part) for name, part in _fields_of_rows(tool).items()}
        return {"kind": self._kind, "x": self._x, "y": self._y, "titles": titles}


class ToolForm(ReadyView):
    """A form for the arguments of another tool, which is called when the user sends it.

    The arguments and the result of the tool that has the form fill it in.

    Args:
        submit: the tool that takes the values: its function, or its name. It is registered before.
        button: the text of the button.
        done: what is shown when the values were taken.
        title: the title; the tool's if not given.
    """

    template = "form.html"
    needs_state = True

    def __init__(
        self, submit: str | Callable[..., Any], *, button: str = "Send", done: str = "Sent.", title: str | None = None
    ) -> None:
        super().__init__(title)
        self._submit = submit
        self._button = button
        self._done = done

    def config(self, tool: ToolComponent, app: MCPServer[Any]) -> dict[str, Any]:
        """See `ReadyView`."""
        found = _tool_named(app, self._submit)
        return {"tool": found.name, "schema": found.input_schema(), "button": self._button, "done": self._done}


class Approval(ReadyView):
    """What a tool proposes, with two buttons: approve and decline.

    The result of the tool is shown field by field. Approving calls ``approve`` with those fields of the result that
    are arguments of it. The decision is made once for each result: the view remembers it. That alone protects nothing,
    since a client can call the tool without a view; the tool checks what must not happen twice, or without a right.

    Args:
        approve: the tool that is called then: its function, or its name. It is registered before; give it
            ``visibility="app"``, so that the model cannot approve by itself in hosts with views.
        decline: the tool that is called when the user declines; ``None`` for none.
        labels: the texts of the two buttons.
        title: the title; the tool's if not given.
    """

    template = "approval.html"
    needs_state = True

    def __init__(
        self,
        approve: str | Callable[..., Any],
        decline: str | Callable[..., Any] | None = None,
        *,
        labels: tuple[str, str] = ("Approve", "Decline"),
        title: str | None = None,
    ) -> None:
        super().__init__(title)
        self._approve = approve
        self._decline = decline
        self._labels = labels

    def config(self, tool: ToolComponent, app: MCPServer[Any]) -> dict[str, Any]:
        """See `ReadyView`."""
        schema = _output_schema(tool)
        fields = _properties(schema, schema)
        sides = zip(("approve", "decline"), self._labels, (self._approve, self._decline), strict=True)
        return {
            "titles": {name: _title_of(name, part) for name, part in fields.items()},
            **{side: _choice(app, label, chosen, f"{side}d", fields) for side, label, chosen in sides},
        }


def text_of_rows(data: Any) -> str:
    """Return rows for the model: as JSON, or their number and the first of them where that is long."""
    whole = encode_str(data)
    if len(whole) <= _SHOWN_CHARS:
        return whole
    rows = data if is_list(data) else _only_list(data)
    if rows is None:
        return whole
    shown: list[str] = []
    size = 0
    for row in rows[:_SHOWN_ROWS]:
        shown.append(encode_str(row))
        size += len(shown[-1])
        if size > _SHOWN_CHARS:
            break
    return "\n".join([f"{len(rows):,} rows; the first {len(shown)}:", *shown])


def _only_list(data: Any) -> list[Any] | None:
    lists = [part for part in data.values() if is_list(part)] if is_object(data) else []
    return lists[0] if len(lists) == 1 else None


def _choice(
    app: MCPServer[Any], label: str, chosen: str | Callable[..., Any] | None, done: str, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings of one button of an `Approval`."""
    text = f"{done.capitalize()}."
    if chosen is None:
        return {"label": label, "tool": None, "names": [], "done": text}
    found = _tool_named(app, chosen)
    schema = found.input_schema()
    missing = [name for name in schema.get("required", ()) if fields and name not in fields]
    if missing:
        raise RegistrationError(
            f"{found.name!r} needs {', '.join(missing)}, and the result that is approved has {', '.join(fields)}"
        )
    return {"label": label, "tool": found.name, "names": list(schema.get("properties", {})), "done": text}


def _tool_named(app: MCPServer[Any], wanted: str | Callable[..., Any]) -> ToolComponent:
    for tool in app.tools.index:
        if tool.name == wanted or tool.spec.function is wanted:
            return tool
    raise RegistrationError(f"The view calls {wanted!r}, which is no tool of {app.name!r} yet: register it before")


def _titled(columns: Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    if isinstance(columns, Mapping):
        return dict(cast("Mapping[str, str]", columns))
    return dict.fromkeys(columns, "")


def _words(name: str) -> str:
    text = name.replace("_", " ").strip()
    return text[:1].upper() + text[1:]


def _title_of(name: str, part: Any) -> str:
    given: Any = part.get("title") if is_mapping(part) else None
    return given if isinstance(given, str) else _words(name)


def _type_of(part: Any) -> str:
    """Return the type of a field; that of the other option where it may be null."""
    if not is_mapping(part):
        return "string"
    given: Any = part.get("type")
    if given is None:
        options: Any = part.get("anyOf") or part.get("oneOf") or ()
        kinds = [_type_of(option) for option in options if is_mapping(option) and option.get("type") != "null"]
        return kinds[0] if len(set(kinds)) == 1 else "string"
    if is_array(given):
        given = next((each for each in given if each != "null"), "string")
    return str(given)


def _output_schema(tool: ToolComponent) -> dict[str, Any]:
    try:
        return tool.plan.output_schema() or {}
    except SignatureError:  # a type that is defined later: the view reads the fields of the data
        return {}


def _fields_of_rows(tool: ToolComponent) -> Mapping[str, Any]:
    """Return the schemas of the fields of a row, by name."""
    schema = _output_schema(tool)
    part = _resolved(schema, schema)
    if part.get("type") == "array":
        return _properties(part.get("items"), schema)
    lists = [each for each in _properties(part, schema).values() if _resolved(each, schema).get("type") == "array"]
    return _properties(_resolved(lists[0], schema).get("items"), schema) if len(lists) == 1 else {}


def _properties(part: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = _resolved(part, root).get("properties")
    return {name: _resolved(each, root) for name, each in found.items()} if is_mapping(found) else {}


def _resolved(part: Any, root: Mapping[str, Any], depth: int = 0) -> Mapping[str, Any]:
    """Return a schema without its reference to the definitions of the same document."""
    if not is_mapping(part):
        return {}
    reference: Any = part.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/$defs/") or depth > 16:
        return part
    definitions: Any = root.get("$defs", {})
    inner = _resolved(definitions.get(reference.removeprefix("#/$defs/")), root, depth + 1)
    return {**inner, **{key: value for key, value in part.items() if key != "$ref"}}
