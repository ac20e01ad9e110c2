"""MUVR-QA and IV-Bench: ask a model, score what it says, write everything down."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from muvr_train.benchmarks.published import PublishedRow, published_rows
from muvr_train.errors import shorten
from muvr_train.preflight.answerers import FILE, target_of
from muvr_train.preflight.questions import answers_path
from muvr_train.reports.answer_files import write_answer_results
from muvr_train.reports.answer_page import PICTURES, AnswerLimits, write_answer_page
from muvr_train.reports.answer_pictures import keep_sheets
from muvr_train.reports.answer_reading import Reading
from muvr_train.reports.answer_tables import print_answer_tables
from muvr_train.rerank.invalid import invalid_note, why_invalid
from muvr_train.rerank.parsing import verdict
from muvr_train.rerank.types import Answer, Answerer, Place
from muvr_train.rerank.visuals import Media
from muvr_train.runner.about import about_program
from muvr_train.runner.answerers import ask_all, build_answerer, end_with_failures, refuse_missing
from muvr_train.runner.question_sets import QuestionSet, read_question_set

log = logging.getLogger(__name__)


def ask_and_score(cfg: DictConfig) -> dict[str, float]:
    """Ask `answerer` the questions of `benchmark`; write the result files, print the tables.

    Returns:
        The flat metrics `all/<benchmark>/<setting>/<partition>/<metric>`.

    Raises:
        DataError: questions or files are missing or broken, the answerer can answer nothing, or, after everything is
            written, questions failed (unless `allow_failures`).
    """
    folder = Path(cfg.out)
    asked = read_question_set(cfg)
    log.info("%s, asked as %s", asked.corpus, ", ".join(asked.settings))
    answerer = build_answerer(cfg)
    missing = Media.missing(asked.questions)
    if answerer.needs_visuals:
        refuse_missing(asked.questions, missing, cfg.benchmark.missing)
    limits = AnswerLimits(items=cfg.benchmark.report_items)
    shown = asked.questions
    if cfg.benchmark.report and answerer.needs_visuals:
        shown = keep_sheets(shown, folder / PICTURES, limits.picture_bytes)
    answers, known = ask_all(cfg, answerer, shown, cfg.benchmark.decision == "logprob", answerer.name)
    kept = sum(answer.key in known for answer in answers.values())
    verdicts = verdicts_of(cfg, asked, answers)
    reasons = reasons_of(cfg, asked, verdicts, answers)
    rows = asked.score(verdicts, answers)
    meta = describe(cfg, answerer, asked, reasons, answers, kept)
    logprobs = cfg.benchmark.decision == "logprob"
    flat = write_answer_results(folder, asked.questions, verdicts, answers, rows, meta, logprobs, reasons)
    published = references(cfg, asked)
    print_answer_tables(rows, str(meta["model"]), published, meta["notes"])
    log.info("results are in %s", folder)
    if cfg.benchmark.report:
        page = write_answer_page(
            folder,
            asked.questions,
            verdicts,
            answers,
            rows,
            meta,
            published,
            limits=limits,
            reading=reading_of(cfg),
            looks=answerer.needs_visuals,
        )
        log.info("the report is %s", page)
    refuse_failures(cfg, answers, missing if cfg.benchmark.missing == "wrong" else {})
    return flat


def reading_of(cfg: DictConfig) -> Reading:
    """How the answers are read."""
    benchmark = cfg.benchmark
    languages = tuple(benchmark.get("languages") or ("en",))
    return Reading(benchmark.decision, bool(benchmark.get("reasoning")), languages)


def verdicts_of(cfg: DictConfig, asked: QuestionSet, answers: Mapping[Place, Answer]) -> dict[Place, str | None]:
    """Read the answers."""
    how = reading_of(cfg)
    return {
        (question.id, question.setting): verdict(
            answers[question.id, question.setting], question, how.decision, how.reasoning, how.languages
        )
        for question in asked.questions
    }


def reasons_of(
    cfg: DictConfig, asked: QuestionSet, verdicts: Mapping[Place, str | None], answers: Mapping[Place, Answer]
) -> dict[Place, str]:
    """Say of each answer that could not be read why."""
    how = reading_of(cfg)
    places = {(question.id, question.setting): question for question in asked.questions}
    return {
        place: why_invalid(answers[place], question, how.decision, how.reasoning, how.languages)
        for place, question in places.items()
        if verdicts[place] is None and answers[place].answered
    }


def describe(
    cfg: DictConfig,
    answerer: Answerer,
    asked: QuestionSet,
    reasons: Mapping[Place, str],
    answers: Mapping[Place, Answer],
    kept: int,
) -> dict[str, Any]:
    """Collect the facts of results.json's `meta`."""
    failed = sum(not answer.answered for answer in answers.values())
    counts = {
        "questions": len(answers),
        "answered": len(answers) - failed,
        "failed": failed,
        "invalid": len(reasons),
        "from_file": kept,
    }
    notes = list(asked.notes)
    if failed:
        notes.append(f"{failed} of {len(answers)} questions failed and count as wrong.")
    notes += invalid_note(reasons, answers, "languages" in cfg.benchmark)
    return {
        **about_program(cfg),
        "benchmark": cfg.benchmark.name,
        "model": answerer.name,
        "answerer": dict(answerer.identity()),
        "corpus": asked.corpus,
        "settings": list(asked.settings),
        "answers": str(answers_path(cfg)),
        "counts": counts,
        **asked.facts,
        "notes": notes,
    }


def references(cfg: DictConfig, asked: QuestionSet) -> tuple[PublishedRow, ...]:
    """The published rows, where the whole released file is asked."""
    return published_rows(cfg.benchmark.name) if asked.released else ()


def refuse_failures(cfg: DictConfig, answers: Mapping[Place, Answer], expected: Collection[Place] = ()) -> None:
    """End with an error if questions failed, unless that is allowed.

    Args:
        cfg: the composed config.
        answers: of all questions.
        expected: (id, setting) of questions whose failure was asked for.

    Raises:
        DataError: with the first reasons, and how to ask only those.
    """
    failed = [answer for place, answer in answers.items() if not answer.answered and place not in expected]
    if not failed:
        return
    reasons = shorten([f"{answer.question} ({answer.setting}): {answer.reason}" for answer in failed], 3)
    added = f", once their lines are added to {cfg.answerer.path}," if target_of(cfg).startswith(FILE) else ""
    text = f"{len(failed)} of {len(answers)} questions failed and count as wrong: {reasons}"
    end_with_failures(cfg, text, added)
