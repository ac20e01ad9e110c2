"""How settings that concern the parts of queries go together: tags, regions, hidden parts."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError
from muvr_train.preflight.rules import FLAG, SHARE, Rule, whole

PARTS = ("video", "text", "tags", "region")
PART_RULES: dict[str, Rule] = {
    "data.optional_parts": FLAG,
    "data.regions": FLAG,
    "data.batch.tag_rows": whole(0),
    **{f"data.part_dropout.{part}": SHARE for part in PARTS},
}
WITHOUT_TAGS = ("folder", "table", "annotated")


def check_parts(cfg: DictConfig) -> None:
    """Check a composed config that has data.

    Raises:
        ConfigError: settings contradict each other, or name parts that this data has not.
    """
    data = cfg.data
    rows, regions = OmegaConf.select(data, "batch.tag_rows") or 0, bool(data.get("regions"))
    hidden = {part: OmegaConf.select(data, f"part_dropout.{part}") or 0 for part in PARTS}
    asked = {
        f"data.batch.tag_rows={rows}": rows,
        "data.regions=true": regions,
        **{f"data.part_dropout.{part}={share}": share for part, share in hidden.items()},
    }
    if data.regime == "self_supervised":
        for setting in (setting for setting, value in asked.items() if value):
            raise ConfigError(
                f"{setting} concerns annotated queries: data.regime=self_supervised has none. Leave it out, or give "
                "data.regime=supervised or joint"
            )
    if rows and data.kind in WITHOUT_TAGS and not data.get("optional_parts"):
        raise ConfigError(f"data.batch.tag_rows={rows} needs tag expressions, and data={data.kind} has none")
    for part, there, needed in (("tags", rows, "data.batch.tag_rows"), ("region", regions, "data.regions")):
        if hidden[part] and not there:
            raise ConfigError(
                f"data.part_dropout.{part}={hidden[part]} hides what no training query has: set {needed} as well"
            )
