"""What evaluate.py is to evaluate: a checkpoint, an untrained model, or score files; checked before all else."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from omegaconf import DictConfig, ListConfig

from muvr_train.errors import ConfigError, shorten

ENDINGS = (".npz", ".parquet")
"""Of score files, as they are mostly called; any other name will do."""
FUSIONS = ("z_mean", "mean", "reciprocal_rank")
ONE_EACH = ("ckpt_path", "model", "fusion", "benchmark.modes", "calibration")


def score_paths(cfg: DictConfig) -> list[Path]:
    """The score files that are named, none where scores are to be made."""
    given = cfg.get("scores")
    return [Path(path) for path in (given if isinstance(given, ListConfig) else [given] if given else [])]


def fusions_of(cfg: DictConfig) -> list[str]:
    """How several score files are fused; the first is the row that stands in results.json."""
    given = cfg.get("fuse")
    return list(FUSIONS) if given is None else list(given) if isinstance(given, ListConfig) else [given]


def check_scores(cfg: DictConfig, keys: Collection[str]) -> None:
    """Check score files and what is set beside them.

    Args:
        cfg: of an evaluation.
        keys: the settings that were typed.

    Raises:
        ConfigError: no such file, one named twice, or a setting that says nothing about files of scores.
    """
    paths = score_paths(cfg)
    if not paths:
        if cfg.get("fuse") is not None:
            raise ConfigError("fuse is how several score files become one: give scores=[a.npz,b.npz]")
        return
    for key in sorted(keys):
        if any(key == one or key.startswith(f"{one}.") for one in ONE_EACH):
            raise ConfigError(f"scores={paths[0]} is evaluated as it is: leave out {key}=, or scores=")
    for path in paths:
        if path.is_dir():
            there = sorted(one.name for one in path.iterdir() if one.suffix in ENDINGS)
            inside = f"it holds {shorten(there, 5)}" if there else "it holds no .npz and no .parquet"
            raise ConfigError(f"scores={path} is a folder: give a file ({inside})")
        if not path.is_file():
            raise ConfigError(f"scores={path}: there is no such file")
    if len({path.resolve() for path in paths}) < len(paths):
        raise ConfigError(f"scores=[{', '.join(map(str, paths))}]: a file is named twice")
    if cfg.get("fuse") is not None and len(paths) == 1:
        raise ConfigError(f"fuse={cfg.fuse} needs several score files: give scores=[{paths[0]},b.npz]")
