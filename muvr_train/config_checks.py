"""Values that can be checked before anything is loaded: each refusal names the key, what was got and what is allowed.

Models, losses and heads check their own arguments when they are built; this covers what the runner itself reads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from muvr_train.benchmarks.copies import deal_out
from muvr_train.errors import ConfigError, DataError
from muvr_train.features.listing import list_videos
from muvr_train.models.baselines import BASELINES
from muvr_train.names import hint, nearest_names
from muvr_train.preflight.annotated import check_annotated
from muvr_train.preflight.answerers import check_answerer
from muvr_train.preflight.benchmark import check_benchmark
from muvr_train.preflight.calibration import check_calibration
from muvr_train.preflight.custom import check_custom
from muvr_train.preflight.fusion import OWN_HEAD_RULES, check_fusion, is_own_head
from muvr_train.preflight.monitor import check_monitor
from muvr_train.preflight.parts import check_parts
from muvr_train.preflight.questions import asks_questions, check_questions, check_unasked
from muvr_train.preflight.regimes import check_regime, check_seeds
from muvr_train.preflight.rerank import check_rerank
from muvr_train.preflight.rules import SHARE, number
from muvr_train.preflight.targets import check_targets
from muvr_train.preflight.teacher import check_teacher
from muvr_train.preflight.values import OWN_MODEL_RULES, RULES, modes_of

_ABSENT = object()


def check_values(cfg: DictConfig) -> None:
    """Check a composed config.

    Raises:
        ConfigError: a value is impossible, or two contradict each other.
    """
    _check_rules(cfg)
    _check_entries(cfg)
    _check_run_name(cfg)
    check_answerer(cfg)
    if asks_questions(cfg):
        check_targets(cfg)
        check_questions(cfg)
        return
    check_unasked(cfg)
    _check_data(cfg)
    check_benchmark(cfg)
    check_seeds(cfg)
    check_monitor(cfg)
    _check_processes(cfg)
    check_targets(cfg)
    _check_weights(cfg)
    check_teacher(cfg)
    check_fusion(cfg)
    check_rerank(cfg)
    benchmark = cfg.get("benchmark")
    check_calibration(cfg, None if benchmark is None else benchmark.modes or modes_of(benchmark.name))


def _check_rules(cfg: DictConfig) -> None:
    """Check the values of single keys."""
    rules = {**RULES, **(OWN_MODEL_RULES if _is_own_model(cfg) else {})}
    rules |= OWN_HEAD_RULES if is_own_head(cfg) else {}
    for key, rule in rules.items():
        value = OmegaConf.select(cfg, key, default=_ABSENT, throw_on_missing=False)
        if value is not _ABSENT and not OmegaConf.is_missing(*_parent(cfg, key)) and not rule.allows(value):
            twice = rule.repeated(value)
            alone = str(value) in rule.names  # a name where a list is needed
            near = f"; {twice[0]} is named twice" if twice else hint(nearest_names(str(value), rule.names))
            near = (
                f", as in {key}={f'[{value}]' if alone else rule.example}"
                if rule.example and (alone or not near)
                else near
            )
            raise ConfigError(f"{key}={_plain(value)} is not possible: {key} is {rule.text}{near}")


def _check_entries(cfg: DictConfig) -> None:
    """Check the values of nodes whose keys are many, or the user's own."""
    for name, value in (cfg.data.get("augment") or {}).items() if "data" in cfg else ():
        if name != "max_frames" and not SHARE.allows(value):
            raise ConfigError(f"data.augment.{name}={value} is not possible: it is a probability from 0 to 1")
    ratios = OmegaConf.select(cfg, "optimizer.lr_ratios")
    if ratios is not None and not OmegaConf.is_dict(ratios):
        raise ConfigError(
            f"optimizer.lr_ratios={_plain(ratios)} is not possible: it gives pieces of names their ratios, such "
            "as +optimizer.lr_ratios.network=0.1"
        )
    for name, value in (ratios or {}).items():
        if not number(0).allows(value):
            raise ConfigError(f"optimizer.lr_ratios.{name}={value} is not possible: it is a number >= 0 (0 freezes)")


def check_paths(cfg: DictConfig) -> None:
    """Check that the data that is named is there, and of a folder of videos that they are enough.

    Raises:
        DataError: it is not.
    """
    data = ("annotations", "features", "videos", "images", "masks")
    paths = ("benchmark.annotations", "benchmark.questions", "benchmark.categories", *(f"data.{key}" for key in data))
    for key in (*paths, "calibration_background", "model.weights", "rerank.masks", "answerer.scores"):
        value = OmegaConf.select(cfg, key, throw_on_missing=False)
        if value is not None and not Path(value).exists():
            raise DataError(f"{key}={value}: there is no such file or folder")
    data = cfg.get("data")
    if data is not None and data.get("kind") == "folder" and data.videos and not data.features:
        names = [name for name, _ in list_videos(data.videos, key="data.videos")]
        try:
            deal_out(names, list(data.fractions), cfg.benchmark.get("folds"), cfg.benchmark.get("fold"))
        except DataError as error:  # those that decode are not more
            raise DataError(f"data.videos={data.videos}: {error}") from error


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
    checkpoint = cfg.get("ckpt_path")
    named = {"run": (run, run), "ckpt_path": (checkpoint, checkpoint and Path(checkpoint).resolve().parent)}
    for key, (value, folder) in named.items():
        if folder and Path(folder).name in BASELINES:
            raise ConfigError(
                f"{key}={value} is not possible: '{Path(folder).name}' is the name of an untrained row that stands "
                "beside this one; give the folder another name"
            )


def _check_data(cfg: DictConfig) -> None:
    data, benchmark = cfg.get("data"), cfg.get("benchmark")
    if data is None or benchmark is None:
        return
    check_custom(cfg)
    check_annotated(cfg)
    check_regime(cfg)
    check_parts(cfg)
    if abs(sum(data.fractions) - 1) > 1e-6:
        raise ConfigError(f"data.fractions={_plain(data.fractions)} (train, val, test) must sum to 1")
    if data.kind == "folder" and data.regime != "self_supervised":
        raise ConfigError("data=folder has no annotation: data.regime must be self_supervised")
    if data.kind == "folder" and benchmark.name != "copies":
        raise ConfigError(
            f"data=folder has no annotation for benchmark={benchmark.name}: use benchmark=copies "
            "(experiment=s2vs_self_supervised does)"
        )
    if cfg.get("residency", "mmap") != "mmap" and data.workers:
        raise ConfigError(
            f"residency={cfg.residency} and data.workers={data.workers} do not go together: features that reside in "
            "memory are read without loader processes (every one would hold a copy). Leave data.workers out"
        )
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
    if data is None or data.videos is not None or data.get("features") is not None:
        return
    if data.kind == "folder":
        raise ConfigError("data=folder needs data.videos=DIR, the folder with your video files")
    if data.kind in ("muvr", "table", "custom") and not cfg.get("scores"):
        raise ConfigError(f"data={data.kind} needs data.features=STORE (or a folder of .npy files), or data.videos=DIR")
    if data.kind == "annotated" and not cfg.get("scores"):
        raise ConfigError(
            f"benchmark={cfg.benchmark.name} needs something to evaluate: scores=FILE, or a model with "
            "data.features=STORE or data.videos=DIR"
        )


def _check_weights(cfg: DictConfig) -> None:
    """Weights of the S2VS program were trained on features as they are stored, and without a base."""
    model = cfg.get("model")
    weights = None if model is None else model.get("weights")
    if weights is None:
        return
    if model.get("whiten"):
        raise ConfigError(
            f"model.weights={weights} and model.whiten={_plain(model.whiten)} do not go together: the weights expect "
            "features as they are stored (the S2VS program whitens them as it extracts them): set model.whiten=false"
        )
    if "ckpt_path" in cfg and model.get("residual"):
        raise ConfigError(
            f"model.weights={weights}: model.residual=true starts as its base, whatever the weights; to evaluate them "
            "set model.residual=false"
        )


def asks_for_processes(cfg: DictConfig) -> bool:
    """Whether a config may start several processes (devices=auto may turn out to be one)."""
    return "trainer" in cfg and (cfg.trainer.devices, cfg.trainer.num_nodes) != (1, 1)


def _check_processes(cfg: DictConfig) -> None:
    if not asks_for_processes(cfg):
        return
    if cfg.trainer.accelerator == "cpu" and cfg.trainer.devices == "auto":
        raise ConfigError("trainer.devices=auto counts GPUs: with trainer.accelerator=cpu give a number")
    if "loss" in cfg and OmegaConf.select(cfg, "model.batch_norm", default=False) is True:
        raise ConfigError(
            f"model.batch_norm=true with trainer.devices={cfg.trainer.devices}: each process would normalise by the "
            "statistics of its own share. Train in one process, or set model.batch_norm=false"
        )
