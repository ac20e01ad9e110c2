"""What a command line leaves open: the name of the run or of the results folder, and that there is a subject."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError
from muvr_train.launched import world_size
from muvr_train.preflight import runs
from muvr_train.preflight.exported import checkpoint_file
from muvr_train.preflight.questions import asks_questions, check_alone
from muvr_train.preflight.quoting import quote_value, split_override
from muvr_train.preflight.replacing import refuse_replacing
from muvr_train.preflight.scores import check_scores, score_paths
from muvr_train.preflight.unread import check_unread


def complete_run(typed: list[str], configs: list[DictConfig], multirun: bool, resume: bool, show: bool) -> list[str]:
    """Name the run, and refuse a folder that holds another one."""
    cfg = configs[0]
    if multirun and OmegaConf.is_interpolation(cfg, "run"):
        return typed  # run='${hydra:...}' names each job by itself
    name, swept = cfg.run, len({c.run for c in configs}) > 1
    if name is None:
        if world_size() > 1:
            raise ConfigError("several processes need one name: give run=NAME")
        choices = cfg.hydra.runtime.choices
        name = f"{choices.get('experiment') or choices.get('model') or 'train'}-{runs.time_stamp()}".replace("/", "-")
        name = runs.unused(Path("checkpoints"), name)
    number = "_${hydra:job.num}" if multirun and not swept else ""
    if cfg.run is None or number:
        typed = [text for text in typed if split_override(text)[1] != "run"]
        start = quote_value(str(name))[:-1]
        if cfg.run is None and len({c.hydra.runtime.choices.get("experiment") for c in configs}) > 1:
            start = f"'${{hydra:runtime.choices.experiment}}-{runs.time_stamp()}"
        typed.append(f"run={start}{number}'")
    if not resume and not show and not multirun:
        runs.refuse_second_run(Path("checkpoints") / str(name))
    return typed


def complete_out(typed: list[str], configs: list[DictConfig], multirun: bool, resume: bool, show: bool) -> list[str]:
    """Check what is evaluated, and name the results folder."""
    del resume
    for cfg in configs:
        _check_subject(typed, cfg)
        if cfg.out is not None and not show:
            check_folder(str(cfg.out))
    cfg = configs[0]
    swept, name = len({c.out for c in configs}) > 1, cfg.out
    if name is not None and not multirun:
        refuse_replacing(cfg)
    if name is None:
        name = f"outputs/{runs.unused(Path('outputs'), f'{_subject(cfg)}-{runs.time_stamp()}'.replace('/', '-'))}"
    typed = with_swept_groups(typed, configs) if multirun else typed
    number = "_${hydra:job.num}" if multirun and not swept else ""
    if cfg.out is None or number:
        typed = [text for text in typed if split_override(text)[1] != "out"]
        start = quote_value(str(name))[:-1]
        if cfg.out is None and len({_subject(c) for c in configs}) > 1:
            start = f"'outputs/{_subjects(configs)}-{runs.time_stamp()}"
        typed.append(f"out={start}{number}'")
    if multirun and any(Path(c.out or "outputs").is_absolute() for c in configs):
        typed.append("hydra.sweep.subdir='${out}'")
        if not all(Path(c.out or "outputs").is_absolute() for c in configs):
            typed.append("hydra.sweep.dir=.")
    return typed


def check_folder(out: str) -> None:
    """Check that a results folder is there or can be made.

    Raises:
        ConfigError: it cannot.
    """
    if not out.strip():
        raise ConfigError("out= names no folder: give out=outputs/NAME, or leave it out")
    path = Path(out).absolute()
    made = []
    try:
        places = (path, *path.parents)
        there = next(place for place in places if os.path.lexists(place))
        if not there.is_dir():
            raise ConfigError(f"out={out}: {there} is a file and no folder; choose another out=")
        for place in reversed(places[: places.index(there)]):  # nothing but trying it says whether it can be made
            place.mkdir()
            made.append(place)
        if not os.access(path, os.W_OK | os.X_OK):
            raise ConfigError(f"out={out}: nothing can be written there; choose another out=")
    except OSError as error:
        raise ConfigError(f"out={out} cannot be made: {error.strerror}; choose another out=") from error
    finally:
        for place in reversed(made):
            with suppress(OSError):  # something else was put there meanwhile
                place.rmdir()


def with_swept_groups(typed: list[str], configs: list[DictConfig]) -> list[str]:
    """Force settings of a group that is swept: Hydra composes a sweep once without any choice, where they are unknown.

    >>> with_swept_groups(["answerer=coin,oracle"], [])
    ['answerer=coin,oracle']
    """
    choices = [cfg.hydra.runtime.choices for cfg in configs]
    swept = {group for one in choices for group in one if len({other.get(group) for other in choices}) > 1}
    forced = []
    for text in typed:
        prefix, key, _ = split_override(text)
        group, dot, _ = key.partition(".")
        forced.append(f"++{text}" if dot and not prefix and group in swept else text)
    return forced


def _subjects(configs: list[DictConfig]) -> str:
    """Let each run of a sweep be named by what it evaluates, in Hydra's grammar."""
    if all(asks_questions(cfg) for cfg in configs):
        return "${benchmark.name}-${hydra:runtime.choices.answerer}"
    if all(not asks_questions(cfg) and cfg.ckpt_path is None and not cfg.get("scores") for cfg in configs):
        return "${hydra:runtime.choices.model}"
    return "${benchmark.name}"


def _subject(cfg: DictConfig) -> str:
    """Name what is evaluated, for its folder."""
    choices = cfg.hydra.runtime.choices
    if asks_questions(cfg):
        return f"{cfg.benchmark.name}-{choices.get('answerer')}"
    model = "-".join(path.stem for path in score_paths(cfg)) or choices.get("model")
    return str(model or Path(cfg.ckpt_path).resolve().parent.name)


def _check_subject(typed: list[str], cfg: DictConfig) -> None:
    """Check that there is one thing to evaluate: a checkpoint, an untrained model, or score files."""
    keys = {split_override(text)[1] for text in typed}
    check_unread(cfg, keys)
    if asks_questions(cfg):
        check_alone(cfg, keys)
        return
    check_scores(cfg, keys)
    if cfg.ckpt_path is None:
        if cfg.get("model") is None and not cfg.get("scores"):
            raise ConfigError(
                "nothing to evaluate: give ckpt_path=checkpoints/NAME/best.ckpt, model=frame_max (untrained), or "
                "scores=FILE"
            )
        return
    both = sorted(key for key in keys if key.split(".")[0] in ("model", "fusion"))
    if both:
        raise ConfigError(f"a checkpoint brings its own model and fusion head: leave out {both[0]}= or ckpt_path=")
    checkpoint_file(cfg.ckpt_path, "ckpt_path")
