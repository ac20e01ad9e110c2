"""What may change when a run goes on: its saved settings are compared with the new ones before anything is rewritten.

Settings of the optimiser, of losses, data and evaluation may; what makes other weights may not. Seeds and folds that
are averaged must have been made with the same settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]
from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.preflight.quoting import PATH_KEYS, split_override

SETTINGS = "config.yaml"
"""In a run's folder: the settings that it was last trained with."""
LAST = "last.ckpt"
INNER = (f"seed*/{LAST}", f"fold-*/{LAST}")
SEED_DONE, FOLD_DONE = "seed.json", "fold.json"
"""In the folder of a seed or fold that is complete; they hold how long it was trained."""
ABSENT = "nothing"
ONE, SEEDS, FOLDS = "one run", "a run of several seeds", "a run of several folds"

PIECES = r"model\.(pair_chunk|checkpointing|compile|block_elements)"
"""Settings of our networks that only say how scores are computed."""
RUN_TIME = re.compile(
    r"run|resume_from|seed|save_scores|residency|memory_budget|expected_encoder|(logger|callbacks)(\..*)?"
    r"|benchmark\.(fold|report|report_queries)|data\.(workers|prefetch)|encoder\.(batch_size|compile)"
    rf"|trainer\.(accelerator|devices|num_nodes|timeout|checkpoint_every_n_steps)|{PIECES}"
)
"""Settings that decide no result, or tell seeds and folds apart."""
LENGTH = re.compile(r"trainer\.(max_epochs|steps_per_epoch)")
NUMBERS = {"muvr_train.losses.sigmoid.SigmoidLoss": ("scale", "bias")}
"""Losses with numbers of their own, which are saved as weights are, and the settings that say where these start."""


class Change(NamedTuple):
    """A setting and its values, in the saved settings and now."""

    key: str
    old: Any
    new: Any

    def __str__(self) -> str:
        """The key and both values."""
        return f"{self.key} ({_text(self.old)}, now {_text(self.new)})"


def read_settings(folder: Path) -> dict[str, Any] | None:
    """The settings that a run was last trained with; None where none are saved. Interpolations stay as they are.

    Raises:
        DataError: the file is damaged.
    """
    path = folder / SETTINGS
    if not path.is_file():
        return None
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is damaged ({' '.join(str(error).split())})") from error
    return content if isinstance(content, dict) else None


def plain_settings(cfg: DictConfig) -> dict[str, Any]:
    """The settings of a composed config as `read_settings` would read them."""
    own = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    return dict(yaml.safe_load(OmegaConf.to_yaml(own, resolve=True)))


def changes(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """The settings whose values differ, in the order of the saved ones; `ABSENT` where one has no such setting."""
    old, new = dict(leaves(saved)), dict(leaves(now))
    found = [Change(key, old.get(key, ABSENT), new.get(key, ABSENT)) for key in {**old, **new}]
    return [change for change in found if not _same(change)]


def leaves(node: Mapping[str, Any], start: str = "") -> Iterator[tuple[str, Any]]:
    """Give the dotted keys of plain settings and their values; lists are values."""
    for name, value in node.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{start}{name}.")
        else:
            yield f"{start}{name}", value


def _same(change: Change) -> bool:
    key, old, new = change
    if key in PATH_KEYS and isinstance(old, str) and isinstance(new, str):
        return Path(old).resolve() == Path(new).resolve()
    return bool(old == new) and (type(old) is type(new) or (_is_number(old) and _is_number(new)))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_resumed(folder: Path, checkpoint: Path | None, cfg: DictConfig, typed: list[str]) -> None:
    """Check that a run can go on under a config. One without a checkpoint begins anew, and anything may change.

    Args:
        folder: of the run.
        checkpoint: the one that was named, if any; else the last ones count.
        cfg: the composed config, with the run's own settings where no new ones were given.
        typed: the new settings, for messages.

    Raises:
        ConfigError: naming a setting that makes other weights, or those in which a finished seed or fold differs.
    """
    saved, now = read_settings(folder), plain_settings(cfg)
    begun = checkpoint is not None or any(next(folder.glob(name), None) for name in (LAST, *INNER))
    if saved and begun:
        _check_kind(folder, saved, now)
        for change in other_weights(saved, now):
            chosen = next((text for text in reversed(typed) if _covers(split_override(text)[1], change.key)), None)
            if chosen or ABSENT not in (change.old, change.new):  # else a newer version of the package has one more
                raise _refusal(folder, change, chosen)
    if _kind(now) == SEEDS:
        _check_mixture([folder / f"seed{seed}" for seed in now["seed"]], SEED_DONE, now)
    elif _kind(now) == FOLDS:
        _check_mixture([folder / f"fold-{fold}" for fold in range(now["benchmark"]["folds"])], FOLD_DONE, now)


def _kind(settings: Mapping[str, Any]) -> str:
    benchmark = settings.get("benchmark") or {}
    if benchmark.get("folds") is not None and benchmark.get("fold") is None:
        return FOLDS
    return SEEDS if isinstance(settings.get("seed"), list) else ONE


def _check_kind(folder: Path, saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    then, asked = _kind(saved), _kind(now)
    if then != asked:
        one = ", one of which goes on alone with resume_from=FOLDER/" + {SEEDS: "seed0", FOLDS: "fold-0"}.get(then, "")
        raise ConfigError(
            f"resume_from: {folder} is {then}{one if then != ONE else ''}, and the settings ask for {asked} "
            f"(seed={_text(now.get('seed'))}, benchmark.folds={_text(now['benchmark'].get('folds'))}). Train that as a "
            "new run=NAME"
        )


def other_weights(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Change]:
    """Give the changes under which a checkpoint's weights or their average cannot go on."""
    for group in ("model", "fusion"):
        old, new = ({group: settings.get(group) or {}} for settings in (saved, now))
        ours = str(new[group].get("_target_")).startswith("muvr_train.")
        yield from (change for change in changes(old, new) if not (ours and re.fullmatch(PIECES, change.key)))
    yield from _other_losses(*((settings.get("loss") or {}).get("losses") or {} for settings in (saved, now)))
    ema = [(settings.get("trainer") or {}).get("ema") for settings in (saved, now)]
    if ema[0] != ema[1]:
        yield Change("trainer.ema", *ema)
    if (saved.get("teacher") is None) != (now.get("teacher") is None):
        yield Change("teacher", saved.get("teacher"), now.get("teacher"))


def _other_losses(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Change]:
    for name in {**saved, **now}:
        old, new = (losses.get(name) or {} for losses in (saved, now))
        targets = [str(loss.get("_target_", ABSENT)) for loss in (old, new)]
        numbers = [NUMBERS.get(target, ()) for target in targets]
        if numbers[0] != numbers[1]:
            yield Change(f"loss.losses.{name}._target_", *targets)
        yield from (
            Change(f"loss.losses.{name}.{key}", old.get(key, ABSENT), new.get(key, ABSENT))
            for key in numbers[0]
            if old.get(key, ABSENT) != new.get(key, ABSENT)
        )


def _refusal(folder: Path, change: Change, typed: str | None) -> ConfigError:
    key, old, new = change.key, _text(change.old), _text(change.new)
    back = f"Leave {typed} out" if typed else f"Give {key}={old}"
    return ConfigError(
        f"{typed or f'{key}={new}'}: {folder} was begun with {key}={old}, and {key} would be {new}; its weights go on "
        f"only with what made them. {back} to go on, or train the new settings from the start: run=NAME without "
        "resume_from"
    )


def _covers(name: str, key: str) -> bool:
    return name in ("experiment", "debug") or key == name or key.startswith(f"{name}.")


def _check_mixture(folders: list[Path], done_file: str, now: Mapping[str, Any]) -> None:
    """Refuse to average what other settings made with what these make.

    All may be trained longer, with other settings too, as long as none of them begins only now.
    """
    length = now["trainer"]["max_epochs"] * now["trainer"]["steps_per_epoch"]
    done = [trained_steps(folder / done_file) == length for folder in folders]
    fresh = [not ended and not (folder / LAST).is_file() for ended, folder in zip(done, folders, strict=True)]
    for folder, ended, new in zip(folders, done, fresh, strict=True):
        saved = None if new else read_settings(folder)
        found = [one for one in changes(saved or now, now) if not RUN_TIME.fullmatch(one.key)]
        if not ended:
            found = [one for one in found if any(fresh) and not LENGTH.fullmatch(one.key)]
        if found:
            raise ConfigError(
                f"resume_from: {folder} was {'made' if ended else 'begun'} with other settings, and would be averaged "
                f"with what these make: {_listed(found)}. Leave them as they were to go on, or "
                "train the new settings from the start: run=NAME without resume_from"
            )


def _listed(found: list[Change]) -> str:
    """Name the changes; of a group with many only the first."""
    groups: dict[str, list[Change]] = {}
    for change in found:
        groups.setdefault(change.key.partition(".")[0], []).append(change)
    texts = [
        text
        for name, members in groups.items()
        for text in (map(str, members) if len(members) < 4 else [f"{members[0]} and {len(members) - 1} more of {name}"])
    ]
    return shorten(texts, 8)


def trained_steps(path: Path) -> int | None:
    """How many steps a finished seed or fold was trained for, by its `SEED_DONE` or `FOLD_DONE`; None if unknown.

    Raises:
        DataError: the file is damaged.
    """
    if not path.is_file():
        return None
    try:
        steps = json.loads(path.read_text(encoding="utf-8")).get("steps")
    except (ValueError, AttributeError) as error:
        raise DataError(f"{path} is damaged ({error}): delete it, and resume the run") from error
    return steps if isinstance(steps, int) else None


def _text(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
