"""Which calibration steps may follow which; no tensors here, so that a command line can be checked at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from muvr_train.errors import ConfigError

Kind = Literal["features", "fusion", "scores"]
_HERE = "muvr_train.search.calibration"
OWN_STEPS: dict[str, Kind] = {
    f"{_HERE}.centring.Centring": "features",
    f"{_HERE}.pca_whitening.PcaWhitening": "features",
    f"{_HERE}.score_norm.ScoreNorm": "scores",
    f"{_HERE}.query_expansion.QueryExpansion": "scores",
    f"{_HERE}.z_fusion.ZFusion": "fusion",
    f"{_HERE}.product.Product": "fusion",
    f"{_HERE}.product.Harris": "fusion",
}
"""The steps of this package by class path; what a user's own class is, it says itself when it is built."""


def check_order(kinds: Mapping[str, Kind | None], modes: Sequence[str] | None) -> None:
    """Refuse steps that cannot work together.

    Args:
        kinds: of the steps by name, in order; None where it is not known yet.
        modes: that are evaluated, None where it is not known yet.

    Raises:
        ConfigError: a step on features after one on scores, two fusions, or a fusion without the modes tv and tv+tag.
    """
    listed = f"calibration=[{','.join(kinds)}]"
    before: str | None = None
    fusion: str | None = None
    for name, kind in kinds.items():
        if kind == "features" and before is not None:
            raise ConfigError(
                f"{listed}: {name} changes features and cannot come after {before}, which works on scores; put it first"
            )
        if kind == "fusion" and fusion is not None:
            raise ConfigError(f"{listed}: {fusion} and {name} both fuse the parts of a query; keep one of them")
        if kind == "fusion" and modes is not None and not {"tv", "tv+tag"} & set(modes):
            raise ConfigError(
                f"{listed}: {name} fuses video and text and acts on mode tv only, but the modes are {', '.join(modes)}"
            )
        before = name if kind in ("fusion", "scores") else before
        fusion = name if kind == "fusion" else fusion
