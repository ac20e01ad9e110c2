"""Reranked rows: an answerer is asked about the first videos of every query, and its row stands beside the raw one."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import ConfigError, DataError, MuvrTrainError, shorten
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.preflight.rerank import check_videos
from muvr_train.reports.answer_files import write_questions
from muvr_train.reports.answer_page import PICTURES, AnswerLimits
from muvr_train.reports.answer_pictures import keep_sheets
from muvr_train.reports.rerank_tables import cost_line, gains
from muvr_train.reports.save_scores import save_reranked
from muvr_train.rerank.parsing import verdict
from muvr_train.rerank.reranking import REORDER, Floats, RerankedScores, true_answers
from muvr_train.rerank.tops import (
    Top,
    costs_of,
    counts_of,
    distinct,
    place_of,
    queries_of,
    yes_value,
)
from muvr_train.rerank.types import Answer, Answerer, Place, Question
from muvr_train.rerank.visuals import Media
from muvr_train.results import Kept, RerankedRow, Results
from muvr_train.runner.answerers import ask_all, build_answerer, end_with_failures, refuse_missing
from muvr_train.runner.classes import plain
from muvr_train.runner.rerank_page import PAGE, write_rerank_page
from muvr_train.runner.rerank_questions import tops_of
from muvr_train.search.sources import ScoreSource
from muvr_train.search.texts import best_mode

log = logging.getLogger(__name__)
PREFIXES = {True: "reranked", False: "perfect_reranker"}
"""Whether a row is that of an answerer -> what its flat metrics begin with."""


@dataclass(frozen=True)
class Reranked:
    """What came of reranking: rows, and what went wrong; that is raised when all results are written."""

    rows: tuple[RerankedRow, ...] = ()
    error: MuvrTrainError | None = None

    def flat(self, split: str) -> dict[str, float]:
        """The metrics as `Results.flat`, named `reranked/<split>/...` and `perfect_reranker/<split>/...`."""
        return {
            name: value
            for row in self.rows
            for name, value in row.results.flat(f"{PREFIXES['gains' in row.facts]}/{split}").items()
        }


@dataclass(frozen=True)
class Retrieved:
    """A finished evaluation.

    Attributes:
        label: what it is called.
        source: of the scores.
        results: with scores kept.
        part: the queries.
        protocol: how it was done.
        store: folder of the features, None where there is none.
    """

    label: str
    source: ScoreSource
    results: Results
    part: Benchmark
    protocol: Protocol
    store: Path | None = None

    def evaluate(self, changed: Sequence[Kept]) -> Results:
        """Evaluate one mode again, with changed scores."""
        mode, scores = changed[0].mode, {one.partition.name: one.judged for one in changed}
        part = replace(self.part, partitions=tuple(one.partition for one in changed))
        return evaluate_scores(RerankedScores(self.source, mode, scores), part, replace(self.protocol, modes=(mode,)))


def reordered(method: str, tops: Sequence[Top], values: Sequence[Sequence[Floats]]) -> list[Kept]:
    """Put the first videos of each query in the order of their values."""
    return [
        Kept(top.kept.partition, top.kept.mode, REORDER[method](top.kept.judged, top.columns, known))
        for top, known in zip(tops, values, strict=True)
    ]


def try_reranking(cfg: DictConfig) -> None:
    """Build the answerer once, so that a wrong one ends the program before anything is scored.

    Raises:
        ConfigError: its class cannot be imported, is no Answerer or refuses its settings, or it has nothing to look at.
    """
    if cfg.get("rerank") and build_answerer(cfg).needs_visuals:
        check_videos(cfg)


def rerank(cfg: DictConfig, folder: Path, retrieved: Retrieved) -> Reranked:
    """Rerank the first videos of every query of a finished evaluation; nothing where the config names no reranking.

    Answers go into the run's answer file as they come. Where none of them says anything, no row is called reranked.

    Args:
        cfg: the composed config.
        folder: of the results, which are written already.
        retrieved: what is reranked; gets a note where that could not be done.
    """
    rows: list[RerankedRow] = []
    if not cfg.get("rerank"):
        return Reranked()
    try:
        for row in _rows(cfg, folder, retrieved):
            rows.insert(0, row)
    except MuvrTrainError as error:
        if len(rows) < 2:
            retrieved.results.notes.append(f"not reranked: {error}")
        return Reranked(tuple(rows), error)
    return Reranked(tuple(rows))


def _rows(cfg: DictConfig, folder: Path, retrieved: Retrieved) -> Iterator[RerankedRow]:
    """Give the row of a perfect reranker, then that of the answerer.

    Raises:
        ConfigError: a mode that was not evaluated.
        DataError: files of videos are missing, a question cannot be put, nothing can be asked, no answer can be used,
            or, after both rows, pairs failed.
    """
    settings, answerer = plain(cfg.rerank), build_answerer(cfg)
    kept = _kept(retrieved.results, settings["mode"])
    tops = tops_of(cfg, answerer, kept, retrieved.store)
    mode, method, name = kept[0].mode, settings["method"], f"@{settings['top_k']}"
    facts: dict[str, Any] = {"mode": mode, "settings": settings}
    truths = [true_answers(top.kept.judged, top.columns) for top in tops]
    best = retrieved.evaluate(reordered(method, tops, truths))
    yield RerankedRow(f"perfect reranker{name}", dict(facts), best)
    questions = distinct(tops)
    answers, known = _asked(cfg, folder, answerer, questions)
    languages = settings["languages"]
    said = {
        place_of(one): verdict(answers[place_of(one)], one, settings["decision"], False, languages) for one in questions
    }
    shares = method == "probability" and settings["decision"] == "logprob"
    values = {place: yes_value(answer, said[place], shares, languages) for place, answer in answers.items()}
    counts = counts_of(answers, values, known)
    queries, per = queries_of(tops)
    cost = costs_of(answers, queries)
    asked = {**answerer.identity(), "name": answerer.name}
    facts |= {"answerer": asked, "counts": counts, "cost": cost, "cost_per": per}
    label = f"{retrieved.label} + rerank{name} ({answerer.name})"
    try:
        _refuse_useless(cfg, answers, counts)
        changed = reordered(method, tops, [top.values(values) for top in tops])
        after = retrieved.evaluate(changed)
        averaged = retrieved.part.averaged or [top.kept.partition.name for top in tops]
        facts["gains"] = gains(retrieved.results, after, best, mode, averaged)
    finally:
        if cfg.benchmark.get("report", True):
            write_rerank_page(cfg, folder, label, facts, retrieved.results, answerer, questions, said, answers)
    after.notes.append(cost_line(facts))
    if cfg.get("save_scores"):
        log.info("the reranked scores are in %s", save_reranked(folder, changed))
    yield RerankedRow(label, facts, after)
    _refuse_failures(cfg, answers)


def _kept(results: Results, asked: str | None) -> list[Kept]:
    """The scores of the mode that is reranked.

    Raises:
        ConfigError: it was not evaluated.
    """
    modes = tuple(dict.fromkeys(one.mode for one in results.kept))
    if asked is not None and asked not in modes:
        raise ConfigError(f"rerank.mode={asked}: there are scores of {', '.join(modes)}")
    mode = asked or best_mode(modes)
    return [one for one in results.kept if one.mode == mode]


def _asked(
    cfg: DictConfig, folder: Path, answerer: Answerer, questions: Sequence[Question]
) -> tuple[dict[Place, Answer], frozenset[str]]:
    """Write the questions down and ask them; give the keys of those whose answer was there before, too."""
    if answerer.needs_visuals:
        policy = "wrong" if cfg.allow_failures else "error"
        refuse_missing(questions, Media.missing(questions), policy, "allow_failures=true")
    write_questions(folder, questions, cfg.rerank.decision == "logprob")
    if answerer.needs_visuals and cfg.benchmark.get("report", True):
        questions = keep_sheets(questions, folder / PAGE / PICTURES, AnswerLimits().picture_bytes)
    try:
        return ask_all(cfg, answerer, questions, cfg.rerank.decision == "logprob", f"asking {answerer.name}")
    except SystemExit:
        log.warning("the results without reranking are complete in %s", folder)
        raise


def _refuse_useless(cfg: DictConfig, answers: Mapping[Place, Answer], counts: Mapping[str, int]) -> None:
    """Raise a DataError if no answer can be used."""
    if counts["used"]:
        return
    lacking = "have no probability of yes or no" if cfg.rerank.decision == "logprob" else "say neither yes nor no"
    reasons = [_reasons(answers)] if counts["failed"] else []
    reasons += [f"{counts['invalid']} answers {lacking}"] if counts["invalid"] else []
    raise DataError(f"nothing can be reranked: {'; '.join(reasons) or 'there is no pair to ask about'}")


def _refuse_failures(cfg: DictConfig, answers: Mapping[Place, Answer]) -> None:
    """End with a DataError if pairs failed, unless that is allowed."""
    if not all(answer.answered for answer in answers.values()):
        end_with_failures(cfg, f"{_reasons(answers)}. They keep their place in the reranked row")


def _reasons(answers: Mapping[Place, Answer]) -> str:
    failed = [answer for answer in answers.values() if not answer.answered]
    reasons = shorten([f"{answer.question.rstrip('|')}: {answer.reason}" for answer in failed], 3)
    return f"{len(failed)} of {len(answers)} pairs failed: {reasons}"
