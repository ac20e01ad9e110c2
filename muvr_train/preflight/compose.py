"""Composes configurations with Hydra alone and explains in one line what does not fit.

Nothing here imports torch, so that a mistake is answered in a fraction of a second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.hydra_config import HydraConfig
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.core.utils import setup_globals
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import Container, DictConfig, ListConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException

from muvr_train.errors import ConfigError
from muvr_train.preflight.names import hint, nearest_keys, nearest_names

MOST_VARIANTS = 24


class Composer:
    """The configs of one program.

    Args:
        config_path: folder of the configs.
        config_name: the program's main config, `train` or `evaluate`.
        extra: the user's --config-dir.
    """

    def __init__(self, config_path: Path, config_name: str, extra: Path | None = None) -> None:
        version.setbase("1.3")
        setup_globals()
        search = create_config_search_path(str(config_path))
        if extra is not None:
            if not extra.is_dir():
                raise ConfigError(f"--config-dir {extra}: there is no such folder")
            search.prepend("command-line", f"file://{extra.resolve()}", anchor=SearchPathQuery(provider="schema"))
        self.loader = ConfigLoaderImpl(config_search_path=search)
        self.config_name = config_name

    def parse(self, texts: list[str]) -> list[Override]:
        """Parse settings.

        Raises:
            ConfigError: one cannot be read; it is named.
        """
        parser, parsed = OverridesParser.create(self.loader), []
        for text in texts:
            if "=" not in text and not text.startswith("~"):
                raise ConfigError(f"cannot read {text!r}: a setting is written key=value{self._group_hint(text)}")
            try:
                parsed += parser.parse_overrides([text])
            except HydraException as error:
                raise ConfigError(
                    f"cannot read {text!r}: {one_line(error.__cause__ or error)}. A value with special characters "
                    "needs quotes inside the shell's: \"key='value'\""
                ) from error
        return parsed

    def _group_hint(self, text: str) -> str:
        names = nearest_names(text, self.loader.list_groups(""))
        return hint([f"{names[0]}=..."] if names else [])

    def options(self, group: str) -> list[str] | None:
        """List a group's options; None where there is no such group."""
        if not self.loader.repository.group_exists(group):
            return None
        found = self.loader.get_group_options(group, ObjectType.CONFIG)
        return [option for option in found if not option.startswith("_")]

    def compose(self, texts: list[str]) -> DictConfig:
        """Compose with single-valued settings; the result holds the `hydra` node too.

        Raises:
            ConfigError: Hydra refuses.
        """
        try:
            cfg = self.loader.load_configuration(self.config_name, list(texts), run_mode=RunMode.RUN)
            with flag_override(cfg.hydra, ["readonly", "struct"], [False, False]):
                cfg.hydra.job.num = 0
            HydraConfig.instance().set_config(cfg)  # ${hydra:...} in settings
            return cfg
        except (HydraException, OmegaConfBaseException) as error:
            raise ConfigError(one_line(error)) from error

    def check_names(self, overrides: list[Override]) -> None:
        """Check that every group option and every key exists, in groups of groups and in sweeps too.

        Raises:
            ConfigError: one does not; the nearest that does is named.
        """
        groups = [override for override in overrides if self.options(override.key_or_group) is not None]
        for override in groups:
            self._check_options(override)
        changing = [o for o in overrides if o.type is OverrideType.CHANGE and self.options(o.key_or_group) is None]
        structural = [o for o in overrides if not o.is_delete() and o not in changing]
        known: set[str] = set()
        for texts in variants(structural):
            known |= set(dotted_keys(self.compose(texts)))
        for override in changing:
            self._check_key(override, known)

    def _check_options(self, override: Override) -> None:
        group = override.key_or_group
        if override.is_delete() or override.value() is None or isinstance(override.value(), dict):
            return
        if not override.is_sweep_override() or override.is_discrete_sweep():
            for option in (name for value in sweep_values(override) for name in _names(value)):
                if option != "null" and not self.loader.repository.config_exists(f"{group}/{option}"):
                    there = self.options(group) or []
                    raise ConfigError(
                        f"{group}={option}: there is no such option{hint(nearest_names(option, there))} "
                        f"({group} can be {', '.join(there)})"
                    )

    def _check_key(self, override: Override, known: set[str]) -> None:
        key = override.key_or_group
        if key.startswith("hydra.") or override.package is not None:
            return
        value = None if override.is_sweep_override() else override.value()
        typed = [key, *(f"{key}.{inner}" for inner in dotted_keys(value))] if isinstance(value, dict) else [key]
        for name in typed:
            if name in known:
                continue
            candidates = [other for other in known if not other.startswith("hydra.") and other != "hydra"]
            parent = name.rpartition(".")[0]
            inside = sorted(k.rpartition(".")[2] for k in candidates if parent and k.rpartition(".")[0] == parent)
            listed = f"{parent} has {', '.join(inside)}; " if inside else ""
            near = nearest_keys(name, candidates + self.loader.list_groups(""))
            raise ConfigError(f"{name}: there is no such setting{hint(near)} ({listed}+{name}=... would add a new one)")


def _names(value: str) -> list[str]:
    """Split `[a,b]`, the choice of several options at once."""
    return [name.strip().strip("'\"") for name in value.strip("[]").split(",")]


def sweep_values(override: Override) -> list[str]:
    """List the values of a setting as texts: one, or those of a sweep (the lower end of an interval)."""
    if override.is_discrete_sweep():
        return [str(value) for value in override.sweep_string_iterator()]
    if override.is_interval_sweep():
        return [str(override.value().start)]  # type: ignore[union-attr]
    return [override.get_value_element_as_str()]


def variants(overrides: list[Override]) -> list[list[str]]:
    """Expand sweeps for checking: every value once, the other sweeps at their first value (at most MOST_VARIANTS)."""
    lines = [str(override.input_line) for override in overrides]
    expanded: dict[int, list[str]] = {}
    for place, override in enumerate(overrides):
        if override.is_sweep_override():
            start = lines[place].partition("=")[0]
            expanded[place] = [f"{start}={value}" for value in sweep_values(override)]
            lines[place] = expanded[place][0]
    result = [lines]
    for place, texts in expanded.items():
        result += [[*lines[:place], text, *lines[place + 1 :]] for text in texts[1:]]
    return result[:MOST_VARIANTS]


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


def missing_keys(cfg: DictConfig) -> list[str]:
    """List the settings that the user must give and did not."""
    return sorted(OmegaConf.missing_keys(OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])))


def one_line(error: BaseException) -> str:
    """Join an error and its cause to one line."""
    texts = [str(error)]
    if error.__cause__ is not None and isinstance(error.__cause__, (HydraException, OmegaConfBaseException)):
        texts.append(str(error.__cause__))
    return " ".join(" ".join(texts).split())
