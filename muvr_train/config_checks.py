"""Values that can be checked before anything is loaded: each refusal names the key, what was got and what is allowed.

Models, losses and heads check their own arguments when they are built; this covers what the runner itself reads.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError, DataError
from muvr_train.memory import is_bytes
from muvr_train.preflight.annotated import ANNOTATED, check_annotated
from muvr_train.preflight.calibration import check_calibration
from muvr_train.preflight.names import hint, nearest_names
from muvr_train.preflight.rules import FLAG, SHARE, TEXT, Rule, number, one_of, one_or_several, optional, several, whole
from muvr_train.preflight.scores import FUSIONS

PARTITIONS = ("news", "others", "instance", "region", "dance", "mean")
MODES = {"muvr_base": ("v", "t", "tv"), "muvr_filter": ("v", "t", "tv"), "copies": ("v",), "table": ("v", "t", "tv")}
MODES |= dict.fromkeys(ANNOTATED, ("v",))


RULES: dict[str, Rule] = {
    "run": optional(TEXT),
    "out": optional(TEXT),
    "seed": Rule(lambda v: whole(0).allows(v) and v < 2**32, "a whole number from 0 to 2^32 - 1"),
    "resume_from": optional(TEXT),
    "ckpt_path": optional(TEXT),
    "scores": optional(one_or_several(TEXT)),
    "fuse": optional(one_or_several(one_of(*FUSIONS))),
    "save_scores": FLAG,
    "calibration_background": optional(TEXT),
    "on_missing": one_of("error", "official"),
    "residency": one_of("mmap", "ram", "gpu"),
    "memory_budget": optional(Rule(is_bytes, "a number of bytes, such as 500MB or 2GB")),
    "expected_encoder": optional(TEXT),
    "data.kind": one_of("demo", "muvr", "folder", "table", "annotated"),
    "data.annotations": optional(TEXT),
    "data.features": optional(TEXT),
    "data.videos": optional(TEXT),
    "data.size": one_of("tiny", "default", "large"),
    "data.regime": one_of("supervised", "self_supervised"),
    "data.workers": whole(0),
    "data.fractions": several(SHARE, length=3),
    "data.batch.topics": whole(2),
    "data.batch.queries_per_topic": whole(1),
    "data.batch.positives": whole(1),
    "data.batch.hard_negatives": whole(0),
    "data.batch.one_partition": FLAG,
    "data.views": whole(0),
    "data.augment.max_frames": optional(whole(1)),
    "benchmark.name": one_of(*MODES),
    "benchmark.annotations": optional(TEXT),
    "benchmark.modes": optional(several(one_of("v", "t", "tv"))),
    "benchmark.split": optional(one_of("all", "train", "val", "test")),
    "benchmark.folds": optional(whole(3)),
    "benchmark.fold": optional(whole(0)),
    "benchmark.split_source": optional(one_of("topic", "annotation")),
    "benchmark.gallery": one_of("split", "full"),
    "benchmark.ties": one_of("average", "optimistic", "pessimistic"),
    "benchmark.bootstrap": Rule(
        lambda v: whole(100).allows(v) or (v == 0 and whole(0).allows(v)), "0 (none) or a whole number >= 100"
    ),
    "benchmark.noise": optional(number(0, 0.5, open_least=True)),
    "benchmark.ks": several(whole(1)),
    "benchmark.tag_mode": one_or_several(number(0)),
    "benchmark.logic": FLAG,
    "benchmark.upper_bound": FLAG,
    "benchmark.seed": whole(0),
    "benchmark.report": FLAG,
    "benchmark.report_queries": whole(0),
    "benchmark.intros": FLAG,
    "optimizer.lr": number(0, open_least=True),
    "optimizer.weight_decay": number(0),
    "optimizer.betas": several(Rule(lambda v: number(0).allows(v) and v < 1, "a number >= 0 and < 1"), length=2),
    "optimizer.warmup_steps": whole(0),
    "optimizer.min_lr_ratio": SHARE,
    "trainer.accelerator": one_of("auto", "cpu", "gpu"),
    "trainer.devices": Rule(lambda v: v == 1, "1 (this version trains in one process)"),
    "trainer.precision": Rule(
        lambda v: v in (32, "32", "bf16-mixed", "16-mixed"),
        "32 | bf16-mixed | 16-mixed",
        ("32", "bf16-mixed", "16-mixed"),
    ),
    "trainer.max_epochs": whole(0),
    "trainer.steps_per_epoch": whole(1),
    "trainer.accumulate": whole(1),
    "trainer.gradient_clip": optional(number(0, open_least=True)),
    "trainer.every_n_epochs": whole(1),
    "trainer.checkpoint_every_n_steps": whole(1),
    "trainer.early_stop_patience": optional(whole(1)),
    "logger.kind": one_of("csv", "wandb"),
    "logger.project": TEXT,
    "callbacks.log_every_n_steps": whole(1),
    "callbacks.progress_bar": FLAG,
}


def check_values(cfg: DictConfig) -> None:
    """Check a composed config.

    Raises:
        ConfigError: a value is impossible, or two contradict each other.
    """
    rules = {**RULES, **(OWN_MODEL_RULES if _is_own_model(cfg) else {})}
    for key, rule in rules.items():
        value = OmegaConf.select(cfg, key, default=_ABSENT, throw_on_missing=False)
        if value is not _ABSENT and not OmegaConf.is_missing(*_parent(cfg, key)) and not rule.allows(value):
            near = hint(nearest_names(str(value), rule.names))
            raise ConfigError(f"{key}={_plain(value)} is not possible: {key} is {rule.text}{near}")
    for name, value in (cfg.data.get("augment") or {}).items() if "data" in cfg else ():
        if name != "max_frames" and not SHARE.allows(value):
            raise ConfigError(f"data.augment.{name}={value} is not possible: it is a probability from 0 to 1")
    _check_run_name(cfg)
    _check_data(cfg)
    _check_modes(cfg)
    _check_filter(cfg)
    _check_folds(cfg)
    _check_monitor(cfg)
    _check_targets(cfg)
    check_calibration(cfg, None if cfg.get("benchmark") is None else cfg.benchmark.modes or MODES[cfg.benchmark.name])


OWN_MODEL_RULES = {
    "model.base": one_of("frame_max", "frame_max_frames", "chamfer", "chamfer_max", "chamfer_frames"),
    "model.over": one_of("regions", "frames"),
    "model.region_pooling": one_of("chamfer", "max"),
    "model.mask_pooling": one_of("all", "any"),
    "model.whiten": Rule(lambda v: isinstance(v, bool) or whole(1).allows(v), "true | false | a number of components"),
    "model.binarization": optional(whole(1)),
    "model.pair_chunk": optional(whole(1)),
    **{f"model.{name}": FLAG for name in ("residual", "attention", "attention_norm", "symmetric", "batch_norm")},
}
"""For the networks of this package; a user's own network may give these names another meaning."""
_ABSENT = object()


def check_paths(cfg: DictConfig) -> None:
    """Check that the data that is named is there.

    Raises:
        DataError: it is not.
    """
    for key in ("benchmark.annotations", "data.annotations", "data.features", "data.videos", "calibration_background"):
        value = OmegaConf.select(cfg, key, throw_on_missing=False)
        if value is not None and not Path(value).exists():
            raise DataError(f"{key}={value}: there is no such file or folder")


def _is_own_model(cfg: DictConfig) -> bool:
    return str(OmegaConf.select(cfg, "model._target_", default="")).startswith("muvr_train.models.")


def _parent(cfg: DictConfig, key: str) -> tuple[DictConfig, str]:
    start, _, last = key.rpartition(".")
    return (OmegaConf.select(cfg, start) if start else cfg), last


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value


def _check_run_name(cfg: DictConfig) -> None:
    run = cfg.get("run")
    if run is not None and (run.startswith("/") or ".." in run.split("/") or run.split("/")[0] == "latest"):
        raise ConfigError(f"run={run} is not possible: it names a new folder in checkpoints/, and not 'latest'")


def _check_data(cfg: DictConfig) -> None:
    data, benchmark = cfg.get("data"), cfg.get("benchmark")
    if data is None or benchmark is None:
        return
    check_annotated(cfg)
    if abs(sum(data.fractions) - 1) > 1e-6:
        raise ConfigError(f"data.fractions={_plain(data.fractions)} (train, val, test) must sum to 1")
    if data.kind == "folder" and data.regime != "self_supervised":
        raise ConfigError("data=folder has no annotation: data.regime must be self_supervised")
    if data.kind == "folder" and benchmark.name != "copies":
        raise ConfigError(
            f"data=folder has no annotation for benchmark={benchmark.name}: use benchmark=copies "
            "(experiment=s2vs_self_supervised does)"
        )
    if cfg.get("residency") == "gpu" and data.workers > 0:
        raise ConfigError("residency=gpu needs data.workers=0: resident features are read without loader processes")
    if (data.kind == "table") != (benchmark.name == "table"):
        raise ConfigError(
            f"data={data.kind} and benchmark={benchmark.name} do not go together: labels of your own are data=table "
            "with benchmark=table (which data=table chooses by itself)"
        )
    if benchmark.name == "copies" and data.kind != "folder":
        raise ConfigError(
            f"benchmark=copies is made from a folder of videos: use data=folder, or benchmark=muvr_base for {data.kind}"
        )


def check_sources(cfg: DictConfig) -> None:
    """Check that features, videos to make them from, or scores are named.

    Raises:
        ConfigError: none of them is.
    """
    data = cfg.get("data")
    if data is None or data.videos is not None or data.features is not None:
        return
    if data.kind == "folder":
        raise ConfigError("data=folder needs data.videos=DIR, the folder with your video files")
    if data.kind in ("muvr", "table") and not cfg.get("scores"):
        raise ConfigError(f"data={data.kind} needs data.features=STORE (or a folder of .npy files), or data.videos=DIR")
    if data.kind == "annotated" and not cfg.get("scores"):
        raise ConfigError(
            f"benchmark={cfg.benchmark.name} needs something to evaluate: scores=FILE, or a model with "
            "data.features=STORE or data.videos=DIR"
        )


def _check_modes(cfg: DictConfig) -> None:
    benchmark = cfg.get("benchmark")
    if benchmark is None or benchmark.modes is None:
        return
    wrong = [mode for mode in benchmark.modes if mode not in MODES[benchmark.name]]
    if wrong:
        allowed = ", ".join(MODES[benchmark.name])
        raise ConfigError(
            f"benchmark.modes={_plain(benchmark.modes)}: benchmark={benchmark.name} has no mode {wrong[0]}; "
            f"it has {allowed}"
        )


def _check_filter(cfg: DictConfig) -> None:
    if OmegaConf.select(cfg, "benchmark.name") != "muvr_filter":
        return
    if "loss" in cfg:
        raise ConfigError(
            "benchmark=muvr_filter is evaluated, not trained on: train with benchmark=muvr_base (the same queries), "
            "then python evaluate.py ckpt_path=checkpoints/NAME/best.ckpt benchmark=muvr_filter"
        )
    if cfg.data.kind != "muvr":
        raise ConfigError(f"benchmark=muvr_filter needs data=muvr: data={cfg.data.kind} has no tag expressions")
    if cfg.benchmark.modes is not None and len(cfg.benchmark.modes) > 1:
        raise ConfigError(
            f"benchmark.modes={_plain(cfg.benchmark.modes)}: benchmark=muvr_filter merges tags with one score of the "
            "query, [v], [t] or [tv] (null: tv)"
        )


def _check_folds(cfg: DictConfig) -> None:
    folds, fold = (OmegaConf.select(cfg, f"benchmark.{key}") for key in ("folds", "fold"))
    if fold is not None and (folds is None or fold >= folds):
        raise ConfigError(f"benchmark.fold={fold} needs benchmark.folds, and is 0 to folds - 1; folds is {folds}")
    if folds is None:
        return
    if "ckpt_path" in cfg and fold is None:
        raise ConfigError(
            "benchmark.folds trains models: use train.py. To evaluate one fold's checkpoint give ckpt_path=checkpoints/"
            "NAME/fold-0/best.ckpt, which brings its fold along"
        )
    if "ckpt_path" not in cfg and fold is None and cfg.benchmark.split not in (None, "all"):
        raise ConfigError(
            f"benchmark.split={cfg.benchmark.split}: benchmark.folds scores all queries, leave the split out"
        )


def _check_monitor(cfg: DictConfig) -> None:
    key, benchmark = OmegaConf.select(cfg, "trainer.monitor"), cfg.get("benchmark")
    if key is None or benchmark is None:
        return
    parts = str(key).split("/")
    choices = [
        ["val"],
        [benchmark.name],
        list(benchmark.modes or MODES[benchmark.name]),
        partitions(benchmark.name),
        list(metric_names(benchmark.ks)),
    ]
    labels = ("prefix", "benchmark", "mode", "partition", "metric")
    form = "val/<benchmark>/<mode>/<partition>/<metric>"
    if len(parts) != len(choices):
        raise ConfigError(f"trainer.monitor={key} is no logged metric: the form is {form}, e.g. {_example(cfg)}")
    for part, allowed, label in zip(parts, choices, labels, strict=True):
        if allowed and part not in allowed:
            raise ConfigError(
                f"trainer.monitor={key} is no logged metric: the {label} {part!r} is none of "
                f"{', '.join(allowed)}{hint(nearest_names(part, allowed))} The form is {form}"
            )


def partitions(benchmark: str) -> list[str]:
    """List a benchmark's partitions as far as they are known before its data is read (else empty)."""
    return list(PARTITIONS) if benchmark.startswith("muvr_") else []


def metric_names(ks: Any) -> Iterator[str]:
    """List the metrics that the evaluation logs."""
    yield from ("mAP", "uAP")
    for k in ks:
        yield f"recall@{k}"


def _example(cfg: DictConfig) -> str:
    return f"val/{cfg.benchmark.name}/{(cfg.benchmark.modes or MODES[cfg.benchmark.name])[-1]}/mean/mAP"


def _check_targets(cfg: DictConfig) -> None:
    """Check that the modules of all `_target_` can be found, without importing them."""
    for key, target in _targets(cfg, ""):
        top = target.partition(".")[0]
        if not top.isidentifier() or importlib.util.find_spec(top) is None:
            raise ConfigError(
                f"{key}._target_={target}: there is no module {top!r}. Looked in the working directory, in the parent "
                "of --config-dir and among the installed packages"
            )


def _targets(node: Any, key: str) -> Iterator[tuple[str, str]]:
    if not isinstance(node, DictConfig):
        return
    for name in map(str, node):
        if OmegaConf.is_missing(node, name) or name == "hydra":
            continue
        if name == "_target_":
            yield key, str(OmegaConf.select(node, "_target_"))
        else:
            yield from _targets(node[name], f"{key}.{name}" if key else name)
