"""Classes that a config names: found, their arguments checked, and called; mistakes are said in one line."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Collection, Iterator
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError
from muvr_train.faults import place_of
from muvr_train.names import hint, nearest_names

Node = DictConfig | dict[str, Any]
TARGET = "_target_"


def plain(cfg: Node) -> dict[str, Any]:
    """Resolve a config node into plain containers."""
    return OmegaConf.to_container(cfg, resolve=True) if isinstance(cfg, DictConfig) else cfg  # type: ignore[return-value]


def build(node: Node, key: str, kind: type | None = None, **more: Any) -> Any:
    """Call the class that a config node names with its settings.

    Args:
        node: with `_target_`.
        key: of the node, for messages.
        kind: what the class must be derived from.
        **more: arguments that the program gives.

    Raises:
        ConfigError: the class cannot be imported, is of another kind, or refuses the settings.
    """
    from hydra.errors import InstantiationException

    check_classes(node, key, kind, more)
    try:
        return instantiate(node, _convert_="object", **more)  # sizes that are data classes stay what they are
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, ConfigError):
            raise cause from error
        why = place_of(cause) if cause is not None else " ".join(str(error).split())
        raise ConfigError(f"{key}: cannot build {plain(node).get(TARGET)}: {why}") from error


def check_classes(node: Node, key: str, kind: type | None = None, more: Collection[str] = ()) -> None:
    """Check the class that a node names, and those of nodes inside it, without calling them.

    Raises:
        ConfigError: naming the key, and what may be meant.
    """
    settings = plain(node)
    if TARGET not in settings:
        raise ConfigError(f"{key} names no class: add {key}.{TARGET}=my_module.MyClass")
    for inner, values in _nested(settings, key):
        _check_class(values, inner, kind if inner == key else None, more if inner == key else ())


def find_class(target: str, key: str) -> Any:
    """Import what a `_target_` names.

    Raises:
        ConfigError: its module is not there or cannot be imported, or has no such class; the cause is chained.
    """
    module, _, name = target.rpartition(".")
    start = f"{key}.{TARGET}: cannot build {target}"
    if not module:
        raise ConfigError(f"{start}: it must be written module.Class")
    try:
        holder = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            return _inside_class(target, start, error)
        raise ConfigError(f"{start}: {place_of(error)}") from error
    except Exception as error:
        raise ConfigError(f"{start}: {place_of(error)}") from error
    if not hasattr(holder, name):
        own = [other for other, value in vars(holder).items() if getattr(value, "__module__", None) == module]
        raise ConfigError(f"{start}: {module} has no {name!r}{hint(nearest_names(name, own or vars(holder)))}")
    return getattr(holder, name)


def _inside_class(target: str, start: str, error: ModuleNotFoundError) -> Any:
    """A method, such as module.Class.from_file; what stands before it may be a class."""
    outer, _, name = target.rpartition(".")
    module, _, owner = outer.rpartition(".")
    try:
        return getattr(getattr(importlib.import_module(module), owner), name)
    except (ImportError, AttributeError, ValueError):
        raise ConfigError(f"{start}: there is no module {error.name!r}") from error


def _check_class(settings: dict[str, Any], key: str, kind: type | None, more: Collection[str]) -> None:
    target = str(settings[TARGET])
    found = find_class(target, key)
    if isinstance(found, type) and kind is not None and not issubclass(found, kind):
        raise ConfigError(f"{key}.{TARGET}={target} is no {kind.__name__}: it must be derived from {kind.__name__}")
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):  # nothing to call, or no signature that Python knows
        return
    if "_args_" in settings:
        return
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    name = target.rpartition(".")[2]
    given = [setting for setting in settings if not setting.startswith("_")]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        own = [other for other in named if other not in more]
        for setting in given:
            if setting not in named:
                listed = f"it has {', '.join(own)}" if own else "it has no settings"
                raise ConfigError(
                    f"{key}.{setting}: {name} has no such argument{hint(nearest_names(setting, own))} ({listed})"
                )
        for argument in more:
            if argument not in named:
                raise ConfigError(f"{key}.{TARGET}={target}: {name} must take an argument {argument!r}")
    needed = [p.name for p in parameters if p.name in named and p.default is p.empty]
    if absent := [other for other in needed if other not in given and other not in more]:
        raise ConfigError(f"{key}.{absent[0]}: {name} needs this argument: add +{key}.{absent[0]}=...")


def _nested(settings: Any, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(settings, list):
        for place, value in enumerate(settings):
            yield from _nested(value, f"{key}.{place}")
    if not isinstance(settings, dict):
        return
    if TARGET in settings:
        yield key, settings
    for name, value in settings.items():
        yield from _nested(value, f"{key}.{name}")
