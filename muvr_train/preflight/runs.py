"""Run folders: their names, continuing one, and what a checkpoint's folder says about its data."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError, MuvrTrainError
from muvr_train.launched import rank
from muvr_train.preflight.exported import record_of
from muvr_train.preflight.quoting import quote_value, split_override
from muvr_train.preflight.resume import check_resumed, leaves, read_settings
from muvr_train.preflight.unread import TRAINING

INHERITED = ("data", "encoder", "benchmark")
SPLIT = ("split_source", "folds", "fold")
"""Settings of a benchmark that say how its queries are split, and their usual values."""
USUAL = (None, "topic")


@dataclass(frozen=True)
class Resumed:
    """A run that is continued.

    Attributes:
        name: of its folder, relative to checkpoints/.
        path: its folder or one of its checkpoints, as the user named it.
        overrides: the settings it was started with, in Hydra's grammar.
        config_dir: the --config-dir it was started with.
    """

    name: str
    path: Path
    overrides: list[str]
    config_dir: Path | None

    def check(self, cfg: DictConfig, typed: list[str]) -> None:
        """Check that it can go on under a config; see `preflight.resume.check_resumed`."""
        is_file = self.path.is_file()
        check_resumed(self.path.parent if is_file else self.path, self.path if is_file else None, cfg, typed)

    def merge(self, new: list[str]) -> list[str]:
        """Put the run's own settings before the new ones; a new one replaces an old one of the same key.

        Raises:
            ConfigError: the new ones ask for another folder.
        """
        fresh = {split_override(text)[1] for text in new}
        if any(split_override(text)[1] == "run" for text in new):
            raise ConfigError(f"resume_from continues in checkpoints/{self.name}: leave out run=")
        kept = [text for text in self.overrides if split_override(text)[1] not in fresh | {"run", "resume_from"}]
        merged = kept + [text for text in new if split_override(text)[1] != "resume_from"]
        own = [f"resume_from={quote_value(str(self.path))}", f"run={quote_value(self.name)}"]
        return [*merged, *own, "hydra.output_subdir=null"]  # `runner.folder` keeps the record, once the run goes on


def find_resumed(value: str) -> Resumed:
    """Find the run that `resume_from` names, by its folder or one of its checkpoints.

    A folder without last.ckpt is accepted: a run that was killed before its first checkpoint starts again.

    Raises:
        ConfigError: the folder, the checkpoint or the run's saved settings are missing.
    """
    path = Path(value)
    if not path.exists() and (Path("checkpoints") / value).exists():
        path = Path("checkpoints") / value
    if not path.exists():
        there = sorted(str(p.parent) for p in Path("checkpoints").glob("*/last.ckpt") if not p.parent.is_symlink())
        runs = f"runs that can be continued: {', '.join(there)}" if there else "checkpoints/ has no run to continue"
        raise ConfigError(f"resume_from={value}: there is no such run folder or checkpoint; {runs}")
    folder = path if path.is_dir() else path.parent
    saved = folder / ".hydra" / "overrides.yaml"
    if not saved.is_file():
        raise ConfigError(f"resume_from={value}: {saved}, the settings the run was started with, is missing")
    try:
        name = folder.resolve().relative_to(Path("checkpoints").resolve())
    except ValueError:
        raise ConfigError(
            f"resume_from={value}: not in {Path('checkpoints').resolve()}. Run this where the run was started"
        ) from None
    overrides = [_settled(text, folder) for text in saved_overrides(saved)]
    return Resumed(name.as_posix(), path, overrides, _config_dir(folder))


def saved_overrides(path: Path) -> list[str]:
    """Read settings that Hydra has saved, as they were typed: interpolations are not followed."""
    saved: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    return [str(text) for text in saved]


def _settled(text: str, folder: Path) -> str:
    """Give a setting the value that it had where it read something of the job, such as its number in a sweep."""
    prefix, key, value = split_override(text)
    if value is None or not re.search(r"\$\{(hydra|now):", value):
        return text
    was = dict(leaves(read_settings(folder) or {})).get(key, missing)
    return text if was is missing else f"{prefix}{key}={grammar_text(was)}"


def _config_dir(folder: Path) -> Path | None:
    saved = folder / ".hydra" / "hydra.yaml"
    sources: Any = OmegaConf.select(OmegaConf.load(saved), "hydra.runtime.config_sources") if saved.is_file() else None
    for source in sources or []:
        if source.provider == "command-line":
            return Path(source.path.removeprefix("file://"))
    return None


@contextmanager
def tidy(folder: Path, keep: bool = False) -> Iterator[None]:
    """Remove a folder again that holds nothing but Hydra's records, when a mistake ends the program (not if `keep`)."""
    try:
        yield
    except MuvrTrainError:
        if (
            not keep
            and folder.is_dir()
            and all(path.name == ".hydra" or path.suffix == ".log" for path in folder.iterdir())
        ):
            shutil.rmtree(folder)
        raise


def time_stamp() -> str:
    """Give the local time for names of folders."""
    return datetime.now().strftime("%Y-%m-%d_%H-%M-%S")


def unused(parent: Path, name: str) -> str:
    """Give `name`, with a number where the folder is already there."""
    candidate, number = name, 1
    while (parent / candidate).exists():
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def refuse_second_run(folder: Path) -> None:
    """Refuse to write into the folder of another run.

    Raises:
        ConfigError: the folder holds a run.
    """
    if rank() == 0 and (folder / "config.yaml").exists():
        raise ConfigError(
            f"run={folder.name}: {folder} holds a run. Choose another run=, or continue it: resume_from={folder}"
        )


def inherited_choices(checkpoint: Path, typed: list[str]) -> list[str]:
    """Give the group choices (data, encoder, benchmark) of the run that wrote a checkpoint.

    Empty where the folder has no record, or where `typed` chooses `data` itself.
    """
    keys = {split_override(text)[1] for text in typed}
    record = checkpoint.parent / ".hydra" / "hydra.yaml"
    choices: Any = record_of(checkpoint).get("choices") or {}
    if record.is_file() and not choices:
        choices = OmegaConf.select(OmegaConf.load(record), "hydra.runtime.choices") or {}
    if "data" in keys:
        return []
    return [f"{group}={choices[group]}" for group in INHERITED if choices.get(group) and group not in keys]


def inherited_values(checkpoint: Path, composed: DictConfig, choices: list[str]) -> list[str]:
    """Give the settings in which the run's saved config differs from `composed` inside the inherited groups.

    How the run's data were split stays, too, where another benchmark is evaluated on them.
    """
    record, settings = checkpoint.parent / ".hydra" / "config.yaml", record_of(checkpoint).get("settings")
    if not choices or not (settings or record.is_file()):
        return []
    saved = DictConfig(settings or OmegaConf.load(record))
    groups = [choice.partition("=")[0] for choice in choices]
    result = []
    for key, value in (pair for group in groups for pair in _leaves(saved.get(group), f"{group}.")):
        if _is_inherited(key) and OmegaConf.select(composed, key, default=missing) != value:
            result.append(f"++{key}={grammar_text(value)}")
    if "benchmark" not in groups and saved.get("benchmark"):
        split = {key: saved.benchmark.get(key) for key in SPLIT}
        result += [f"++benchmark.{key}={grammar_text(value)}" for key, value in split.items() if value not in USUAL]
    return result


def _is_inherited(key: str) -> bool:
    group, name = key.split(".")[:2]
    return key != "benchmark.split" and TRAINING.get(name) != group


missing = object()


def _leaves(node: Any, start: str) -> list[tuple[str, Any]]:
    if not isinstance(node, DictConfig):
        return []
    found: list[tuple[str, Any]] = []
    for name in map(str, node):
        if OmegaConf.is_missing(node, name):
            continue
        value = node[name]
        found += _leaves(value, f"{start}{name}.") if isinstance(value, DictConfig) else [(f"{start}{name}", value)]
    return found


def grammar_text(value: Any) -> str:
    """Write a plain value in Hydra's grammar.

    >>> print(grammar_text([1, None, "a=b", True]))
    [1,null,'a=b',true]
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return quote_value(value)
    return "[" + ",".join(grammar_text(item) for item in value) + "]"
