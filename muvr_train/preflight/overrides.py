"""Parsed settings of a command line, and the dotted keys of configs."""

from __future__ import annotations

from typing import Any, cast

from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import Container, DictConfig, ListConfig


def sweep_values(override: Override) -> list[str]:
    """List the values of a sweep as texts (of an interval its lower end); one empty text where there is no sweep."""
    if override.is_discrete_sweep():
        return [str(value) for value in override.sweep_string_iterator()]
    if override.is_interval_sweep():
        return [str(override.value().start)]  # type: ignore[union-attr]
    return [""]


def variants(overrides: list[Override], swept: list[Override]) -> list[list[str]]:
    """Write settings with single values: all sweeps at their first value, then each other value of those in `swept`."""
    firsts = [single(override, sweep_values(override)[0]) for override in overrides]
    result = [firsts]
    for place, override in enumerate(overrides):
        if override in swept:
            others = [single(override, value) for value in sweep_values(override)[1:]]
            result += [[*firsts[:place], text, *firsts[place + 1 :]] for text in others]
    return result


def single(override: Override, value: str) -> str:
    """Write a setting with one value of its sweep, or as it is where it is no sweep."""
    return f"{override.get_key_element()}={value}" if override.is_sweep_override() else str(override.input_line)


def changes(override: Override) -> bool:
    """Whether a setting changes a key that is there, rather than adding or deleting one."""
    return override.type is OverrideType.CHANGE


def dotted_keys(node: Any, start: str = "") -> list[str]:
    """List the dotted keys of all nodes, inner ones and list places too; interpolations are not followed.

    >>> dotted_keys({"a": {"b": [1]}})
    ['a', 'a.b', 'a.b.0']
    """
    if isinstance(node, Container):
        if node._is_none() or node._is_missing() or node._is_interpolation():
            return []
        places: Any = node.keys() if isinstance(node, DictConfig) else range(len(cast(ListConfig, node)))
        pairs = [(place, node._get_node(place)) for place in places]
    elif isinstance(node, dict):
        pairs = list(node.items())
    elif isinstance(node, (list, ListConfig)):
        pairs = list(enumerate(node))
    else:
        return []
    found = []
    for place, child in pairs:
        found += [f"{start}{place}", *dotted_keys(child, f"{start}{place}.")]
    return found
