"""What a command line leaves open: the name of the run or of the results folder, and that there is a subject."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError
from muvr_train.launched import world_size
from muvr_train.preflight import runs
from muvr_train.preflight.exported import checkpoint_file, weights_file
from muvr_train.preflight.quoting import quote_value, split_override
from muvr_train.preflight.scores import check_scores, score_paths


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
        model = "-".join(path.stem for path in score_paths(cfg)) or cfg.hydra.runtime.choices.get("model")
        model = model or Path(cfg.ckpt_path).resolve().parent.name
        name = f"outputs/{runs.unused(Path('outputs'), f'{model}-{runs.time_stamp()}'.replace('/', '-'))}"
    number = "_${hydra:job.num}" if multirun and not swept else ""
    if cfg.out is None or number:
        typed = [text for text in typed if split_override(text)[1] != "out"]
        typed.append(f"out={quote_value(str(name))[:-1]}{number}'")
    return typed


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
        now = OmegaConf.to_container(OmegaConf.masked_copy(cfg, ["model", "fusion", "scores"]), resolve=True)
        same = before is None and isinstance(now, dict) and all(config.get(key) == now[key] for key in now)
    if not same:
        new = cfg.ckpt_path or cfg.get("scores") or cfg.hydra.runtime.choices.get("model")
        old = meta.get("checkpoint") or meta.get("model")
        log = f"warning: out={cfg.out} holds results of {old}: those of {new} replace them; choose another out= to keep"
        sys.stderr.write(f"{log} them\n")


def _check_subject(typed: list[str], cfg: DictConfig) -> None:
    """Check that there is one thing to evaluate: a checkpoint, an untrained model, or score files."""
    keys = {split_override(text)[1] for text in typed}
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
