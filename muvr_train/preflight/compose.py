"""Composes configurations with Hydra alone and explains in one line what does not fit.

Nothing here imports torch, so that a mistake is answered in a fraction of a second.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path

from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.hydra_config import HydraConfig
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.utils import setup_globals
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException

from muvr_train.errors import ConfigError
from muvr_train.names import hint, nearest_keys, nearest_names
from muvr_train.preflight.overrides import changes, dotted_keys, sweep_values, variants
from muvr_train.preflight.questions import ALONE

MOST_GROUP_VARIANTS = 8
"""Composing takes about a tenth of a second; the rest of a large sweep is checked when its jobs start."""
MOST_VALUES = 100
ASKING = "benchmark.questions"
"""A setting that only benchmarks of questions have."""
BROUGHT = ("questions", "annotated")
"""Choices of `data` that come with the benchmark: no other one goes with it."""
OPEN = ("optimizer.lr_ratios", "answerer.extra", "answerer.processor", "answerer.template")
"""Nodes whose keys are the user's own."""


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
            other = re.match(r"Could not override '([^']+)'\. No match in the defaults list", str(error))
            text = f"{other[1]}= is no setting of this program ({self.config_name})" if other else one_line(error)
            raise ConfigError(text) from error

    def configs(self, overrides: list[Override]) -> list[DictConfig]:
        """Compose with the first value of every sweep, then with each other value of one sweep at a time.

        Raises:
            ConfigError: an option or a key does not exist; the nearest that does is named. Or Hydra refuses.
        """
        for override in overrides:
            if self.options(override.key_or_group) is not None:
                self._check_options(override)
        try:
            return self._compose_sweeps(overrides)
        except ConfigError:
            self._check_keys(overrides)
            raise

    def _compose_sweeps(self, overrides: list[Override]) -> list[DictConfig]:
        swept = [override for override in overrides if override.is_sweep_override()]
        groups = [override for override in swept if self.options(override.key_or_group) is not None]
        found = [self.compose(texts) for texts in variants(overrides, groups)[:MOST_GROUP_VARIANTS]]
        for override in swept:
            if override in groups:
                continue
            for value in sweep_values(override)[1 : MOST_VALUES + 1]:
                cfg = copy.deepcopy(found[0])
                (single,) = self.parse([f"{override.get_key_element()}={value}"])
                OmegaConf.update(cfg, single.key_or_group, single.value(), force_add=not changes(override))
                found.append(cfg)
        return found

    def _check_keys(self, overrides: list[Override]) -> None:
        groups = [override for override in overrides if self.options(override.key_or_group) is not None]
        changing = [override for override in overrides if changes(override) and override not in groups]
        fixed = {o.key_or_group for o in groups if o.key_or_group == "data" and o.value() in BROUGHT}
        structural = [o for o in overrides if not o.is_delete() and o not in changing]
        known: set[str] = set()
        for texts in variants(structural, [o for o in groups if o.is_sweep_override()])[:MOST_GROUP_VARIANTS]:
            known |= set(dotted_keys(self.compose(texts)))
        for override in changing:
            self._check_key(override, known, fixed)

    def _check_options(self, override: Override) -> None:
        group = override.key_or_group
        if override.is_delete() or isinstance(override.value(), dict):
            return
        if override.value() is None:
            raise ConfigError(f"{group}=null is no choice: leave it out, or take the group away with ~{group}")
        value = override.value()
        chosen = (
            sweep_values(override) if override.is_sweep_override() else value if isinstance(value, list) else [value]
        )
        there = self.options(group) or []
        if not chosen:
            raise ConfigError(f"{override.input_line}: no option has such a name ({group} can be {', '.join(there)})")
        for option in (name for item in chosen for name in _names(str(item))):
            if option.startswith("_") or not self.loader.repository.config_exists(f"{group}/{option}"):
                raise ConfigError(
                    f"{group}={option}: there is no such option{hint(nearest_names(option, there))} "
                    f"({group} can be {', '.join(there)})"
                )

    def _check_key(self, override: Override, known: set[str], fixed: set[str]) -> None:
        key = override.key_or_group
        if key.startswith("hydra.") or override.package is not None:
            return
        value = None if override.is_sweep_override() else override.value()
        typed = [key, *(f"{key}.{inner}" for inner in dotted_keys(value))] if isinstance(value, dict) else [key]
        for name in typed:
            if name in known:
                continue
            candidates = [other for other in known if not other.startswith("hydra.") and other != "hydra"]
            groups = self.loader.list_groups("")
            if ASKING in known:  # questions to an answerer read nothing else
                candidates, groups = ([one for one in names if not _is_alone(one)] for names in (candidates, groups))
            parent = name.rpartition(".")[0]
            inside = sorted(k.rpartition(".")[2] for k in candidates if parent and k.rpartition(".")[0] == parent)
            listed = f"{parent} has {', '.join(inside)}; " if inside else ""
            if others := [] if name.partition(".")[0] in fixed else self._options_with(name):
                raise ConfigError(f"{name}: there is no such setting here; {' and '.join(others)} would have it")
            if parent in OPEN:
                raise ConfigError(f"{name}: there is no such entry yet ({listed}a new one is added with +{name}=...)")
            near = nearest_keys(name, candidates + groups)
            raise ConfigError(f"{name}: there is no such setting{hint(near)} ({listed}+{name}=... would add a new one)")

    def _options_with(self, name: str) -> list[str]:
        """Choices of the setting's group, as `group=option`, that have a setting of this name of their own."""
        group, _, rest = name.partition(".")
        found = []
        for option in (self.options(group) or []) if rest else []:
            loaded = self.loader.repository.load_config(f"{group}/{option}")
            if loaded is not None and rest in dotted_keys(loaded.config):
                found.append(f"{group}={option}")
        return found


def _is_alone(key: str) -> bool:
    return any(key == one or key.startswith(f"{one}.") for one in ALONE)


def _names(value: str) -> list[str]:
    """Split `[a,b]`, the choice of several options at once."""
    return [name.strip().strip("'\"") for name in value.strip("[]").split(",")]


def missing_keys(cfg: DictConfig) -> list[str]:
    """List the settings that the user must give and did not."""
    return sorted(OmegaConf.missing_keys(OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])))


def one_line(error: BaseException) -> str:
    """Join an error and its cause to one line."""
    texts = [str(error)]
    if error.__cause__ is not None and isinstance(error.__cause__, (HydraException, OmegaConfBaseException)):
        texts.append(str(error.__cause__))
    if "submitit" in texts[0]:
        texts.append("It comes with pip install 'muvr-train[slurm]'")
    return " ".join(" ".join(texts).split())
