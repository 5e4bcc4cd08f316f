"""What a function may look like, and what is refused when it is registered."""

from __future__ import annotations

import functools
import inspect
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ForwardRef

import pytest

from ferrule import Context
from ferrule.app.errors import SignatureError
from ferrule.app.signatures.coercion import InvalidArguments
from ferrule.app.signatures.function import compile_function

if TYPE_CHECKING:
    from somewhere_else import Unknown  # type: ignore[import-not-found]


@dataclass
class Later:
    n: int


def test_star_args_are_refused_clearly():
    """They have no names that a client could send."""

    def function(*items: int): ...

    with pytest.raises(SignatureError, match=r"\*args"):
        compile_function(function)


def test_star_kwargs_are_refused_unless_the_author_writes_the_schema():
    """Without a schema clients cannot know the arguments."""

    def function(**extra: int): ...

    with pytest.raises(SignatureError, match="input_schema"):
        compile_function(function)
    assert compile_function(function, allow_keywords=True).bind({"a": 1}) == {"a": 1}


@pytest.mark.parametrize("hint", [object(), complex, type, inspect.Signature])
def test_a_type_without_a_json_form_is_refused_at_registration(hint):
    """An error at the first call would be the client's to see."""

    def function(p): ...

    function.__annotations__["p"] = hint
    with pytest.raises(SignatureError, match="parameter 'p'"):
        compile_function(function)


def test_a_field_without_a_json_form_is_named():
    """The author must find it: class and field are in the message."""

    @dataclass
    class Holder:
        inner: complex

    def function(holder): ...

    function.__annotations__["holder"] = Holder
    with pytest.raises(SignatureError, match=r"Holder\.inner"):
        compile_function(function)


def test_constraints_that_do_not_fit_are_refused_at_registration():
    """A minimum of a string means nothing."""
    from ferrule import Field

    def function(p): ...

    function.__annotations__["p"] = Annotated[str, Field(ge=1)]
    with pytest.raises(SignatureError, match="does not fit"):
        compile_function(function)


def test_a_name_defined_later_is_resolved_on_first_use():
    """Forward references are ordinary under postponed annotations."""

    def function(p: DefinedBelow): ...  # noqa: F821 # pyright: ignore[reportUndefinedVariable]

    spec = compile_function(function)
    assert spec.is_pending
    globals()["DefinedBelow"] = Later
    try:
        assert spec.bind({"p": {"n": 1}}) == {"p": Later(1)}
        assert spec.input_schema()["properties"]["p"]["type"] == "object"
    finally:
        del globals()["DefinedBelow"]


def test_a_name_that_stays_undefined_is_an_error_with_advice():
    """TYPE_CHECKING imports are the usual reason."""

    def function(p: Unknown): ...

    with pytest.raises(SignatureError, match="TYPE_CHECKING"):
        compile_function(function).bind({})


def test_classes_inside_a_function_are_found_under_postponed_annotations():
    """Tests and factories define models locally."""

    @dataclass
    class Local:
        n: int
        more: list[Local]

    def function(p: Local): ...

    spec = compile_function(function)
    assert not spec.is_pending
    assert spec.bind({"p": {"n": 1, "more": [{"n": 2, "more": []}]}}) == {"p": Local(1, [Local(2, [])])}


def test_the_context_is_put_in_wherever_it_stands_and_never_published():
    """By type, not by name or position: an argument called ctx stays an argument."""

    def function(a: int, here: Context | None, *, also: Annotated[Context[Any], "note"], ctx: str = "x"): ...

    spec = compile_function(function)
    assert spec.injected == {"here": "context", "also": "context"}
    assert set(spec.input_schema()["properties"]) == {"a", "ctx"}


def test_methods_partials_callables_and_wrapped_functions_are_read():
    """Everything that can be called can be served."""

    class Service:
        def method(self, a: int) -> int:
            """Doc."""
            return a

        async def __call__(self, b: int) -> int:
            return b

    def decorated(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    @decorated
    def wrapped(c: int): ...

    def bound(x: int, y: int): ...

    assert list(compile_function(Service().method).bind({"a": 1})) == ["a"]
    assert compile_function(Service().method).doc == "Doc."
    assert compile_function(Service()).kind == "async"
    assert compile_function(Service()).bind({"b": 1}) == {"b": 1}
    assert compile_function(wrapped).bind({"c": 1}) == {"c": 1}
    spec = compile_function(functools.partial(bound, y=5))
    assert spec.name == "bound"
    assert spec.bind({"x": 1}) == {"x": 1, "y": 5}


def test_positional_only_parameters_are_called_by_position():
    """They cannot be passed by keyword."""

    def function(a: int, b: int = 2, /, c: int = 3):
        return a, b, c

    spec = compile_function(function)
    assert spec.call_with(**spec.bind({"a": 1, "c": 5})) == (1, 2, 5)


def test_kinds_of_functions_are_distinguished():
    """Sync functions run in a thread; generators are refused where they cannot be served."""

    async def coroutine(): ...

    def generator():
        yield 1

    async def asyncgen():
        yield 1

    kinds = [compile_function(f).kind for f in (lambda: 1, coroutine, generator, asyncgen)]
    assert kinds == ["sync", "async", "generator", "async_generator"]


def test_a_pydantic_field_as_default_is_refused_with_the_cure():
    """It would be the value of a plain call."""
    import pydantic

    def function(a: int = pydantic.Field(3)): ...

    with pytest.raises(SignatureError, match="Annotated"):
        compile_function(function)


def test_the_function_is_not_changed():
    """It stays the author's."""

    def function(a: int = 1): ...

    before = dict(vars(function))
    compile_function(function).bind({})
    assert vars(function) == before
    assert function.__annotations__ == {"a": "int"}


def test_plain_functions_cost_no_validation_library():
    """pydantic, jsonschema and docstring_parser are loaded only if they are needed."""
    code = (
        "import sys\n"
        "from ferrule import MCPServer\n"
        "app = MCPServer('x')\n"
        "@app.tool\n"
        "def f(a: int, b: list[str] = []) -> dict[str, int]:\n"
        "    'One line.'\n"
        "app.list_tools()\n"
        "app.tools.index.live['f'].spec.bind({'a': 1})\n"
        "heavy = {'pydantic', 'attr', 'jsonschema_rs', 'docstring_parser', 'toons', 'asyncio', 'uvicorn'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_registering_a_thousand_tools_is_cheap_by_count():
    """No Struct, schema or docstring is made for a tool before its first use, so that servers start quickly."""
    from ferrule import MCPServer

    app = MCPServer("x")

    def make():
        def tool(city: str, days: int = 3, metric: bool = True) -> str:
            """Return the weather forecast."""
            return city

        return tool

    calls = 0

    def count(frame, event, arg):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    for number in range(100):
        app.add_tool(make(), name=f"tool_{number}")
    sys.setprofile(None)
    assert calls / 100 < 90
    assert all(tool.spec._struct is None and tool._plan is None for tool in app.tools.index)


def test_a_method_in_a_class_body_is_refused():
    """It would be listed with a parameter ``self`` that no client can send."""
    from ferrule import MCPServer

    app = MCPServer("x")
    with pytest.raises(SignatureError, match=r"Shop\.sell.*instance\.method"):

        class Shop:
            @app.tool
            def sell(self, product: str) -> str:
                return product

    class Store:
        def sell(self, product: str) -> str:
            return product

        @classmethod
        def count(cls) -> int:
            return 1

    app.tool(Store().sell)
    app.tool(Store.count)

    @app.tool
    def plain(self: int) -> int:
        return self

    @app.tool
    def odd(self) -> int:
        return self

    assert [tool.name for tool in app.list_tools()] == ["sell", "count", "plain", "odd"]


def test_a_signature_of_the_authors_own_is_the_truth():
    """Decorators and generators of functions hide parameters, or name them, in ``__signature__`` only."""

    def hides(city: str, secret: str = "s") -> str:
        return f"{city} {secret}"

    one = inspect.Parameter("city", inspect.Parameter.KEYWORD_ONLY, annotation=str)
    two = inspect.Parameter("days", inspect.Parameter.KEYWORD_ONLY, annotation="int", default=3)
    hides.__signature__ = inspect.Signature([one], return_annotation=str)  # type: ignore[attr-defined]

    def generated(**given: Any) -> Any:
        return given

    generated.__signature__ = inspect.Signature([one, two])  # type: ignore[attr-defined]
    spec = compile_function(hides)
    assert list(spec.input_schema()["properties"]) == ["city"]
    with pytest.raises(InvalidArguments, match="secret"):
        spec.bind({"city": "Oslo", "secret": "x"})
    spec = compile_function(generated)
    assert spec.input_schema()["properties"] == {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}}
    assert spec.function(**spec.bind({"city": "Oslo"})) == {"city": "Oslo", "days": 3}


def test_postponed_annotations_cost_little_by_count():
    """They are evaluated without ``typing.get_type_hints``, whose cost differs from Python to Python."""
    from ferrule import MCPServer

    app = MCPServer("x")

    def make():
        def tool(city: str, days: int = 3, tags: list[str] | None = None, table: dict[str, int] | None = None) -> str:
            return city

        return tool

    app.add_tool(make(), name="first")
    seen: dict[str, int] = {}

    def count(frame, event, arg):
        if event == "call":
            name = frame.f_globals.get("__name__", "").partition(".")[0]
            seen[name] = seen.get(name, 0) + 1

    sys.setprofile(count)
    for number in range(100):
        app.add_tool(make(), name=f"tool_{number}")
    sys.setprofile(None)
    assert seen.get("typing", 0) / 100 < 90
    assert seen["ferrule"] / 100 < 140


class Deferred:
    """As a function of Python 3.14 whose annotation names what is not there yet: asking for the signature raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    @property
    def __signature__(self) -> inspect.Signature:
        raise self.error

    def __call__(self, p: Any) -> None: ...


class _Library:
    """What this file needs of ``annotationlib``."""

    class Format:
        FORWARDREF = "forwardref"
        STRING = "string"


def test_a_name_that_is_not_there_yet_leaves_any_callable_pending(monkeypatch):
    """Methods, partials and instances as plain functions; on Python 3.14 it is ``inspect`` that raises."""
    from ferrule.kernel import signatures

    asked: list[Any] = []

    def read(function: Any, *, annotation_format: Any) -> inspect.Signature:
        asked.append(annotation_format)
        later = ForwardRef("ComesLater")
        return inspect.Signature([inspect.Parameter("p", inspect.Parameter.KEYWORD_ONLY, annotation=later)])

    monkeypatch.setattr(signatures, "_annotation_library", lambda: _Library)
    monkeypatch.setattr(signatures, "_signature", lambda function, kind: read(function, annotation_format=kind))
    spec = compile_function(Deferred(NameError("name 'ComesLater' is not defined")))
    assert spec.is_pending
    assert asked == ["forwardref"]
    monkeypatch.setitem(globals(), "ComesLater", int)
    assert spec.finish().input_schema()["properties"] == {"p": {"type": "integer"}}
    assert [p.name for p in signatures.parameters_of(Deferred(NameError("x")))] == ["p"]


@pytest.mark.parametrize("error", [NameError("gone"), ZeroDivisionError("why"), KeyError("k")])
def test_an_annotation_that_raises_is_refused_with_what_it_raised(error, monkeypatch):
    """The author reads which function it is."""
    from ferrule.kernel import signatures

    monkeypatch.setattr(signatures, "_annotation_library", lambda: None)
    with pytest.raises(SignatureError, match=r"Deferred.*cannot be read"):
        compile_function(Deferred(error))

    def function(p): ...

    for text in ("1 / 0", "int.missing", "{}['k']", "int(", "1 +"):
        function.__annotations__["p"] = text
        with pytest.raises(SignatureError, match=r"function.*cannot be read"):
            compile_function(function)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated late from Python 3.14 on")
def test_python_3_14_leaves_names_that_are_missing_pending():
    """The real thing, without the future import: the names come after the registration."""
    code = (
        "import functools\n"
        "from ferrule.app.signatures.function import compile_function\n"
        "class Shop:\n"
        "    def sell(self, p: Later): ...\n"
        "    @classmethod\n"
        "    def count(cls, p: Later): ...\n"
        "    def __call__(self, p: Later): ...\n"
        "def plain(p: Later, q: int = 1): ...\n"
        "partial, cached = functools.partial(plain, q=2), functools.lru_cache(plain)\n"
        "wrapped = functools.wraps(plain)(lambda *a, **k: None)\n"
        "callables = [Shop().sell, Shop.count, Shop(), plain, partial, cached, wrapped]\n"
        "specs = [compile_function(each) for each in callables]\n"
        "assert all(spec.is_pending for spec in specs)\n"
        "Later = int\n"
        "for spec in specs:\n"
        "    assert spec.finish().input_schema()['properties']['p'] == {'type': 'integer'}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_parameter_with_two_underscores_works():
    """msgspec has no field of that name, so the arguments are bound one by one."""

    def function(__x: int, y: str = "a") -> int:
        return __x

    spec = compile_function(function)
    assert list(spec.input_schema()["properties"]) == ["__x", "y"]
    assert spec.call_with(**spec.bind({"__x": 3})) == 3
    with pytest.raises(InvalidArguments, match="__x"):
        spec.bind({"__x": "no"})
