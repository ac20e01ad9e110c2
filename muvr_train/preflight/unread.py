"""Settings that nothing reads in the chosen combination: refused, so that nobody believes that they did something.

Places of files are no such settings: a sweep over comparisons or inputs names them all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError

TRAINING = {
    **dict.fromkeys(("batch", "augment", "mining", "part_dropout", "workers", "prefetch", "joint_share"), "data"),
    **dict.fromkeys(("soft_mixing", "optional_parts", "regions", "shared_intros"), "data"),
    **dict.fromkeys(
        ("max_epochs", "steps_per_epoch", "accumulate", "gradient_clip", "ema", "every_n_epochs"), "trainer"
    ),
    **dict.fromkeys(("checkpoint_every_n_steps", "monitor", "early_stop_patience", "precision"), "trainer"),
}
"""Names that only training reads, and the groups that they are in."""


def check_unread(cfg: DictConfig, keys: Collection[str]) -> None:
    """Refuse settings of training, of questions and of reranking that were typed and that an evaluation does not read.

    Args:
        cfg: the composed config.
        keys: the settings that were typed.

    Raises:
        ConfigError: naming the key and why.
    """
    for key in keys:
        group, _, rest = key.partition(".")
        if TRAINING.get(rest.partition(".")[0]) == group:
            why = "only training reads it"
            if key == "trainer.precision":
                why += ", and an evaluation multiplies in float32 (scoring_precision=bf16 rounds what it multiplies)"
            raise ConfigError(f"{key}= changes nothing here: {why}. Leave it out")
    for key, why in _unread(cfg):
        if key in keys and OmegaConf.select(cfg, key) is not None:
            raise ConfigError(f"{key}= changes nothing here: {why}. Leave it out")


def _unread(cfg: DictConfig) -> Iterator[tuple[str, str]]:
    benchmark, rerank = cfg.benchmark, cfg.get("rerank")
    if benchmark.name == "muvr_qa" and benchmark.comparison == "text":
        yield "benchmark.query_frames", "benchmark.comparison=text shows no frame of the query"
    if benchmark.name == "iv_bench" and benchmark.image == "none":
        yield "benchmark.image_position", "benchmark.image=none shows no image"
    if benchmark.name == "iv_bench" and not benchmark.video:
        for key in ("benchmark.frames", "benchmark.resolution"):
            yield key, "benchmark.video=false shows no video"
    if not benchmark.get("report", True):
        yield "benchmark.report_items", "benchmark.report=false writes no page"
    if rerank and rerank.comparison == "text":
        yield "rerank.query_frames", "rerank.comparison=text shows no frame of the query"
    if rerank and cfg.get("scores"):
        yield "rerank.mode", "a file of scores has one mode, and fused files have one together"
