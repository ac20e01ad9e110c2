"""Result files of a run that asked questions: for programs, for people, and for whoever wants to answer elsewhere."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from muvr_train.reports.answer_entries import prompt_of
from muvr_train.reports.write import write_json
from muvr_train.rerank.one_question import options_of
from muvr_train.rerank.scoring import right_choices
from muvr_train.rerank.types import Answer, Question

DEFINITIONS = {
    "accuracy": "right answers / questions; failed and invalid ones count as wrong",
    "reranking_score": "mean over pairs by the answers about true and false target: (yes, no) +1, (yes, yes) 0, "
    "(no, no) -1, (no, yes) -2; so 2 TPR - FPR - 1",
    "yes_no, yes_yes, no_no, no_yes": "shares of pairs by the answers about true and false target; one that is invalid "
    "or failed counts as the wrong one",
    "invalid_pairs": "share of pairs with such an answer",
    "true_positive_rate, false_positive_rate": "yes to true targets, yes to false ones",
    "chance": "mean of right options / options",
    "answered_rate": "answered / questions",
    "parse_rate": "answers in which a choice can be read / answered",
    "<metric>_se": "standard error: of muvr_qa over pairs, of iv_bench clustered by video",
    "timing.seconds_per_item": "mean seconds of an answered question, decoding included",
    "mode": "what is shown: images_6f: a frame of the query and 6 of the target; after_32f: 32 frames, then the image",
    "counts.failed": "questions without an answer after all retries, or whose files are missing or broken",
    "counts.invalid": "answers in which no choice, or more than one, can be read",
}
FACTS = ("partition", "query", "target", "tag", "task", "group", "granularity", "video", "image")
"""What per_question.csv says about questions that have it."""


def write_answer_results(
    folder: Path,
    questions: Sequence[Question],
    verdicts: Mapping[tuple[str, str], str | None],
    answers: Mapping[tuple[str, str], Answer],
    rows: Sequence[Mapping[str, Any]],
    meta: Mapping[str, Any],
) -> dict[str, float]:
    """Write results.json, metrics.json, per_question.csv and questions.jsonl, each at once (temp file + rename).

    per_question.csv holds no times: equal answers give equal bytes.

    Args:
        folder: made if needed.
        questions: all that were asked.
        verdicts: (id, setting) -> what the answer was read as, None where it is invalid or failed.
        answers: (id, setting) -> the answer.
        rows: of results.json.
        meta: of results.json; the definitions are added.

    Returns:
        The flat metrics `all/<benchmark>/<mode>/<partition>/<metric>`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    flat = {
        f"all/{row['benchmark']}/{row['mode']}/{row['partition']}/{name}": value
        for row in rows
        for name, value in row["metrics"].items()
        if value is not None
    }
    write_questions(folder, questions)
    _write(folder / "per_question.csv", _csv(questions, verdicts, answers))
    write_json(folder / "results.json", {"meta": {**meta, "definitions": DEFINITIONS}, "rows": list(rows)})
    write_json(folder / "metrics.json", flat)
    return flat


def write_questions(folder: Path, questions: Iterable[Question]) -> None:
    """Write questions.jsonl at once: what somebody needs to answer elsewhere."""
    lines = (json.dumps(line, ensure_ascii=False) for line in _asked(questions))
    _write(folder / "questions.jsonl", "".join(f"{line}\n" for line in lines))


def _asked(questions: Iterable[Question]) -> Iterable[dict[str, Any]]:
    for question in questions:
        yield {
            "question": question.id,
            "setting": question.setting,
            "prompt": prompt_of(question),
            "choices": options_of(question) or list(question.choices),
            "max_tokens": question.max_tokens,
        }


def _csv(
    questions: Sequence[Question],
    verdicts: Mapping[tuple[str, str], str | None],
    answers: Mapping[tuple[str, str], Answer],
) -> str:
    facts = [name for name in FACTS if any(name in question.about for question in questions)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["question", "setting", *facts, "truth", "verdict", "right", "status", "answer", "reason"])
    for question in questions:
        place = question.id, question.setting
        said, answer = verdicts[place], answers[place]
        status = answer.status if said is not None or not answer.answered else "invalid"
        about = [question.about.get(name, "") for name in facts]
        right = int(said in right_choices(question))
        writer.writerow([*place, *about, question.truth, said or "", right, status, answer.text, answer.reason])
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8", newline="")
    os.replace(temporary, path)
