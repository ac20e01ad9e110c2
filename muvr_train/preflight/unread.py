"""Settings that nothing reads in the chosen combination: refused, so that nobody believes that they did something.

Places of files are no such settings: a sweep over comparisons or inputs names them all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError


def check_unread(cfg: DictConfig, keys: Collection[str]) -> None:
    """Refuse settings of questions and of reranking that were typed and that nothing reads.

    Args:
        cfg: the composed config.
        keys: the settings that were typed.

    Raises:
        ConfigError: naming the key and why.
    """
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
