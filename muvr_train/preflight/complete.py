"""What a command line leaves open: the name of the run or of the results folder, and that there is a subject."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError
from muvr_train.launched import world_size
from muvr_train.preflight import runs
from muvr_train.preflight.exported import checkpoint_file, weights_file
from muvr_train.preflight.questions import QUESTIONS, asks_questions, check_alone
from muvr_train.preflight.quoting import quote_value, split_override
from muvr_train.preflight.scores import check_scores, score_paths
from muvr_train.preflight.unread import check_unread

SUBJECTS = ("model", "fusion", "scores")
HOW_TO_ASK = ("base_url", "api_key_env", "concurrency", "retries", "back_off", "timeout", "device_map", "attention")
"""Settings of an answerer that change no answer."""


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
    del resume, show
    for cfg in configs:
        _check_subject(typed, cfg)
    cfg = configs[0]
    swept, name = len({c.out for c in configs}) > 1, cfg.out
    if name is not None and not multirun:
        warn_of_replaced(cfg)
    if name is None:
        name = f"outputs/{runs.unused(Path('outputs'), f'{_subject(cfg)}-{runs.time_stamp()}'.replace('/', '-'))}"
    number = "_${hydra:job.num}" if multirun and not swept else ""
    if cfg.out is None or number:
        typed = [text for text in typed if split_override(text)[1] != "out"]
        typed.append(f"out={quote_value(str(name))[:-1]}{number}'")
    return typed


def _subject(cfg: DictConfig) -> str:
    """Name what is evaluated, for its folder."""
    choices = cfg.hydra.runtime.choices
    if asks_questions(cfg):
        return f"{cfg.benchmark.name}-{choices.get('answerer')}"
    model = "-".join(path.stem for path in score_paths(cfg)) or choices.get("model")
    return str(model or Path(cfg.ckpt_path).resolve().parent.name)


def warn_of_replaced(cfg: DictConfig) -> None:
    """Warn if the results folder holds an evaluation of something else, whose files will be replaced."""
    try:
        meta = json.loads((Path(cfg.out) / "results.json").read_text(encoding="utf-8"))["meta"]
        before, config = meta.get("checkpoint_sha256"), meta["config"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    if cfg.ckpt_path is not None:
        same = before == hashlib.sha256(weights_file(Path(cfg.ckpt_path)).read_bytes()).hexdigest()
    else:
        now = OmegaConf.masked_copy(cfg, [key for key in ("benchmark", "answerer", *SUBJECTS) if key in cfg])
        same = before is None and _kind(config) == _kind(OmegaConf.to_container(now, resolve=True))
    if not same:
        choices = cfg.hydra.runtime.choices
        new = cfg.ckpt_path or cfg.get("scores") or choices.get("model") or choices.get("answerer")
        old = meta.get("checkpoint") or meta.get("model")
        log = f"warning: out={cfg.out} holds results of {old}: those of {new} replace them; choose another out= to keep"
        sys.stderr.write(f"{log} them\n")


def _kind(config: Any) -> list[Any]:
    """What a run evaluates: model and scores, or the answerer and what it is asked."""
    benchmark = (config.get("benchmark") or {}).get("name")
    kind = [config.get(key) for key in SUBJECTS]
    if benchmark in QUESTIONS:
        answerer = {key: value for key, value in (config.get("answerer") or {}).items() if key not in HOW_TO_ASK}
        kind += [benchmark, answerer]
    return kind


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
