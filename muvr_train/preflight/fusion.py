"""What settings the fusion heads of this package may have, and which model they go with."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError
from muvr_train.preflight.rules import Rule, number, one_of, whole

OWN_HEADS = "muvr_train.models.fusion."
OWN_HEAD_RULES: dict[str, Rule] = {
    "fusion.side": one_of("query", "target", "both"),
    "fusion.temperature": number(0, open_least=True),
    "fusion.disagreement": number(0),
    **{f"fusion.{name}": whole(1) for name in ("hidden", "width", "heads", "layers")},
}
"""A user's own head may give these names another meaning."""
NEEDS_MAPS = f"{OWN_HEADS}map_channel.MapChannel"
NEEDS_FRAMES = f"{OWN_HEADS}query_scoring.QueryScoring"
KEEP_NO_FRAMES = ("muvr_train.models.mean_pool.MeanPool", "muvr_train.models.dns_coarse.DnSCoarse")
READS_MAPS = "muvr_train.models.s2vs.S2VS"


def is_own_head(cfg: DictConfig) -> bool:
    """Whether the fusion head is one of this package."""
    return _class(cfg, "fusion").startswith(OWN_HEADS)


def check_fusion(cfg: DictConfig) -> None:
    """Check how the settings of a head of this package go together, and with the model.

    Raises:
        ConfigError: they contradict each other.
    """
    if not is_own_head(cfg):
        return
    width, heads = (OmegaConf.select(cfg, f"fusion.{key}") for key in ("width", "heads"))
    if width and heads and width % heads:
        raise ConfigError(f"fusion.width={width} is not possible: it must be a multiple of fusion.heads={heads}")
    network = _class(cfg, "model")
    if _class(cfg, "fusion") == NEEDS_MAPS and network.startswith("muvr_train.") and network != READS_MAPS:
        name = network.rpartition(".")[2]
        raise ConfigError(
            f"fusion=map_channel gives the network a map beside its own, which {name} cannot read: give "
            "model=s2vs, or another fusion head"
        )
    side = OmegaConf.select(cfg, "fusion.side")
    if _class(cfg, "fusion") == NEEDS_FRAMES and side in ("target", "both") and network in KEEP_NO_FRAMES:
        raise ConfigError(
            f"fusion.side={side} weighs the frames of database videos, of which {network.rpartition('.')[2]} keeps "
            "none: give fusion.side=query, or another model"
        )


def _class(cfg: DictConfig, group: str) -> str:
    return str(OmegaConf.select(cfg, f"{group}._target_", default=""))
