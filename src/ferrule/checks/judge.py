"""`check`: the findings about a server, in the order of gravity, with the settings of the person who asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ferrule.checks.picture import ServerPicture
from ferrule.checks.rules.budget import check_budget
from ferrule.checks.rules.hidden import check_hidden
from ferrule.checks.rules.hints import check_hints
from ferrule.checks.rules.model_apis import MODEL_APIS, check_model_apis
from ferrule.checks.rules.names import check_names
from ferrule.checks.rules.pages import check_pages
from ferrule.checks.rules.schemas import check_schemas
from ferrule.checks.rules.texts import check_texts
from ferrule.checks.table import RULES, SEVERITIES, RuleFinding, Severity
from ferrule.wire.struct import Value

__all__ = ["CheckSettings", "check", "make_settings", "rule_code"]

_USUAL = frozenset(api.name for api in MODEL_APIS.values() if api.is_usual)
_OF_APIS = {api.name: api.code for api in MODEL_APIS.values()}


class CheckSettings(Value, frozen=True, kw_only=True):
    """What to judge, and how gravely; `make_settings` makes it of what a person wrote.

    Attributes:
        disabled: codes of rules that are left out.
        only: codes of the only rules to judge; empty for all.
        severities: code → severity in place of the rule's own.
        apis: the model APIs that the server is meant for: what they refuse is an error. Empty: the usual ones are
            judged with the severity of their rules.
        tool_budget: the most tokens of one tool; more is an error. ``None``: the usual bound, a warning.
        list_budget: the same of the list of tools.
    """

    disabled: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    severities: Mapping[str, Severity] = {}
    apis: frozenset[str] = frozenset()
    tool_budget: int | None = None
    list_budget: int | None = None


def rule_code(written: str) -> str:
    """Return the code of a rule that is named by code or by name, in any case.

    Raises:
        ValueError: there is no such rule.
    """
    wanted = written.strip()
    for code, rule in RULES.items():
        if wanted.upper() == code or wanted.lower() == rule.name:
            return code
    raise ValueError(f"There is no rule {written!r}; there are {', '.join(RULES)}")


def make_settings(
    *,
    disable: Iterable[str] = (),
    only: Iterable[str] = (),
    severities: Mapping[str, str] | None = None,
    apis: Iterable[str] = (),
    tool_budget: int | None = None,
    list_budget: int | None = None,
) -> CheckSettings:
    """Return the settings that a person wrote.

    Args:
        disable, only: codes or names of rules.
        severities: code or name of a rule → ``error``, ``warning`` or ``note``.
        apis: names of `ferrule.checks.rules.model_apis.MODEL_APIS`.
        tool_budget, list_budget: tokens.

    Raises:
        ValueError: there is no such rule, severity or API, or a budget is not above 0.
    """
    made: dict[str, Severity] = {}
    for rule, severity in (severities or {}).items():
        found: Severity | None = next((each for each in SEVERITIES if each == severity), None)
        if found is None:
            raise ValueError(f"A severity is one of {', '.join(SEVERITIES)}, not {severity!r}")
        made[rule_code(rule)] = found
    chosen = frozenset(apis)
    for name in sorted(chosen - MODEL_APIS.keys()):
        raise ValueError(f"There is no model API {name!r}; there are {', '.join(MODEL_APIS)}")
    for budget in (tool_budget, list_budget):
        if budget is not None and budget <= 0:
            raise ValueError("A budget is a number of tokens above 0")
    return CheckSettings(
        disabled=frozenset(map(rule_code, disable)),
        only=frozenset(map(rule_code, only)),
        severities=made,
        apis=chosen,
        tool_budget=tool_budget,
        list_budget=list_budget,
    )


def check(picture: ServerPicture, settings: CheckSettings | None = None) -> list[RuleFinding]:
    """Return the findings about a server, the gravest first, then by rule, then in the order of its lists.

    Args:
        picture: what the server says about itself.
        settings: what to judge; ``None`` for all rules with their own severities.
    """
    given = settings or CheckSettings()
    made: list[RuleFinding] = []
    for found in _all(picture, given):
        if found.code in given.disabled or (given.only and found.code not in given.only):
            continue
        severity = given.severities.get(found.code) or _severity(found, given)
        made.append(RuleFinding(found.code, found.kind, found.name, found.path, found.message, severity))
    made.sort(key=lambda each: (SEVERITIES.index(each.severity), each.code))
    return made


def _all(picture: ServerPicture, settings: CheckSettings) -> Iterator[RuleFinding]:
    yield from check_names(picture)
    yield from check_texts(picture)
    yield from check_schemas(picture)
    yield from check_model_apis(picture, settings.apis or _USUAL)
    yield from check_hints(picture)
    yield from check_hidden(picture)
    yield from check_budget(picture, settings.tool_budget, settings.list_budget)
    yield from check_pages(picture)


def _severity(found: RuleFinding, settings: CheckSettings) -> Severity:
    """Return the severity of a finding: what a person asked for by name, an API or a budget, is an error."""
    was_asked = (
        found.code in {_OF_APIS[name] for name in settings.apis}
        or (found.code == "F60" and settings.tool_budget is not None)
        or (found.code == "F61" and settings.list_budget is not None)
    )
    return "error" if was_asked else RULES[found.code].severity
