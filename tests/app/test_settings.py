"""ferrule.app.settings: a class of settings, the variables of its fields, and what is said of wrong ones."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import msgspec
import pydantic
import pytest

from ferrule import Client, Field, MCPServer, Setting
from ferrule.app.settings import DeclaredSettings, SettingsError
from ferrule.errors import RegistrationError

pytestmark = pytest.mark.anyio


Aliased = Annotated[str, Setting("Aliased", secret=True)]


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Plain:
    """Settings of a weather server.

    Attributes:
        units: Of temperatures.
    """

    api_key: Annotated[str, Setting("Key of your account", secret=True)]
    days: Annotated[int, Setting("Days of a forecast"), Field(ge=1, le=14)] = 7
    units: Literal["metric", "imperial"] = "metric"
    cities: list[str] = field(default_factory=list)
    cache: Annotated[Path | None, Setting("Folder of the cache", directory=True)] = None
    verbose: bool = False


class Struct(msgspec.Struct, rename="camel"):
    api_key: Annotated[str, Setting("Key of your account", secret=True)]
    days: Annotated[int, Setting("Days of a forecast"), Field(ge=1, le=14)] = 7
    units: Annotated[Literal["metric", "imperial"], Setting("Of temperatures.")] = "metric"
    cities: list[str] = []
    cache: Annotated[Path | None, Setting("Folder of the cache", directory=True)] = None
    verbose: bool = False


@attrs.define
class Attrs:
    api_key: Annotated[str, Setting("Key of your account", secret=True)]
    days: Annotated[int, Setting("Days of a forecast"), Field(ge=1, le=14)] = 7
    units: Annotated[Literal["metric", "imperial"], Setting("Of temperatures.")] = "metric"
    cities: list[str] = attrs.field(factory=list)
    cache: Annotated[Path | None, Setting("Folder of the cache", directory=True)] = None
    verbose: bool = False


class Model(pydantic.BaseModel):
    api_key: pydantic.SecretStr = pydantic.Field(description="Key of your account")
    days: int = pydantic.Field(7, ge=1, le=14, description="Days of a forecast")
    units: Literal["metric", "imperial"] = pydantic.Field("metric", description="Of temperatures.")
    cities: list[str] = []
    cache: pydantic.DirectoryPath | None = pydantic.Field(None, description="Folder of the cache")
    verbose: bool = False


CLASSES = pytest.mark.parametrize("cls", [Plain, Struct, Attrs, Model])


def read(cls: type[Any], **environ: str) -> Any:
    """The settings that variables make."""
    return DeclaredSettings("weather", cls, environ=environ).value


def problems(cls: type[Any], **environ: str) -> dict[str, str]:
    """Reasons by variable."""
    with pytest.raises(SettingsError) as caught:
        read(cls, **environ)
    return {problem.variable: problem.reason for problem in caught.value.problems}


@CLASSES
def test_variables_become_fields(cls: type[Any], tmp_path: Path) -> None:
    """Each with its type, in every kind of class."""
    found = read(
        cls, API_KEY="k", DAYS="3", UNITS="imperial", CITIES="Oslo, São Paulo", CACHE=str(tmp_path), VERBOSE="yes"
    )
    assert getattr(found.api_key, "get_secret_value", lambda: found.api_key)() == "k"
    assert (found.days, found.units, found.cities) == (3, "imperial", ["Oslo", "São Paulo"])
    assert (found.cache, found.verbose) == (tmp_path, True)
    assert isinstance(found, cls)


@CLASSES
def test_missing_ones_have_their_defaults(cls: type[Any]) -> None:
    found = read(cls, API_KEY="k")
    assert (found.days, found.units, found.cities, found.cache, found.verbose) == (7, "metric", [], None, False)


@CLASSES
def test_all_problems_are_reported_together_without_values(cls: type[Any]) -> None:
    """The person who sets them reads it once, perhaps in a log that others read too."""
    found = problems(cls, DAYS="secret-days", UNITS="secret-units", VERBOSE="secret-maybe")
    assert found["API_KEY"] == "is not set: Key of your account"
    assert found["DAYS"].startswith("is wrong: ")
    assert found["UNITS"] == "is none of metric, imperial"
    assert found["VERBOSE"].startswith("is wrong: ")
    assert not any("secret-" in reason for reason in found.values())


@CLASSES
def test_bounds_are_checked(cls: type[Any]) -> None:
    found = problems(cls, API_KEY="k", DAYS="15")
    assert set(found) == {"DAYS"}
    assert "14" in found["DAYS"]


@CLASSES
def test_each_setting_is_described(cls: type[Any]) -> None:
    """For bundles, registries and installers, in the same words for every kind of class."""
    key, days, units, cities, cache, verbose = DeclaredSettings("weather", cls, prefix="WEATHER_").fields
    assert (key.name, key.variable, key.kind) == ("api_key", "WEATHER_API_KEY", "string")
    assert (key.title, key.description) == ("Api key", "Key of your account")
    assert (key.is_required, key.is_secret, key.default) == (True, True, None)
    assert (days.kind, days.default, days.minimum, days.maximum) == ("number", 7, 1, 14)
    assert (days.is_required, days.is_secret, days.default_text) == (False, False, "7")
    assert (units.choices, units.default) == (("metric", "imperial"), "metric")
    assert units.description in ("Of temperatures.", "Of temperatures")
    assert (cities.is_list, cities.kind) == (True, "string")
    assert (cache.kind, cache.default) == ("directory", None)
    assert (verbose.kind, verbose.default, verbose.default_text) == ("boolean", False, "false")


@pytest.mark.parametrize("text", ["", "${user_config.api_key}"])
def test_what_a_host_leaves_for_no_value_is_no_value(text: str) -> None:
    """Hosts pass on an empty text, or their own placeholder."""
    assert "is not set" in problems(Plain, API_KEY=text)["API_KEY"]
    assert read(Plain, API_KEY="k", DAYS=text).days == 7


def test_a_variable_with_a_similar_name_is_named() -> None:
    """A wrong name is otherwise ignored in silence."""
    assert problems(Plain, APIKEY="x")["API_KEY"] == "is not set, but APIKEY is: Key of your account"
    assert problems(Plain, API_DAYS="x", DAYS="1")["API_KEY"] == "is not set: Key of your account"


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (bool, "on", True),
        (bool, "0", False),
        (bool, "False", False),
        (int, "-5", -5),
        (float, "1.5", 1.5),
        (float, "2", 2.0),
        (int | None, "3", 3),
        (bool | None, "no", False),
        (str | None, "1", "1"),
        (str, "true", "true"),
        (list[int], "1, 2", [1, 2]),
        (list[int], "[1, 2]", [1, 2]),
        (list[str], '["a,b", "c"]', ["a,b", "c"]),
        (tuple[str, ...], "a,b", ("a", "b")),
        (set[str], "a,a", {"a"}),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Size, "l", Size.LARGE),
        (Path, "/tmp/x", Path("/tmp/x")),
        (datetime.date, "2026-07-28", datetime.date(2026, 7, 28)),
        (datetime.timedelta, "PT5M", datetime.timedelta(minutes=5)),
    ],
    ids=str,
)
def test_text_becomes_the_declared_type(hint: Any, text: str, value: Any) -> None:
    made = msgspec.defstruct("Made", [("it", hint)])
    found = read(made, IT=text).it
    assert found == value
    assert type(found) is type(value)


def test_the_description_of_a_choice() -> None:
    """An enum has its values, a path is a file."""
    made = msgspec.defstruct("Made", [("size", Size), ("file", Path), ("when", datetime.date), ("numbers", list[int])])
    size, file, when, numbers = DeclaredSettings("s", made).fields
    assert size.choices == ("s", "l")
    assert (file.kind, when.kind) == ("file", "string")
    assert (numbers.kind, numbers.is_list) == ("number", True)


def test_a_variable_may_have_a_name_of_its_own() -> None:
    @dataclass
    class Own:
        key: Annotated[str, Setting(variable="OPENWEATHER_KEY", title="OpenWeather")]

    [found] = DeclaredSettings("s", Own, prefix="S_").fields
    assert (found.variable, found.title) == ("OPENWEATHER_KEY", "OpenWeather")


def test_a_mark_inside_of_an_annotation_counts() -> None:
    """A secret that is optional is a secret."""

    class Own(msgspec.Struct):
        one: Annotated[str, Setting("A key", secret=True, title="Key")] | None = None
        two: Annotated[int, Setting("A number", variable="NUMBER"), Field(ge=2)] | None = None
        three: list[Annotated[str, Setting(secret=True)]] = []
        four: Annotated[Aliased, Setting("Outer", variable="FOUR_4")] = ""

    one, two, three, four = DeclaredSettings("s", Own).fields
    assert (one.is_secret, one.description, one.title) == (True, "A key", "Key")
    assert (two.variable, two.description, two.minimum, two.is_secret) == ("NUMBER", "A number", 2, False)
    assert three.is_secret
    assert (four.is_secret, four.variable) == (True, "FOUR_4")
    assert read(Own, ONE="k", NUMBER="3") == Own(one="k", two=3)
    assert set(problems(Own, NUMBER="1")) == {"NUMBER"}


def test_a_variable_that_is_no_setting_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Only behind a prefix: the others belong to anybody. Values are in no log."""
    environ = {"W_API_KEY": "k", "W_DAY": "secret", "W_X": "9", "OTHER": "1"}
    with caplog.at_level("WARNING", "ferrule.app"):
        read(Plain, API_KEY="k", DAY="secret")
        assert DeclaredSettings("weather", Plain, prefix="W_", environ=environ).value.days == 7
    assert [record.getMessage() for record in caplog.records] == [
        "W_DAY is set, and weather has no such setting; did you mean W_DAYS?",
        "W_X is set, and weather has no such setting",
    ]


def test_a_default_that_is_secret_is_not_described() -> None:
    @dataclass
    class Own:
        key: Annotated[str, Setting(secret=True)] = "demo-key"

    assert DeclaredSettings("s", Own).fields[0].default is None
    assert read(Own).key == "demo-key"


def test_the_default_of_several_values_is_a_list() -> None:
    """Also where the class has a tuple: what reads the declaration writes JSON, or the text of the variable."""

    @dataclass
    class Own:
        cities: tuple[str, ...] = ("Oslo", "Rome")

    [found] = DeclaredSettings("s", Own).fields
    assert (found.is_list, found.default, found.default_text) == (True, ["Oslo", "Rome"], "Oslo,Rome")


def test_what_the_class_itself_refuses_is_a_problem_too() -> None:
    """Checks over several fields."""

    @dataclass
    class Own:
        low: int = 0
        high: int = 1

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("LOW is above HIGH")

    class Checked(pydantic.BaseModel):
        name: str

        @pydantic.field_validator("name")
        @classmethod
        def short(cls, value: str) -> str:
            raise ValueError("too long")

    assert problems(Own, LOW="2") == {"": "LOW is above HIGH"}
    assert problems(Checked, NAME="n") == {"NAME": "is wrong: Value error, too long"}


def test_an_alias_of_pydantic_is_used() -> None:
    class Own(pydantic.BaseModel):
        key: str = pydantic.Field(alias="theKey")

    assert read(Own, KEY="k").key == "k"


class Base(pydantic.BaseModel):
    """As ``pydantic_settings.BaseSettings``: reads further sources by itself."""

    @classmethod
    def settings_customise_sources(cls) -> None: ...

    def __init__(self, **given: Any) -> None:
        super().__init__(**{"key": "from a file", **given})


def test_pydantic_settings_reads_its_other_sources() -> None:
    """A file of variables; the prefix of its configuration names the variables."""

    class Own(Base):
        model_config = pydantic.ConfigDict(env_prefix="app_", extra="allow")  # type: ignore[typeddict-item]
        key: str

    declared = DeclaredSettings("s", Own, environ={})
    assert declared.fields[0].variable == "APP_KEY"
    assert declared.value.key == "from a file"
    assert read(Own, APP_KEY="set").key == "set"


@pytest.mark.parametrize("cls", [int, dict, str])
def test_what_is_no_class_of_settings(cls: Any) -> None:
    with pytest.raises(TypeError, match="no class of settings"):
        DeclaredSettings("s", cls)


def test_names_that_cannot_be_variables() -> None:
    @dataclass
    class Twice:
        one: Annotated[str, Setting(variable="SAME")]
        two: Annotated[str, Setting(variable="SAME")]

    with pytest.raises(ValueError, match="SAME"):
        DeclaredSettings("s", Twice)
    with pytest.raises(ValueError, match="A-B"):
        Setting(variable="A-B")
    with pytest.raises(ValueError, match="MY-API_KEY"):
        DeclaredSettings("s", Plain, prefix="MY-")


# -- on a server ------------------------------------------------------------------------------------------------------


async def test_a_server_reads_its_settings_when_it_starts() -> None:
    """Not when it is imported: a file is also imported to list and to package it."""
    environ: dict[str, str] = {}
    app = MCPServer("weather")
    settings = app.declare_settings(Plain, prefix="W_", environ=environ)

    @app.tool
    def days() -> int:
        return settings.value.days

    with pytest.raises(SettingsError, match="W_API_KEY is not set: Key of your account"):
        app.check()
    with pytest.raises(SettingsError, match="weather cannot start"):
        async with Client(app):
            pass
    environ.update(W_API_KEY="k", W_DAYS="2")
    app.check()
    async with Client(app) as client:
        assert (await client.call_tool("days")).data == 2


async def test_a_test_gives_settings_of_its_own() -> None:
    app = MCPServer("weather")
    settings = app.declare_settings(Plain, environ={})
    with settings.use(Plain("k", days=3)) as used:
        app.check()
        assert settings.value is used
    with pytest.raises(SettingsError):
        _ = settings.value


def test_a_server_has_one_class_of_settings() -> None:
    app = MCPServer("weather")
    app.declare_settings(Plain)
    with pytest.raises(RegistrationError, match="settings already"):
        app.declare_settings(Plain)


def test_settings_of_a_mounted_server_are_checked_too() -> None:
    inner, outer = MCPServer("inner"), MCPServer("outer")
    inner.declare_settings(Plain, environ={})
    outer.mount(inner)
    with pytest.raises(SettingsError, match="inner cannot start"):
        outer.check()
