"""The table of rules of ``ferrule check``, and the finding that a rule makes.

A rule that can be wrong is a warning or a note. ``error`` is kept for what fails for certain, or hides something.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from ferrule.wire.struct import Value

__all__ = ["RULES", "SEVERITIES", "Rule", "RuleFinding", "Severity"]

Severity: TypeAlias = Literal["error", "warning", "note"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
"""From the gravest to the least."""


class Rule(Value, frozen=True):
    """One rule.

    Attributes:
        code: its number, such as ``F12``, which never changes its meaning.
        name: its name in words, which may be used in place of the number.
        severity: how grave a finding is.
        title: one line.
        why: what happens to those who break it.
        do: how to follow it.
    """

    code: str
    name: str
    severity: Severity
    title: str
    why: str
    do: str


class RuleFinding(Value, frozen=True):
    """One place that breaks a rule.

    Attributes:
        code: the rule.
        kind: ``tools``, ``resources``, ``templates``, ``prompts`` or ``server``.
        name: the name or the URI of the definition; empty for the server.
        path: a JSON pointer into the definition; empty for all of it.
        message: one sentence with what was found.
        severity: how grave it is here.
    """

    code: str
    kind: str
    name: str
    path: str
    message: str
    severity: Severity = "warning"

    @property
    def place(self) -> str:
        """The place for people: ``tools/add#/inputSchema``."""
        named = f"{self.kind}/{self.name}" if self.name else self.kind
        return f"{named}#{self.path}" if self.path else named


_TABLE = (
    Rule(
        "F01",
        "name-form",
        "warning",
        "The name of a tool has a form that the specification advises against",
        "Clients may refuse names of more than 128 characters, or with others than letters, digits, _, - and dot.",
        "Use letters, digits, _ and - only.",
    ),
    Rule(
        "F02",
        "name-twice",
        "error",
        "Two definitions have the same name or URI",
        "A client can reach only one of them, and clients differ in which.",
        "Rename one of them.",
    ),
    Rule(
        "F03",
        "name-refused",
        "warning",
        "A model API refuses the name of a tool",
        "The API then refuses the whole request, with all tools of the user.",
        "Use at most 64 letters, digits, _ and -, and begin with a letter.",
    ),
    Rule(
        "F04",
        "name-alike",
        "warning",
        "Two tools have names that differ only in case or in _ and -",
        "Models mix them up, and hosts that rewrite names may make them equal.",
        "Give them names that differ in a word.",
    ),
    Rule(
        "F05",
        "name-long",
        "note",
        "With the prefix of a host the name of a tool is too long",
        "Hosts put mcp__SERVER__ or the like before a name; model APIs take 64 characters in all.",
        "Keep names under 48 characters.",
    ),
    Rule(
        "F10",
        "tool-description-missing",
        "warning",
        "A tool has no description",
        "The description is what a model chooses by.",
        "Write a docstring, or description=.",
    ),
    Rule(
        "F11",
        "description-missing",
        "note",
        "A resource, a template or a prompt has no description",
        "People and models choose by it.",
        "Write a docstring, or description=.",
    ),
    Rule(
        "F12",
        "description-alike",
        "warning",
        "Two tools have the same description",
        "A model cannot know which of the two to take.",
        "Say in each what the other does not do.",
    ),
    Rule(
        "F13",
        "description-repeats-name",
        "note",
        "The description of a tool only repeats its name",
        "It costs tokens and tells nothing.",
        "Say what comes back, and when to use it.",
    ),
    Rule(
        "F14",
        "description-long",
        "warning",
        "The description of a tool is longer than 1,024 characters",
        "Some model APIs and hosts cut or refuse longer ones.",
        "Move what all tools share to the instructions.",
    ),
    Rule(
        "F15",
        "parameter-undescribed",
        "note",
        "Parameters of a tool have no description",
        "A model guesses formats and units.",
        "Describe them in the docstring, or with Field(description=…).",
    ),
    Rule(
        "F16",
        "instructions-long",
        "note",
        "The instructions are longer than 512 characters",
        "Some hosts read only the first 512 (Codex).",
        "Put what matters most first.",
    ),
    Rule(
        "F20",
        "schema-invalid",
        "error",
        "A schema is not a valid JSON Schema",
        "Clients that check it refuse the tool or its results.",
        "Correct the keyword that is named.",
    ),
    Rule(
        "F21",
        "schema-root",
        "error",
        "The input schema of a tool is not of type object",
        "The specification demands it; clients and model APIs refuse the tool.",
        'Make the root {"type": "object"}.',
    ),
    Rule(
        "F22",
        "schema-reference",
        "error",
        "A schema refers to something that it does not contain",
        "Clients do not fetch schemas from elsewhere, so the tool cannot be used.",
        "Put what is meant into $defs.",
    ),
    Rule(
        "F23",
        "schema-required",
        "warning",
        "A required parameter is not described in properties",
        "A model does not know its type.",
        "Describe it, or correct the name in required.",
    ),
    Rule(
        "F24",
        "schema-untyped",
        "note",
        "A parameter may have any type",
        "A model guesses, and some APIs demand a type.",
        "Annotate the parameter.",
    ),
    Rule(
        "F25",
        "default-invalid",
        "warning",
        "A default does not fit its own schema",
        "A model that repeats the default is refused.",
        "Correct the default or the schema.",
    ),
    Rule(
        "F26",
        "header-annotation",
        "error",
        "An x-mcp-header annotation is malformed",
        "Clients of 2026-07-28 drop the tool from their list.",
        "A token, of a parameter of type string, integer or boolean.",
    ),
    Rule(
        "F27",
        "template-invalid",
        "error",
        "A URI template is malformed",
        "Clients cannot fill it in (RFC 6570).",
        "Correct the template.",
    ),
    Rule(
        "F30",
        "openai-refuses",
        "warning",
        "The OpenAI API refuses the schema of a tool",
        "One refused tool costs all tools of the request.",
        'Follow the table of docs/topics/types.md; schema="model" does.',
    ),
    Rule(
        "F31",
        "anthropic-refuses",
        "warning",
        "The Anthropic API refuses the schema of a tool",
        "One refused tool costs all tools of the request.",
        "Follow the table in the page on types and schemas; schema='model' does.",
    ),
    Rule(
        "F32",
        "gemini-refuses",
        "note",
        "The Gemini API refuses the schema of a tool, in its form for function parameters",
        "Hosts that use this form cannot offer the tool.",
        "Follow the table in the page on types and schemas; schema='model' does.",
    ),
    Rule(
        "F33",
        "strict-refuses",
        "note",
        "A strict mode of a model API (OpenAI, Anthropic) would refuse the schema of a tool",
        "Hosts rewrite the schema, or leave the strict mode off.",
        "Nothing has to be done; every property required and additionalProperties: false everywhere would fit.",
    ),
    Rule(
        "F40",
        "hints-missing",
        "note",
        "A tool says nothing about its effects",
        "Hosts then ask the user before each call, also for tools that only read.",
        'annotations={"readOnlyHint": True}, or destructiveHint for what cannot be undone.',
    ),
    Rule(
        "F41",
        "hints-contradict",
        "warning",
        "The hints of a tool contradict each other",
        "A tool that only reads can destroy nothing.",
        "Leave out one of the two.",
    ),
    Rule(
        "F42",
        "hint-doubtful",
        "warning",
        "A tool says that it only reads, and its name says otherwise",
        "Hosts call it without asking.",
        "Correct readOnlyHint, or the name.",
    ),
    Rule(
        "F50",
        "hidden-characters",
        "error",
        "A text has invisible characters",
        "They can carry instructions that a model reads and a person does not.",
        "Remove them.",
    ),
    Rule(
        "F51",
        "direction-characters",
        "error",
        "A text has characters that turn the direction of writing",
        "What a person reads differs from what a model reads.",
        "Remove them.",
    ),
    Rule(
        "F52",
        "instruction-like",
        "warning",
        "A text speaks to the model as an instruction would",
        "It is the usual form of an attack by the description of a tool.",
        "Describe the tool; give no orders about others.",
    ),
    Rule(
        "F53",
        "secret",
        "error",
        "A text or a default has the form of a key or a token",
        "Every client and every model sees it.",
        "Revoke it, and read it from the environment.",
    ),
    Rule(
        "F54",
        "secret-default",
        "warning",
        "A parameter with the name of a secret has a default",
        "If it is a real secret, every client sees it.",
        "Leave out the default; take secrets from the environment.",
    ),
    Rule(
        "F60",
        "budget-tool",
        "warning",
        "A tool costs more tokens than the budget for one",
        "A model reads the definition with every request.",
        "Shorten descriptions, or move variants into enums.",
    ),
    Rule(
        "F61",
        "budget-list",
        "warning",
        "The list of tools costs more tokens than the budget",
        "A model reads the list with every request, and chooses worse among many.",
        'Offer a search (tool_search="auto"), or split the server.',
    ),
    Rule(
        "F62",
        "tools-many",
        "note",
        "There are more than 128 tools",
        "The OpenAI API takes 128 tools, and some hosts fewer.",
        'Offer a search (tool_search="auto").',
    ),
    Rule(
        "F70",
        "page-missing",
        "error",
        "A tool names a page that the server does not list or offer as a template",
        "The host shows an empty frame.",
        "Register the resource, or correct _meta.ui.resourceUri.",
    ),
    Rule(
        "F71",
        "page-type",
        "error",
        "A page has another media type than text/html;profile=mcp-app",
        "Hosts do not show it.",
        "Set the media type of the resource.",
    ),
    Rule(
        "F72",
        "page-policy",
        "warning",
        "The policy of a page is malformed, or stands at the tool",
        "Hosts leave out such entries, and the page loads nothing from there.",
        "List origins in _meta.ui.csp of the resource.",
    ),
)

RULES: Final[dict[str, Rule]] = {rule.code: rule for rule in _TABLE}
"""Code → rule, in the order of the numbers."""
