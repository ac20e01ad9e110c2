"""What reranking asks: questions about the first videos of every query, shown from the files of the run's data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from muvr_train.rerank.composed import ComposedMedia
from muvr_train.rerank.pair_questions import DIRECT_TOKENS, LOGPROB_TOKENS, PairSettings
from muvr_train.rerank.tops import Top, distinct, find_tops, one_by_one
from muvr_train.rerank.types import Answerer
from muvr_train.rerank.visuals import Media
from muvr_train.results import Kept
from muvr_train.runner.report import video_files


def tops_of(cfg: DictConfig, answerer: Answerer, kept: Sequence[Kept], store: Path | None) -> list[Top]:
    """The questions, task by task where tasks share pairs and the answers depend on the task.

    Args:
        cfg: the composed config.
        answerer: what is asked.
        kept: scores of the partitions of one mode.
        store: folder of the features, None where there is none.

    Raises:
        DataError: a question cannot be put, or a file of answers has both kinds.
    """
    shown = {name: cfg.rerank[name] for name in ("comparison", "frames", "resolution", "query_frames")}
    settings = PairSettings(**shown, max_tokens=LOGPROB_TOKENS if cfg.rerank.decision == "logprob" else DIRECT_TOKENS)
    tops = find_tops(kept, cfg.rerank.top_k, _media(cfg, answerer, store), settings)
    single = one_by_one(tops)
    shared, alone = ([one for one in distinct(asked) if "tasks" in one.about] for asked in (tops, single))
    return single if shared and answerer.asks_by_task(shared, alone) else tops


def _media(cfg: DictConfig, answerer: Answerer, store: Path | None) -> Media:
    """Where the videos and masks of the run's data lie; the built-in corpus has its own, edited copies are composed."""
    wanted = answerer.needs_visuals or cfg.benchmark.get("report", True)
    folder = store or cfg.data.features
    if cfg.data.kind == "folder" and wanted and folder and cfg.data.videos:
        return ComposedMedia.of_store(Path(folder), Path(cfg.data.videos))
    masks = None if cfg.rerank.masks is None else Path(cfg.rerank.masks)
    if cfg.data.kind == "demo" and masks is None:
        from muvr_train.demo.corpus import build_demo

        masks = build_demo(cfg.data.size).masks
    return Media((wanted and video_files(cfg)) or {}, masks=masks)
