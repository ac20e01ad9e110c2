"""How the settings of training regimes go together: mining, soft labels, partitions that are trained on."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError
from muvr_train.names import hint, nearest_names
from muvr_train.preflight.annotated import ANNOTATED
from muvr_train.preflight.rules import SHARE, TEXT, Rule, number, one_of, optional, several, whole

REGIMES = ("supervised", "self_supervised", "joint")
DEMO_PARTITIONS = ("news", "others", "instance", "region", "dance")

MINING = {"top": 20, "per_query": 2}
JOINT_SHARE = 0.5
"""The defaults of what is read with mining, or in regime joint, only."""

REGIME_RULES: dict[str, Rule] = {
    "data.regime": one_of(*REGIMES),
    "data.joint_share": Rule(lambda v: number(0, 1, open_least=True).allows(v) and v < 1, "a number > 0 and < 1"),
    "data.soft_mixing": SHARE,
    "data.mining.every_n_epochs": optional(whole(1)),
    "data.mining.top": whole(1),
    "data.mining.per_query": whole(1),
    "data.train_partitions": optional(several(TEXT, example="[news]")),
}


def check_regime(cfg: DictConfig) -> None:
    """Check a composed config that has data.

    Raises:
        ConfigError: settings contradict each other, or the built-in corpus lacks a partition.
    """
    data = cfg.data
    _check_partitions(data)
    if "loss" in cfg:
        _check_unread(data)
    if data.get("soft_mixing") and data.regime == "supervised":
        raise ConfigError(
            f"data.soft_mixing={data.soft_mixing} mixes views of unlabelled videos: give data.regime=self_supervised "
            "or joint, or leave it out (data.augment.frame_mixing blends without changing labels)"
        )
    every, per_query, top = (OmegaConf.select(data, f"mining.{key}") for key in ("every_n_epochs", "per_query", "top"))
    if every is None:
        return
    if data.regime == "self_supervised":
        raise ConfigError(
            f"data.mining.every_n_epochs={every} needs annotated queries: data.regime=self_supervised has none. Give "
            "data.regime=supervised or joint, or leave the mining out"
        )
    if per_query > top:
        raise ConfigError(f"data.mining.per_query={per_query} are drawn from data.mining.top={top}: it cannot be more")
    if data.workers:
        raise ConfigError(
            f"data.workers={data.workers} and data.mining do not go together: loader processes would not hear of the "
            "mined videos. Leave data.workers out (a thread prepares batches, data.prefetch of them ahead)"
        )


def _check_unread(data: DictConfig) -> None:
    """Refuse settings that training would not read, where they differ from their defaults."""
    share = data.get("joint_share")
    if data.regime != "joint" and share not in (None, JOINT_SHARE):
        raise ConfigError(
            f"data.joint_share={share} is read with data.regime=joint only, and the regime is {data.regime}: leave it "
            "out, or give data.regime=joint"
        )
    if OmegaConf.select(data, "mining.every_n_epochs") is not None:
        return
    for key, default in MINING.items():
        value = OmegaConf.select(data, f"mining.{key}")
        if value not in (None, default):
            raise ConfigError(
                f"data.mining.{key}={value}: nothing is mined, as data.mining.every_n_epochs is null. Give it a number "
                f"of epochs, or leave {key} out"
            )


def check_seeds(cfg: DictConfig) -> None:
    """Check that several seeds in one run are asked for where they can be.

    Raises:
        ConfigError: nothing is trained, or folds are.
    """
    if not OmegaConf.is_list(cfg.get("seed")):
        return
    seeds = f"seed={OmegaConf.to_container(cfg.seed)}".replace(" ", "")
    if "loss" not in cfg:
        raise ConfigError(f"{seeds}: several seeds are trained by train.py; give one here")
    if cfg.benchmark.get("folds") is not None and cfg.benchmark.get("fold") is None:
        raise ConfigError(
            f"{seeds} and benchmark.folds={cfg.benchmark.folds} do not go together: run the folds once for each seed "
            f"(-m seed={','.join(map(str, cfg.seed))}), or give one fold, benchmark.fold=0"
        )


def _check_partitions(data: DictConfig) -> None:
    names = data.get("train_partitions")
    if names is None:
        return
    if data.kind in ("folder", "annotated"):
        why = "copies have none" if data.kind == "folder" else f"{', '.join(ANNOTATED)} are only evaluated"
        raise ConfigError(f"data.train_partitions chooses partitions of data=muvr, demo or table: {why}")
    for name in names if data.kind == "demo" else ():
        if name not in DEMO_PARTITIONS:
            near = hint(nearest_names(name, DEMO_PARTITIONS))
            raise ConfigError(
                f"data.train_partitions: the built-in corpus has no partition {name!r}{near}; "
                f"it has {', '.join(DEMO_PARTITIONS)}"
            )
