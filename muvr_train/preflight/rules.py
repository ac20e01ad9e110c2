"""What single values may be: tests with their descriptions, from which messages are made."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from omegaconf import ListConfig


@dataclass(frozen=True)
class Rule:
    """What a value may be: a test and its description; its names; if a list names nothing twice; an example list."""

    allows: Callable[[Any], bool]
    text: str
    names: tuple[str, ...] = ()
    distinct: bool = False
    example: str = ""

    def repeated(self, value: Any) -> list[Any]:
        """What a list names twice although it must not."""
        if not self.distinct or not isinstance(value, ListConfig):
            return []
        return [item for place, item in enumerate(value) if item in value[:place]]


def one_of(*names: str) -> Rule:
    """One of a few names."""
    return Rule(lambda value: value in names, " | ".join(names), names)


def number(least: float, most: float = math.inf, open_least: bool = False) -> Rule:
    """A finite number in a range."""
    sign = ">" if open_least else ">="
    text = f"a number {sign} {least:g}" + (f" and <= {most:g}" if math.isfinite(most) else "")

    def allows(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return False
        return (value > least if open_least else value >= least) and value <= most

    return Rule(allows, text)


def whole(least: int) -> Rule:
    """A whole number."""
    return Rule(
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least,
        f"a whole number >= {least}",
    )


def optional(rule: Rule) -> Rule:
    """The same, or null."""
    return replace(rule, allows=lambda value: value is None or rule.allows(value), text=f"{rule.text}, or null")


def several(rule: Rule, length: int | None = None, example: str = "") -> Rule:
    """A list without repetitions, every entry by the rule."""

    def allows(value: Any) -> bool:
        if not isinstance(value, ListConfig) or len(value) != (length or len(value)) or not len(value):
            return False
        return all(rule.allows(item) for item in value) and (length is not None or len(set(value)) == len(value))

    text = f"a list of {length or 'one or more different'} entries, each {rule.text}"
    return Rule(allows, text, rule.names, length is None, example or (f"[{rule.names[0]}]" if rule.names else ""))


def one_or_several(rule: Rule, example: str = "") -> Rule:
    """A value, or a list of different ones."""
    many = several(rule, example=example)
    return Rule(
        lambda value: rule.allows(value) or many.allows(value),
        f"{rule.text}, or {many.text}",
        rule.names,
        True,
        many.example,
    )


TEXT = Rule(lambda value: isinstance(value, str) and bool(value.strip()), "a text that is not empty")
FLAG = Rule(lambda value: isinstance(value, bool), "true | false")
SHARE = number(0, 1)
