"""Arguments back in the form of the tool: names of properties, and optional members that are null for a strict API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ferrule.wire.json_types import is_list, is_object

__all__ = ["ArgumentPlan"]

_MAX_DEPTH = 200


@dataclass(slots=True)
class ArgumentPlan:
    """How the arguments that fit a rewritten schema become those that fit the original.

    Attributes:
        names: the property that the model knows → the tool's own, where they differ.
        unset: properties, by the model's names, whose null means "not given".
        properties: the plan of the value of each property, by the model's names.
        places: the plans of the first items of an array.
        items: the plan of the other items.
        others: the plan of the other members of an object.
    """

    names: dict[str, str] = field(default_factory=dict[str, str])
    unset: set[str] = field(default_factory=set[str])
    properties: dict[str, ArgumentPlan] = field(default_factory=dict[str, "ArgumentPlan"])
    places: list[ArgumentPlan] = field(default_factory=list["ArgumentPlan"])
    items: ArgumentPlan | None = None
    others: ArgumentPlan | None = None

    def take(self, other: ArgumentPlan) -> None:
        """Add the plan of another branch of a union; where both have a property, null stays unless both unset it."""
        for name in other.unset:
            if name not in self.properties or name in self.unset:
                self.unset.add(name)
        self.unset -= {name for name in other.properties if name not in other.unset}
        self.names.update(other.names)
        for name, plan in other.properties.items():
            self.properties.setdefault(name, plan)
        self.places = self.places or other.places
        self.items = self.items or other.items
        self.others = self.others or other.others

    def restored(self, value: Any, depth: int = 0) -> Any:
        """Return the arguments for the tool; the argument is not changed.

        Args:
            value: the arguments of the model, or a value in them.
            depth: how deep the value is; below 200 levels, nothing is changed.
        """
        if depth > _MAX_DEPTH:
            return value
        if is_object(value):
            made: dict[str, Any] = {}
            for name, each in value.items():
                if each is None and name in self.unset:
                    continue
                plan = self.properties.get(name, self.others)
                made[self.names.get(name, name)] = each if plan is None else plan.restored(each, depth + 1)
            return made
        if is_list(value) and (self.items is not None or self.places):
            plans: list[ArgumentPlan | None] = [*self.places]
            plans += [self.items] * (len(value) - len(plans))
            return [
                each if plan is None else plan.restored(each, depth + 1)
                for each, plan in zip(value, plans, strict=False)
            ]
        return value
