"""Makes a server file from an OpenAPI description, for editing by hand: ``ferrule new --from openapi.json server.py``.

It has one typed function for each operation, and uses only public names of the library, not the description, so that
users can change every part. The description is a foreign document, so every name is converted to an identifier and
every text to a literal.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import Any

from ferrule.wire.codec import encode_str
from ferrule.wire.json_types import is_list, is_object

__all__ = ["server_file"]

_LINE = 88
_MAX_DOCSTRING_CHARS = 1200
_MAX_ENUM_CHARS = 200
_TAKEN = frozenset({"api", "app", "headers", "os", "Any", "Literal", "MCPServer", "APIClient", "BASE_URL", "self"})
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_COMMA = "\\x2c"
_PLACES = {"path": "values", "query": "query", "header": "headers", "cookie": "cookies"}
_DEFAULT_STYLES = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}


def server_file(description: Any, operations: Sequence[Any], *, base_url: str, is_url_from_document: bool) -> str:
    """Return the text of a Python file with a server.

    Args:
        description: the description.
        operations: the operations that become functions.
        base_url: the base URL of the API.
        is_url_from_document: whether the URL comes from the description and not from the user; a comment in the file
            then asks to check it.
    """
    names = _Names(_TAKEN)
    parts = [_function(operation, names.reserve(operation.name)) for operation in operations]
    code = "\n\n".join(part.strip("\n") + "\n" for part in parts)
    typing = [name for name in ("Any", "Literal") if re.search(rf"\b{name}\b", code)]
    key = _header_key(operations)
    lines = [
        _literal_docstring(f"{description.title}: tools made of its description, to be curated."),
        "",
        "from __future__ import annotations",
        "",
        *(["import os"] if key is not None else []),
        *([f"from typing import {', '.join(typing)}"] if typing else []),
        *([""] if key is not None or typing else []),
        "from ferrule import MCPServer",
        "from ferrule.expose import APIClient",
        "",
    ]
    if is_url_from_document:
        lines.append("# As the description says; check that your credentials may go there.")
    lines.append(f"BASE_URL = {encode_str(base_url)}")
    if key is None:
        lines.append("api = APIClient(BASE_URL)")
    else:
        name, prefix = key
        value = f'f"{prefix} {{API_TOKEN}}"' if prefix else "API_TOKEN"
        lines += [
            'API_TOKEN = os.environ.get("API_TOKEN")',
            f"headers = {{{encode_str(name)}: {value}}} if API_TOKEN else None",
            "api = APIClient(BASE_URL, headers=headers)",
        ]
    lines += [
        "app = MCPServer(",
        f"    {encode_str(description.title[:80])},",
        f"    version={encode_str(description.version[:40])},",
        "    lifespan=api.lifespan,",
        ")",
        "",
        "",
        "",
    ]
    return "\n".join(lines) + code + '\n\nif __name__ == "__main__":\n    app.run("stdio")\n'


def _header_key(operations: Iterable[Any]) -> tuple[str, str | None] | None:
    """Return the header of the credentials, and the scheme before them; ``None`` if no header has credentials."""
    for operation in operations:
        for alternative in operation.security:
            for key in alternative:
                if key.type == "apiKey" and key.location == "header" and key.name and _is_token(key.name):
                    return key.name, None
                if key.type in ("oauth2", "openIdConnect") or (key.type == "http" and key.http_scheme != "basic"):
                    return "Authorization", "Bearer"
    return None


def _is_token(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_-]+", text) is not None


class _Names:
    """Identifiers of one scope, each given once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def reserve(self, text: str) -> str:
        name = re.sub(r"\W+", "_", text.encode("ascii", "ignore").decode()).strip("_") or "value"
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        if name[0].isdigit():
            name = f"value_{name}"
        if keyword.iskeyword(name) or name in ("none", "true", "false"):
            name += "_"
        found, number = name, 2
        while found in self._taken:
            found = f"{name}_{number}"
            number += 1
        self._taken.add(found)
        return found


# -- one function ------------------------------------------------------------------------------------------------------


def _function(operation: Any, name: str) -> str:
    body = operation.body
    if body is not None and (body.form == "binary" or any(member.is_binary for member in body.fields)):
        return (
            f"# {_one_line(operation.label)} takes files: write it by hand, or expose it with MCPServer.from_openapi."
        )
    schema: dict[str, Any] = operation.schemas().input
    names = _Names(_TAKEN)
    arguments = [_Argument(argument, names, schema) for argument in schema["properties"]]
    by_name = {argument.name: argument for argument in arguments}
    required = [argument for argument in arguments if argument.is_required]
    optional = [argument for argument in arguments if not argument.is_required]
    title = f"title={encode_str(operation.title)}" if operation.title else ""
    options = [part for part in (_hints(operation), title) if part]
    decorator = f"@app.tool({', '.join(options)})" if options else "@app.tool"
    lines = [decorator if len(decorator) <= _LINE else _broken("@app.tool(", options, ")")]
    signature = [f"{each.identifier}: {each.annotation}" for each in required]
    signature += [f"{each.identifier}: {_or_none(each.annotation)} = None" for each in optional]
    head = f"async def {name}({', '.join(signature)}) -> Any:"
    lines.append(head if len(head) <= _LINE else _broken(f"async def {name}(", signature, ") -> Any:"))
    lines.append(_docstring(operation, [*required, *optional]))
    call = [encode_str(operation.method), encode_str(operation.path), *_sent(operation, by_name)]
    line = f"    return await api.request({', '.join(call)})"
    lines.append(line if len(line) <= _LINE else _broken("    return await api.request(", call, "    )", indent=8))
    return "\n".join(lines) + "\n"


class _Argument:
    """One argument: its name in the description, its identifier and annotation."""

    def __init__(self, name: str, names: _Names, schema: dict[str, Any]) -> None:
        part: Any = schema["properties"][name]
        self.name = name
        self.identifier = names.reserve(name)
        self.is_required = name in schema.get("required", ())
        self.annotation = _annotation(part, schema.get("$defs", {}), 0)
        found = part.get("description") if is_object(part) else None
        self.description = found if isinstance(found, str) else ""


def _broken(start: str, parts: Sequence[str], end: str, indent: int = 4) -> str:
    space = " " * indent
    return "\n".join([start, *(f"{space}{_broken_dict(part, indent)}," for part in parts), end])


def _broken_dict(part: str, indent: int) -> str:
    """Return ``name={…}``, with one member per line if it is too long for one line."""
    if len(part) + indent < _LINE or not part.endswith("}") or "={" not in part:
        return part
    name, _, members = part[:-1].partition("={")
    space = " " * (indent + 4)
    return "\n".join([f"{name}={{", *(f"{space}{each}," for each in members.split(", ")), f"{' ' * indent}}}"])


def _or_none(annotation: str) -> str:
    return annotation if annotation == "Any" or annotation.endswith("None") else f"{annotation} | None"


def _annotation(schema: Any, definitions: dict[str, Any], depth: int) -> str:
    if not is_object(schema) or depth > 4:
        return "Any"
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _annotation(definitions.get(reference.rpartition("/")[2]), definitions, depth + 1)
    values: Any = [schema["const"]] if "const" in schema else schema.get("enum")
    if is_list(values) and values and all(value is None or isinstance(value, str | int | bool) for value in values):
        text = f"Literal[{', '.join(_literal(value) for value in values)}]"
        if len(text) <= _MAX_ENUM_CHARS:
            return text
    branches: Any = schema.get("anyOf") or schema.get("oneOf")
    if is_list(branches):
        return _union(_annotation(branch, definitions, depth + 1) for branch in branches)
    kinds: Any = schema.get("type")
    if is_list(kinds):
        return _union(_annotation({**schema, "type": kind}, definitions, depth + 1) for kind in kinds)
    if kinds == "array":
        return f"list[{_annotation(schema.get('items'), definitions, depth + 1)}]"
    if kinds == "object" or "properties" in schema:
        return "dict[str, Any]"
    return _PLAIN.get(kinds, "Any") if isinstance(kinds, str) else "Any"


def _union(parts: Iterable[str]) -> str:
    found = list(dict.fromkeys(parts))
    if "Any" in found:
        return "Any"
    return " | ".join([*(part for part in found if part != "None"), *(["None"] if "None" in found else [])])


def _literal(value: Any) -> str:
    return repr(value) if value is None or isinstance(value, bool | int) else encode_str(value)


def _hints(operation: Any) -> str:
    if operation.is_read_only:
        return 'annotations={"readOnlyHint": True}'
    return 'annotations={"destructiveHint": True}' if operation.method == "DELETE" else ""


def _sent(operation: Any, arguments: dict[str, _Argument]) -> list[str]:
    """Return the arguments of `APIClient.request` after method and path."""
    made: list[str] = []
    styles: dict[str, str] = {}
    joined: list[str] = []
    for location, keyword_name in _PLACES.items():
        members: dict[str, str] = {}
        for parameter in operation.parameters:
            if parameter.location == location:
                members[parameter.name] = arguments[parameter.argument].identifier
                if parameter.style not in (_DEFAULT_STYLES[location], "cookie"):
                    styles[parameter.name] = parameter.style
                elif location == "query" and not parameter.explode:
                    joined.append(parameter.name)
        if members:
            made.append(f"{keyword_name}={_dict(members)}")
    body = operation.body
    if body is not None:
        is_form = "json" not in body.content_type
        if body.form == "fields":
            members = {member.name: arguments[member.argument].identifier for member in body.fields}
            made.append(f"{'form' if is_form else 'json'}={_dict(members)}")
        else:
            made.append(f"{'text' if body.form == 'text' else 'json'}={arguments[body.argument].identifier}")
        if body.content_type not in ("application/json", "application/x-www-form-urlencoded"):
            made.append(f"content_type={encode_str(body.content_type)}")
    if styles:
        made.append(f"styles={_dict({name: encode_str(style) for name, style in styles.items()})}")
    if joined:
        made.append(f"joined=({', '.join(encode_str(name) for name in joined)},)")
    return made


def _dict(members: dict[str, str]) -> str:
    # A comma in a name is written as an escape: `_broken_dict` breaks at commas.
    parts = [f"{encode_str(name).replace(',', _COMMA)}: {value}" for name, value in members.items()]
    return f"{{{', '.join(parts)}}}"


# -- texts -------------------------------------------------------------------------------------------------------------


def _docstring(operation: Any, arguments: Sequence[_Argument]) -> str:
    text = (operation.description or operation.title or operation.label)[:_MAX_DOCSTRING_CHARS]
    lines = [line for paragraph in text.split("\n") for line in wrap(_plain(paragraph), _LINE - 4) or [""]]
    while lines and not lines[-1]:
        lines.pop()
    lines = lines or [_plain(operation.label)]
    described = [argument for argument in arguments if argument.description.strip()]
    if described:
        lines += ["", "Args:"]
        for argument in described:
            found = f"{argument.identifier}: {_plain(_one_line(argument.description))[:400]}"
            first, *rest = wrap(found, _LINE - 8)
            lines += [f"    {first}", *(f"        {line}" for line in rest)]
    if len(lines) == 1 and len(lines[0]) < _LINE - 10:
        return f'    """{_ended(lines[0])}"""'
    return "\n".join([f'    """{lines[0]}', *(f"    {line}" if line else "" for line in lines[1:]), '    """'])


def _ended(line: str) -> str:
    return f"{line} " if line.endswith('"') else line


def _plain(text: str) -> str:
    """Return text escaped for a docstring."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown.replace("\\", "\\\\").replace('"""', "'''")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _literal_docstring(text: str) -> str:
    return f'"""{_ended(_plain(_one_line(text))[:_LINE])}"""'
