"""FIVR, EVVE and CC_WEB_VIDEO on the command line: they bring their data along, and nothing is trained on them."""

from __future__ import annotations

from collections.abc import Callable, Collection

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError
from muvr_train.preflight.quoting import split_override

ANNOTATED = ("fivr_5k", "fivr_200k", "evve", "cc_web_video")
"""The benchmarks whose data is data=annotated."""
DATA = "annotated"


def with_data(typed: list[str], training: bool) -> list[str]:
    """Add the data that a benchmark brings along.

    Args:
        typed: settings.
        training: whether they are of train.py.

    Raises:
        ConfigError: training, or other data was typed.
    """
    return brought(typed, ANNOTATED, DATA, _no_training if training else None, _other_data)


def brought(
    typed: list[str],
    benchmarks: Collection[str],
    data: str,
    refusal: Callable[[str], ConfigError] | None,
    other_data: Callable[[str, str], ConfigError],
) -> list[str]:
    """Add `data=` where one of some benchmarks is typed.

    Args:
        typed: settings.
        benchmarks: their names.
        data: what they bring along.
        refusal: what to raise in any case, by the benchmark's name.
        other_data: what to raise if other data was typed, by the names of both.
    """
    values = {split_override(text)[1]: split_override(text)[2] for text in typed}
    names = [name.strip() for name in (values.get("benchmark") or "").split(",")]
    asked = [name for name in names if name in benchmarks]
    if not asked:
        return typed
    if refusal is not None:
        raise refusal(asked[0])
    if len(asked) < len(names):
        raise ConfigError(f"benchmark={values['benchmark']}: these need different data, sweep one kind at a time")
    if values.get("data", data) != data:
        raise other_data(asked[0], str(values["data"]))
    return typed if "data" in values else [*typed, f"data={data}"]


def check_annotated(cfg: DictConfig) -> None:
    """Check what goes together with these benchmarks.

    Raises:
        ConfigError: other data, a split, training, or something that would be fitted on a training part.
    """
    name, kind = (OmegaConf.select(cfg, key) for key in ("benchmark.name", "data.kind"))
    if name not in ANNOTATED:
        if kind == DATA:
            raise ConfigError(f"data={DATA} is of benchmark={', '.join(ANNOTATED)}; benchmark={name} has other data")
        return
    if "loss" in cfg:
        raise _no_training(name)
    if kind != DATA:
        raise _other_data(name, kind)
    if cfg.benchmark.split not in (None, "all") or cfg.benchmark.gallery != "full":
        raise ConfigError(
            f"benchmark={name} is for evaluation only, it has no splits: leave out benchmark.split= and "
            "benchmark.gallery="
        )
    if OmegaConf.select(cfg, "model.whiten"):
        raise ConfigError(
            f"model.whiten: benchmark={name} has no training part to fit it on. A checkpoint brings its own whitening: "
            "ckpt_path=checkpoints/NAME/best.ckpt"
        )
    if cfg.get("calibration") and not cfg.get("calibration_background"):
        raise ConfigError(
            f"calibration: benchmark={name} has no training part to fit it on: give calibration_background=STORE, the "
            "features of other videos"
        )


def _no_training(name: str) -> ConfigError:
    return ConfigError(
        f"benchmark={name} is for evaluation only, it has no training part: train on data=muvr, data=table or "
        f"data=folder, then python evaluate.py benchmark={name} ckpt_path=checkpoints/NAME/best.ckpt"
    )


def _other_data(name: str, data: str) -> ConfigError:
    return ConfigError(
        f"data={data} and benchmark={name} do not go together: leave data= out (the annotations are "
        "benchmark.annotations=..., the features data.features=STORE)"
    )
