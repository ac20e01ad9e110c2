"""Reranked rows: an answerer is asked about the first videos of every query, and its row stands beside the raw one."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import ConfigError, DataError, MuvrTrainError, shorten
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.preflight.questions import answers_path
from muvr_train.preflight.rerank import check_videos
from muvr_train.reports.answer_files import write_questions
from muvr_train.reports.answer_page import PICTURES, AnswerLimits, write_answer_page
from muvr_train.reports.answer_pictures import keep_sheets
from muvr_train.reports.rerank_tables import cost_line, gains
from muvr_train.rerank.answer_file import AnswerFile, read_answers
from muvr_train.rerank.asking import ask
from muvr_train.rerank.pair_questions import PairSettings
from muvr_train.rerank.parsing import verdict
from muvr_train.rerank.reranking import REORDER, Floats, RerankedScores, true_answers
from muvr_train.rerank.tops import Place, Top, costs_of, counts_of, find_tops, place_of, yes_value
from muvr_train.rerank.types import Answer, Answerer, Question
from muvr_train.rerank.visuals import Media
from muvr_train.results import Kept, RerankedRow, Results
from muvr_train.runner.answerers import build_answerer, refuse_missing
from muvr_train.runner.classes import plain
from muvr_train.runner.report import video_files
from muvr_train.search.sources import ScoreSource
from muvr_train.search.texts import best_mode

log = logging.getLogger(__name__)
PAGE = "reranking"
"""The folder of the page of answers, in that of the results."""


@dataclass(frozen=True)
class Reranked:
    """What came of reranking: rows, and what went wrong; that is raised when all results are written."""

    rows: tuple[RerankedRow, ...] = ()
    error: MuvrTrainError | None = None


@dataclass(frozen=True)
class Retrieved:
    """A finished evaluation: label, source of the scores, results with scores kept, queries, and how it was done."""

    label: str
    source: ScoreSource
    results: Results
    part: Benchmark
    protocol: Protocol

    def reordered(self, mode: str, method: str, tops: Sequence[Top], values: Sequence[Sequence[Floats]]) -> Results:
        """Evaluate one mode again, with the first videos of each query in the order of their values."""
        changed = {
            top.kept.partition.name: REORDER[method](top.kept.judged, top.columns, known)
            for top, known in zip(tops, values, strict=True)
        }
        part = replace(self.part, partitions=tuple(top.kept.partition for top in tops))
        protocol = replace(self.protocol, modes=(mode,))
        return evaluate_scores(RerankedScores(self.source, mode, changed), part, protocol)


def try_reranking(cfg: DictConfig) -> None:
    """Build the answerer once, so that a wrong one ends the program before anything is scored.

    Raises:
        ConfigError: its class cannot be imported, is no Answerer, or refuses its settings; or it has nothing to look at.
    """
    if cfg.get("rerank") and build_answerer(cfg).needs_visuals:
        check_videos(cfg)


def rerank(cfg: DictConfig, folder: Path, retrieved: Retrieved) -> Reranked:
    """Rerank the first videos of every query of a finished evaluation; nothing where the config names no reranking.

    Answers go into the run's answer file as they come. Where none of them says anything, no row is called reranked.

    Args:
        cfg: the composed config.
        folder: of the results, which are written already.
        retrieved: what is reranked.

    Raises:
        ConfigError: a mode that was not evaluated, or queries that several partitions share.
        DataError: files of videos are missing, or a question cannot be put.
    """
    if not cfg.get("rerank"):
        return Reranked()
    settings, answerer = plain(cfg.rerank), build_answerer(cfg)
    kept = _kept(retrieved.results, settings["mode"])
    shown = PairSettings(settings["comparison"], settings["frames"], settings["resolution"], settings["query_frames"])
    tops = find_tops(kept, settings["top_k"], _media(cfg, answerer), shown)
    questions = [question for top in tops for row in top.questions for question in row]
    if answerer.needs_visuals:
        policy = "wrong" if cfg.allow_failures else "error"
        refuse_missing(questions, Media.missing(questions), policy, "allow_failures=true")
    mode, method, name = kept[0].mode, settings["method"], f"rerank@{settings['top_k']}"
    facts: dict[str, Any] = {"mode": mode, "settings": settings}
    truths = [true_answers(top.kept.judged, top.columns) for top in tops]
    perfect = RerankedRow(
        f"perfect {name.replace('rerank', 'reranker')}", facts, retrieved.reordered(mode, method, tops, truths)
    )
    write_questions(folder, questions)
    reports, seen = cfg.benchmark.get("report", True), questions
    if reports and answerer.needs_visuals:
        seen = keep_sheets(questions, folder / PAGE / PICTURES, AnswerLimits().picture_bytes)
    try:
        answers, known = _asked(cfg, answerer, seen)
    except MuvrTrainError as error:
        retrieved.results.notes.append(f"not reranked: {error}")
        return Reranked((perfect,), error)
    said = {
        place_of(one): verdict(answers[place_of(one)], one, settings["decision"], languages=settings["languages"])
        for one in questions
    }
    values = _values(answers, said, settings)
    facts = {
        **facts,
        "answerer": {**answerer.identity(), "name": answerer.name},
        "counts": counts_of(answers, values, known),
        "cost": costs_of(answers, sum(len(top.questions) for top in tops)),
    }
    if reports:
        meta = {"model": answerer.name, "benchmark": f"{retrieved.part.name}, {name}", **facts}
        path = write_answer_page(folder / PAGE, questions, said, answers, [], meta)
        log.info("what was asked about the first videos, and what was answered: %s", path)
    problem = _failures(cfg, answers, facts["counts"])
    if not facts["counts"]["used"]:
        retrieved.results.notes.append(str(problem))
        return Reranked((perfect,), problem)
    after = retrieved.reordered(mode, method, tops, [top.values(values) for top in tops])
    averaged = retrieved.part.averaged or [top.kept.partition.name for top in tops]
    facts["gains"] = gains(retrieved.results, after, perfect.results, mode, averaged)
    after.notes.append(cost_line(facts))
    return Reranked((RerankedRow(f"{retrieved.label} + {name} ({answerer.name})", facts, after), perfect), problem)


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


def _media(cfg: DictConfig, answerer: Answerer) -> Media:
    """Where the videos and masks of the run's data lie; the built-in corpus has its own."""
    masks = None if cfg.rerank.masks is None else Path(cfg.rerank.masks)
    if cfg.data.kind == "demo" and masks is None:
        from muvr_train.demo.corpus import build_demo

        masks = build_demo(cfg.data.size).masks
    return Media((answerer.needs_visuals and video_files(cfg)) or {}, masks=masks)


def _asked(
    cfg: DictConfig, answerer: Answerer, questions: Sequence[Question]
) -> tuple[dict[Place, Answer], frozenset[str]]:
    """Ask, and give the keys of the questions whose answer was there before."""
    path = answers_path(cfg) or Path(cfg.out) / "answers.jsonl"
    with AnswerFile(path) as file:
        known = frozenset(answer.key for answer in read_answers(path) if answer.answered)
        try:
            answerer.prepare()
            return ask(answerer, questions, file, cfg.rerank.decision == "logprob", f"asking {answerer.name}"), known
        except KeyboardInterrupt:
            sys.exit(130)
        finally:
            answerer.close()


def _values(
    answers: Mapping[Place, Answer], said: Mapping[Place, str | None], settings: Mapping[str, Any]
) -> dict[Place, float]:
    """What is known of each pair: see `tops.yes_value`."""
    shares = settings["method"] == "probability" and settings["decision"] == "logprob"
    return {place: yes_value(answer, said[place], shares, settings["languages"]) for place, answer in answers.items()}


def _failures(cfg: DictConfig, answers: Mapping[Place, Answer], counts: Mapping[str, int]) -> MuvrTrainError | None:
    """Say what failed, where that shall end the program with an error: always where no answer said anything."""
    failed = [answer for answer in answers.values() if not answer.answered]
    reasons = shorten([f"{answer.question}: {answer.reason}" for answer in failed], 3)
    why = f"{len(failed)} of {len(answers)} pairs failed: {reasons}" if failed else ""
    again = f"the same command with {f'answers={cfg.answers}' if cfg.answers else f'out={cfg.out}'} asks only these"
    if not counts["used"]:
        lacking = "have no probability of yes or no" if cfg.rerank.decision == "logprob" else "say neither yes nor no"
        invalid = f"{counts['invalid']} answers {lacking}" if counts["invalid"] else ""
        return DataError(
            f"nothing was reranked: {'; '.join(filter(None, (why, invalid))) or 'there is no pair to ask about'}"
        )
    if failed and not cfg.allow_failures:
        return DataError(
            f"{why}. They keep their place in the reranked row. The results are complete in {cfg.out}; {again} "
            "(allow_failures=true ends with exit code 0)"
        )
    if failed:
        log.warning("%s", why)
    return None
