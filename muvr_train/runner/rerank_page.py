"""The page of what was asked about the reranked videos, and what was answered."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from muvr_train.reports.answer_page import write_answer_page
from muvr_train.reports.answer_reading import Reading
from muvr_train.reports.rerank_parts import gained_of, rerank_definitions
from muvr_train.rerank.types import Answer, Answerer, Place, Question
from muvr_train.results import Results
from muvr_train.runner.about import about_program

log = logging.getLogger(__name__)
PAGE = "reranking"
"""Its folder, in that of the results."""


def write_rerank_page(
    cfg: DictConfig,
    folder: Path,
    label: str,
    facts: Mapping[str, Any],
    before: Results,
    answerer: Answerer,
    questions: Sequence[Question],
    said: Mapping[Place, str | None],
    answers: Mapping[Place, Answer],
) -> None:
    """Write it, with what reranking changed where that is known; it and the report of the retrieval name each other.

    Args:
        cfg: the composed config.
        folder: of the results.
        label: of the reranked row.
        facts: of the row; without `gains` where nothing could be reranked.
        before: results of the retrieval.
        answerer: what was asked.
        questions: about all videos, once each.
        said: what each answer was read as.
        answers: to the questions.
    """
    settings = facts["settings"]
    meta = {**about_program(cfg), "model": label, "benchmark": before.benchmark, **facts}
    meta["definitions"] = rerank_definitions()
    gained = gained_of(label, facts, before.rows) if meta.pop("gains", None) else None
    path = write_answer_page(
        folder / PAGE,
        questions,
        said,
        answers,
        [],
        meta,
        reading=Reading(settings["decision"], False, tuple(settings["languages"])),
        looks=answerer.needs_visuals,
        gained=gained,
        back="../report.html",
    )
    log.info("what was asked about the first videos, and what was answered: %s", path)
